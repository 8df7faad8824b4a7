package greenwave.dubbo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.thread.Deadlines;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * Real Dubbo on loopback. Deadlines use the tests' clock, so waits take as long as the tests say and no test
 * sleeps. Dubbo's own timeouts use the real clock and are too long to matter.
 */
abstract class LoopbackCluster {
    static final long MS = 1_000_000;
    static final int TIMEOUT_MS = 20_000;
    static final Map<String, String> TRUSTED = Map.of("deadline.trusted", "true", "deadline.timeout", "60000");

    final AtomicLong clock = new AtomicLong(1_000 * MS);
    private final List<Node> nodes = new ArrayList<>();

    @BeforeEach
    void stopTheClock() {
        Deadlines.countBy(clock::get);
    }

    @AfterEach
    void closeAll() {
        nodes.forEach(Node::close);
        assertEquals(Optional.empty(), Deadlines.current(), "no deadline outlives its request");
    }

    /** Remaining budget as a handler reads it. */
    static String seen() {
        return Deadlines.remaining().map(left -> left.leftNanos() / MS + " ms").orElse("none");
    }

    /**
     * Occupies {@code node}'s only thread with a call through {@code step}, until that is released; other
     * calls go to {@code handler}.
     */
    static Kept keep(Node node, Step step, Function<String, CompletableFuture<String>> handler) throws Exception {
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
            return CompletableFuture.completedFuture(text);
        };
        CompletableFuture<String> answer = step.goAsync("keep");
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

    /** Dubbo protocol of all nodes. */
    String protocol() {
        return "dubbo";
    }

    Node node() {
        Node node = new Node("node" + nodes.size(), protocol());
        nodes.add(node);
        return node;
    }

    static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(LIMIT_S, TimeUnit.SECONDS);
    }

    /** Waits until {@code condition} holds; fails if it does not within the limit. */
    static void await(BooleanSupplier condition) throws IOException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < limit, "waited in vain");
            LockSupport.parkNanos(100_000); // Leaves the core to what is waited for.
        }
    }

    static final long LIMIT_S = 15;
}
