package greenwave.deadline.thread;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A deadline belongs to the work of a thread: it ends with its scope, and is carried to other threads on
 * request.
 */
//~ java: a deadline is kept across runnables, executors and futures, and ends with its scope
class DeadlinesTest {
    private final AtomicLong clock = new AtomicLong(500);

    @BeforeEach
    void stopTheClock() {
        Deadlines.countBy(clock::get);
    }

    @AfterEach
    void noDeadlineOutlivesItsScope() {
        assertEquals(Optional.empty(), Deadlines.current());
        Deadlines.countBy(null);
    }

    @Test
    void anInnerDeadlineMayOnlyShortenTheBudget() {
        assertEquals(-1, leftNanos());
        try (Deadlines.Scope outer = Deadlines.within(1_000)) {
            clock.addAndGet(300);
            assertEquals(700, leftNanos());
            try (Deadlines.Scope longer = Deadlines.within(5_000)) {
                assertEquals(700, leftNanos());
            }
            try (Deadlines.Scope shorter = Deadlines.within(200)) {
                clock.addAndGet(50);
                assertEquals(150, leftNanos());
            }
            assertEquals(650, leftNanos());
        }
    }

    @Test
    void aCarriedDeadlineReachesOtherThreads() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        try {
            AtomicLong seen = new AtomicLong();
            CompletableFuture<String> later = new CompletableFuture<>();
            Callable<Long> asked = DeadlinesTest::leftNanos;
            CompletableFuture<Long> chained;
            try (Deadlines.Scope scope = Deadlines.within(1_000)) {
                assertEquals(-1, other.submit(asked).get(9, TimeUnit.SECONDS), "not carried");
                assertEquals(1_000, other.submit(Deadlines.carry(asked)).get(9, TimeUnit.SECONDS));
                Runnable noted = () -> seen.set(leftNanos());
                other.submit(Deadlines.carry(noted)).get(9, TimeUnit.SECONDS);
                assertEquals(1_000, seen.get());
                assertEquals(
                        1_000,
                        CompletableFuture.supplyAsync(DeadlinesTest::leftNanos, Deadlines.carrying(other))
                                .get(9, TimeUnit.SECONDS));
                chained = Deadlines.carry(later).thenApply(done -> leftNanos());
            }
            clock.addAndGet(400);
            other.submit(() -> later.complete("done")).get(9, TimeUnit.SECONDS);
            assertEquals(600, chained.get(9, TimeUnit.SECONDS));
            assertEquals(-1, other.submit(asked).get(9, TimeUnit.SECONDS), "it does not stay with the thread");
        } finally {
            other.shutdown();
        }
    }

    @Test
    void aCarriedTaskPropagatesItsFailure() {
        CompletableFuture<String> later = new CompletableFuture<>();
        CompletableFuture<Long> handled;
        try (Deadlines.Scope scope = Deadlines.within(1_000)) {
            handled = Deadlines.carry(later).handle((value, failure) -> failure == null ? 0 : leftNanos());
        }
        later.completeExceptionally(new IllegalStateException("lost"));
        assertEquals(1_000, handled.join());
    }

    /** Remaining budget; −1 without a deadline. */
    private static long leftNanos() {
        return Deadlines.remaining().map(left -> left.leftNanos()).orElse(-1L);
    }
}
