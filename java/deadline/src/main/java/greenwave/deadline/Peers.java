package greenwave.deadline;

import java.util.HashMap;
import java.util.Map;

/**
 * Network delay C to every peer, estimated from answers.
 *
 * <p>The stages in an answer's budget give the time that the peer had the request; the rest of the wait was the
 * network. Peers that answer without a budget have no estimate, and nothing is subtracted for them. The first
 * exchange with a peer is ignored, since it includes connection setup. An estimate cannot exclude a peer for good:
 * if C alone exceeds the budget, one call of {@value ProbeInterval#EVERY}, and one a second, is made with nothing
 * subtracted. Thread-safe.
 */
public final class Peers {
    private final Map<String, NetworkDelay> known = new HashMap<>();
    private final ProbeInterval infeasible = new ProbeInterval();
    /** Time of the last call. */
    private long lastNanos;

    /** C to {@code peer} at the last call, in nanoseconds; zero without an estimate. */
    public synchronized long oneWayNanos(String peer) {
        NetworkDelay delay = known.get(peer);
        return delay == null ? 0 : delay.oneWayNanos(lastNanos);
    }

    /** {@code budget}, sent at {@code nowNanos}, as it will arrive at {@code peer}. */
    public synchronized Budget delayed(long nowNanos, Budget budget, String peer) {
        lastNanos = nowNanos;
        Budget delayed = budget.delayed(oneWayNanos(peer));
        if (delayed.remaining().isMissed() && !budget.remaining().isMissed()) {
            return infeasible.isDue(nowNanos) ? budget : delayed;
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

    /** Time outside the network. */
    private static long inStages(Budget budget) {
        long sum = 0;
        for (Stage stage : budget.stages()) {
            sum = Spans.plus(sum, Spans.plus(stage.queueNanos(), stage.serviceNanos()));
        }
        return sum;
    }

    /** Maximum number of peers with an estimate. */
    private static final int PEERS_MAX = 1_024;
}
