package greenwave.deadline;

/** End of a request, as counted per method by a {@link Gate}; the names are those of Rust. */
public enum Outcome {
    /** Answered by its handler before the deadline, or without one. */
    IN_TIME("in-time"),
    /** Answered by its handler after the deadline. */
    LATE("late"),
    /** The client has gone. */
    CANCELLED("cancelled"),
    /** {@link Cause#EXPIRED}. */
    EXPIRED(Cause.EXPIRED),
    /** {@link Cause#INFEASIBLE}. */
    INFEASIBLE(Cause.INFEASIBLE),
    /** {@link Cause#QUEUE_FULL}. */
    QUEUE_FULL(Cause.QUEUE_FULL),
    /** {@link Cause#ABORTED}. */
    ABORTED(Cause.ABORTED),
    /** {@link Cause#UPSTREAM_TIMEOUT}. */
    UPSTREAM_TIMEOUT(Cause.UPSTREAM_TIMEOUT),
    /** {@link Cause#UPSTREAM_FAILED}. */
    UPSTREAM_FAILED(Cause.UPSTREAM_FAILED);

    private final String word;

    Outcome(String word) {
        this.word = word;
    }

    Outcome(Cause cause) {
        this(cause.word());
    }

    /** Name, as a value of the metric's attribute. */
    public String word() {
        return word;
    }

    /** The outcome of a request that ended with {@code cause}. */
    static Outcome of(Cause cause) {
        return valueOf(cause.name());
    }
}
