package greenwave.deadline;

import java.util.OptionalLong;

/**
 * Rule for dropping requests; each by its name in lower case.
 *
 * <p>A request that has missed its deadline takes service time from requests that can still meet theirs.
 * {@link #INFEASIBLE} drops a request as soon as the time left is less than its expected service time,
 * overloaded or not: for experiments, since it refuses work that an idle server would finish in time.
 * {@link #OVERLOAD}, the default, drops what has expired; of the others, those wait longest that cost most
 * requests their deadlines (see {@link DeadlineQueue}).
 */
public enum Shedding {
    /** Drops no request. */
    NONE,
    /** Drops a request whose budget is used up. */
    EXPIRED,
    /** Drops a request whose remaining budget is less than its expected service time. */
    INFEASIBLE,
    /**
     * Drops a request whose budget is used up. Under overload, requests that are likely to be in time and cost few
     * others their deadlines are served first.
     */
    OVERLOAD;

    /** Reason for answering a request without serving it. */
    public enum Reason {
        /** The budget is used up. */
        EXPIRED(Cause.EXPIRED),
        /** The remaining budget is less than the expected service time. */
        INFEASIBLE(Cause.INFEASIBLE),
        /** The queue is full of requests that can still meet their deadlines. */
        FULL(Cause.QUEUE_FULL);

        private final Cause cause;

        Reason(Cause cause) {
            this.cause = cause;
        }

        /** Cause in the response to the request's sender. */
        public Cause cause() {
            return cause;
        }

        @Override
        public String toString() {
            return cause.toString();
        }
    }

    /** Reason for dropping a request due at {@code due} with {@code serviceNanos} at {@code nowNanos}; or null. */
    Reason sheds(long nowNanos, OptionalLong due, long serviceNanos) {
        if (due.isEmpty() || this == NONE) {
            return null;
        }
        if (due.getAsLong() <= nowNanos) {
            return Reason.EXPIRED;
        }
        boolean late = due.getAsLong() < Spans.plus(nowNanos, serviceNanos);
        return this == INFEASIBLE && late ? Reason.INFEASIBLE : null;
    }
}
