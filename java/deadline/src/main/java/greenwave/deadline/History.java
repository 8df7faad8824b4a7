package greenwave.deadline;

import java.util.LinkedHashMap;

/**
 * Service times per kind of work, over the last seconds.
 *
 * <p>A kind keeps two windows of samples. A window is closed after a second if it has {@value #SAMPLES_MIN}
 * samples, so a forecast rests on the last one to two seconds, or on the last samples of a kind that is rarely
 * requested. A change of speed shows sooner: after {@value #RUN_MAX} samples in a row outside of the central
 * 90 %, older samples are discarded. The number of kinds (methods, phases) is bounded: the kind that was
 * recorded least recently makes room. Once kinds have made room, those with few samples of their own share one
 * estimate; before, nothing is known of them. One thread at a time.
 */
public final class History<K> {
    /** In order of their last record. */
    private final LinkedHashMap<K, Estimator> kinds = new LinkedHashMap<>();
    private Estimator shared = new Estimator();
    private final int kindsMax;
    /** True once a kind has made room. */
    private boolean full;

    /** Estimator for at most {@code kindsMax} kinds, about 6 kB each. */
    public History(int kindsMax) {
        this.kindsMax = kindsMax;
        this.full = kindsMax == 0;
    }

    /** Records at {@code nowNanos} that work of {@code kind} took {@code serviceNanos}. */
    public void record(long nowNanos, K kind, long serviceNanos) {
        if (kindsMax == 0) {
            shared.record(nowNanos, serviceNanos);
            return;
        }
        Estimator estimator = kinds.remove(kind);
        if (estimator == null) {
            estimator = new Estimator();
            if (kinds.size() >= kindsMax) {
                full = true;
                kinds.remove(kinds.keySet().iterator().next());
            }
        }
        kinds.put(kind, estimator);
        if (estimator.samples() < SAMPLES_MIN) {
            shared.record(nowNanos, serviceNanos);
        }
        estimator.record(nowNanos, serviceNanos);
    }

    /** Discards the samples of {@code kind}. */
    public void forget(K kind) {
        if (kinds.remove(kind) == null) {
            shared = new Estimator();
        }
    }

    /** Forecast for {@code kind}. */
    public Forecast forecast(K kind) {
        Estimator own = kinds.get(kind);
        if (own != null && own.samples() >= SAMPLES_MIN) {
            return own.forecast;
        }
        return full ? shared.forecast : Forecast.UNKNOWN;
    }

    /** Quantiles for {@code kind}, at the resolution of a forecast. */
    public Estimate estimate(K kind) {
        Forecast forecast = forecast(kind);
        return new Estimate(forecast.quantileNanos(50), forecast.quantileNanos(95), forecast.samples());
    }

    /**
     * Quantiles of one kind.
     *
     * @param p50Nanos median
     * @param p95Nanos 95th percentile
     * @param samples number of samples; zero if nothing was recorded
     */
    public record Estimate(long p50Nanos, long p95Nanos, int samples) {}

    private static final class Estimator {
        private Window previous = new Window();
        private Window current = new Window();
        private long openedNanos;
        private Forecast forecast = Forecast.UNKNOWN;
        /** Samples since the forecast was made. */
        private int unpublished;
        /** Samples in a row below p5 and above p95. */
        private int below;
        private int above;

        int samples() {
            return previous.samples + current.samples;
        }

        void record(long nowNanos, long serviceNanos) {
            if (samples() == 0) {
                openedNanos = nowNanos;
            }
            boolean closing = nowNanos - openedNanos >= WINDOW_NANOS && current.samples >= SAMPLES_MIN;
            if (closing) {
                previous = current;
                current = new Window();
                openedNanos = nowNanos;
            }
            boolean changed = isChange(serviceNanos);
            if (changed) {
                previous = new Window();
                current = new Window();
            }
            current.record(serviceNanos);
            unpublished++;
            if (closing || changed || unpublished * PUBLISH_SHARE >= samples()) {
                publish();
            }
        }

        /** True if {@code serviceNanos} ends a run of samples outside of the central 90 %. */
        private boolean isChange(long serviceNanos) {
            if (forecast.samples() < SAMPLES_MIN) {
                return false;
            }
            int side = forecast.compare(Math.max(0, serviceNanos));
            below = side < 0 ? below + 1 : 0;
            above = side > 0 ? above + 1 : 0;
            boolean change = Math.max(below, above) >= RUN_MAX;
            if (change) {
                below = 0;
                above = 0;
            }
            return change;
        }

        private void publish() {
            int[] counts = previous.counts.clone();
            for (int at = 0; at < counts.length; at++) {
                counts[at] += current.counts[at];
            }
            long longest = Math.max(previous.longestNanos, current.longestNanos);
            forecast = Forecast.of(counts, Spans.plus(previous.sumNanos, current.sumNanos), longest);
            unpublished = 0;
        }
    }

    private static final class Window {
        final int[] counts = new int[Forecast.BUCKETS];
        int samples;
        long sumNanos;
        long longestNanos;

        void record(long serviceNanos) {
            long nanos = Math.max(0, serviceNanos);
            counts[Forecast.bucket(nanos)]++;
            samples++;
            sumNanos = Spans.plus(sumNanos, nanos);
            longestNanos = Math.max(longestNanos, nanos);
        }
    }

    /** Samples needed before an estimate is used. */
    static final int SAMPLES_MIN = 16;
    /** Minimum duration of a window. */
    private static final long WINDOW_NANOS = 1_000_000_000L;
    /** Samples in a row outside of the central 90 % that show a change of speed. */
    private static final int RUN_MAX = 5;
    /** A forecast is renewed when a 32nd of its samples is new. */
    private static final int PUBLISH_SHARE = 32;
}
