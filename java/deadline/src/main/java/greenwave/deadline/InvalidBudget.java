package greenwave.deadline;

/** Reason why a request got the default. */
public enum InvalidBudget {
    /** It has no budget. */
    MISSING,
    /** Its budget cannot be parsed. */
    GARBLED,
    /** Its budget is negative. */
    NEGATIVE,
    /** Its age exceeds {@link Limits#longestNanos}: its remaining time counts, its past does not. */
    ABSURD
}
