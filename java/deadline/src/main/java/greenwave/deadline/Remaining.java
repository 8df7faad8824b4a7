package greenwave.deadline;

/**
 * Remaining time until an expected deadline, or the time since it was missed.
 *
 * <p>Ordered by urgency: the least time left first, the longest overdue before all. What to do once it
 * is missed is the application's to decide (D2P §3).
 *
 * @param nanos time left; zero at the very instant, below zero for as long as it is overdue
 */
public record Remaining(long nanos) implements Comparable<Remaining> {
    /** {@code expected − elapsed}, both in nanoseconds. */
    public static Remaining of(long expectedNanos, long elapsedNanos) {
        return new Remaining(expectedNanos - elapsedNanos);
    }

    /** Time left in nanoseconds; zero when missed. */
    public long leftNanos() {
        return Math.max(0, nanos);
    }

    /** True if the deadline is missed. */
    public boolean isMissed() {
        return nanos <= 0;
    }

    @Override
    public int compareTo(Remaining other) {
        return Long.compare(nanos, other.nanos);
    }
}
