package greenwave.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Requests that are split over workers and joined again, with 50 ms reserved for the answer. */
//~ java: Storm: the aggregator answers in part at the deadline and counts late parts
class AggregatorTest extends StormCluster {
    @BeforeEach
    void splitOverAllWorkers() {
        Step.WORKS.put("split", (tuple, collector, context) -> split(tuple, collector, context, "worker", PARTS));
    }

    /** Opens the request and sends its parts to the tasks of {@code bolt}. */
    private static void split(
            Tuple tuple, OutputCollector collector, TopologyContext context, String bolt, int parts) {
        collector.emit("open", tuple, new Values(tuple.getValue(0)));
        List<Integer> tasks = context.getComponentTasks(bolt);
        for (int part = 0; part < parts; part++) {
            int task = tasks.get(part % tasks.size());
            collector.emitDirect(task, "part", tuple, new Values(tuple.getValue(0), part));
        }
        collector.ack(tuple);
    }

    private static void answer(Tuple tuple, OutputCollector collector) {
        collector.emit(tuple, new Values(tuple.getValue(0), "part" + tuple.getValue(1)));
        collector.ack(tuple);
    }

    @Test
    void aWholeAnswerContinuesTheSlowestPartsClock() throws Exception {
        CountDownLatch others = new CountDownLatch(PARTS - 1);
        Step.WORKS.put("worker", (tuple, collector, context) -> {
            Budget budget = Deadlines.current().orElseThrow().budget();
            assertTrue(budget.isSplit() && budget.reserveNanos() == 50 * MS, budget.toString());
            if (tuple.getInteger(1) == 0) {
                assertTrue(others.await(LIMIT_S, TimeUnit.SECONDS));
                TestClock.advance(80 * MS);
            }
            answer(tuple, collector);
            others.countDown();
        });
        long before = StormEvents.metric("join", "whole");
        String id = send("split", 200);
        Tuple answer = seen(id);
        assertEquals("part0 part1 part2", answer.getStringByField("parts"));
        assertEquals(120 * MS, answer.getLongByField("left"), "the reserve is there to be used");
        Budget budget = BudgetField.parse(answer.getStringByField(TupleBudget.FIELD));
        assertTrue(budget.isSplit());
        assertEquals(80 * MS, budget.elapsedNanos(), "D2P (4)");
        assertEquals(120 * MS, budget.remaining().leftNanos(), "D2P (5)");
        assertEquals("ack", acks(id));
        assertEquals("ack ack ack ack", acks("join", id, 1 + PARTS), "the opening and each part");
        assertEquals(before + 1, StormEvents.metric("join", "whole"));
    }

    @Test
    void atTheDeadlineThePartsReceivedAreAnsweredAndTheRestIsLate() {
        TestClock.run();
        CountDownLatch answered = new CountDownLatch(1);
        Step.WORKS.put("worker", (tuple, collector, context) -> {
            if (tuple.getInteger(1) == 2) {
                assertTrue(answered.await(LIMIT_S, TimeUnit.SECONDS), "the answer waited for the slowest worker");
            }
            answer(tuple, collector);
        });
        long late = StormEvents.metric("join", "late");
        long partial = StormEvents.metric("join", "partial");
        String id = send("split", 3_000);
        Tuple answer = seen(id);
        assertNull(TestSpout.ACKS.get(id), "one part is still underway");
        answered.countDown();
        assertEquals("part0 part1", answer.getStringByField("parts"));
        assertTrue(answer.getLongByField("left") <= 50 * MS, "not before: " + answer);
        assertEquals("ack", acks(id));
        assertEquals("ack ack ack ack", acks("join", id, 1 + PARTS));
        assertEquals(late + 1, StormEvents.metric("join", "late"));
        assertEquals(partial + 1, StormEvents.metric("join", "partial"));
    }

    @Test
    void aCrashedWorkersPartIsMissing() {
        TestClock.run();
        Step.WORKS.put("worker", (tuple, collector, context) -> {
            if (tuple.getInteger(1) == 1) {
                collector.fail(tuple);
            } else {
                answer(tuple, collector);
            }
        });
        String id = send("split", 3_000);
        assertEquals("part0 part2", seen(id).getStringByField("parts"));
        assertEquals("fail", acks(id), "Storm's promise: the spout hears of it and may replay");
        SEEN.remove(id);
        Step.WORKS.put("worker", (tuple, collector, context) -> answer(tuple, collector));
        TestSpout.ACKS.remove(id);
        TestClock.stop();
        TestSpout.emit("users", "split", id, 1_000 * MS);
        assertEquals("part0 part1 part2", seen(id).getStringByField("parts"), "a replay is answered anew");
        assertEquals("ack", acks(id));
    }

    @Test
    void withoutPartsTheAnswerIsEmptyAndInTime() {
        TestClock.run();
        Step.WORKS.put("split", (tuple, collector, context) -> split(tuple, collector, context, "worker", 0));
        String id = send("split", 2_000);
        assertEquals("", seen(id).getStringByField("parts"));
        assertEquals("ack", acks(id));
    }

    /** The clock stands still, so only the arrival of all parts can trigger the answer. */
    @Test
    void aShedPartIsNotAwaited() {
        Step.WORKS.put("split", (tuple, collector, context) -> split(tuple, collector, context, "hasty", PARTS));
        String id = send("split", 500);
        assertEquals("none0 none1 none2", seen(id).getStringByField("parts"));
        assertEquals("ack", acks(id));
        assertEquals("ack ack ack", acks("hasty", id, PARTS));
    }

    @Test
    void atCapacityTheMostUrgentRequestIsAnsweredEarly() {
        long early = StormEvents.metric("few", "early");
        String first = id("few");
        TestSpout.emit("users", "few", first, 900 * MS);
        await(() -> TestSpout.isEmpty("users"));
        assertNull(SEEN.get(first));
        String second = id("few");
        TestSpout.emit("users", "few", second, 900 * MS);
        assertEquals(1, seen(first).getInteger(1));
        assertEquals("ack", acks(first));
        assertEquals(early + 1, StormEvents.metric("few", "early"));
        String third = id("few");
        TestSpout.emit("users", "few", third, 900 * MS);
        assertEquals(1, seen(second).getInteger(1));
    }

    @Test
    void aWholeAnswerWaitsForAllPartsOrIsRefused() {
        TestClock.run();
        String alone = id("all");
        TestSpout.emit("users", "all", alone, 1L);
        TestSpout.emit("users", "all", id("all"), 900 * MS);
        assertEquals("fail", acks(alone), "its time was up long ago, but it was asked to make room");
        assertNull(SEEN.get(alone));
    }

    @Test
    void aRefusedRequestIsCountedAsRefusedOnly() {
        String first = id("all");
        String second = id("all");
        TestSpout.emit("users", "all", first, 900 * MS);
        TestSpout.emit("users", "all", second, 900 * MS);
        assertEquals("fail", acks(first));
        long refused = StormEvents.metric("all", "refused");
        TestSpout.emit("users", "all", id("all"), 900 * MS);
        assertEquals("fail", acks(second), "it was asked to make room");
        assertEquals(refused + 1, StormEvents.metric("all", "refused"));
        for (String answered : List.of("whole", "partial", "early")) {
            assertEquals(0, StormEvents.metric("all", answered), answered);
        }
    }
}
