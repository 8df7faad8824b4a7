package greenwave.dubbo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Cause;
import greenwave.deadline.thread.Deadlines;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.apache.dubbo.rpc.RpcException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Every cause in message, counters and log. */
class CausesTest extends LoopbackCluster {
    private final Logger logger = Logger.getLogger("greenwave.deadline");
    private final List<String> lines = Collections.synchronizedList(new ArrayList<>());
    private final Handler log = new Handler() {
        @Override
        public void publish(LogRecord line) {
            lines.add(line.getLevel() + " " + line.getMessage());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        logger.setLevel(Level.FINE);
        logger.addHandler(log);
    }

    @AfterEach
    void stopListening() {
        logger.removeHandler(log);
        logger.setLevel(null);
    }

    /** Key under which the service time of {@link Step#go} is learned. */
    String method() {
        return Step.class.getName() + ":0.0.0.goAsync";
    }

    /** What a call fails with, for which the service on {@code port} has {@code cause}. */
    private Throwable failure(Cause cause, Node server, int port) throws Exception {
        Step step = node().call(port, TIMEOUT_MS, null);
        switch (cause) {
            case EXPIRED -> {
                Kept kept = keep(server, step, CompletableFuture::completedFuture);
                CompletableFuture<String> answer = step.goAsync("x");
                await(() -> server.waiting() == 1);
                clock.addAndGet(TIMEOUT_MS * MS);
                kept.free();
                return thrown(answer);
            }
            case INFEASIBLE -> {
                server.handler = text -> {
                    clock.addAndGet(16_000 * MS);
                    return CompletableFuture.completedFuture(text);
                };
                for (int lesson = 0; lesson < 16; lesson++) {
                    get(step.goAsync("learn"));
                }
                await(() -> Servers.on(port).expectedNanos(method()) == 16_000 * MS);
                try (Deadlines.Scope scope = Deadlines.within(15_000 * MS)) {
                    return thrown(step.goAsync("x"));
                }
            }
            case QUEUE_FULL -> {
                Kept kept = keep(server, step, CompletableFuture::completedFuture);
                List<CompletableFuture<String>> waiting = new ArrayList<>();
                for (int place = 0; place < Node.QUEUES; place++) {
                    waiting.add(step.goAsync("waits"));
                }
                await(() -> server.waiting() == Node.QUEUES);
                Throwable full = thrown(step.goAsync("x"));
                kept.free();
                for (CompletableFuture<String> answer : waiting) {
                    get(answer);
                }
                return full;
            }
            // No plug-in in Java stops a handler: a called service in Rust did, and the handler passes it on.
            case ABORTED, UPSTREAM_TIMEOUT, UPSTREAM_FAILED -> {
                server.handler = text -> {
                    int code = cause == Cause.UPSTREAM_FAILED ? RpcException.NETWORK_EXCEPTION : RpcException.TIMEOUT_EXCEPTION;
                    String message = cause == Cause.ABORTED ? Causes.text("late", cause) : "a call failed";
                    return CompletableFuture.failedFuture(new RpcException(code, message));
                };
                return thrown(step.goAsync("x"));
            }
            default -> throw new AssertionError(cause);
        }
    }

    private static Throwable thrown(CompletableFuture<String> answer) {
        return assertThrows(Exception.class, () -> get(answer)).getCause();
    }

    //~ java: Dubbo: every cause is in the message, a counter and a log event at debug, over dubbo and Triple
    @Test
    void everyCauseIsTold() throws Exception {
        for (Cause cause : Cause.values()) {
            Node server = node();
            String shedding = cause == Cause.INFEASIBLE ? "infeasible" : "overload";
            int port = server.serve("deadline", 1, null, Map.of("deadline.shedding", shedding));
            long before = ConsumerFilter.failures(cause);
            lines.clear();
            Throwable failure = failure(cause, server, port);
            assertEquals(cause, Causes.of(failure), failure.toString());
            await(() -> ConsumerFilter.failures(cause) == before + 1);
            assertTrue(lines.stream().allMatch(line -> line.startsWith("FINE ")), lines.toString());
            String told = "cause=" + cause.word() + " ";
            assertTrue(lines.stream().anyMatch(line -> line.contains(told)), lines + " " + cause.word());
            Cause here = cause == Cause.ABORTED ? Cause.UPSTREAM_TIMEOUT : cause;
            for (Cause other : Cause.values()) {
                assertEquals(other == here ? 1 : 0, Servers.on(port).endedWith(other), cause + ": " + other);
            }
        }
    }

    //~ java: Dubbo: a client tells a refusal by deadline from a failed service
    @Test
    void aCallThatIsNotSentHasACause() throws Exception {
        Step step = node().call(node().serve("deadline", 1, null, TRUSTED), TIMEOUT_MS, null);
        long before = ConsumerFilter.failures(Cause.EXPIRED);
        try (Deadlines.Scope scope = Deadlines.within(0)) {
            assertEquals(Cause.EXPIRED, Causes.of(assertThrows(RpcException.class, () -> step.go("x"))));
        }
        assertEquals(before + 1, ConsumerFilter.failures(Cause.EXPIRED), "once");
        // An exception that the service means is no failure of it.
        assertNull(Causes.of(new IllegalArgumentException("no such item")));
    }
}
