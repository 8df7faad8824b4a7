package greenwave.dubbo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.InvalidBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import java.io.BufferedReader;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.dubbo.remoting.RemotingException;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.junit.jupiter.api.Test;

/**
 * Peers that do not know deadlines, send invalid budgets, cancel, or die: each case has a defined outcome.
 */
class PeersTest extends LoopbackCluster {
    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void requestsWithoutTheFilterGetTheirTimeout() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        server.handler = text -> CompletableFuture.completedFuture(seen());
        Step old = node().call(port, TIMEOUT_MS, "-deadline-consumer");
        assertEquals(TIMEOUT_MS + " ms", old.go("x"));
        for (InvalidBudget fault : InvalidBudget.values()) {
            assertEquals(0, Servers.on(port).faults(fault), fault.name());
        }
    }

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void serversWithoutGreenwaveAreUnaffected() throws Exception {
        Node server = node();
        server.handler = text -> CompletableFuture.completedFuture(seen());
        int port = server.serve("fixed", 1, "-deadline-provider", Map.of());
        assertEquals("none", node().call(port, TIMEOUT_MS, null).go("x"));
    }

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void behindAStockPoolTheBudgetStillTravels() throws Exception {
        Node server = node();
        server.handler = text -> CompletableFuture.completedFuture(seen());
        int port = server.serve("fixed", 1, null, TRUSTED);
        try (Deadlines.Scope scope = Deadlines.within(17_000 * MS)) {
            assertEquals("17000 ms", node().call(port, TIMEOUT_MS, null).go("x"));
        }
    }

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void aCancelledCallAffectsNoOther() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, TRUSTED);
        AtomicInteger handled = new AtomicInteger();
        Step step = node().call(port, TIMEOUT_MS, null);
        Kept kept = keep(server, step, text -> {
            handled.incrementAndGet();
            return CompletableFuture.completedFuture(text);
        });
        CompletableFuture<String> cancelled = step.goAsync("cancelled");
        await(() -> server.waiting() == 1);
        cancelled.cancel(true);
        kept.free();
        assertEquals("next", step.go("next"));
        assertEquals(2, handled.get(), "Dubbo has no cancellation on the wire: the work is done until its deadline");
    }

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void anInvalidBudgetIsCountedAndTheCallersTimeoutApplies() throws Exception {
        Node server = node();
        int port = server.serve("deadline", 1, null, Map.of("deadline.default", "500"));
        server.handler = text -> CompletableFuture.completedFuture(seen());
        Step old = node().call(port, TIMEOUT_MS, "-deadline-consumer");
        assertEquals(TIMEOUT_MS + " ms", send(old, "garbage ".repeat(1 << 17)));
        assertEquals(1, Servers.on(port).faults(InvalidBudget.GARBLED));
        assertEquals(TIMEOUT_MS + " ms", send(old, "expected=5, remaining=-5"));
        assertEquals(1, Servers.on(port).faults(InvalidBudget.NEGATIVE));
        String year = BudgetField.write(Budget.of(365L * 86_400 * 1_000 * MS));
        assertEquals(TIMEOUT_MS + " ms", send(old, year), "its timeout says less");
        assertEquals(0, Servers.on(port).shortened());
        assertEquals(TIMEOUT_MS + " ms", send(old, 7));
        assertEquals(2, Servers.on(port).faults(InvalidBudget.GARBLED));
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

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void aThrowingHandlerCostsNoThread() throws Exception {
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

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void aWorkerCrashFailsItsCallsAtOnce() throws Exception {
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
        return line.orTimeout(3 * LIMIT_S, TimeUnit.SECONDS).join();
    }
}
