package greenwave.deadline;

/**
 * Expected service time of a sub-request, and of the slowest sub-request of the same
 * request.
 *
 * @param serviceNanos expected service time of this one
 * @param slowestNanos that of the slowest, this one included
 */
public record SubrequestEstimate(long serviceNanos, long slowestNanos) {}
