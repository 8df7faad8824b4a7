package greenwave.storm;

import greenwave.deadline.Budget;
import greenwave.deadline.StageTimer;
import greenwave.deadline.thread.Deadlines;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.WeakHashMap;
import java.util.function.UnaryOperator;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.tuple.Tuple;

/**
 * The collector that a wrapped bolt gets: every tuple it emits carries the budget of the tuples it is
 * anchored to.
 *
 * <p>Of several anchors, the one with the longest elapsed time counts (D2P (4)); a tuple without anchors gets
 * the budget of the request that the thread works on, if any. Calls to Storm's collector are serialized: it
 * may be called from any thread, but a custom grouping of the application may not be thread-safe.
 */
final class BudgetedCollector implements IOutputCollector {
    private final IOutputCollector collector;
    private final UnaryOperator<Budget> onward;
    /** Timers by tuple, whether acked or not; tuples are compared by identity. */
    private final Map<Tuple, Held> held = Collections.synchronizedMap(new WeakHashMap<>());

    /**
     * Emits through {@code collector}; {@code onward} computes the budget to send from the budget that leaves
     * this bolt.
     */
    BudgetedCollector(IOutputCollector collector, UnaryOperator<Budget> onward) {
        this.collector = collector;
        this.onward = onward;
    }

    /** A tuple that the bolt works on. */
    static final class Held {
        private final StageTimer timer;
        private volatile boolean failed;

        private Held(StageTimer timer) {
            this.timer = timer;
        }

        /** True if the tuple was failed. */
        boolean isFailed() {
            return failed;
        }
    }

    /** Gives tuples anchored to {@code tuple} the budget of {@code timer}, until it is acked or failed. */
    Held begin(Tuple tuple, StageTimer timer) {
        Held begun = new Held(timer);
        held.put(tuple, begun);
        return begun;
    }

    @Override
    public synchronized List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
        return collector.emit(stream, anchors, BudgetedFields.append(values, budget(anchors)));
    }

    @Override
    public synchronized void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
        collector.emitDirect(task, stream, anchors, BudgetedFields.append(values, budget(anchors)));
    }

    @Override
    public synchronized void ack(Tuple tuple) {
        held.remove(tuple);
        collector.ack(tuple);
    }

    @Override
    public synchronized void fail(Tuple tuple) {
        Held known = held.remove(tuple);
        if (known != null) {
            known.failed = true;
        }
        collector.fail(tuple);
    }

    @Override
    public void resetTimeout(Tuple tuple) {
        collector.resetTimeout(tuple);
    }

    @Override
    public void reportError(Throwable error) {
        collector.reportError(error);
    }

    /** May block on a bolt after this one, so no other thread waits for it. */
    @Override
    public void flush() {
        collector.flush();
    }

    private String budget(Collection<Tuple> anchors) {
        long now = TupleBudget.now();
        Optional<StageTimer> slowest = anchors == null
                ? Optional.empty()
                : anchors.stream()
                        .map(held::get)
                        .filter(Objects::nonNull)
                        .map(known -> known.timer)
                        .max(Comparator.comparingLong(timer -> timer.elapsedNanos(now)));
        return slowest.or(Deadlines::current)
                .filter(timer -> timer.budget().isLimited())
                .map(timer -> TupleBudget.write(onward.apply(timer.leave(now)), now))
                .orElse(null);
    }
}
