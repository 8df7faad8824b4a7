package greenwave.deadline;

/**
 * C, the network's share of a hop, from spans that need no common clock.
 *
 * <p>The caller knows how long it waited for the answer, the callee how long the request was with it; the
 * difference is both ways' network. Half of it is C: only clocks that agree could tell the ways apart.
 * Smoothed as TCP smooths round-trip times. One thread at a time. Source: D2P §2 (C); RFC 6298 §2 (the
 * smoothing).
 */
public final class NetworkDelay {
    private long smoothedNanos = NONE;
    private long impossible;

    /**
     * An exchange took {@code waitedNanos} from sending to the answer's arrival, of which the peer had
     * the request for {@code heldNanos}. A peer that claims to have held it for longer than it was away
     * is counted and not believed.
     */
    public void record(long waitedNanos, long heldNanos) {
        if (heldNanos > waitedNanos) {
            impossible++;
            return;
        }
        long oneWay = (waitedNanos - heldNanos) / 2;
        smoothedNanos = smoothedNanos == NONE ? oneWay : smoothedNanos - smoothedNanos / GAIN + oneWay / GAIN;
    }

    /** C, one way, in nanoseconds; zero before the first exchange. */
    public long oneWayNanos() {
        return smoothedNanos == NONE ? 0 : smoothedNanos;
    }

    /** Exchanges whose peer claimed the impossible. */
    public long impossible() {
        return impossible;
    }

    /** One over the weight of a new sample. */
    private static final long GAIN = 8;

    private static final long NONE = -1;
}
