package greenwave.storm;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Forecast;
import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import greenwave.deadline.StageTimer;
import greenwave.deadline.thread.Deadlines;
import java.util.ArrayDeque;
import java.util.OptionalLong;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.TupleUtils;

/**
 * Queue in front of a bolt, and the thread that serves it.
 *
 * <p>Storm's executor enqueues tuples, one at a time, and waits while the queue is full; the thread dequeues
 * them in deadline order and calls the bolt, so that the bolt runs on one thread, as in Storm. A tuple is
 * either shed, by whichever of the two first finds that it must be, or given to the bolt, never both.
 * Bounded: the capacity in the settings for tuples, and the same number of ticks.
 */
final class BoltThread extends TaskThread {
    private final IBolt bolt;
    private final Gate gate;
    private final Arrivals arrivals;
    private final OutputCollector shedder;
    private final OnShed onShed;

    // Protected by the lock.
    private final DeadlineQueue<Waiting> queue;
    private final ArrayDeque<Runnable> first = new ArrayDeque<>();

    BoltThread(
            String name, IBolt bolt, Gate gate, Arrivals arrivals, BudgetedCollector collector, OnShed onShed) {
        super(name, collector);
        this.bolt = bolt;
        this.gate = gate;
        this.arrivals = arrivals;
        this.shedder = new OutputCollector(collector);
        this.onShed = onShed;
        this.queue = new DeadlineQueue<>(gate.queue());
    }

    /** Number of waiting tuples. */
    long waiting() {
        lock.lock();
        try {
            return queue.size();
        } finally {
            lock.unlock();
        }
    }

    /** Enqueues {@code tuple} as soon as there is space; for Storm's executor. */
    void take(Tuple tuple) {
        if (TupleUtils.isTick(tuple)) {
            first(() -> bolt.execute(tuple));
            return;
        }
        Waiting waiting = new Waiting(tuple, arrivals.arrive(TupleBudget.now(), tuple));
        DeadlineQueue.Offered<Waiting> offered;
        lock.lock();
        try {
            rethrow();
            offered = offer(waiting);
            while (offered.reason() == Shedding.Reason.FULL) {
                awaitSpace();
                offered = offer(waiting);
            }
            wake();
        } finally {
            lock.unlock();
        }
        if (offered.back() != null) {
            shed(offered.back(), offered.reason());
        }
    }

    /** Runs {@code task} on the bolt's thread before any waiting tuple. */
    void first(Runnable task) {
        lock.lock();
        try {
            rethrow();
            while (first.size() == gate.queue().capacity()) {
                awaitSpace();
            }
            first.add(task);
            wake();
        } finally {
            lock.unlock();
        }
    }

    @Override
    Runnable next(long nowNanos) {
        if (!first.isEmpty()) {
            return first.poll();
        }
        DeadlineQueue.Turn<Waiting> turn = queue.next(nowNanos);
        if (turn == null) {
            return null;
        }
        return turn.reason() == null ? () -> serve(turn.entry()) : () -> shed(turn.entry(), turn.reason());
    }

    @Override
    long idleNanos(long nowNanos) {
        return first.isEmpty() && queue.isEmpty() ? Long.MAX_VALUE : 0;
    }

    private DeadlineQueue.Offered<Waiting> offer(Waiting waiting) {
        long now = TupleBudget.now();
        waiting.leftNanos = waiting.arrival.timer().leftNanos(now);
        return queue.offer(now, waiting);
    }

    private void serve(Waiting waiting) {
        StageTimer timer = waiting.arrival.timer();
        timer.start(TupleBudget.now());
        BudgetedCollector.Held held = collector.begin(waiting.tuple, timer);
        try (Deadlines.Scope scope = Deadlines.enter(timer)) {
            bolt.execute(waiting.tuple);
        }
        if (!held.isFailed()) {
            gate.answered(TupleBudget.now(), waiting.arrival);
        } else {
            gate.failed(TupleBudget.now(), waiting.arrival);
        }
    }

    private void shed(Waiting waiting, Shedding.Reason reason) {
        gate.shed(waiting.arrival, reason);
        collector.begin(waiting.tuple, waiting.arrival.timer());
        onShed.shed(waiting.tuple, reason, shedder);
    }

    /** A waiting tuple with its remaining budget at the time of enqueueing. */
    private static final class Waiting implements DeadlineQueue.Entry {
        final Tuple tuple;
        final Gate.Arrival arrival;
        OptionalLong leftNanos = OptionalLong.empty();

        Waiting(Tuple tuple, Gate.Arrival arrival) {
            this.tuple = tuple;
            this.arrival = arrival;
        }

        @Override
        public OptionalLong leftNanos() {
            return leftNanos;
        }

        @Override
        public long serviceNanos() {
            return arrival.serviceNanos();
        }

        @Override
        public Forecast forecast() {
            return arrival.forecast();
        }

        @Override
        public long restNanos() {
            return arrival.restNanos();
        }

        @Override
        public long slowestNanos() {
            return arrival.slowestNanos();
        }
    }
}
