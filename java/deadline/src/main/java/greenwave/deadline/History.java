package greenwave.deadline;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * How long a kind of work takes, learned from what it took.
 *
 * <p>Two windows of samples per kind: quantiles come from the last full one until the next is full, so
 * they cost a lookup and follow a change within two windows. Kinds are few (methods, phases) and bounded
 * in number; one too many shares the estimate of all others that came too late. One thread at a time.
 */
public final class History<K> {
    private final Map<K, Learned> kinds = new HashMap<>();
    private final Learned others = new Learned();
    private final int kindsMax;

    /** Tells at most {@code kindsMax} kinds apart; each takes about 8 kB. */
    public History(int kindsMax) {
        this.kindsMax = kindsMax;
    }

    /** A piece of work of {@code kind} took {@code serviceNanos}. */
    public void record(K kind, long serviceNanos) {
        Learned learned = kinds.get(kind);
        if (learned == null) {
            learned = kinds.size() < kindsMax ? new Learned() : others;
            if (learned != others) {
                kinds.put(kind, learned);
            }
        }
        learned.record(serviceNanos);
    }

    /** Forgets what is known of {@code kind}, since it holds no longer. */
    public void forget(K kind) {
        kinds.getOrDefault(kind, others).forget();
    }

    /** What is known of {@code kind}. */
    public Estimate estimate(K kind) {
        return kinds.getOrDefault(kind, others).estimate;
    }

    /**
     * Quantiles of one kind.
     *
     * @param p50Nanos half take no longer
     * @param p95Nanos 95 % take no longer
     * @param samples those they rest on; zero when nothing is known
     */
    public record Estimate(long p50Nanos, long p95Nanos, int samples) {}

    private static final class Learned {
        private final long[] window = new long[WINDOW];
        private int count;
        private Estimate estimate = NOTHING;

        /**
         * Until the first window is full, each power of two of samples renews the estimate; afterwards each
         * full window.
         */
        void record(long serviceNanos) {
            window[count++] = serviceNanos;
            boolean first = estimate.samples < WINDOW;
            if (count == WINDOW || first && Integer.bitCount(count) == 1) {
                long[] sorted = Arrays.copyOf(window, count);
                Arrays.sort(sorted);
                estimate = new Estimate(quantile(sorted, 50), quantile(sorted, 95), count);
            }
            count %= WINDOW;
        }

        void forget() {
            count = 0;
            estimate = NOTHING;
        }

        private static long quantile(long[] sorted, int percent) {
            return sorted[(sorted.length * percent + 99) / 100 - 1];
        }
    }

    private static final Estimate NOTHING = new Estimate(0, 0, 0);

    /** Samples after which quantiles are taken and counting begins anew. */
    private static final int WINDOW = 1024;
}
