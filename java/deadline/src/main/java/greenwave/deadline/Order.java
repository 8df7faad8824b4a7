package greenwave.deadline;

/**
 * Who goes next among waiting requests; each by its name in lower case.
 *
 * <p>{@link #PAPER} is the order as D2P's Algorithm 1 has it: by the budget that was left on arrival, which
 * does not age while the request waits. It is kept to reproduce the paper; under one deadline for all it is
 * a random order.
 *
 * <p>{@link #PACE} knows that a request which was split is answered when its slowest part is. A part of a
 * short request passes those of long ones everywhere, not only where it happens to be short itself; and
 * because the rank is an instant, what is long is passed by no more than what comes in the time that it is
 * longer. Source: Rein (EuroSys '17) §4, shortest bottleneck first.
 */
public enum Order {
    /** First come, first served. */
    FIFO,
    /** Last come, first served. */
    LIFO,
    /** Earliest deadline first. */
    EDF,
    /** Least laxity first: the deadline less the expected service. */
    LAXITY,
    /** Least budget on arrival first (D2P, Algorithm 1). */
    PAPER,
    /**
     * At its pace: whoever takes long waits for long, whoever has little left for less. Ranked by the instant
     * of the offer, a quarter of what is left, and four times what the slowest part of its request takes.
     */
    PACE;

    /**
     * The rank of the entry that is pushed as number {@code push}, least first: {@code leftNanos} is what is
     * left of its budget, at most the queue's patience, {@code serviceNanos} its expected service, and
     * {@code slowestNanos} that of the slowest part of its request.
     */
    long rank(long nowNanos, long push, long leftNanos, long serviceNanos, long slowestNanos) {
        return switch (this) {
            case FIFO -> nowNanos;
            case LIFO -> -push;
            case EDF -> Spans.plus(nowNanos, leftNanos);
            case LAXITY -> Spans.plus(nowNanos, Spans.minus(leftNanos, serviceNanos));
            case PAPER -> leftNanos;
            case PACE -> Spans.plus(
                    Spans.plus(nowNanos, leftNanos / PACE_OF_LEFT), Spans.times(slowestNanos, PACE_OF_SLOWEST));
        };
    }

    /** Of what is left, {@link #PACE} counts one part in so many. */
    private static final long PACE_OF_LEFT = 4;
    /** How many times {@link #PACE} counts what a request's slowest part takes. */
    private static final long PACE_OF_SLOWEST = 4;
}
