package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.DeadlineQueue.Settings;
import greenwave.deadline.Gate.Arrival;
import greenwave.deadline.codec.BudgetField;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Tests of service time estimates by method, which never exclude a method for good. */
//~ java: the expected time is the 95 % quantile; under infeasible shedding one request in 64 is tried
class GateTest {
    private static final Limits LIMITS = new Limits(1_000_000, 60_000_000, true);
    private long now = 77;

    @Test
    void littleIsExpectedUntilSixteenAnswersAreKnown() {
        Gate gate = gate(Shedding.INFEASIBLE);
        for (int lesson = 0; lesson < 15; lesson++) {
            serve(gate, 5_000);
        }
        assertEquals(0, gate.expectedNanos("go"));
        serve(gate, 5_000);
        assertEquals(5_000, gate.expectedNanos("go"));
        assertEquals(0, gate.expectedNanos("come"));
    }

    @Test
    void whatIsExpectedIsWhatNearlyAllTookFromTheirTurnToTheAnswer() {
        Gate gate = gate(Shedding.INFEASIBLE);
        for (int lesson = 0; lesson < 1_000; lesson++) {
            serve(gate, lesson % 100 < 93 ? 1_000 : lesson % 100 < 97 ? 9_000 : 99_000);
        }
        long expected = gate.expectedNanos("go");
        assertTrue(9_000 <= expected && expected < 10_000, expected + ": the 95 % quantile, without the wait before");
    }

    @Test
    void oneInfeasibleRequestOfSixtyFourIsTriedAndDisprovesWhatWasLearned() {
        Gate gate = gate(Shedding.INFEASIBLE);
        for (int lesson = 0; lesson < 16; lesson++) {
            serve(gate, 900_000);
        }
        int tried = 0;
        for (int request = 0; request < 640; request++) {
            Arrival arrival = arrive(gate, 500_000);
            assertEquals(arrival.tried() ? 0 : 900_000, arrival.serviceNanos());
            tried += arrival.tried() ? 1 : 0;
        }
        assertEquals(10, tried);
        Arrival late = arriveTried(gate);
        late.timer().start(now);
        gate.answered(now + 600_000, late);
        assertEquals(900_000, gate.expectedNanos("go"), "one that was late after all proves it right");
        Arrival early = arriveTried(gate);
        early.timer().start(now);
        gate.answered(now + 1_000, early);
        assertEquals(0, gate.expectedNanos("go"), "one that made it shows that it holds no longer");
    }

    //~ java: a dry run keeps the order of arrival, drops nothing, and counts what would be dropped
    @Test
    void aDryRunCountsWhatItsRuleWouldHaveDropped() {
        Gate gate = Gate.dryRun(LIMITS, new Settings(10, Order.EDF, Shedding.INFEASIBLE, 1_000));
        assertEquals(new Settings(10, Order.FIFO, Shedding.NONE, 1_000), gate.queue());
        for (int lesson = 0; lesson < 16; lesson++) {
            serve(gate, 900_000);
        }
        assertEquals(0, gate.wouldDrop());
        for (long takes : new long[] {900_000, 300_000}) {
            Arrival unlikely = arrive(gate, 500_000);
            unlikely.timer().start(now);
            now += takes;
            gate.answered(now, unlikely);
        }
        Arrival expired = arrive(gate, 500_000);
        now += 600_000;
        expired.timer().start(now);
        gate.answered(now, expired);
        assertEquals(3, gate.wouldDrop());
        assertEquals(1, gate.wouldDropInTime());
    }

    @Test
    void anIdleServerDoesNotRefuseTwiceInARow() {
        Gate gate = gate(Shedding.INFEASIBLE);
        for (int lesson = 0; lesson < 16; lesson++) {
            serve(gate, 900_000);
        }
        assertTrue(!arrive(gate, 500_000).tried());
        for (int request = 0; request < 5; request++) {
            now += 9_000_000_000L;
            assertTrue(arrive(gate, 500_000).tried());
        }
    }

    @Test
    void requestsThatAreNotShedAheadAreNotTried() {
        Gate gate = gate(Shedding.EXPIRED);
        for (int lesson = 0; lesson < 16; lesson++) {
            serve(gate, 900_000);
        }
        for (int request = 0; request < 200; request++) {
            assertTrue(!arrive(gate, 500_000).tried());
        }
    }

    //~ java: only a trusted peer's expectation of its parts is used
    @Test
    void ofAPartIsExpectedWhatItsAggregatorSaysAndOnlyHere() {
        Gate gate = gate(Shedding.INFEASIBLE);
        for (int lesson = 0; lesson < 16; lesson++) {
            serve(gate, 900_000);
        }
        Budget sent = Budget.of(500_000).split(0).expecting(new SubrequestEstimate(3_000, 7_000));
        Arrival part = arrive(gate, sent);
        assertEquals(3_000, part.serviceNanos(), "not what was learned of all requests");
        assertEquals(7_000, part.slowestNanos());
        assertEquals(Optional.empty(), part.timer().leave(now).part(), "what it calls is another matter");
        Arrival whole = arrive(gate, 50_000_000);
        assertEquals(whole.serviceNanos(), whole.slowestNanos(), "one that stands alone is its own slowest");
    }

    private static Gate gate(Shedding shedding) {
        return new Gate(LIMITS, new Settings(10, Order.EDF, shedding, 1_000));
    }

    private Arrival arriveTried(Gate gate) {
        for (int request = 0; request < 64; request++) {
            Arrival arrival = arrive(gate, 500_000);
            if (arrival.tried()) {
                return arrival;
            }
        }
        throw new AssertionError("none of 64 was tried");
    }

    private Arrival arrive(Gate gate, long leftNanos) {
        return arrive(gate, Budget.of(leftNanos));
    }

    private Arrival arrive(Gate gate, Budget budget) {
        return gate.arrive(now, BudgetValidator.Received.of(BudgetField.write(budget), null, null), "go");
    }

    /** A request that waits and is then answered after {@code serviceNanos}. */
    private void serve(Gate gate, long serviceNanos) {
        Arrival arrival = arrive(gate, 50_000_000);
        now += 333;
        arrival.timer().start(now);
        now += serviceNanos;
        gate.answered(now, arrival);
    }
}
