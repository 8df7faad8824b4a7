package greenwave.deadline;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Timer of a request at one stage, queueing and service.
 *
 * <p>Starts with the received budget and the hop's network delay when the request arrives, and counts by this
 * machine's clock alone. Thread-safe; only {@link #start} changes it, once. Source: D2P §3 (extract,
 * count, send on).
 */
public final class StageTimer {
    private final Budget budget;
    private final long networkNanos;
    private final long arrivedNanos;
    private final boolean isPastBelieved;
    private volatile long startedNanos;

    private StageTimer(
            Budget budget, long networkNanos, long arrivedNanos, boolean isPastBelieved, long startedNanos) {
        this.budget = budget;
        this.networkNanos = networkNanos;
        this.arrivedNanos = arrivedNanos;
        this.isPastBelieved = isPastBelieved;
        this.startedNanos = startedNanos;
    }

    /**
     * Timer of a request with {@code budget} that arrived at {@code nowNanos} over a hop with the delay {@code
     * networkNanos} (C, see {@link NetworkDelay}); zero if the sender has subtracted it already.
     */
    public static StageTimer arrive(long nowNanos, Budget budget, long networkNanos) {
        return new StageTimer(budget, networkNanos, nowNanos, true, WAITING);
    }

    /** The same of a request from a peer that is not believed how much of its budget was spent before. */
    public static StageTimer arriveUntrusted(long nowNanos, Budget budget, long networkNanos) {
        return new StageTimer(budget, networkNanos, nowNanos, false, WAITING);
    }

    /**
     * Timer of the aggregate phase of a request with the sub-requests {@code parts}, as they arrived here. It
     * continues that of the slowest one, D2P (4), with the reserve released. Empty without parts.
     */
    public static Optional<StageTimer> join(long nowNanos, List<StageTimer> parts) {
        return parts.stream()
                .max(Comparator.comparingLong(part -> part.elapsedNanos(nowNanos)))
                .map(slowest -> new StageTimer(
                        slowest.budget.joined(),
                        slowest.networkNanos,
                        slowest.arrivedNanos,
                        slowest.isPastBelieved,
                        slowest.startedNanos));
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

    /** Nanoseconds left at {@code nowNanos}; empty if the request has no deadline. */
    public OptionalLong leftNanos(long nowNanos) {
        return budget.isLimited() ? OptionalLong.of(remaining(nowNanos).leftNanos()) : OptionalLong.empty();
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

    /** The budget to send back: the peer computes the network delay from it. */
    public Budget leave(long nowNanos) {
        return budget.after(stage(nowNanos));
    }

    /** The budget to send to the next service, without a past that is not believed. */
    public Budget outgoing(long nowNanos) {
        return isPastBelieved ? leave(nowNanos) : budget.withoutPast().after(stage(nowNanos));
    }

    private static final long WAITING = -1;
}
