package greenwave.deadline;

/**
 * Estimate of the network delay C per hop, without synchronized clocks.
 *
 * <p>Round-trip time measured by the caller, less the time that the callee held the request, is the network
 * delay of both directions. C is half of it: the two directions cannot be told apart without synchronized
 * clocks. Retries, reconnects and buffers lengthen single samples, so C is the minimum over the last 30 to 60
 * seconds. Without a sample in that time it is unknown: an old estimate blocks no peer. One thread at a time.
 * Source: D2P §2 (C); BBR §4.3 (windowed minimum of the round trip).
 */
public final class NetworkDelay {
    private long openedNanos;
    /** Round-trip minimum of the window before this one; {@link #NONE} without samples. */
    private long previousNanos = NONE;
    private long currentNanos = NONE;
    private long impossible;

    /**
     * Records a call that ended at {@code nowNanos} and took {@code waitedNanos} from request to response, of
     * which the peer held the request for {@code heldNanos}. One that claims more than the call took is counted
     * and discarded.
     */
    public void record(long nowNanos, long waitedNanos, long heldNanos) {
        if (heldNanos > waitedNanos) {
            impossible++;
            return;
        }
        long age = nowNanos - openedNanos;
        if (age >= WINDOW_NANOS) {
            previousNanos = age < 2 * WINDOW_NANOS ? currentNanos : NONE;
            currentNanos = NONE;
            openedNanos = nowNanos;
        }
        currentNanos = Math.min(currentNanos, waitedNanos - heldNanos);
    }

    /** C, one direction, in nanoseconds, as known at {@code nowNanos}; zero if unknown. */
    public long oneWayNanos(long nowNanos) {
        long age = nowNanos - openedNanos;
        long roundTrip = NONE;
        if (age < 2 * WINDOW_NANOS) {
            roundTrip = age < WINDOW_NANOS ? Math.min(previousNanos, currentNanos) : currentNanos;
        }
        return roundTrip == NONE ? 0 : roundTrip / 2;
    }

    /** Samples discarded because the peer reported more time than the call took. */
    public long impossible() {
        return impossible;
    }

    /** Duration of a window. */
    private static final long WINDOW_NANOS = 30_000_000_000L;

    private static final long NONE = Long.MAX_VALUE;
}
