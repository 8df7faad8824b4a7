package greenwave.deadline;

import java.io.Serializable;

/**
 * Limits of the budgets that a server grants.
 *
 * @param defaultNanos granted to a request that brings no usable budget, and the most that one of an
 *     untrusted peer gets
 * @param longestNanos what remains to a request of a trusted peer is absurd above this
 * @param trusted whether peers may ask for more than the default
 */
public record Limits(long defaultNanos, long longestNanos, boolean trusted) implements Serializable {
    /** A second by default, absurd above an hour, peers not trusted. */
    public static final Limits DEFAULT = new Limits(1_000_000_000L, 3_600_000_000_000L, false);
}
