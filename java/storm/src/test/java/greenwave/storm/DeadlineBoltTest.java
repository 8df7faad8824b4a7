package greenwave.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.Stage;
import greenwave.deadline.StageTimer;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;
import org.junit.jupiter.api.Test;

/** A bolt's queue: order, shedding, and Storm's guarantees. */
//~ java: Storm: a shed tuple is failed, acked or answered exactly once
class DeadlineBoltTest extends StormCluster {
    /** Number of service times before an estimate is used. */
    private static final int SAMPLES = 16;

    //~ java: Storm: an executor serves by deadline; ticks pass; a full queue holds the executor
    @Test
    void oneExecutorServesByDeadline() {
        List<Object> served = Collections.synchronizedList(new ArrayList<>());
        Block block = block("orders", (tuple, collector, context) -> {
            served.add(tuple.getValue(0));
            collector.ack(tuple);
        });
        List<String> ids = new ArrayList<>();
        for (long leftMs : new long[] {900, 300, 600}) {
            ids.add(send("orders", leftMs));
            awaitWaiting("orders", ids.size());
        }
        block.release();
        ids.forEach(id -> assertEquals("ack", acks(id)));
        assertEquals(List.of(ids.get(1), ids.get(2), ids.get(0)), served);
    }

    //~ java: Storm: a budget covers bolts and their queues within a worker process
    @Test
    void aBudgetIsCountedOverBoltsAndTheirQueues() throws Exception {
        AtomicReference<Budget> atSecond = new AtomicReference<>();
        Step.WORKS.put("second", (tuple, collector, context) -> {
            atSecond.set(Deadlines.current().orElseThrow().budget());
            TestClock.advance(5 * MS);
            collector.emit(tuple, new Values(tuple.getValue(0), "done"));
            collector.ack(tuple);
        });
        Block block = block("first", (tuple, collector, context) -> {
            TestClock.advance(20 * MS);
            collector.emit(tuple, new Values(tuple.getValue(0), "on"));
            collector.ack(tuple);
        });
        String id = send("first", 1_000);
        awaitWaiting("first", 1);
        TestClock.advance(300 * MS);
        block.release();
        Budget atEnd = BudgetField.parse(seen(id).getStringByField(TupleBudget.FIELD));
        assertEquals(1_000 * MS, atEnd.expectedNanos());
        assertEquals(List.of(new Stage(0, 300 * MS, 20 * MS)), atSecond.get().stages());
        assertEquals(List.of(new Stage(0, 300 * MS, 20 * MS), new Stage(0, 0, 5 * MS)), atEnd.stages());
        assertEquals(675 * MS, atEnd.remaining().leftNanos());
        assertEquals("ack", acks(id));
    }

    /** The queue holds one tuple and the executor the next, so the third stays in Storm's own queue. */
    //~ java: Storm: a budget covers bolts and their queues within a worker process
    @Test
    void timeInStormsQueueCountsAsNetworkDelay() {
        Map<Object, StageTimer> timers = new ConcurrentHashMap<>();
        Block block = block("narrow", (tuple, collector, context) -> {
            timers.put(tuple.getValue(0), Deadlines.current().orElseThrow());
            collector.ack(tuple);
        });
        List<String> ids = List.of(send("narrow", 900), send("narrow", 900), send("narrow", 900));
        await(() -> TestSpout.isEmpty("users"));
        awaitWaiting("narrow", 1);
        TestClock.advance(70 * MS);
        block.release();
        ids.forEach(id -> assertEquals("ack", acks(id)));
        StageTimer last = timers.get(ids.get(2));
        assertEquals(new Stage(70 * MS, 0, 0), last.stage(last.arrivedNanos()));
        assertEquals(830 * MS, last.remaining(last.arrivedNanos()).leftNanos());
    }

    //~ java: Storm: an executor serves by deadline; ticks pass; a full queue holds the executor
    @Test
    void aFullQueueBlocksTheExecutorAndLosesNothing() {
        List<Object> served = Collections.synchronizedList(new ArrayList<>());
        Block block = block("narrow", (tuple, collector, context) -> {
            served.add(tuple.getValue(0));
            collector.ack(tuple);
        });
        List<String> ids = new ArrayList<>();
        for (int n = 0; n < 50; n++) {
            ids.add(send("narrow", 900));
        }
        await(() -> TestSpout.isEmpty("users"));
        awaitWaiting("narrow", 1);
        block.release();
        ids.forEach(id -> assertEquals("ack", acks(id)));
        assertEquals(ids, served, "one waits, so they come as they came");
    }

    @Test
    void aShedTupleIsFailedOnceAndNotServed() {
        String id = shed("fails");
        assertEquals("fail", acks(id));
        assertEquals("fail", acks("fails", id, 1));
    }

    @Test
    void aShedTupleIsAckedOnceIfConfigured() {
        String id = shed("acks");
        assertEquals("ack", acks(id));
        assertEquals("ack", acks("acks", id, 1));
    }

    @Test
    void aShedTupleIsAnsweredOnceIfConfigured() throws Exception {
        String id = shed("answers");
        assertEquals("EXPIRED", seen(id).getValue(1));
        Budget budget = BudgetField.parse(seen(id).getStringByField(TupleBudget.FIELD));
        assertEquals(List.of(new Stage(0, 200 * MS, 0)), budget.stages());
        assertTrue(budget.remaining().isMissed());
        assertEquals("ack", acks(id));
        assertEquals("ack", acks("answers", id, 1));
    }

    /** A request that expires while {@code bolt} is busy. */
    private static String shed(String bolt) {
        AtomicBoolean served = new AtomicBoolean();
        long before = StormEvents.metric(bolt, "shed");
        long expired = StormEvents.metric(bolt, "expired");
        Block block = block(bolt, (tuple, collector, context) -> served.set(true));
        String id = send(bolt, 100);
        awaitWaiting(bolt, 1);
        TestClock.advance(200 * MS);
        block.release();
        assertEquals("ack", acks(block.id));
        await(() -> StormEvents.metric(bolt, "shed") == before + 1);
        assertEquals(expired + 1, StormEvents.metric(bolt, "expired"), "by its cause");
        acks(bolt, id, 1);
        assertFalse(served.get());
        return id;
    }

    @Test
    void anInfeasibleTupleIsShedBeforeTheBolt() {
        List<Object> served = Collections.synchronizedList(new ArrayList<>());
        Step.WORKS.put("learns", (tuple, collector, context) -> {
            served.add(tuple.getValue(0));
            TestClock.advance(400 * MS);
            collector.ack(tuple);
        });
        for (int n = 0; n < SAMPLES; n++) {
            assertEquals("ack", acks(send("learns", 10_000)));
        }
        assertEquals("fail", acks(send("learns", 440)), "400 ms here and 50 ms in the bolts after it");
        assertEquals("ack", acks(send("learns", 460)));
        assertEquals(SAMPLES + 1, served.size());
        assertEquals(1, StormEvents.metric("learns", "shed"));
        assertEquals(1, StormEvents.metric("learns", "infeasible"), "by its cause");
    }

    @Test
    void aTupleFailedByTheBoltIsFailedOnceAndNotLearned() {
        Step.WORKS.put("refuses", (tuple, collector, context) -> {
            TestClock.advance(400 * MS);
            collector.fail(tuple);
        });
        for (int n = 0; n <= SAMPLES; n++) {
            String id = send("refuses", 300);
            assertEquals("fail", acks(id), "served, not shed");
            assertEquals("fail", acks("refuses", id, 1));
        }
        assertEquals(0, StormEvents.metric("refuses", "shed"));
    }

    @Test
    void aBasicBoltAcksAndFailsAsInStorm() {
        assertEquals("ack", acks(send("basic", 900)));
        String refused = id("no");
        TestSpout.emit("users", "basic", refused, 900 * MS);
        assertEquals("fail", acks(refused));
        assertEquals("fail", acks("basic", refused, 1));
        assertEquals("ack", acks(send("basic", 900)));
    }

    @Test
    void aBoltMayHoldATupleAndAnswerItFromAnotherThread() throws Exception {
        AtomicReference<Tuple> held = new AtomicReference<>();
        AtomicReference<OutputCollector> out = new AtomicReference<>();
        Step.WORKS.put("later", (tuple, collector, context) -> {
            out.set(collector);
            held.set(tuple);
        });
        String id = send("later", 900);
        await(() -> held.get() != null);
        assertNull(TestSpout.ACKS.get(id));
        TestClock.advance(40 * MS);
        out.get().emit(held.get(), new Values(id, "later"));
        out.get().ack(held.get());
        out.get().flush();
        Budget budget = BudgetField.parse(seen(id).getStringByField(TupleBudget.FIELD));
        assertEquals(List.of(new Stage(0, 0, 40 * MS)), budget.stages());
        assertEquals("ack", acks(id));
    }

    //~ java: Storm: an executor serves by deadline; ticks pass; a full queue holds the executor
    @Test
    void ticksReachTheBoltBeforeQueuedTuples() {
        AtomicBoolean ticked = new AtomicBoolean();
        List<Object> served = Collections.synchronizedList(new ArrayList<>());
        Step.WORKS.put("ticks", (tuple, collector, context) -> {
            if (TupleUtils.isTick(tuple)) {
                ticked.set(Deadlines.current().isEmpty());
            } else {
                served.add(tuple.getValue(0));
            }
            collector.ack(tuple);
        });
        await(ticked::get);
        assertEquals("ack", acks(send("ticks", 900)));
        assertEquals(1, served.size());
        assertEquals(0, StormEvents.metric("ticks", "missing"), "a tick is no request without a budget");
    }

    //~ java: Storm: a throwing bolt ends its worker; gathering for the same worker is refused
    @Test
    void batchingForTheSameWorkerIsRefused() {
        DeadlineBolt bolt = new DeadlineBolt(new Step());
        Map<String, Object> gathers = Map.of("topology.producer.batch.size", 10L);
        String why = assertThrows(IllegalArgumentException.class, () -> bolt.prepare(gathers, null, null)).getMessage();
        assertEquals("topology.producer.batch.size is 10; with deadlines it must be 1, Storm's default", why);
    }
}
