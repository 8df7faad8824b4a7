package greenwave.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.Shedding;
import greenwave.deadline.Stage;
import greenwave.deadline.thread.Deadlines;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientStreamTracer;
import io.grpc.Context;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Deadlines through gRPC: counted, propagated, and used as the service order. */
class GrpcTest extends LoopbackCluster {
    //~ java: grpc-java: a budget covers all queues and hops, and service follows deadlines
    @Test
    void aBudgetIsCountedOverAllQueuesAndHops() throws Exception {
        Node c = node();
        Node b = node();
        Node a = node();
        Channel toC = b.channel(c.serve(), client);
        int portB = b.serve();
        Channel toB = a.channel(portB, client);
        Channel toA = node().channel(a.serve(), client);
        AtomicReference<Budget> atC = new AtomicReference<>();
        c.handler = text -> {
            atC.set(Deadlines.current().orElseThrow().budget());
            clock.addAndGet(5 * MS);
            return say(text + "c");
        };
        a.handler = text -> {
            clock.addAndGet(10 * MS);
            return Node.go(toB, text + "a");
        };
        Channel direct = node().channel(portB);
        Kept kept = keep(b, direct, text -> {
            clock.addAndGet(20 * MS);
            return Node.go(toC, text + "b");
        });
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            answer = Node.go(toA, ">");
        }
        await(() -> b.deadlines.waiting() == 1);
        clock.addAndGet(300 * MS);
        kept.free();
        assertEquals(">abc", get(answer));
        assertEquals(330 * MS, atC.get().elapsedNanos());
        assertEquals(
                List.of(new Stage(0, 0, 0), new Stage(0, 0, 10 * MS), new Stage(0, 300 * MS, 20 * MS)),
                atC.get().stages(),
                "the client, A, and B with its queue");
        long left = atC.get().remaining().leftNanos();
        assertTrue(left <= 19_670 * MS, "gRPC's own deadline, by the real clock, may have taken more: " + left);
    }

    //~ java: grpc-java: a budget covers all queues and hops, and service follows deadlines
    @Test
    void oneThreadServesByDeadline() throws Exception {
        Node server = node();
        Channel channel = node().channel(server.serve(), client);
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        Kept kept = keep(server, channel, text -> {
            served.add(text);
            return say(text);
        });
        List<CompletableFuture<String>> answers = new ArrayList<>();
        // Once the last call has started, the requests of the calls before it are complete.
        for (int leftS : new int[] {50, 30, 40, 55}) {
            try (Deadlines.Scope scope = Deadlines.within(leftS * 1_000 * MS)) {
                answers.add(Node.go(channel, leftS + " s"));
            }
            int waiting = answers.size();
            await(() -> server.deadlines.waiting() == waiting);
        }
        kept.free();
        for (CompletableFuture<String> answer : answers) {
            get(answer);
        }
        assertEquals(List.of("30 s", "40 s", "50 s", "55 s"), served);
    }

    //~ java: grpc-java: infeasible, expired and overflowing requests are refused without their handler
    @Test
    void anInfeasibleCallIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        AtomicInteger handled = new AtomicInteger();
        server.handler = text -> {
            handled.incrementAndGet();
            clock.addAndGet(40_000 * MS);
            return say(text);
        };
        Channel channel = node().channel(server.serve(), client);
        for (int lesson = 0; lesson < 16; lesson++) {
            get(Node.go(channel, "learn"));
        }
        await(() -> server.deadlines.gate().expectedNanos("Step/Go") == 40_000 * MS);
        try (Deadlines.Scope scope = Deadlines.within(30_000 * MS)) {
            Status late = failure(Node.go(channel, "too late"));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, late.getCode());
            assertEquals("Step/Go was not served: its remaining budget is less than its expected service time", late.getDescription());
        }
        assertEquals(16, handled.get());
        assertEquals(1, server.deadlines.gate().sheds(Shedding.Reason.INFEASIBLE));
        try (Deadlines.Scope scope = Deadlines.within(50_000 * MS)) {
            assertEquals("in time", get(Node.go(channel, "in time")));
        }
    }

    //~ java: grpc-java: infeasible, expired and overflowing requests are refused without their handler
    @Test
    void anExpiredCallIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        AtomicInteger handled = new AtomicInteger();
        Channel channel = node().channel(server.serve(), client);
        Kept kept = keep(server, channel, text -> {
            handled.incrementAndGet();
            return say(text);
        });
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            answer = Node.go(channel, "too late");
        }
        await(() -> server.deadlines.waiting() == 1);
        clock.addAndGet(20_000 * MS);
        kept.free();
        Status late = failure(answer);
        assertEquals("Step/Go was not served: its deadline has passed", late.getDescription());
        assertEquals(Status.Code.DEADLINE_EXCEEDED, late.getCode());
        assertEquals(0, handled.get());
    }

    //~ java: grpc-java: infeasible, expired and overflowing requests are refused without their handler
    @Test
    void aCallBeyondTheQueueLimitIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node(TRUSTED, 1);
        AtomicInteger handled = new AtomicInteger();
        Channel channel = node().channel(server.serve(), client);
        Kept kept = keep(server, channel, text -> {
            handled.incrementAndGet();
            return say(text);
        });
        CompletableFuture<String> waits = Node.go(channel, "waits");
        await(() -> server.deadlines.waiting() == 1);
        Status full = failure(Node.go(channel, "one too many"));
        assertEquals(Status.Code.RESOURCE_EXHAUSTED, full.getCode());
        assertEquals("Step/Go was not served: the request queue is full", full.getDescription());
        kept.free();
        assertEquals("waits", get(waits));
        assertEquals(1, handled.get());
    }

    //~ java: grpc-java: infeasible, expired and overflowing requests are refused without their handler
    @Test
    void aCallWithoutRemainingBudgetIsNotSent() throws Exception {
        Node server = node();
        AtomicInteger handled = new AtomicInteger();
        server.handler = text -> say("" + handled.incrementAndGet());
        Channel channel = node().channel(server.serve(), client);
        try (Deadlines.Scope scope = Deadlines.within(0)) {
            Status late = failure(Node.go(channel, "x"));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, late.getCode());
            assertEquals("Step/Go was not called: the caller's deadline has passed", late.getDescription());
            CallOptions without = CallOptions.DEFAULT.withOption(DeadlineClient.WITHOUT_BUDGET, true);
            assertEquals("1", get(Node.go(channel, without, "x")), "a call may be opted out");
        }
    }

    //~ java: grpc-java: a deadline is kept across futures; a stream is shed at its start or not at all
    @Test
    void aDeadlineIsKeptAcrossFuturesAndInGrpcsContext() throws Exception {
        Node back = node();
        Node front = node();
        Channel toBack = front.channel(back.serve(), client);
        CompletableFuture<String> later = new CompletableFuture<>();
        back.handler = text -> text.equals("first") ? later : say(spent());
        ExecutorService other = Executors.newSingleThreadExecutor();
        front.handler = text -> Node.go(toBack, "first").thenCompose(first -> {
            String chained = spent();
            // A thread with gRPC's context but without a deadline of its own.
            return CompletableFuture.supplyAsync(() -> spent(), Context.currentContextExecutor(other))
                    .thenComposeAsync(
                            none -> Node.go(toBack, "second").thenApply(there -> chained + ", " + none + ", " + there),
                            Context.currentContextExecutor(other));
        });
        Channel toFront = node().channel(front.serve(), client);
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            answer = Node.go(toFront, "x");
        }
        await(() -> later.getNumberOfDependents() > 0);
        clock.addAndGet(15_000 * MS);
        later.complete("done");
        assertEquals("15000 ms, none, 15000 ms", get(answer));
        other.shutdown();
    }

    //~ java: grpc-java: a deadline is kept across futures; a stream is shed at its start or not at all
    @Test
    void aStreamHasADeadlineAndIsNotShedOnceItHasBegun() throws Exception {
        Node server = node();
        server.handler = text -> say(text + ' ' + spent());
        Channel channel = node().channel(server.serve(), client);
        BlockingQueue<String> responses = new LinkedBlockingQueue<>();
        StreamObserver<String> texts;
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            texts = ClientCalls.asyncBidiStreamingCall(channel.newCall(Node.CHAT, CallOptions.DEFAULT), into(responses));
        }
        texts.onNext("one");
        assertEquals("one 0 ms", responses.poll(LIMIT_S, TimeUnit.SECONDS));
        clock.addAndGet(25_000 * MS);
        texts.onNext("two");
        assertEquals("two 25000 ms", responses.poll(LIMIT_S, TimeUnit.SECONDS));
        texts.onCompleted();
        assertEquals("end", responses.poll(LIMIT_S, TimeUnit.SECONDS));
    }

    private static StreamObserver<String> into(BlockingQueue<String> responses) {
        return new StreamObserver<>() {
            @Override
            public void onNext(String text) {
                responses.add(text);
            }

            @Override
            public void onError(Throwable failure) {
                responses.add(failure.toString());
            }

            @Override
            public void onCompleted() {
                responses.add("end");
            }
        };
    }

    @Test
    void theNetworkDelayIsSubtractedOnceMeasured() throws Exception {
        Node server = node();
        server.handler = text -> {
            clock.addAndGet(50 * MS);
            return say(spent());
        };
        Channel channel = node().channel(server.serve(), client, wire());
        for (int exchange = 0; exchange < 2; exchange++) {
            try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
                assertEquals("50 ms", get(Node.go(channel, "x")), "15 ms each way that the budget does not include");
            }
        }
        await(() -> client.oneWayNanos(channel.authority()) == 15 * MS);
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            assertEquals("65 ms", get(Node.go(channel, "x")));
        }
    }

    //~ java: grpc-java: each retry and each hedge carries the time left then, and none is a sample of the network delay
    @Test
    void eachAttemptCarriesTheTimeLeftThen() throws Exception {
        Map<String, ?> backoff = Map.of(
                "maxAttempts", 3.0, "initialBackoff", "0.001s", "maxBackoff", "0.001s", "backoffMultiplier", 1.0);
        Map<String, Object> retry = new HashMap<>(backoff);
        retry.put("retryableStatusCodes", List.of("UNAVAILABLE"));
        Map<String, ?> hedging = Map.of("maxAttempts", 3.0, "hedgingDelay", "0.005s");
        for (Map<String, ?> policy : List.of(Map.of("retryPolicy", retry), Map.of("hedgingPolicy", hedging))) {
            boolean hedges = policy.containsKey("hedgingPolicy");
            Map<String, Object> method = new HashMap<>(policy);
            method.put("name", List.of(Map.of("service", "Step")));
            Node server = node();
            // Hedges may arrive in any order.
            Set<Long> spentMs = new ConcurrentSkipListSet<>();
            server.handler = text -> {
                spentMs.add(Deadlines.current().orElseThrow().budget().elapsedNanos() / MS);
                if (spentMs.size() == 3) {
                    return say("third");
                }
                return hedges ? new CompletableFuture<>() : CompletableFuture.failedFuture(Status.UNAVAILABLE.asException());
            };
            Channel channel = node().channel(server.serve(), Map.of("methodConfig", List.of(method)), client, wire());
            try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
                assertEquals("third", get(Node.go(channel, "x")));
            }
            assertEquals(Set.of(0L, 15L, 30L), spentMs, policy.toString());
            assertEquals(0, client.oneWayNanos(channel.authority()));
        }
    }

    /** Adds 15 ms in each direction by the tests' clock, between our interceptor and the real network. */
    private ClientInterceptor wire() {
        return new ClientInterceptor() {
            @Override
            public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
                // Called for each attempt after the interceptor's own, which stands before it in the options.
                CallOptions there = options.withStreamTracerFactory(new ClientStreamTracer.Factory() {
                    @Override
                    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
                        clock.addAndGet(15 * MS);
                        return new ClientStreamTracer() {};
                    }
                });
                return new SimpleForwardingClientCall<>(next.newCall(method, there)) {
                    @Override
                    public void start(Listener<R> listener, Metadata headers) {
                        super.start(new SimpleForwardingClientCallListener<>(listener) {
                            @Override
                            public void onClose(Status status, Metadata trailers) {
                                clock.addAndGet(15 * MS);
                                super.onClose(status, trailers);
                            }
                        }, headers);
                    }
                };
            }
        };
    }
}
