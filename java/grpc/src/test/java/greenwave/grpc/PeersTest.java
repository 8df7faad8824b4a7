package greenwave.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.InvalidBudget;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallExecutorSupplier;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Peers that do not know deadlines, send invalid budgets, or cancel: each case has a defined outcome. */
//~ java: grpc-java: old peers, cancelled calls, dying handlers and invalid budgets are handled
class PeersTest extends LoopbackCluster {
    private static final Limits UNTRUSTED = new Limits(500 * MS, 3_600_000 * MS, false);

    @Test
    void requestsWithoutTheHeaderGetTheirTimeoutOrTheDefault() throws Exception {
        Node server = node();
        server.handler = text -> say(seen());
        Channel old = node().channel(server.serve());
        assertEquals("500 ms", get(Node.go(old, "x")));
        assertEquals(1, server.deadlines.gate().faults(InvalidBudget.MISSING));
        CallOptions timeout = CallOptions.DEFAULT.withDeadlineAfter(3_000, TimeUnit.SECONDS);
        String left = get(Node.go(old, timeout, "x"));
        long leftMs = Long.parseLong(left.split(" ")[0]);
        assertTrue(leftMs > 2_000_000 && leftMs <= 3_000_000, left);
        assertEquals(1, server.deadlines.gate().faults(InvalidBudget.MISSING));
    }

    @Test
    void serversWithoutGreenwaveAreUnaffected() throws Exception {
        Node server = node();
        server.handler = text -> say(seen());
        Channel channel = node().channel(server.start(server.builder()), client);
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            assertEquals("none", get(Node.go(channel, "x")));
        }
        assertEquals(0, client.oneWayNanos(channel.authority()), "an answer without a budget teaches nothing");
    }

    @Test
    void behindAnotherExecutorTheBudgetStillTravels() throws Exception {
        Node server = node();
        server.handler = text -> say(spent());
        ExecutorService other = Executors.newSingleThreadExecutor();
        NettyServerBuilder builder = server.builder();
        server.deadlines.on(builder);
        builder.callExecutor(new ServerCallExecutorSupplier() {
            @Override
            public <Q, R> Executor getExecutor(ServerCall<Q, R> call, Metadata headers) {
                return other;
            }
        });
        Channel channel = node().channel(server.start(builder), client);
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            clock.addAndGet(7 * MS);
            assertEquals("7 ms", get(Node.go(channel, "x")));
        }
        other.shutdown();
    }

    @Test
    void aClientThatCancelsInTheQueueIsNotServed() throws Exception {
        Node server = node();
        AtomicInteger handled = new AtomicInteger();
        Channel channel = node().channel(server.serve(), client);
        Kept kept = keep(server, channel, text -> say(text + handled.incrementAndGet()));
        Context.CancellableContext user = Context.current().withCancellation();
        CompletableFuture<String> cancelled = user.call(() -> Node.go(channel, "cancelled"));
        await(() -> server.deadlines.waiting() == 1);
        user.cancel(null);
        assertEquals(Status.Code.CANCELLED, failure(cancelled).getCode());
        CompletableFuture<String> next = Node.go(channel, "next");
        await(() -> server.deadlines.waiting() == 2); // What the connection brought before is there too.
        kept.free();
        assertEquals("next1", get(next));
        assertEquals(1, server.deadlines.cancelled());
    }

    @Test
    void anInvalidBudgetIsCountedAndServedWithTheDefault() throws Exception {
        Node server = node(UNTRUSTED, 100);
        server.handler = text -> say(seen());
        int port = server.serve();
        Gate gate = server.deadlines.gate();
        assertEquals("500 ms", get(send(port, "garbage ".repeat(1 << 17))));
        assertEquals(1, gate.faults(InvalidBudget.GARBLED));
        assertEquals("500 ms", get(send(port, "expected=5, remaining=-5")));
        assertEquals(1, gate.faults(InvalidBudget.NEGATIVE));
        String year = BudgetField.write(Budget.of(365L * 86_400 * 1_000 * MS));
        assertEquals("3600000 ms", get(send(port, year)), "cut to an hour");
        assertEquals(1, gate.shortened());
        assertEquals("600 ms", get(send(port, BudgetField.write(Budget.of(600 * MS)))));
        assertEquals("100 ms", get(send(port, BudgetField.write(Budget.of(100 * MS)))));
        Status zero = failure(send(port, "expected=0, remaining=0"));
        assertEquals(Status.Code.DEADLINE_EXCEEDED, zero.getCode());
        assertEquals(1, gate.sheds());
    }

    //~ java: grpc-java: a deadline is kept across futures; a stream is shed at its start or not at all
    @Test
    void aStreamIsShedAtItsStart() throws Exception {
        Node server = node();
        AtomicInteger handled = new AtomicInteger();
        server.handler = text -> say(text + handled.incrementAndGet());
        Channel channel = node().channel(server.serve(), attach("expected=0, remaining=0"));
        CompletableFuture<String> answer = new CompletableFuture<>();
        ClientCalls.asyncBidiStreamingCall(channel.newCall(Node.CHAT, CallOptions.DEFAULT), Node.into(answer))
                .onNext("x");
        assertEquals(Status.Code.DEADLINE_EXCEEDED, failure(answer).getCode());
        assertEquals(0, handled.get());
        assertEquals(1, server.deadlines.gate().sheds());
    }

    private CompletableFuture<String> send(int port, String budget) {
        return Node.go(node().channel(port, attach(budget)), "x");
    }

    private static ClientInterceptor attach(String budget) {
        Metadata headers = new Metadata();
        headers.put(Metadata.Key.of(BudgetField.HEADER, Metadata.ASCII_STRING_MARSHALLER), budget);
        return MetadataUtils.newAttachHeadersInterceptor(headers);
    }

    @Test
    void aThrowingHandlerCostsNoThread() throws Exception {
        Node server = node();
        server.handler = text -> {
            throw new StackOverflowError();
        };
        Channel channel = node().channel(server.serve(), client);
        assertEquals(Status.Code.UNKNOWN, failure(Node.go(channel, "x")).getCode());
        server.handler = CompletableFuture::completedFuture;
        assertEquals("x", get(Node.go(channel, "x")));
    }
}
