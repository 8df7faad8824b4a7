package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * A request passes machines whose clocks disagree: its budget equals the one computed from the true delays.
 */
//~ java: budgets, deadlines and queue follow the rules of the Rust side
class JourneyTest {
    private static final long US = 1_000;

    /** True times at a stage in microseconds: network before it, queue, service. */
    private record Hop(long network, long queue, long service) {
        long total() {
            return (network + queue + service) * US;
        }
    }

    @Test
    void delaysInSeriesAddUpWhateverTheClockOffsets() throws BadBudget {
        Random random = new Random(3);
        for (int round = 0; round < 500; round++) {
            List<Hop> hops = Stream.generate(() -> hop(random)).limit(1 + random.nextInt(11)).toList();
            Budget born = Budget.of(10_000_000 * US);
            Budget arrived = travel(born, hops, random);
            assertEquals(arrived, travel(born, hops, random), "other clocks, the same budget");
            long elapsed = hops.stream().mapToLong(Hop::total).sum();
            assertEquals(elapsed, arrived.elapsedNanos());
            assertEquals(Remaining.of(born.expectedNanos(), elapsed), arrived.remaining());
            assertEquals(elapsed, arrived.stages().stream().mapToLong(Stage::totalNanos).sum());
            for (int at = 0; at < Math.min(7, hops.size()); at++) {
                Hop hop = hops.get(at);
                Stage stage = new Stage(hop.network * US, hop.queue * US, hop.service * US);
                assertEquals(stage, arrived.stages().get(at));
            }
        }
    }

    @Test
    void theAggregatorContinuesTheSlowestWorkersClock() throws BadBudget {
        Random random = new Random(5);
        for (int round = 0; round < 500; round++) {
            Budget whole = travel(Budget.of(200_000 * US), List.of(hop(random)), random);
            long now = random.nextLong(1L << 40);
            List<StageTimer> parts = new ArrayList<>();
            long slowest = 0;
            for (int n = 1 + random.nextInt(19); n > 0; n--) {
                Hop hop = hop(random);
                long back = random.nextLong(5_000) * US;
                Budget part = travel(whole.split(random.nextLong(100_000) * US), List.of(hop), random);
                parts.add(StageTimer.arrive(now, part, back));
                slowest = Math.max(slowest, whole.elapsedNanos() + hop.total() + back);
            }
            StageTimer joined = StageTimer.join(now, parts).orElseThrow();
            assertEquals(slowest + 9 * US, joined.elapsedNanos(now + 9 * US));
            assertEquals(Remaining.of(200_000 * US, slowest), joined.remaining(now));
            assertTrue(joined.budget().isSplit());
        }
        assertEquals(Optional.empty(), StageTimer.join(0, List.of()), "nothing to count from");
    }

    @Test
    void aSubrequestNeverHasMoreBudgetThanItsRequest() {
        Random random = new Random(9);
        for (int round = 0; round < 2_000; round++) {
            Budget whole = Budget.restored(random.nextLong(1_000), random.nextLong(1_000), List.of());
            Budget part = whole.split(random.nextLong(2_000));
            long cap = random.nextLong(2_000);
            assertTrue(part.remaining().compareTo(whole.remaining()) <= 0);
            assertEquals(whole.remaining(), part.joined().remaining());
            long left = part.capped(cap).remaining().leftNanos();
            assertTrue(left <= Math.min(cap, part.remaining().leftNanos()));
        }
    }

    @Test
    void theNetworkDelayIsHalfOfTheUnaccountedRoundTrip() {
        NetworkDelay delay = new NetworkDelay();
        LongStream.range(0, 50).forEach(n -> delay.record(n, 2 * 700 * US + 40_000 * US, 40_000 * US));
        assertEquals(700 * US, delay.oneWayNanos(50));
        delay.record(50, 40_000 * US, 40_001 * US);
        assertEquals(1, delay.impossible());
    }

    @Test
    void slowRetriesDoNotChangeTheNetworkDelayAndAnOldOneIsUnknown() {
        NetworkDelay delay = new NetworkDelay();
        long second = 1_000_000 * US;
        delay.record(100 * second, 41_000 * US, 40_000 * US);
        LongStream.range(101, 125).forEach(n -> delay.record(n * second, 940_000 * US, 40_000 * US));
        assertEquals(500 * US, delay.oneWayNanos(125 * second), "the minimum counts");
        LongStream.range(125, 190).forEach(n -> delay.record(n * second, 140_000 * US, 40_000 * US));
        assertEquals(50_000 * US, delay.oneWayNanos(190 * second), "a way that became longer is learned");
        assertEquals(0, delay.oneWayNanos(250 * second), "unknown after a minute without a sample");
    }

    @Test
    void aStageTimerReportsTheDeadline() {
        StageTimer timer = StageTimer.arrive(50, Budget.of(100 * US), 20 * US);
        assertEquals(50 + 80 * US, timer.dueNanos());
        assertEquals(new Remaining(US), timer.remaining(50 + 79 * US));
        assertEquals(new Remaining(0), timer.remaining(50 + 80 * US));
        assertTrue(new Remaining(-9).compareTo(new Remaining(-1)) < 0, "the longest overdue is the most urgent");
    }

    private static Hop hop(Random random) {
        return new Hop(random.nextLong(5_000), random.nextLong(50_000), random.nextLong(50_000));
    }

    /** Sends {@code budget} through {@code hops}, each with its own clock. */
    private static Budget travel(Budget budget, List<Hop> hops, Random clocks) throws BadBudget {
        Budget travelling = budget;
        for (Hop hop : hops) {
            long now = clocks.nextLong(Long.MAX_VALUE / 2);
            Budget received = BudgetField.parse(BudgetField.write(travelling));
            StageTimer timer = StageTimer.arrive(now, received, hop.network * US);
            timer.start(now + hop.queue * US);
            timer.start(now + (hop.queue + 999_999) * US);
            travelling = timer.leave(now + (hop.queue + hop.service) * US);
        }
        return travelling;
    }
}
