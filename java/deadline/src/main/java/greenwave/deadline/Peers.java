package greenwave.deadline;

import java.util.HashMap;
import java.util.Map;

/**
 * C to every peer, learned from what they answer.
 *
 * <p>An answer that carries a budget says how long the peer had the request: what its stages grew by. The
 * rest of the wait was network. Peers that answer without one are not learned, and take nothing off. Threads
 * may share one.
 */
public final class Peers {
    private final Map<String, NetworkDelay> known = new HashMap<>();

    /** C to {@code peer} in nanoseconds; zero when nothing is known. */
    public synchronized long oneWayNanos(String peer) {
        NetworkDelay delay = known.get(peer);
        return delay == null ? 0 : delay.oneWayNanos();
    }

    /** {@code sent} came back from {@code peer} as {@code answered}, {@code waitedNanos} later. */
    public synchronized void record(String peer, long waitedNanos, Budget sent, Budget answered) {
        long held = Spans.minus(inStages(answered), inStages(sent));
        NetworkDelay delay = known.get(peer);
        if (delay == null && known.size() < PEERS_MAX) {
            delay = new NetworkDelay();
            known.put(peer, delay);
        }
        if (delay != null) {
            delay.record(waitedNanos, held);
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

    /** Peers beyond this many are not learned. */
    private static final int PEERS_MAX = 1_024;
}
