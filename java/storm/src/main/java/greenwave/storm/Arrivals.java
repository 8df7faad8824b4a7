package greenwave.storm;

import com.codahale.metrics.Gauge;
import greenwave.deadline.InvalidBudget;
import greenwave.deadline.Gate;
import greenwave.deadline.BudgetValidator;
import java.util.Locale;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * Budgets of a task's input tuples.
 *
 * <p>A tuple without a valid budget field gets the default and is counted by {@link BudgetValidator}; the
 * counts are Storm's metrics {@code greenwave-missing}, {@code -garbled}, {@code -negative}, {@code -absurd}
 * and {@code -shortened}. The time in Storm's queues counts as the hop's network delay (C).
 */
final class Arrivals {
    private final Gate gate;
    private final long restNanos;

    /**
     * Arrivals at {@code gate}, in the task of {@code context}; work after this task takes {@code restNanos}.
     */
    Arrivals(Gate gate, long restNanos, TopologyContext context) {
        this.gate = gate;
        this.restNanos = restNanos;
        for (InvalidBudget fault : InvalidBudget.values()) {
            gauge(context, fault.name().toLowerCase(Locale.ROOT), () -> gate.faults(fault));
        }
        gauge(context, "shortened", gate::shortened);
    }

    /** Registers {@code tuple}, taken out of Storm's queue at {@code nowNanos}. */
    Gate.Arrival arrive(long nowNanos, Tuple tuple) {
        Object value = tuple.contains(TupleBudget.FIELD) ? tuple.getValueByField(TupleBudget.FIELD) : null;
        String text = value == null || value instanceof String ? (String) value : "";
        String kind = tuple.getSourceComponent() + ':' + tuple.getSourceStreamId();
        long underway = TupleBudget.underwayNanos(value, nowNanos);
        return gate.arrive(nowNanos, BudgetValidator.Received.of(text, null, null), kind, underway, restNanos);
    }

    /** The metric {@code greenwave-NAME} of the task of {@code context}. */
    static void gauge(TopologyContext context, String name, Gauge<Long> gauge) {
        context.registerGauge("greenwave-" + name, gauge);
    }
}
