package greenwave.deadline;

/**
 * Order of service of a queue; configured by its name in lower case.
 *
 * <p>{@link #PAPER} is the order of D2P's Algorithm 1: by the budget left on arrival, which does not
 * change while the request waits. It exists to reproduce the paper; if all requests have the same deadline, it is
 * a random order.
 *
 * <p>{@link #PACE} orders sub-requests by the slowest one of their request, since the request is answered only
 * then. A sub-request of a short request is served before those of long ones on every worker. The rank is a point
 * in time, so a long request is overtaken only by requests that arrive within the difference. Source: Rein (EuroSys
 * '17) §4, shortest bottleneck first.
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
     * By the time of the offer, plus a quarter of the remaining budget, plus four times the expected service time of
     * the slowest sub-request of its request.
     */
    PACE;

    /**
     * Rank of the entry with sequence number {@code push}, lowest first. {@code leftNanos} is its remaining budget,
     * at most the queue's maximum age; {@code serviceNanos} its expected service time; {@code slowestNanos} that of
     * the slowest sub-request of its request.
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

    /** Divisor of the remaining budget under {@link #PACE}. */
    private static final long PACE_OF_LEFT = 4;
    /** Factor of the slowest sub-request's service time under {@link #PACE}. */
    private static final long PACE_OF_SLOWEST = 4;
}
