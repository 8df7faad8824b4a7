package greenwave.deadline.thread;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Forecast;
import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import java.util.OptionalLong;

/**
 * A request's turn, in the queue of a {@link DeadlinePool}: either it is run, or it is shed.
 *
 * <p>Made when it is handed to the pool; what is left of its budget is what is left then.
 */
public abstract class Call implements Runnable, DeadlineQueue.Entry {
    private final Gate gate;
    private final Gate.Arrival arrival;
    private final long leftNanos;

    /** The turn of {@code arrival}, which came through {@code gate}, as asked for at {@code nowNanos}. */
    protected Call(long nowNanos, Gate gate, Gate.Arrival arrival) {
        this.gate = gate;
        this.arrival = arrival;
        this.leftNanos = arrival.timer().remaining(nowNanos).leftNanos();
    }

    /** The request. */
    public final Gate.Arrival arrival() {
        return arrival;
    }

    /** Answers the request without its handler; on any thread, and not at length. */
    protected abstract void answer(Shedding.Reason reason);

    final void shed(Shedding.Reason reason) {
        gate.shed(reason);
        answer(reason);
    }

    @Override
    public final OptionalLong leftNanos() {
        return OptionalLong.of(leftNanos);
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
