package greenwave.deadline.codec;

/**
 * {@code x-envoy-expected-rq-timeout-ms}: the header by which Envoy tells a service its timeout.
 *
 * <p>Milliseconds that Envoy will wait for the response. Envoy sends the same value on later hops, not the
 * remaining time, unless a proxy writes the header anew; {@link #write} is for that. Source: Envoy, HTTP
 * router filter, request headers.
 */
public final class EnvoyTimeout {
    /** The header's name. */
    public static final String HEADER = "x-envoy-expected-rq-timeout-ms";

    private EnvoyTimeout() {}

    /**
     * The span {@code text}, a number of whole milliseconds, in nanoseconds.
     *
     * @throws BadBudget when it is not one to twelve digits, or negative
     */
    public static long parse(String text) throws BadBudget {
        return Numbers.times(Numbers.parse(text, DIGITS_MAX), 1_000_000);
    }

    /** {@code leftNanos} in whole milliseconds, rounded down; at least 1, as Envoy takes 0 for "no timeout". */
    public static String write(long leftNanos) {
        return Long.toString(Math.max(1, leftNanos / 1_000_000));
    }

    private static final int DIGITS_MAX = 12;
}
