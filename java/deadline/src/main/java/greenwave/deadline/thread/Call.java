package greenwave.deadline.thread;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Forecast;
import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import java.util.OptionalLong;

/**
 * A request in the queue of a {@link DeadlinePool}: it is either run or shed.
 *
 * <p>Create it when handing it to the pool: its remaining budget is computed at that time.
 */
public abstract class Call implements Runnable, DeadlineQueue.Entry {
    private final Gate gate;
    private final Gate.Arrival arrival;
    private final OptionalLong leftNanos;

    /** A call for {@code arrival}, which {@code gate} admitted; created at {@code nowNanos}. */
    protected Call(long nowNanos, Gate gate, Gate.Arrival arrival) {
        this.gate = gate;
        this.arrival = arrival;
        this.leftNanos = arrival.timer().leftNanos(nowNanos);
    }

    /** The request. */
    public final Gate.Arrival arrival() {
        return arrival;
    }

    /** Answers the request without its handler. Called on any thread; must return quickly. */
    protected abstract void answer(Shedding.Reason reason);

    final void shed(Shedding.Reason reason) {
        gate.shed(arrival, reason);
        answer(reason);
    }

    @Override
    public final OptionalLong leftNanos() {
        return leftNanos;
    }

    @Override
    public final long serviceNanos() {
        return arrival.serviceNanos();
    }

    @Override
    public final Forecast forecast() {
        return arrival.forecast();
    }

    @Override
    public final long restNanos() {
        return arrival.restNanos();
    }

    @Override
    public final long slowestNanos() {
        return arrival.slowestNanos();
    }
}
