package greenwave.deadline;

import java.util.Arrays;

/**
 * Distribution of the service time of one kind of work.
 *
 * <p>A snapshot of a {@link History}: counts in buckets of an eighth of an octave, and their cumulative sums.
 * Integers only, so the Rust implementation gives the same numbers ({@code spec/deadline/shedding.json}). One
 * imaginary sample of zero is added: no probability is zero, and work of which nothing is known is expected to
 * be in time. Immutable.
 */
public final class Forecast {
    /** Probability in units of 2⁻¹⁶. */
    public static final long ONE = 1 << 16;

    /** Forecast of work of which nothing is known. */
    public static final Forecast UNKNOWN = new Forecast(null, 0, 0);

    /** Number of buckets; the last one ends above {@link Long#MAX_VALUE}. */
    static final int BUCKETS = 496;

    /** Samples below each bucket, and at the end all of them; null without samples. */
    private final int[] cumulative;
    private final long meanNanos;
    private final long longestNanos;

    private Forecast(int[] cumulative, long meanNanos, long longestNanos) {
        this.cumulative = cumulative;
        this.meanNanos = meanNanos;
        this.longestNanos = longestNanos;
    }

    /**
     * Snapshot of {@code counts}, one per bucket, of samples that sum to {@code sumNanos} and of which the longest
     * is {@code longestNanos}.
     */
    static Forecast of(int[] counts, long sumNanos, long longestNanos) {
        int[] cumulative = new int[BUCKETS + 1];
        for (int at = 0; at < BUCKETS; at++) {
            cumulative[at + 1] = cumulative[at] + counts[at];
        }
        int samples = cumulative[BUCKETS];
        return samples == 0 ? UNKNOWN : new Forecast(cumulative, sumNanos / samples, longestNanos);
    }

    /** Forecast from samples of service times, in nanoseconds. */
    public static Forecast ofSamples(long... samplesNanos) {
        int[] counts = new int[BUCKETS];
        long sum = 0;
        long longest = 0;
        for (long sample : samplesNanos) {
            counts[bucket(sample)]++;
            sum = Spans.plus(sum, sample);
            longest = Math.max(longest, sample);
        }
        return of(counts, sum, longest);
    }

    /** Forecast of work that takes {@code serviceNanos}; unknown if that is zero. */
    public static Forecast constant(long serviceNanos) {
        return serviceNanos == 0 ? UNKNOWN : new Forecast(null, serviceNanos, serviceNanos);
    }

    /** Mean, in nanoseconds; zero if nothing is known. */
    public long meanNanos() {
        return meanNanos;
    }

    /** Number of samples. */
    public int samples() {
        return cumulative == null ? 0 : cumulative[BUCKETS];
    }

    /**
     * Upper end of the bucket that holds the quantile of {@code percent}, at most the longest sample; the mean
     * without samples.
     */
    public long quantileNanos(int percent) {
        if (cumulative == null) {
            return meanNanos;
        }
        int at = quantileBucket(percent);
        return Math.min(longestNanos, start(at) + (1L << widthLog2(at)) - 1);
    }

    /** Order of {@code serviceNanos} against the central 90 %: -1, 0 if inside, or 1. */
    int compare(long serviceNanos) {
        if (cumulative == null) {
            return 0;
        }
        int at = bucket(serviceNanos);
        return at < quantileBucket(5) ? -1 : at > quantileBucket(95) ? 1 : 0;
    }

    private int quantileBucket(int percent) {
        long wanted = Math.max(1, ((long) samples() * percent + 99) / 100);
        int found = Arrays.binarySearch(cumulative, (int) wanted);
        // The first sum that reaches it, of several that are equal.
        int above = found >= 0 ? found : -found - 1;
        while (above > 0 && cumulative[above - 1] >= wanted) {
            above--;
        }
        return above - 1;
    }

    /**
     * Probability that work started now is done within {@code leftNanos}, in units of 2⁻¹⁶; zero if that is not
     * above zero.
     */
    public long probabilityWithin(long leftNanos) {
        if (leftNanos <= 0) {
            return 0;
        }
        if (cumulative == null) {
            return leftNanos < meanNanos ? PROBABILITY_MIN : ONE;
        }
        int at = bucket(leftNanos);
        int widthLog2 = widthLog2(at);
        long intoNanos = leftNanos - start(at);
        long into = widthLog2 >= 16 ? intoNanos >> (widthLog2 - 16) : intoNanos << (16 - widthLog2);
        long below = cumulative[at];
        long within = cumulative[at + 1] - below;
        return (below * ONE + within * into + ONE) / (cumulative[BUCKETS] + 1L);
    }

    /** Bucket of {@code nanos}, at least 0. */
    static int bucket(long nanos) {
        if (nanos < 8) {
            return (int) nanos;
        }
        int octave = 63 - Long.numberOfLeadingZeros(nanos);
        return (octave - 2) * 8 + (int) (nanos >>> (octave - 3) & 7);
    }

    private static long start(int at) {
        return at < 8 ? at : (8L + at % 8) << widthLog2(at);
    }

    private static int widthLog2(int at) {
        return at < 8 ? 0 : at / 8 - 1;
    }

    /** Probability that work takes less than its constant forecast. */
    private static final long PROBABILITY_MIN = ONE >> 10;
}
