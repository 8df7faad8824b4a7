package greenwave.deadline;

/** Fault of a received budget. */
public enum InvalidBudget {
    /** No budget received. */
    MISSING,
    /** The budget cannot be parsed. */
    GARBLED,
    /** The budget is negative. */
    NEGATIVE,
    /** The elapsed time exceeds {@link Limits#longestNanos}: only the remaining time is used. */
    ABSURD
}
