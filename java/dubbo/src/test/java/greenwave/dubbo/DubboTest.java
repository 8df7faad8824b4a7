package greenwave.dubbo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.Fault;
import greenwave.deadline.Stage;
import greenwave.deadline.codec.BudgetField;
import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.remoting.RemotingException;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.TimeoutCountDown;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Real Dubbo on loopback; the clock of deadlines is the tests', so what is waited for takes as long as they
 * say and no test sleeps. Dubbo's own timeouts run by the real clock and are far away.
 */
class DubboTest {
    private static final long MS = 1_000_000;
    private static final int TIMEOUT_MS = 20_000;
    private static final Map<String, String> TRUSTED = Map.of("deadline.trusted", "true");

    private final AtomicLong clock = new AtomicLong(1_000 * MS);
    private final List<Node> nodes = new ArrayList<>();

    @BeforeEach
    void stopTheClock() {
        Deadlines.clock = clock::get;
    }

    @AfterEach
    void closeAll() {
        nodes.forEach(Node::close);
        assertEquals(Optional.empty(), Deadlines.current(), "no deadline outlives its request");
    }

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
        CountDownLatch release = blockOnce(b, text -> {
            clock.addAndGet(20 * MS);
            return CompletableFuture.completedFuture(toC.go(text + "b"));
        });
        CompletableFuture<String> blocker = node().call(portB, TIMEOUT_MS, null).goAsync("block");
        await(() -> blocked.getCount() == 0);
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(1_000 * MS)) {
            answer = toA.goAsync(">");
        }
        await(() -> b.waiting() == 1);
        clock.addAndGet(300 * MS);
        release.countDown();
        assertEquals(">abc", get(answer));
        get(blocker);
        assertEquals(330 * MS, atC.get().elapsedNanos());
        assertEquals(670 * MS, atC.get().remaining().leftNanos());
        List<Stage> stages = List.of(
                new Stage(0, 0, 0), new Stage(0, 0, 10 * MS), new Stage(0, 300 * MS, 20 * MS));
        assertEquals(stages, atC.get().stages(), "the client, A, and B with its queue");
    }

    /** Stock Dubbo starts to count when a thread takes the request up; the wait before is not in it. */
    @Test
    void stockDubboDoesNotSeeTheWaitThatWeCount() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicLong stockMs = new AtomicLong(-1);
        AtomicLong ours = new AtomicLong();
        AtomicLong released = new AtomicLong();
        AtomicLong sinceReleaseMs = new AtomicLong();
        CountDownLatch release = blockOnce(server, text -> {
            Object countDown = RpcContext.getServerAttachment().getObjectAttachment(CommonConstants.TIME_COUNTDOWN_KEY);
            stockMs.set(((TimeoutCountDown) countDown).elapsedMillis());
            sinceReleaseMs.set((System.nanoTime() - released.get()) / MS);
            ours.set(Deadlines.current().orElseThrow().stage(Deadlines.now()).queueNanos());
            return CompletableFuture.completedFuture(text);
        });
        Step step = node().call(port, TIMEOUT_MS, null);
        CompletableFuture<String> blocker = step.goAsync("block");
        await(() -> blocked.getCount() == 0);
        RpcContext.getClientAttachment()
                .setObjectAttachment(CommonConstants.TIMEOUT_ATTACHMENT_KEY, Integer.toString(TIMEOUT_MS));
        CompletableFuture<String> answer = step.goAsync("x");
        RpcContext.getClientAttachment().removeAttachment(CommonConstants.TIMEOUT_ATTACHMENT_KEY);
        await(() -> server.waiting() == 1);
        clock.addAndGet(300 * MS);
        long queued = System.nanoTime();
        await(() -> System.nanoTime() - queued > 30 * MS);
        released.set(System.nanoTime());
        release.countDown();
        get(answer);
        get(blocker);
        assertEquals(300 * MS, ours.get(), "by the tests' clock");
        long stock = stockMs.get();
        assertTrue(stock >= 0 && stock <= sinceReleaseMs.get() + 1, stock + " ms by Dubbo's, which is the real one");
    }

    @Test
    void oneThreadServesByDeadline() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch release = blockOnce(server, text -> {
            served.add(text);
            return CompletableFuture.completedFuture(text);
        });
        Step step = node().call(port, TIMEOUT_MS, null);
        List<CompletableFuture<String>> answers = new ArrayList<>();
        answers.add(step.goAsync("block"));
        await(() -> blocked.getCount() == 0);
        for (int leftMs : new int[] {900, 300, 600}) {
            try (Deadlines.Scope scope = Deadlines.within(leftMs * MS)) {
                answers.add(step.goAsync(leftMs + " ms"));
            }
            int waiting = answers.size() - 1;
            await(() -> server.waiting() == waiting);
        }
        release.countDown();
        for (CompletableFuture<String> answer : answers) {
            get(answer);
        }
        assertEquals(List.of("300 ms", "600 ms", "900 ms"), served);
    }

    @Test
    void whatCannotBeDoneInTimeIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicInteger handled = new AtomicInteger();
        server.handler = text -> {
            handled.incrementAndGet();
            clock.addAndGet(400 * MS);
            return CompletableFuture.completedFuture(text);
        };
        Step step = node().call(port, TIMEOUT_MS, null);
        step.go("learn");
        await(() -> Server.on(port).serviceNanos(Step.class.getName() + ":0.0.0", "go") == 400 * MS);
        try (Deadlines.Scope scope = Deadlines.within(300 * MS)) {
            RpcException late = assertThrows(RpcException.class, () -> step.go("too late"));
            assertTrue(late.isTimeout() && late.getMessage().contains("less than it takes"), late.getMessage());
        }
        assertEquals(1, handled.get());
        assertEquals(1, Server.on(port).shed());
        try (Deadlines.Scope scope = Deadlines.within(500 * MS)) {
            assertEquals("in time", step.go("in time"));
        }
    }

    @Test
    void whatExpiresInTheQueueIsAnsweredWithoutItsHandler() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicInteger handled = new AtomicInteger();
        CountDownLatch release = blockOnce(server, text -> {
            handled.incrementAndGet();
            return CompletableFuture.completedFuture(text);
        });
        Step step = node().call(port, TIMEOUT_MS, null);
        CompletableFuture<String> blocker = step.goAsync("block");
        await(() -> blocked.getCount() == 0);
        CompletableFuture<String> answer;
        try (Deadlines.Scope scope = Deadlines.within(TIMEOUT_MS * MS)) {
            answer = step.goAsync("too late");
        }
        await(() -> server.waiting() == 1);
        clock.addAndGet(TIMEOUT_MS * MS);
        release.countDown();
        Throwable late = assertThrows(Exception.class, () -> get(answer)).getCause();
        assertTrue(late.getMessage().contains("its deadline has passed"), late.toString());
        get(blocker);
        assertEquals(0, handled.get());
    }

    @Test
    void withNothingLeftACallIsNotSent() throws Exception {
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
        try (Deadlines.Scope scope = Deadlines.within(1_000 * MS)) {
            answer = toFront.goAsync("x");
        }
        await(() -> front.waiting() == 0 && back.waiting() == 0 && later.getNumberOfDependents() > 0);
        clock.addAndGet(250 * MS);
        later.complete("done");
        assertEquals("750 ms", get(answer), "the second call was made by a thread of the answer");
    }

    @Test
    void peersWithoutTheFilterAreServedByTheirTimeout() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        server.handler = text -> CompletableFuture.completedFuture(seen());
        Step old = node().call(port, TIMEOUT_MS, "-deadline-consumer");
        assertEquals(TIMEOUT_MS + " ms", old.go("x"));
        for (Fault fault : Fault.values()) {
            assertEquals(0, Server.on(port).faults(fault), fault.name());
        }
    }

    @Test
    void serversWithoutUsServeAsEver() throws Exception {
        Node server = node();
        server.handler = text -> CompletableFuture.completedFuture(seen());
        int port = server.serve("fixed", 1, "-deadline-provider", Map.of());
        assertEquals("none", node().call(port, TIMEOUT_MS, null).go("x"));
    }

    @Test
    void behindAStockPoolTheBudgetStillTravels() throws Exception {
        Node server = node();
        server.handler = text -> CompletableFuture.completedFuture(seen());
        int port = server.serve("fixed", 1, null, TRUSTED);
        try (Deadlines.Scope scope = Deadlines.within(700 * MS)) {
            assertEquals("700 ms", node().call(port, TIMEOUT_MS, null).go("x"));
        }
    }

    @Test
    void aCallerThatCancelsHarmsNobody() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicInteger handled = new AtomicInteger();
        CountDownLatch release = blockOnce(server, text -> {
            handled.incrementAndGet();
            return CompletableFuture.completedFuture(text);
        });
        Step step = node().call(port, TIMEOUT_MS, null);
        CompletableFuture<String> blocker = step.goAsync("block");
        await(() -> blocked.getCount() == 0);
        CompletableFuture<String> cancelled = step.goAsync("cancelled");
        await(() -> server.waiting() == 1);
        cancelled.cancel(true);
        release.countDown();
        get(blocker);
        assertEquals("next", step.go("next"));
        assertEquals(2, handled.get(), "Dubbo has no cancellation on the wire: the work is done until its deadline");
    }

    @Test
    void whatAPeerSendsInsteadOfABudgetIsCountedAndServed() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, Map.of("deadline.default", "500"));
        server.handler = text -> CompletableFuture.completedFuture(seen());
        Step old = node().call(port, TIMEOUT_MS, "-deadline-consumer");
        assertEquals("500 ms", send(old, "garbage ".repeat(1 << 17)));
        assertEquals(1, Server.on(port).faults(Fault.GARBLED));
        assertEquals("500 ms", send(old, "expected=5, remaining=-5"));
        assertEquals(1, Server.on(port).faults(Fault.NEGATIVE));
        assertEquals("500 ms", send(old, BudgetField.write(Budget.of(365L * 86_400 * 1_000 * MS))));
        assertEquals(0, Server.on(port).faults(Fault.ABSURD), "its timeout says less");
        assertEquals(1, Server.on(port).shortened());
        assertEquals("500 ms", send(old, 7));
        assertEquals(2, Server.on(port).faults(Fault.GARBLED));
        RpcException zero = assertThrows(RpcException.class, () -> send(old, "expected=0, remaining=0"));
        assertTrue(zero.isTimeout(), zero.getMessage());
    }

    private static String send(Step step, Object attachment) {
        RpcContext.getClientAttachment().setObjectAttachment(BudgetField.HEADER, attachment);
        try {
            return step.go("x");
        } finally {
            RpcContext.getClientAttachment().removeAttachment(BudgetField.HEADER);
        }
    }

    @Test
    void aHandlerThatDiesTakesNoThreadWithIt() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        Step step = node().call(port, TIMEOUT_MS, null);
        server.handler = text -> {
            throw new StackOverflowError();
        };
        assertThrows(Throwable.class, () -> step.go("x"));
        server.handler = text -> CompletableFuture.completedFuture(seen());
        assertEquals(TIMEOUT_MS + " ms", step.go("x"));
    }

    @Test
    void aWorkerThatDiesMidCallFailsItsCallersAtOnce() throws Exception {
        Process worker = new ProcessBuilder(
                        ProcessHandle.current().info().command().orElseThrow(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        Worker.class.getName())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        try (BufferedReader says = worker.inputReader()) {
            Step step = node().call(Integer.parseInt(after("port ", says)), TIMEOUT_MS, null);
            CompletableFuture<String> answer;
            try (Deadlines.Scope scope = Deadlines.within(TIMEOUT_MS * MS)) {
                answer = step.goAsync("x");
            }
            assertEquals(TIMEOUT_MS + " ms", after("called with ", says));
            worker.destroyForcibly();
            ExecutionException lost = assertThrows(ExecutionException.class, () -> get(answer));
            assertTrue(lost.getCause() instanceof RpcException || lost.getCause() instanceof RemotingException, lost.toString());
        } finally {
            worker.destroyForcibly();
        }
    }

    /** The rest of the first line that begins with {@code start}. */
    private static String after(String start, BufferedReader lines) {
        CompletableFuture<String> line = CompletableFuture.supplyAsync(() -> lines.lines()
                .filter(each -> each.startsWith(start))
                .findFirst()
                .orElseThrow()
                .substring(start.length()));
        return line.orTimeout(2 * LIMIT_S, TimeUnit.SECONDS).join();
    }

    /** What is left, as a handler sees it. */
    private static String seen() {
        return Deadlines.remaining().map(left -> left.leftNanos() / MS + " ms").orElse("none");
    }

    private volatile CountDownLatch blocked = new CountDownLatch(1);

    /** {@code node} keeps the call "block" until the latch is counted down, and gives others to {@code handler}. */
    private CountDownLatch blockOnce(Node node, java.util.function.Function<String, CompletableFuture<String>> handler) {
        CountDownLatch release = new CountDownLatch(1);
        CountDownLatch inHandler = blocked;
        node.handler = text -> {
            if (!text.equals("block")) {
                return handler.apply(text);
            }
            inHandler.countDown();
            try {
                assertTrue(release.await(LIMIT_S, TimeUnit.SECONDS), "never released");
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            return CompletableFuture.completedFuture(text);
        };
        return release;
    }

    private Node node() {
        Node node = new Node("node" + nodes.size());
        nodes.add(node);
        return node;
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(LIMIT_S, TimeUnit.SECONDS);
    }

    /** Until {@code condition} holds; fails when it does not within the limit. */
    private static void await(BooleanSupplier condition) throws IOException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < limit, "waited in vain");
            Thread.yield();
        }
    }

    private static final long LIMIT_S = 15;
}
