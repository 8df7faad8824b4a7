package greenwave.deadline.codec;

/**
 * {@code grpc-timeout}: the header by which every gRPC client sends its timeout.
 *
 * <p>One to eight digits and a unit. Carries the remaining time and nothing else. Source: gRPC over HTTP/2,
 * "Requests", Timeout.
 */
public final class GrpcTimeout {
    /** The header's name. */
    public static final String HEADER = "grpc-timeout";

    private GrpcTimeout() {}

    /**
     * The span {@code text}, such as {@code 150m} (milliseconds) or {@code 2S}, in nanoseconds.
     *
     * @throws BadBudget when it is not one to eight digits and one of {@code H M S m u n}, or negative
     */
    public static long parse(String text) throws BadBudget {
        int last = text.length() - 1;
        int unit = last < 0 ? -1 : UNITS.indexOf(text.charAt(last));
        if (unit < 0) {
            throw BadBudget.GARBLED;
        }
        return Numbers.times(Numbers.parse(text.substring(0, last), DIGITS_MAX), SCALES_NANOS[unit]);
    }

    /**
     * {@code leftNanos} in the finest unit that holds it, rounded down; at least {@code 1n}, since the
     * format has no zero.
     */
    public static String write(long leftNanos) {
        int unit = 0;
        while (leftNanos / SCALES_NANOS[unit] >= LIMIT) {
            unit++;
        }
        return Math.max(1, leftNanos / SCALES_NANOS[unit]) + UNITS.substring(unit, unit + 1);
    }

    /** Units, finest first, and their nanoseconds; hours hold every span. */
    private static final String UNITS = "numSMH";

    private static final long[] SCALES_NANOS = {
        1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000L, 3_600_000_000_000L
    };
    private static final int DIGITS_MAX = 8;
    private static final long LIMIT = 100_000_000;
}
