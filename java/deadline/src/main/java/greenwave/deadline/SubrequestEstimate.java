package greenwave.deadline;

/**
 * Expected service time of a sub-request, and of the slowest of those that are waited
 * for together with it.
 *
 * @param serviceNanos this one
 * @param slowestNanos the slowest of all, this one included
 */
public record SubrequestEstimate(long serviceNanos, long slowestNanos) {}
