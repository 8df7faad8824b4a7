package greenwave.deadline;

import java.io.Serializable;

/**
 * Limits on received budgets.
 *
 * @param defaultNanos budget of requests without a valid one; {@link Long#MAX_VALUE}: no deadline
 * @param longestNanos maximum remaining time that a peer can request; longer ones are cut to it
 * @param trusted true if peers are believed their service time estimates for sub-requests, and how much of its budget
 *     a request has spent before, which is sent on with its calls
 */
public record Limits(long defaultNanos, long longestNanos, boolean trusted) implements Serializable {
    /** No deadline by default, longest an hour, peers not trusted. */
    public static final Limits DEFAULT = new Limits(Long.MAX_VALUE, 3_600_000_000_000L, false);
}
