package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** Tests of the network delay to peers, estimated from answers; an estimate never excludes a peer for good. */
//~ java: network delay is learned from responses and deducted
class PeersTest {
    private static final long MS = 1_000_000;
    private static final Budget SENT = Budget.of(1_000 * MS);

    @Test
    void theFirstExchangeWithAPeerIsNotLearned() {
        Peers peers = new Peers();
        exchange(peers, "a", 400 * MS);
        assertEquals(0, peers.oneWayNanos("a"), "connections were set up");
        exchange(peers, "a", 2 * MS);
        assertEquals(MS, peers.oneWayNanos("a"));
        assertEquals(0, peers.oneWayNanos("b"));
        assertEquals(999 * MS, peers.delayed(0, SENT, "a").remaining().leftNanos());
    }

    @Test
    void oneCallIn64IsSentDespiteTheNetworkDelayEstimate() {
        Peers peers = new Peers();
        exchange(peers, "a", 400 * MS);
        exchange(peers, "a", 400 * MS);
        int sent = 0;
        for (int call = 0; call < 640; call++) {
            sent += peers.delayed(0, Budget.of(150 * MS), "a").remaining().isMissed() ? 0 : 1;
        }
        assertEquals(10, sent);
    }

    /** Retries below an interceptor stretch what it measures; calls with 60 ms left are possible before and after. */
    //~ java: after an episode of slow retries healthy calls are sent: at once, or within a second if it outlasts the window
    @Test
    void anEpisodeOfSlowRetriesRefusesNoHealthyCalls() {
        for (int seconds : new int[] {20, 90}) {
            Peers peers = new Peers();
            long now = 0;
            for (int call = 0; call < 20; call++) {
                exchange(peers, now, "a", 20 * MS);
                now += 100 * MS;
            }
            for (int call = 0; call < 10 * seconds; call++) {
                exchange(peers, now, "a", 300 * MS);
                now += 100 * MS;
            }
            int refused = 0;
            for (int call = 0; call < 100; call++) {
                if (peers.delayed(now, Budget.of(60 * MS), "a").remaining().isMissed()) {
                    refused++;
                } else {
                    exchange(peers, now, "a", 20 * MS);
                }
                now += 10 * MS;
            }
            assertEquals(seconds == 20 ? 0 : 63, refused, seconds + " s");
            assertEquals(10 * MS, peers.oneWayNanos("a"));
        }
    }

    /** An exchange in which the peer had the request for 30 ms of queue and service, and the network {@code both}. */
    private static void exchange(Peers peers, String peer, long both) {
        exchange(peers, 0, peer, both);
    }

    private static void exchange(Peers peers, long nowNanos, String peer, long both) {
        Budget answered = SENT.after(new Stage(0, 10 * MS, 20 * MS));
        peers.record(nowNanos, peer, 30 * MS + both, SENT, answered);
    }
}
