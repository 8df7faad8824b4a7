package greenwave.storm;

import com.codahale.metrics.Gauge;
import greenwave.deadline.Fault;
import greenwave.deadline.Intake;
import greenwave.deadline.Limits;
import greenwave.deadline.Visit;
import java.util.Locale;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * What a task makes of the budgets that tuples bring.
 *
 * <p>A tuple without the field, or with something else in it, gets the default and is counted, as {@link
 * Intake} has it; the counts are Storm's metrics {@code greenwave-missing}, {@code -garbled}, {@code
 * -negative}, {@code -absurd} and {@code -shortened}. The time in Storm's queues is the hop's (C). Threads may
 * share one.
 */
final class Arrivals {
    private final Intake intake;

    Arrivals(Limits limits, TopologyContext context) {
        intake = new Intake(limits);
        for (Fault fault : Fault.values()) {
            gauge(context, fault.name().toLowerCase(Locale.ROOT), () -> intake.faults(fault));
        }
        gauge(context, "shortened", intake::shortened);
    }

    /** {@code tuple} was taken out of Storm's queue at {@code nowNanos}. */
    Visit arrive(long nowNanos, Tuple tuple) {
        Object value = tuple.contains(TupleBudget.FIELD) ? tuple.getValueByField(TupleBudget.FIELD) : null;
        String text = value == null || value instanceof String ? (String) value : "";
        long underway = TupleBudget.underwayNanos(value, nowNanos);
        return Visit.arrive(nowNanos, intake.accept(new Intake.Received(text, null, null)), underway);
    }

    /** The metric {@code greenwave-NAME} of the task of {@code context}. */
    static void gauge(TopologyContext context, String name, Gauge<Long> gauge) {
        context.registerGauge("greenwave-" + name, gauge);
    }
}
