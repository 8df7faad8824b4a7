package greenwave.deadline;

import java.util.HashMap;
import java.util.Map;

/**
 * C to every peer, learned from what they answer.
 *
 * <p>An answer that carries a budget says how long the peer had the request: what its stages grew by. The
 * rest of the wait was network. Peers that answer without one are not learned, and take nothing off; nor is
 * the first exchange with a peer, which set up more than a message. An estimate must not lock a peer out for
 * good: where C alone leaves nothing, one call of {@value #TRY_EVERY} goes with nothing taken off. Threads may
 * share one.
 */
public final class Peers {
    private final Map<String, NetworkDelay> known = new HashMap<>();
    private int hopeless;
    /** Time of the last call. */
    private long lastNanos;

    /** C to {@code peer} at the last call, in nanoseconds; zero when nothing is known. */
    public synchronized long oneWayNanos(String peer) {
        NetworkDelay delay = known.get(peer);
        return delay == null ? 0 : delay.oneWayNanos(lastNanos);
    }

    /** {@code budget}, sent at {@code nowNanos}, as it will arrive at {@code peer}. */
    public synchronized Budget delayed(long nowNanos, Budget budget, String peer) {
        lastNanos = nowNanos;
        Budget delayed = budget.delayed(oneWayNanos(peer));
        if (delayed.remaining().isMissed() && !budget.remaining().isMissed()) {
            hopeless = (hopeless + 1) % TRY_EVERY;
            return hopeless == 0 ? budget : delayed;
        }
        return delayed;
    }

    /** {@code sent} came back from {@code peer} at {@code nowNanos} as {@code answered}, {@code waitedNanos} later. */
    public synchronized void record(long nowNanos, String peer, long waitedNanos, Budget sent, Budget answered) {
        lastNanos = nowNanos;
        NetworkDelay delay = known.get(peer);
        if (delay != null) {
            delay.record(nowNanos, waitedNanos, Spans.minus(inStages(answered), inStages(sent)));
        } else if (known.size() < PEERS_MAX) {
            known.put(peer, new NetworkDelay());
        }
    }

    /** Time that was not network. */
    private static long inStages(Budget budget) {
        long sum = 0;
        for (Stage stage : budget.stages()) {
            sum = Spans.plus(sum, Spans.plus(stage.queueNanos(), stage.serviceNanos()));
        }
        return sum;
    }

    /** Of calls for which C leaves nothing one in so many is made all the same. */
    private static final int TRY_EVERY = 64;
    /** Peers beyond this many are not learned. */
    private static final int PEERS_MAX = 1_024;
}
