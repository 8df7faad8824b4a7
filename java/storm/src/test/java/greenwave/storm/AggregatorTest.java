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

/** Requests that are split over workers and joined again, with 50 ms kept for the answer. */
//~ java: Storm: the aggregator answers in part at the deadline and counts late parts
class AggregatorTest extends OnStorm {
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
    void anAnswerWithAllPartsCountsOnFromTheSlowestWorker() throws Exception {
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
        long before = Ears.metric("join", "whole");
        String id = send("split", 200);
        Tuple answer = seen(id);
        assertEquals("part0 part1 part2", answer.getStringByField("parts"));
        assertEquals(120 * MS, answer.getLongByField("left"), "the reserve is there to be used");
        Budget budget = BudgetField.parse(answer.getStringByField(TupleBudget.FIELD));
        assertTrue(budget.isSplit());
        assertEquals(80 * MS, budget.elapsedNanos(), "D2P (4)");
        assertEquals(120 * MS, budget.remaining().leftNanos(), "D2P (5)");
        assertEquals("ack", heard(id));
        assertEquals("ack ack ack ack", heard("join", id, 1 + PARTS), "the opening and each part");
        assertEquals(before + 1, Ears.metric("join", "whole"));
    }

    @Test
    void whatHasComeIsAnsweredWhenTheTimeIsUpAndTheRestIsLate() {
        TestClock.run();
        CountDownLatch answered = new CountDownLatch(1);
        Step.WORKS.put("worker", (tuple, collector, context) -> {
            if (tuple.getInteger(1) == 2) {
                assertTrue(answered.await(LIMIT_S, TimeUnit.SECONDS), "the answer waited for the slowest worker");
            }
            answer(tuple, collector);
        });
        long late = Ears.metric("join", "late");
        long partial = Ears.metric("join", "partial");
        String id = send("split", 3_000);
        Tuple answer = seen(id);
        assertNull(Feed.HEARD.get(id), "one part is still underway");
        answered.countDown();
        assertEquals("part0 part1", answer.getStringByField("parts"));
        assertTrue(answer.getLongByField("left") <= 50 * MS, "not before: " + answer);
        assertEquals("ack", heard(id));
        assertEquals("ack ack ack ack", heard("join", id, 1 + PARTS));
        assertEquals(late + 1, Ears.metric("join", "late"));
        assertEquals(partial + 1, Ears.metric("join", "partial"));
    }

    @Test
    void aWorkerThatDiesIsAPartThatDoesNotCome() {
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
        assertEquals("fail", heard(id), "Storm's promise: the spout hears of it and may replay");
        SEEN.remove(id);
        Step.WORKS.put("worker", (tuple, collector, context) -> answer(tuple, collector));
        Feed.HEARD.remove(id);
        TestClock.stop();
        Feed.emit("users", "split", id, 1_000 * MS);
        assertEquals("part0 part1 part2", seen(id).getStringByField("parts"), "a replay is answered anew");
        assertEquals("ack", heard(id));
    }

    @Test
    void withoutAnyPartTheAnswerIsEmptyAndInTime() {
        TestClock.run();
        Step.WORKS.put("split", (tuple, collector, context) -> split(tuple, collector, context, "worker", 0));
        String id = send("split", 2_000);
        assertEquals("", seen(id).getStringByField("parts"));
        assertEquals("ack", heard(id));
    }

    /** The clock stands still, so the answer is due to the parts alone. */
    @Test
    void anEmptyPartOfAWorkerThatShedIsNotWaitedFor() {
        Step.WORKS.put("split", (tuple, collector, context) -> split(tuple, collector, context, "hasty", PARTS));
        String id = send("split", 500);
        assertEquals("none0 none1 none2", seen(id).getStringByField("parts"));
        assertEquals("ack", heard(id));
        assertEquals("ack ack ack", heard("hasty", id, PARTS));
    }

    @Test
    void whereTooManyAreOpenTheMostUrgentIsAnsweredEarly() {
        long early = Ears.metric("few", "early");
        String first = id("few");
        Feed.emit("users", "few", first, 900 * MS);
        await(() -> Feed.isEmpty("users"));
        assertNull(SEEN.get(first));
        String second = id("few");
        Feed.emit("users", "few", second, 900 * MS);
        assertEquals(1, seen(first).getInteger(1));
        assertEquals("ack", heard(first));
        assertEquals(early + 1, Ears.metric("few", "early"));
        String third = id("few");
        Feed.emit("users", "few", third, 900 * MS);
        assertEquals(1, seen(second).getInteger(1));
    }

    @Test
    void whereAllPartsAreNeededTheAnswerWaitsOrIsRefused() {
        TestClock.run();
        String alone = id("all");
        Feed.emit("users", "all", alone, 1L);
        Feed.emit("users", "all", id("all"), 900 * MS);
        assertEquals("fail", heard(alone), "its time was up long ago, but it was asked to make room");
        assertNull(SEEN.get(alone));
    }

    @Test
    void whoIsRefusedIsCountedAsThatAndNotAsAnswered() {
        String first = id("all");
        String second = id("all");
        Feed.emit("users", "all", first, 900 * MS);
        Feed.emit("users", "all", second, 900 * MS);
        assertEquals("fail", heard(first));
        long refused = Ears.metric("all", "refused");
        Feed.emit("users", "all", id("all"), 900 * MS);
        assertEquals("fail", heard(second), "it was asked to make room");
        assertEquals(refused + 1, Ears.metric("all", "refused"));
        for (String answered : List.of("whole", "partial", "early")) {
            assertEquals(0, Ears.metric("all", answered), answered);
        }
    }
}
