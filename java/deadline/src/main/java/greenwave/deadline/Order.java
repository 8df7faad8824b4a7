package greenwave.deadline;

/**
 * Who goes next among waiting requests; each by its name in lower case.
 *
 * <p>{@link #PAPER} is the order as D2P's Algorithm 1 has it: by the budget that was left on arrival, which
 * does not age while the request waits. It is kept to reproduce the paper; under one deadline for all it is
 * a random order.
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
    PAPER;

    /**
     * The rank of the entry that is pushed as number {@code push}, least first: {@code leftNanos} is what is
     * left of its budget, at most the queue's patience, and {@code serviceNanos} its expected service.
     */
    long rank(long nowNanos, long push, long leftNanos, long serviceNanos) {
        return switch (this) {
            case FIFO -> nowNanos;
            case LIFO -> -push;
            case EDF -> Spans.plus(nowNanos, leftNanos);
            case LAXITY -> Spans.plus(nowNanos, Spans.minus(leftNanos, serviceNanos));
            case PAPER -> leftNanos;
        };
    }
}
