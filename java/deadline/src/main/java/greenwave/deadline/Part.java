package greenwave.deadline;

/**
 * What a sub-request is expected to take once its turn has come, and the slowest of those that are waited
 * for together with it.
 *
 * @param serviceNanos this one
 * @param slowestNanos the slowest of all, this one included
 */
public record Part(long serviceNanos, long slowestNanos) {}
