package greenwave.deadline;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A request's deadline field: how much time it has left, and where the rest went.
 *
 * <p>Counted in spans since the request was born, never in instants: what one machine's clock says means
 * nothing to another's. A budget is a value; it changes when a stage is added to it, not by itself
 * ({@link StageTimer} does the counting while a request is at a stage). Source: D2P §3, the deadline field
 * {@code (deadline, PU_flag)}.
 *
 * @param expectedNanos the response time the user asked for ({@code expected_deadline})
 * @param elapsedNanos time since the request was born ({@code elapsed_time}, D2P (2))
 * @param reserveNanos kept for the aggregate phase; zero unless it was split
 * @param isSplit whether it was split into sub-requests, so that the formulas of the parallel unit hold
 *     ({@code PU_flag})
 * @param part what the aggregator expects of this sub-request, if it said so
 * @param stages the stages it passed, in order; at most {@link #STAGES_MAX}
 */
public record Budget(
        long expectedNanos,
        long elapsedNanos,
        long reserveNanos,
        boolean isSplit,
        Optional<SubrequestEstimate> part,
        List<Stage> stages) {
    /** Stages that are told apart; what later ones take is added to the last. */
    public static final int STAGES_MAX = 8;

    /** Those of {@code stages} beyond {@link #STAGES_MAX} are left out. */
    public Budget {
        stages = List.copyOf(stages.subList(0, Math.min(stages.size(), STAGES_MAX)));
    }

    /** A request born now, whose user waits for {@code expectedNanos}. */
    public static Budget of(long expectedNanos) {
        return restored(expectedNanos, 0, List.of());
    }

    /** A request that was born {@code elapsedNanos} ago and passed {@code stages}, as far as known. */
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
     * This budget as it will arrive after {@code networkNanos} on the way: taken off, and shown under no
     * stage, since nobody has measured it yet.
     */
    public Budget delayed(long networkNanos) {
        long elapsed = Spans.plus(elapsedNanos, networkNanos);
        return new Budget(expectedNanos, elapsed, reserveNanos, isSplit, part, stages);
    }

    /**
     * This budget for one of the sub-requests it is split into, which must be back {@code reserve} early:
     * that much is kept for the aggregate phase, at the most everything.
     */
    public Budget split(long reserve) {
        long kept = Math.min(expectedNanos, Spans.plus(reserveNanos, reserve));
        return new Budget(expectedNanos, elapsedNanos, kept, true, part, stages);
    }

    /**
     * This budget for one of the sub-requests, with what the aggregator expects of it: the worker orders and
     * drops by that instead of by what it learned of all requests together. Holds for the next queue only.
     */
    public Budget expecting(SubrequestEstimate expected) {
        return new Budget(expectedNanos, elapsedNanos, reserveNanos, isSplit, Optional.of(expected), stages);
    }

    /** This budget without what was expected of it. */
    public Budget arrived() {
        return new Budget(expectedNanos, elapsedNanos, reserveNanos, isSplit, Optional.empty(), stages);
    }

    /** This budget for the aggregate phase, for which the reserve was kept. */
    public Budget joined() {
        return new Budget(expectedNanos, elapsedNanos, 0, isSplit, Optional.empty(), stages);
    }

    /**
     * This budget with at most {@code leftNanos} remaining: what a shorter timeout of the caller, or of a
     * peer that is not trusted, leaves of it.
     */
    public Budget capped(long leftNanos) {
        long most = Spans.plus(Spans.plus(elapsedNanos, reserveNanos), leftNanos);
        long expected = Math.min(expectedNanos, most);
        return new Budget(expected, elapsedNanos, reserveNanos, isSplit, part, stages);
    }
}
