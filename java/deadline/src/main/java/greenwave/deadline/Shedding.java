package greenwave.deadline;

import java.util.OptionalLong;

/**
 * Who is dropped instead of served; each by its name in lower case.
 *
 * <p>Work on a request that nobody waits for any more is taken from those that somebody waits for.
 * {@link #INFEASIBLE} looks one step further than {@link #EXPIRED}: a request whose expected service no
 * longer fits will be late even if it is started now.
 */
public enum Shedding {
    /** Nobody. */
    NONE,
    /** When nothing is left of its budget. */
    EXPIRED,
    /** When less is left than its service is expected to take. */
    INFEASIBLE;

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
