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
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * Real Dubbo on loopback; the clock of deadlines is the tests', so what is waited for takes as long as they
 * say and no test sleeps. Dubbo's own timeouts run by the real clock and are far away.
 */
abstract class OnLoopback {
    static final long MS = 1_000_000;
    static final int TIMEOUT_MS = 20_000;
    static final Map<String, String> TRUSTED = Map.of("deadline.trusted", "true");

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

    /** What is left, as a handler sees it. */
    static String seen() {
        return Deadlines.remaining().map(left -> left.leftNanos() / MS + " ms").orElse("none");
    }

    volatile CountDownLatch blocked = new CountDownLatch(1);

    /** {@code node} keeps the call "block" until the latch is counted down, and gives others to {@code handler}. */
    CountDownLatch blockOnce(Node node, java.util.function.Function<String, CompletableFuture<String>> handler) {
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

    Node node() {
        Node node = new Node("node" + nodes.size());
        nodes.add(node);
        return node;
    }

    static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(LIMIT_S, TimeUnit.SECONDS);
    }

    /** Until {@code condition} holds; fails when it does not within the limit. */
    static void await(BooleanSupplier condition) throws IOException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < limit, "waited in vain");
            Thread.yield();
        }
    }

    static final long LIMIT_S = 15;
}
