package greenwave.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Cause;
import greenwave.deadline.thread.Deadlines;
import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Every cause in status, trailers, counters and log. */
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

    /** What a call fails with, for which {@code server} has {@code cause}. */
    private Throwable failure(Cause cause, Node server) throws Exception {
        Channel channel = node().channel(server.serve(), client);
        switch (cause) {
            case EXPIRED -> {
                Kept kept = keep(server, channel, LoopbackCluster::say);
                CompletableFuture<String> answer = within(20_000, channel);
                await(() -> server.deadlines.waiting() == 1);
                clock.addAndGet(20_000 * MS);
                kept.free();
                return thrown(answer);
            }
            case INFEASIBLE -> {
                server.handler = text -> {
                    clock.addAndGet(40_000 * MS);
                    return say(text);
                };
                for (int lesson = 0; lesson < 16; lesson++) {
                    get(Node.go(channel, "learn"));
                }
                await(() -> server.deadlines.gate().expectedNanos("Step/Go") == 40_000 * MS);
                return thrown(within(30_000, channel));
            }
            case QUEUE_FULL -> {
                Kept kept = keep(server, channel, LoopbackCluster::say);
                CompletableFuture<String> waits = within(20_000, channel);
                await(() -> server.deadlines.waiting() == 1);
                Throwable full = thrown(within(20_000, channel));
                kept.free();
                get(waits);
                return full;
            }
            // No plug-in in Java stops a handler: a called service in Rust did, and the handler passes it on.
            case ABORTED -> {
                Causes.Ending ending = Causes.ending(Cause.ABORTED, "stopped");
                server.handler = text -> CompletableFuture.failedFuture(
                        new StatusRuntimeException(ending.status(), ending.trailers()));
                return thrown(within(20_000, channel));
            }
            case UPSTREAM_TIMEOUT -> {
                // A service without causes.
                server.handler = text -> CompletableFuture.failedFuture(Status.DEADLINE_EXCEEDED.asException());
                return thrown(within(20_000, channel));
            }
            case UPSTREAM_FAILED -> {
                Channel closed = server.channel(closedPort(), client);
                server.handler = text -> Node.go(closed, text);
                return thrown(within(20_000, channel));
            }
            default -> throw new AssertionError(cause);
        }
    }

    private CompletableFuture<String> within(long millis, Channel channel) {
        try (Deadlines.Scope scope = Deadlines.within(millis * MS)) {
            return Node.go(channel, "x");
        }
    }

    private static Throwable thrown(CompletableFuture<String> answer) {
        return assertThrows(ExecutionException.class, () -> get(answer)).getCause();
    }

    private static int closedPort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    //~ java: grpc-java: every cause is in the status, the trailers, a counter and a log event at debug
    @Test
    void everyCauseIsTold() throws Exception {
        for (Cause cause : Cause.values()) {
            Node server = node(TRUSTED, 1);
            long before = client.failures(cause);
            lines.clear();
            Throwable failure = failure(cause, server);
            assertEquals(cause, Causes.of(failure), failure.toString());
            assertEquals(cause.grpcCode(), Status.fromThrowable(failure).getCode().value(), cause.word());
            // The call that the handler made has failed, too.
            long calls = cause == Cause.UPSTREAM_FAILED ? 2 : 1;
            assertEquals(before + calls, client.failures(cause), cause.word());
            assertTrue(lines.stream().allMatch(line -> line.startsWith("FINE ")), lines.toString());
            String told = "cause=" + cause.word() + " ";
            assertTrue(lines.stream().anyMatch(line -> line.contains(told)), lines + " " + cause.word());
            Cause here = switch (cause) {
                case ABORTED -> Cause.UPSTREAM_TIMEOUT;
                // The handler's own status, without a cause: the client reads it, the server does not.
                case UPSTREAM_TIMEOUT -> null;
                default -> cause;
            };
            for (Cause other : Cause.values()) {
                assertEquals(other == here ? 1 : 0, server.deadlines.gate().endedWith(other), cause + ": " + other);
            }
        }
    }

    //~ java: grpc-java: a client tells a refusal by deadline from a failed service
    @Test
    void aCallThatIsNotSentHasACause() throws Exception {
        Channel channel = node().channel(node().serve(), client);
        assertEquals(Cause.EXPIRED, Causes.of(thrown(within(0, channel))));
        assertEquals(1, client.failures(Cause.EXPIRED));
        // An error that the service means is no failure of it.
        assertEquals(null, Causes.of(Status.NOT_FOUND.asException()));
    }
}
