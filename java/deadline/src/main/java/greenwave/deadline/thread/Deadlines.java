package greenwave.deadline.thread;

import greenwave.deadline.Budget;
import greenwave.deadline.Remaining;
import greenwave.deadline.StageTimer;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;

/**
 * The deadline of the request that this thread works on.
 *
 * <p>Set while a handler runs, and in callbacks chained to the futures of calls that it makes. For work that
 * the application hands to threads of its own, use {@link #carry(Runnable)}, {@link #carrying} or {@link
 * #carry(CompletableFuture)}.
 */
public final class Deadlines {
    private static final ThreadLocal<StageTimer> CURRENT = new ThreadLocal<>();
    private static final long EPOCH = System.nanoTime();

    private static final LongSupplier MONOTONIC = () -> System.nanoTime() - EPOCH;
    private static volatile LongSupplier clock = MONOTONIC;

    private Deadlines() {}

    /** Remaining budget now; empty if this thread's request has no deadline. */
    public static Optional<Remaining> remaining() {
        StageTimer timer = CURRENT.get();
        return timer == null || !timer.budget().isLimited()
                ? Optional.empty()
                : Optional.of(timer.remaining(now()));
    }

    /**
     * The request's timer at this service, with its arrival, its time in the queue and the times of earlier
     * stages.
     */
    public static Optional<StageTimer> current() {
        return Optional.ofNullable(CURRENT.get());
    }

    /**
     * Sets a deadline of {@code expectedNanos} (0 or more) for the work of this thread until the scope is
     * closed. For threads that create requests. Inside a request it may shorten the remaining budget, never
     * lengthen it.
     */
    public static Scope within(long expectedNanos) {
        long now = now();
        StageTimer outer = CURRENT.get();
        Budget budget = outer == null ? Budget.of(expectedNanos) : outer.outgoing(now).capped(expectedNanos);
        StageTimer timer = StageTimer.arrive(now, budget, 0);
        timer.start(now);
        return enter(timer);
    }

    /** {@code task}, which has the present thread's deadline on whichever thread it runs. */
    public static Runnable carry(Runnable task) {
        StageTimer timer = CURRENT.get();
        return () -> {
            try (Scope scope = enter(timer)) {
                task.run();
            }
        };
    }

    /** {@code task}, which has the present thread's deadline on whichever thread it is called. */
    public static <T> Callable<T> carry(Callable<T> task) {
        StageTimer timer = CURRENT.get();
        return () -> {
            try (Scope scope = enter(timer)) {
                return task.call();
            }
        };
    }

    /** {@code executor}, whose tasks have the deadline of the thread that handed them over. */
    public static Executor carrying(Executor executor) {
        return task -> executor.execute(carry(task));
    }

    /**
     * A future that completes as {@code future} does; callbacks chained to it have the deadline of the
     * present thread, whichever thread completes it.
     */
    public static <T> CompletableFuture<T> carry(CompletableFuture<T> future) {
        StageTimer timer = CURRENT.get();
        CompletableFuture<T> carried = new CompletableFuture<>();
        future.whenComplete((value, failure) -> {
            try (Scope scope = enter(timer)) {
                if (failure == null) {
                    carried.complete(value);
                } else {
                    carried.completeExceptionally(failure);
                }
            }
        });
        return carried;
    }

    /** Ends what {@link #within} began; closed by the thread that opened it. */
    public static final class Scope implements AutoCloseable {
        private final StageTimer before;

        private Scope(StageTimer before) {
            this.before = before;
        }

        @Override
        public void close() {
            set(before);
        }
    }

    /**
     * Makes {@code timer} (null: none) the present thread's until the scope is closed. For adapters of
     * frameworks.
     */
    public static Scope enter(StageTimer timer) {
        Scope scope = new Scope(CURRENT.get());
        set(timer);
        return scope;
    }

    private static void set(StageTimer timer) {
        if (timer == null) {
            CURRENT.remove();
        } else {
            CURRENT.set(timer);
        }
    }

    /** Nanoseconds since this class was loaded, by a monotonic clock. All timers use it. */
    public static long now() {
        return clock.getAsLong();
    }

    /**
     * Replaces the clock by {@code other}, which must not run backwards; null: the machine's monotonic clock.
     * For tests, which then control all times.
     */
    public static void countBy(LongSupplier other) {
        clock = other == null ? MONOTONIC : other;
    }
}
