package greenwave.deadline;

/** Why a request got the default. */
public enum Fault {
    /** It brought no budget. */
    MISSING,
    /** What it brought cannot be read. */
    GARBLED,
    /** It brought a negative span. */
    NEGATIVE,
    /** It asked for more than {@link Limits#longestNanos}. */
    ABSURD
}
