package greenwave.dubbo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.Shedding;
import greenwave.deadline.Stage;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.rpc.AsyncContext;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.TimeoutCountDown;
import org.junit.jupiter.api.Test;

/** Deadlines through Dubbo: counted, propagated, and used as the service order. */
class DubboTest extends LoopbackCluster {
    /** Key under which the service time of {@link Step#go} is learned. */
    String method() {
        return Step.class.getName() + ":0.0.0.go";
    }

    /** The exception that the server's answer stands for, in the one that a call threw. */
    RpcException answered(RpcException thrown) {
        return thrown;
    }

    //~ java: Dubbo: a budget covers all queues and hops of three services; stock Dubbo's does not
    @Test
    void aBudgetIsCountedOverAllQueuesAndHops() throws Exception {
        Node c = node();
        Node b = node();
        Node a = node();
        Step toC = b.call(c.serve("deadline", 1, null, TRUSTED), TIMEOUT_MS, null);
        int portB = b.serve("deadline", 1, null, TRUSTED);
        Step toB = a.call(portB, TIMEOUT_MS, null);
        Step toA = node().call(a.serve("deadline", 1, null, TRUSTED), TIMEOUT_MS, null);
        AtomicReference<Budget> atC = new AtomicReference<>();
        c.handler = text -> {
            atC.set(Deadlines.current().orElseThrow().budget());
            clock.addAndGet(5 * MS);
            return CompletableFuture.completedFuture(text + "c");
        };
        a.handler = text -> {
            clock.addAndGet(10 * MS);
            return CompletableFuture.completedFuture(toB.go(text + "a"));
        };
        Kept kept = keep(b, node().call(portB, TIMEOUT_MS, null), text -> {
            clock.addAndGet(20 * MS);
            return CompletableFuture.completedFuture(toC.go(text + "b"));
        });
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            answer = toA.goAsync(">");
        }
        await(() -> b.waiting() == 1);
        clock.addAndGet(300 * MS);
        kept.free();
        assertEquals(">abc", get(answer));
        assertEquals(330 * MS, atC.get().elapsedNanos());
        assertEquals(19_670 * MS, atC.get().remaining().leftNanos());
        List<Stage> stages = List.of(
                new Stage(0, 0, 0), new Stage(0, 0, 10 * MS), new Stage(0, 300 * MS, 20 * MS));
        assertEquals(stages, atC.get().stages(), "the client, A, and B with its queue");
    }

    /** Stock Dubbo starts to count when a thread takes the request up; the wait before is not in it. */
    //~ java: Dubbo: a budget covers all queues and hops of three services; stock Dubbo's does not
    @Test
    void dubbosOwnTimeoutIgnoresTheQueueingDelay() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicLong stockMs = new AtomicLong(-1);
        AtomicLong ours = new AtomicLong();
        AtomicLong released = new AtomicLong();
        AtomicLong sinceReleaseMs = new AtomicLong();
        Step step = node().call(port, TIMEOUT_MS, null);
        Kept kept = keep(server, step, text -> {
            Object countDown = RpcContext.getServerAttachment().getObjectAttachment(CommonConstants.TIME_COUNTDOWN_KEY);
            stockMs.set(((TimeoutCountDown) countDown).elapsedMillis());
            sinceReleaseMs.set((System.nanoTime() - released.get()) / MS);
            ours.set(Deadlines.current().orElseThrow().stage(Deadlines.now()).queueNanos());
            return CompletableFuture.completedFuture(text);
        });
        RpcContext.getClientAttachment()
                .setObjectAttachment(CommonConstants.TIMEOUT_ATTACHMENT_KEY, Integer.toString(TIMEOUT_MS));
        CompletableFuture<String> answer = step.goAsync("x");
        RpcContext.getClientAttachment().removeAttachment(CommonConstants.TIMEOUT_ATTACHMENT_KEY);
        await(() -> server.waiting() == 1);
        clock.addAndGet(300 * MS);
        long queued = System.nanoTime();
        await(() -> System.nanoTime() - queued > 30 * MS);
        released.set(System.nanoTime());
        kept.free();
        get(answer);
        assertEquals(300 * MS, ours.get(), "by the tests' clock");
        long stock = stockMs.get();
        assertTrue(stock >= 0 && stock <= sinceReleaseMs.get() + 1, stock + " ms by Dubbo's, which is the real one");
    }

    //~ java: Dubbo: service follows deadlines; infeasible and expired requests get a timeout without their handler
    @Test
    void oneThreadServesByDeadline() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        Step step = node().call(port, TIMEOUT_MS, null);
        Kept kept = keep(server, step, text -> {
            served.add(text);
            return CompletableFuture.completedFuture(text);
        });
        List<CompletableFuture<String>> answers = new ArrayList<>();
        // Once the last has arrived, the others are complete: a connection keeps their order.
        for (int leftMs : new int[] {19_000, 17_000, 18_000, 19_500}) {
            try (Deadlines.Scope scope = Deadlines.within(leftMs * MS)) {
                answers.add(step.goAsync(leftMs + " ms"));
            }
            int waiting = answers.size();
            await(() -> server.waiting() == waiting);
        }
        kept.free();
        for (CompletableFuture<String> answer : answers) {
            get(answer);
        }
        assertEquals(List.of("17000 ms", "18000 ms", "19000 ms", "19500 ms"), served);
    }

    //~ java: Dubbo: service follows deadlines; infeasible and expired requests get a timeout without their handler
    @Test
    void anInfeasibleCallIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        Map<String, String> ahead = Map.of("deadline.shedding", "infeasible");
        int port = server.serve("deadline", 1, null, ahead);
        AtomicInteger handled = new AtomicInteger();
        server.handler = text -> {
            handled.incrementAndGet();
            clock.addAndGet(16_000 * MS);
            return CompletableFuture.completedFuture(text);
        };
        Step step = node().call(port, TIMEOUT_MS, null);
        for (int lesson = 0; lesson < 16; lesson++) {
            step.go("learn");
        }
        await(() -> Servers.on(port).expectedNanos(method()) == 16_000 * MS);
        try (Deadlines.Scope scope = Deadlines.within(15_000 * MS)) {
            RpcException late = assertThrows(RpcException.class, () -> step.go("too late"));
            assertTrue(answered(late).isTimeout() && late.getMessage().contains("less than its expected service time"), late.getMessage());
        }
        assertEquals(16, handled.get());
        assertEquals(1, Servers.on(port).sheds(Shedding.Reason.INFEASIBLE));
        try (Deadlines.Scope scope = Deadlines.within(18_000 * MS)) {
            assertEquals("in time", step.go("in time"));
        }
    }

    //~ java: Dubbo: service follows deadlines; infeasible and expired requests get a timeout without their handler
    @Test
    void anExpiredCallIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicInteger handled = new AtomicInteger();
        Step step = node().call(port, TIMEOUT_MS, null);
        Kept kept = keep(server, step, text -> {
            handled.incrementAndGet();
            return CompletableFuture.completedFuture(text);
        });
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(TIMEOUT_MS * MS)) {
            answer = step.goAsync("too late");
        }
        await(() -> server.waiting() == 1);
        clock.addAndGet(TIMEOUT_MS * MS);
        kept.free();
        Throwable late = assertThrows(Exception.class, () -> get(answer)).getCause();
        assertTrue(late.getMessage().contains("its deadline has passed"), late.toString());
        assertEquals(0, handled.get());
    }

    //~ java: a dry run keeps the order of arrival, drops nothing, and counts what would be dropped
    @Test
    void aDryRunServesAnExpiredCallAndCountsIt() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, Map.of("deadline.dry-run", "true"));
        AtomicInteger handled = new AtomicInteger();
        Step step = node().call(port, TIMEOUT_MS, null);
        Kept kept = keep(server, step, text -> CompletableFuture.completedFuture(text + handled.incrementAndGet()));
        CompletableFuture<String> answer = step.goAsync("late");
        await(() -> server.waiting() == 1);
        clock.addAndGet(TIMEOUT_MS * MS);
        kept.free();
        assertEquals("late1", get(answer));
        await(() -> Servers.on(port).wouldDrop() == 1);
        assertEquals(0, Servers.on(port).wouldDropInTime());
    }

    //~ java: Dubbo: a full queue answers without the handler
    @Test
    void aCallBeyondTheQueueLimitIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicInteger handled = new AtomicInteger();
        Step step = node().call(port, TIMEOUT_MS, null);
        Kept kept = keep(server, step, text -> CompletableFuture.completedFuture(text + handled.incrementAndGet()));
        List<CompletableFuture<String>> waiting = new ArrayList<>();
        for (int place = 0; place < Node.QUEUES; place++) {
            waiting.add(step.goAsync("waits"));
        }
        await(() -> server.waiting() == Node.QUEUES);
        Throwable full = assertThrows(Exception.class, () -> get(step.goAsync("one too many"))).getCause();
        assertTrue(full.getMessage().contains("the request queue is full"), full.toString());
        kept.free();
        for (CompletableFuture<String> answer : waiting) {
            get(answer);
        }
        assertEquals(Node.QUEUES, handled.get());
        assertEquals(1, Servers.on(port).sheds(Shedding.Reason.FULL));
    }

    //~ java: Dubbo: service follows deadlines; infeasible and expired requests get a timeout without their handler
    @Test
    void aCallWithoutRemainingBudgetIsNotSent() throws Exception {
        Node server = node();
        AtomicInteger handled = new AtomicInteger();
        server.handler = text -> {
            handled.incrementAndGet();
            return CompletableFuture.completedFuture(text);
        };
        Step step = node().call(server.serve("deadline", 1, null, TRUSTED), TIMEOUT_MS, null);
        try (Deadlines.Scope scope = Deadlines.within(0)) {
            RpcException late = assertThrows(RpcException.class, () -> step.go("x"));
            assertEquals(RpcException.TIMEOUT_TERMINATE, late.getCode(), late.toString());
            assertThrows(Exception.class, () -> get(step.goAsync("x")));
        }
        assertEquals(0, handled.get());
    }

    //~ java: Dubbo: a deadline is kept across futures of other threads
    @Test
    void aDeadlineIsKeptAcrossFuturesThatOtherThreadsComplete() throws Exception {
        Node back = node();
        Node front = node();
        Step toBack = front.call(back.serve("deadline", 2, null, TRUSTED), TIMEOUT_MS, null);
        CompletableFuture<String> later = new CompletableFuture<>();
        back.handler = text -> text.equals("first") ? later : CompletableFuture.completedFuture(seen());
        front.handler = text -> toBack.goAsync("first").thenCompose(first -> toBack.goAsync(seen()));
        Step toFront = node().call(front.serve("deadline", 1, null, TRUSTED), TIMEOUT_MS, null);
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            answer = toFront.goAsync("x");
        }
        await(() -> front.waiting() == 0 && back.waiting() == 0 && later.getNumberOfDependents() > 0);
        clock.addAndGet(250 * MS);
        later.complete("done");
        assertEquals("19750 ms", get(answer), "the second call was made by a thread of the answer");
    }

    @Test
    void theNetworkDelayIsSubtractedOnceMeasured() throws Exception {
        Node server = node();
        server.handler = text -> {
            clock.addAndGet(50 * MS);
            return CompletableFuture.completedFuture(seen());
        };
        Step step = node().call(server.serve("deadline", 1, null, TRUSTED), TIMEOUT_MS, "wire");
        Wire.clock = clock;
        for (int exchange = 0; exchange < 2; exchange++) {
            try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
                assertEquals("19950 ms", step.go("x"), "15 ms each way that the budget does not include");
            }
        }
        try (Deadlines.Scope scope = Deadlines.within(20_000 * MS)) {
            assertEquals("19935 ms", get(step.goAsync("x")));
        }
    }

    //~ java: Dubbo: each attempt of a cluster's retry carries the time left then
    @Test
    void eachAttemptCarriesTheTimeLeftThen() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        FailingWire.clock = clock;
        FailingWire.sent = Collections.synchronizedList(new ArrayList<>());
        Step step = node().call(port, TIMEOUT_MS, "failing", 2);
        try (Deadlines.Scope scope = Deadlines.within(10_000 * MS)) {
            assertEquals("x", step.go("x"));
        }
        List<Long> leftMs = new ArrayList<>();
        for (String text : FailingWire.sent) {
            leftMs.add(BudgetField.parse(text).remaining().leftNanos() / MS);
        }
        assertEquals(List.of(10_000L, 9_970L, 9_940L), leftMs);
    }

    //~ java: Dubbo: a deadline is kept across futures of other threads
    @Test
    void anAsyncDubboHandlerIsTimedUntilItsAnswer() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        BlockingQueue<AsyncContext> asked = new LinkedBlockingQueue<>();
        server.handler = text -> {
            if (text.equals("later")) {
                asked.add(RpcContext.startAsync());
            }
            return CompletableFuture.completedFuture(text);
        };
        Step step = node().call(port, TIMEOUT_MS, null);
        for (int lesson = 0; lesson < 16; lesson++) {
            CompletableFuture<String> answer = CompletableFuture.supplyAsync(() -> step.go("later"));
            AsyncContext context = asked.poll(LIMIT_S, TimeUnit.SECONDS);
            assertEquals("at once", get(step.goAsync("at once")), "the only thread is free meanwhile");
            clock.addAndGet(70 * MS);
            context.write("written");
            assertEquals("written", get(answer));
        }
        await(() -> Servers.on(port).expectedNanos(method()) == 70 * MS);
    }
}
