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
    /** No request. */
    NONE,
    /** When nothing is left of its budget. */
    EXPIRED,
    /** When less is left than its service is expected to take. */
    INFEASIBLE,
    /**
     * When nothing is left of its budget; under overload those are served first that are likely to be in time and
     * cost few others their deadlines.
     */
    OVERLOAD;

    /** Why a request is answered without being served. */
    public enum Reason {
        /** Nothing is left of its budget. */
        EXPIRED("its deadline has passed"),
        /** What is left is less than its service is expected to take. */
        INFEASIBLE("what is left of its deadline is less than it takes"),
        /** The queue is full of requests that can still make it. */
        FULL("too many requests wait");

        private final String text;

        Reason(String text) {
            this.text = text;
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /** Why a request due at {@code due} that takes {@code serviceNanos} is dropped at {@code nowNanos}; or null. */
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
