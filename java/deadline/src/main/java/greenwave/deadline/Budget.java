package greenwave.deadline;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Deadline field of a request: its remaining time, and the time spent so far, by stage.
 *
 * <p>Consists of spans since the request was created, never of instants, since machines' clocks do not agree. A
 * budget is immutable; {@link StageTimer} counts while a request is at a stage. Source: D2P §3, the deadline field
 * {@code (deadline, PU_flag)}.
 *
 * @param expectedNanos the response time the user asked for ({@code expected_deadline})
 * @param elapsedNanos time since the request was created ({@code elapsed_time}, D2P (2))
 * @param reserveNanos time reserved for the aggregate phase; zero unless the request was split
 * @param isSplit true if the request was split into sub-requests ({@code PU_flag})
 * @param part the aggregator's estimate for this sub-request, if any
 * @param stages stages passed, in order; at most {@link #STAGES_MAX}
 */
public record Budget(
        long expectedNanos,
        long elapsedNanos,
        long reserveNanos,
        boolean isSplit,
        Optional<SubrequestEstimate> part,
        List<Stage> stages) {
    /** Maximum number of stages; the time of later ones is added to the last. */
    public static final int STAGES_MAX = 8;

    /** Drops {@code stages} beyond {@link #STAGES_MAX}. */
    public Budget {
        stages = List.copyOf(stages.subList(0, Math.min(stages.size(), STAGES_MAX)));
    }

    /** Budget of a request created now with the deadline {@code expectedNanos}. */
    public static Budget of(long expectedNanos) {
        return restored(expectedNanos, 0, List.of());
    }

    /** Budget of a request created {@code elapsedNanos} ago that passed {@code stages}. */
    public static Budget restored(long expectedNanos, long elapsedNanos, List<Stage> stages) {
        return new Budget(expectedNanos, elapsedNanos, 0, false, Optional.empty(), stages);
    }

    /** True if the request has a deadline: its limit is less than {@link Long#MAX_VALUE}. */
    public boolean isLimited() {
        return expectedNanos < Long.MAX_VALUE;
    }

    /** Total time granted to this request: the expected deadline less the reserve. */
    public long grantedNanos() {
        return Spans.minus(expectedNanos, reserveNanos);
    }

    /** Remaining budget ({@code deadline}, D2P (3)). */
    public Remaining remaining() {
        return Remaining.of(grantedNanos(), elapsedNanos);
    }

    /** This budget after {@code stage}. */
    public Budget after(Stage stage) {
        List<Stage> passed = new ArrayList<>(stages);
        if (passed.size() < STAGES_MAX) {
            passed.add(stage);
        } else {
            passed.set(STAGES_MAX - 1, passed.get(STAGES_MAX - 1).plus(stage));
        }
        long elapsed = Spans.plus(elapsedNanos, stage.totalNanos());
        return new Budget(expectedNanos, elapsed, reserveNanos, isSplit, part, passed);
    }

    /**
     * This budget less the network delay {@code networkNanos}, which belongs to no stage, since it is not measured
     * yet.
     */
    public Budget delayed(long networkNanos) {
        long elapsed = Spans.plus(elapsedNanos, networkNanos);
        return new Budget(expectedNanos, elapsed, reserveNanos, isSplit, part, stages);
    }

    /**
     * This budget for a sub-request, which must be answered {@code reserve} before the deadline: the time for the
     * aggregate phase, at most all of the remaining time.
     */
    public Budget split(long reserve) {
        long kept = Math.min(expectedNanos, Spans.plus(reserveNanos, reserve));
        return new Budget(expectedNanos, elapsedNanos, kept, true, part, stages);
    }

    /**
     * This budget for a sub-request, with the aggregator's estimate of its service time. The worker orders and drops
     * by it instead of by its own estimate of all requests. Valid for the next queue only.
     */
    public Budget expecting(SubrequestEstimate expected) {
        return new Budget(expectedNanos, elapsedNanos, reserveNanos, isSplit, Optional.of(expected), stages);
    }

    /** This budget without an estimate. */
    public Budget arrived() {
        return new Budget(expectedNanos, elapsedNanos, reserveNanos, isSplit, Optional.empty(), stages);
    }

    /** This budget for the aggregate phase, with the reserve released. */
    public Budget joined() {
        return new Budget(expectedNanos, elapsedNanos, 0, isSplit, Optional.empty(), stages);
    }

    /** Budget of a request that was created when this one had the time left that it has: nothing elapsed, no stages. */
    public Budget withoutPast() {
        long left = Math.max(0, Spans.minus(grantedNanos(), elapsedNanos));
        long expected = isLimited() ? Spans.plus(reserveNanos, left) : expectedNanos;
        return new Budget(expected, 0, reserveNanos, isSplit, part, List.of());
    }

    /**
     * This budget with at most {@code leftNanos} remaining, for a shorter timeout of the caller or of an untrusted
     * peer.
     */
    public Budget capped(long leftNanos) {
        long most = Spans.plus(Spans.plus(elapsedNanos, reserveNanos), leftNanos);
        long expected = Math.min(expectedNanos, most);
        return new Budget(expected, elapsedNanos, reserveNanos, isSplit, part, stages);
    }
}
