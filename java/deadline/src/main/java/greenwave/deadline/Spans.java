package greenwave.deadline;

/** Arithmetic of spans and instants, which saturates as the crate {@code queueing}'s does. */
final class Spans {
    private Spans() {}

    /** {@code a + b}, at most {@link Long#MAX_VALUE}. */
    static long plus(long a, long b) {
        long sum = a + b;
        return sum < 0 ? Long.MAX_VALUE : sum;
    }

    /** {@code a − b}, at least zero. */
    static long minus(long a, long b) {
        return Math.max(0, a - b);
    }

    /** {@code n · a}, at most {@link Long#MAX_VALUE}; {@code n} more than zero. */
    static long times(long a, long n) {
        return a > Long.MAX_VALUE / n ? Long.MAX_VALUE : a * n;
    }
}
