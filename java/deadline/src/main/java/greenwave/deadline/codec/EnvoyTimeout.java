package greenwave.deadline.codec;

/**
 * {@code x-envoy-expected-rq-timeout-ms}: what Envoy tells the service behind it.
 *
 * <p>Milliseconds that Envoy will wait; it is not counted down on later hops unless a proxy does, which is
 * what writing it anew here is for. Source: Envoy, HTTP router filter, request headers.
 */
public final class EnvoyTimeout {
    /** The header's name. */
    public static final String HEADER = "x-envoy-expected-rq-timeout-ms";

    private EnvoyTimeout() {}

    /**
     * The span in nanoseconds that {@code text}, whole milliseconds, names.
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
