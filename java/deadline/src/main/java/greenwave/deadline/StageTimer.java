package greenwave.deadline;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/**
 * A request at one stage: the clock that runs while it waits and is served.
 *
 * <p>Starts with what the budget said on arrival and the hop's network delay, and counts by this
 * machine's clock alone. The queue counts: the timer begins when the request arrives, not when a thread
 * takes it up. Threads may share one; only {@link #start} changes it, once. Source: D2P §3 (extract,
 * count, send on).
 */
public final class StageTimer {
    private final Budget budget;
    private final long networkNanos;
    private final long arrivedNanos;
    private volatile long startedNanos;

    private StageTimer(Budget budget, long networkNanos, long arrivedNanos, long startedNanos) {
        this.budget = budget;
        this.networkNanos = networkNanos;
        this.arrivedNanos = arrivedNanos;
        this.startedNanos = startedNanos;
    }

    /**
     * The request with {@code budget} arrived at {@code nowNanos} over a hop that took {@code
     * networkNanos} (C, see {@link NetworkDelay}); zero where the sender has taken it off already.
     */
    public static StageTimer arrive(long nowNanos, Budget budget, long networkNanos) {
        return new StageTimer(budget, networkNanos, nowNanos, WAITING);
    }

    /**
     * The aggregate phase of a request whose sub-requests are {@code parts}, as they arrived here: it
     * counts on from the one that took longest, D2P (4), and the reserve is there to be used. Empty
     * without parts.
     */
    public static Optional<StageTimer> join(long nowNanos, List<StageTimer> parts) {
        return parts.stream()
                .max(Comparator.comparingLong(part -> part.elapsedNanos(nowNanos)))
                .map(slowest -> new StageTimer(
                        slowest.budget.joined(), slowest.networkNanos, slowest.arrivedNanos, slowest.startedNanos));
    }

    /** Ends the wait in the queue and starts the service. Only the first call counts. */
    public void start(long nowNanos) {
        if (startedNanos == WAITING) {
            startedNanos = nowNanos;
        }
    }

    /** Budget on arrival. */
    public Budget budget() {
        return budget;
    }

    /** Arrival time. */
    public long arrivedNanos() {
        return arrivedNanos;
    }

    /** Time since the request was created. */
    public long elapsedNanos(long nowNanos) {
        long sinceArrival = Spans.minus(nowNanos, arrivedNanos);
        return Spans.plus(Spans.plus(budget.elapsedNanos(), networkNanos), sinceArrival);
    }

    /** Remaining budget at {@code nowNanos}. */
    public Remaining remaining(long nowNanos) {
        return Remaining.of(budget.grantedNanos(), elapsedNanos(nowNanos));
    }

    /** Deadline on this machine's clock. */
    public long dueNanos() {
        long left = Spans.minus(Spans.minus(budget.grantedNanos(), budget.elapsedNanos()), networkNanos);
        return Spans.plus(arrivedNanos, left);
    }

    /** Times at this stage up to {@code nowNanos}. */
    public Stage stage(long nowNanos) {
        long started = startedNanos == WAITING ? nowNanos : startedNanos;
        return new Stage(networkNanos, Spans.minus(started, arrivedNanos), Spans.minus(nowNanos, started));
    }

    /** The budget to send on, to the next service or back. */
    public Budget leave(long nowNanos) {
        return budget.after(stage(nowNanos));
    }

    private static final long WAITING = -1;
}
