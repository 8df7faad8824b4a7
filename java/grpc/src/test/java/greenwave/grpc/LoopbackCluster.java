package greenwave.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Limits;
import greenwave.deadline.thread.Deadlines;
import io.grpc.Channel;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Real gRPC on loopback. Deadlines use the tests' clock; gRPC's own deadlines are too long to matter. */
abstract class LoopbackCluster {
    static final long MS = 1_000_000;
    static final Limits TRUSTED = new Limits(500 * MS, 3_600_000 * MS, true);

    final AtomicLong clock = new AtomicLong(1_000 * MS);
    final DeadlineClient client = new DeadlineClient();
    private final List<Node> nodes = new ArrayList<>();

    @BeforeEach
    void stopTheClock() {
        Deadlines.countBy(clock::get);
    }

    @AfterEach
    void closeAll() throws Exception {
        for (Node node : nodes) {
            node.close();
        }
        assertEquals(Optional.empty(), Deadlines.current(), "no deadline outlives its request");
    }

    Node node(Limits limits, int capacity) {
        Node node = new Node(limits, capacity);
        nodes.add(node);
        return node;
    }

    Node node() {
        return node(TRUSTED, 100);
    }

    /** Remaining budget as a handler reads it. */
    static String seen() {
        return Deadlines.remaining().map(left -> left.leftNanos() / MS + " ms").orElse("none");
    }

    /** Elapsed time as a handler reads it; unlike the remaining budget, not shortened by gRPC's own real clock. */
    static String spent() {
        return Deadlines.current().map(timer -> timer.elapsedNanos(Deadlines.now()) / MS + " ms").orElse("none");
    }

    static CompletableFuture<String> say(String text) {
        return CompletableFuture.completedFuture(text);
    }

    /**
     * Occupies {@code node}'s only thread with a call through {@code channel}, until that is released; other
     * calls go to {@code handler}.
     */
    static Kept keep(Node node, Channel channel, Function<String, CompletableFuture<String>> handler) throws Exception {
        CountDownLatch kept = new CountDownLatch(1);
        CountDownLatch freed = new CountDownLatch(1);
        node.handler = text -> {
            if (!text.equals("keep")) {
                return handler.apply(text);
            }
            kept.countDown();
            try {
                assertTrue(freed.await(LIMIT_S, TimeUnit.SECONDS), "never freed");
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            return say(text);
        };
        CompletableFuture<String> answer = Node.go(channel, "keep");
        assertTrue(kept.await(LIMIT_S, TimeUnit.SECONDS), "never called");
        return new Kept(freed, answer);
    }

    /** A call that occupies a thread. */
    record Kept(CountDownLatch freed, CompletableFuture<String> answer) {
        void free() throws Exception {
            freed.countDown();
            assertEquals("keep", get(answer));
        }
    }

    static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(LIMIT_S, TimeUnit.SECONDS);
    }

    /** The status with which {@code answer} fails. */
    static Status failure(CompletableFuture<String> answer) {
        return Status.fromThrowable(assertThrows(ExecutionException.class, () -> get(answer)));
    }

    /** Waits until {@code condition} holds; fails if it does not within the limit. */
    static void await(BooleanSupplier condition) {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < limit, "waited in vain");
            LockSupport.parkNanos(100_000); // Leaves the core to what is waited for.
        }
    }

    static final long LIMIT_S = 30;
}
