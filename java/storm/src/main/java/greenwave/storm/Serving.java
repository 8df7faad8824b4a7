package greenwave.storm;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.History;
import greenwave.deadline.Shedding;
import greenwave.deadline.Visit;
import greenwave.deadline.thread.Deadlines;
import java.util.ArrayDeque;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.TupleUtils;

/**
 * The queue in front of a bolt, and the thread that serves it.
 *
 * <p>Storm's executor puts tuples in, one at a time, and waits while there is no room; the thread takes them
 * out by deadline and calls the bolt, so that the bolt sees one thread as ever. A tuple is either shed, by
 * whichever of the two finds it hopeless, or given to the bolt, never both. Bounded: as many tuples as the
 * settings say, and as many ticks.
 */
final class Serving extends SecondThread {
    private final IBolt bolt;
    private final Arrivals arrivals;
    private final OutputCollector shedder;
    private final OnShed onShed;
    private final long restNanos;
    private final int capacity;
    private final AtomicLong shed = new AtomicLong();

    // Under the lock.
    private final DeadlineQueue<Waiting> queue;
    private final ArrayDeque<Runnable> first = new ArrayDeque<>();
    private final History<Kind> history = new History<>(KINDS_MAX);

    Serving(
            String name,
            IBolt bolt,
            DeadlineQueue.Settings settings,
            Arrivals arrivals,
            BudgetedCollector collector,
            OnShed onShed,
            long restNanos) {
        super(name, collector);
        this.bolt = bolt;
        this.arrivals = arrivals;
        this.shedder = new OutputCollector(collector);
        this.onShed = onShed;
        this.restNanos = restNanos;
        this.capacity = settings.capacity();
        this.queue = new DeadlineQueue<>(settings);
    }

    /** How many tuples were shed. */
    long shed() {
        return shed.get();
    }

    /** How many tuples wait. */
    long waiting() {
        lock.lock();
        try {
            return queue.size();
        } finally {
            lock.unlock();
        }
    }

    /** Takes {@code tuple} in, as soon as there is room; for Storm's executor. */
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
            waiting.serviceNanos = history.estimate(waiting.kind).p50Nanos() + restNanos;
            offered = offer(waiting);
            while (offered.reason() == Shedding.Reason.FULL) {
                awaitRoom();
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

    /** Does {@code task} on the bolt's thread before any tuple that waits. */
    void first(Runnable task) {
        lock.lock();
        try {
            rethrow();
            while (first.size() == capacity) {
                awaitRoom();
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
        waiting.leftNanos = waiting.visit.remaining(now).leftNanos();
        return queue.offer(now, waiting);
    }

    private void serve(Waiting waiting) {
        long started = TupleBudget.now();
        waiting.visit.start(started);
        BudgetedCollector.Held held = collector.begin(waiting.tuple, waiting.visit);
        try (Deadlines.Scope scope = Deadlines.enter(waiting.visit)) {
            bolt.execute(waiting.tuple);
        }
        if (!held.isFailed()) {
            learn(waiting.kind, TupleBudget.now() - started);
        }
    }

    private void learn(Kind kind, long serviceNanos) {
        lock.lock();
        try {
            history.record(kind, serviceNanos);
        } finally {
            lock.unlock();
        }
    }

    private void shed(Waiting waiting, Shedding.Reason reason) {
        shed.incrementAndGet();
        collector.begin(waiting.tuple, waiting.visit);
        onShed.shed(waiting.tuple, reason, shedder);
    }

    /** What service times are told apart by. */
    private record Kind(String component, String stream) {}

    /** A tuple that waits, and what the queue is told of it at the offer. */
    private static final class Waiting implements DeadlineQueue.Entry {
        final Tuple tuple;
        final Visit visit;
        final Kind kind;
        long leftNanos;
        long serviceNanos;

        Waiting(Tuple tuple, Visit visit) {
            this.tuple = tuple;
            this.visit = visit;
            this.kind = new Kind(tuple.getSourceComponent(), tuple.getSourceStreamId());
        }

        @Override
        public OptionalLong leftNanos() {
            return OptionalLong.of(leftNanos);
        }

        @Override
        public long serviceNanos() {
            return serviceNanos;
        }
    }

    private static final int KINDS_MAX = 256;
}
