package greenwave.deadline.thread;

import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import java.util.concurrent.Executor;

/**
 * Executor of one call, for frameworks that pass its events (headers, data) as they arrive: they wait in a
 * {@link DeadlinePool}'s queue until the call's handler begins.
 *
 * <p>If the pool runs events before the request is complete, no handler is called yet; later events call it. Once
 * the handler has begun, events go before all waiting calls, since a call in service holds memory. The events of a
 * call that is shed run as well, so that the framework ends it; the framework's filter keeps them from the handler.
 *
 * @param <R> reason against calling the handler, as the framework answers it
 */
public abstract class CallEvents<R> implements Executor {
    private static final ThreadLocal<CallEvents<?>> CURRENT = new ThreadLocal<>();

    private final DeadlinePool pool;
    private final Gate gate;
    private final Gate.Arrival arrival;
    private volatile boolean begun;
    private volatile R refusal;

    /** The events of {@code arrival}, which came through {@code gate} and waits in {@code pool}. */
    protected CallEvents(DeadlinePool pool, Gate gate, Gate.Arrival arrival) {
        this.pool = pool;
        this.gate = gate;
        this.arrival = arrival;
    }

    /** The call whose events the present thread runs; null on a thread of another executor. */
    protected static CallEvents<?> current() {
        return CURRENT.get();
    }

    /** The call. */
    public final Gate.Arrival arrival() {
        return arrival;
    }

    /** Reason against calling the handler; null if it may be called. */
    public final R refusal() {
        return refusal;
    }

    /** True once the handler has begun. */
    public final boolean hasBegun() {
        return begun;
    }

    /** Marks the handler as begun: from now on the call cannot be shed. */
    public final void begin() {
        begun = true;
    }

    /** Answer to a call that is shed for {@code reason}; {@code text} describes it. */
    protected abstract R refuse(Shedding.Reason reason, String text);

    /** Reason against calling the handler that shows when the call's turn has come; null, the default, for none. */
    protected R refuseInTurn() {
        return null;
    }

    @Override
    public void execute(Runnable events) {
        if (refusal != null) {
            run(events);
        } else if (begun) {
            pool.execute(() -> run(events));
        } else {
            pool.execute(new Turn(events));
        }
    }

    /** Runs {@code events} on the present thread. */
    protected final void run(Runnable events) {
        CallEvents<?> before = CURRENT.get();
        CURRENT.set(this);
        try {
            events.run();
        } finally {
            if (before == null) {
                CURRENT.remove();
            } else {
                CURRENT.set(before);
            }
        }
    }

    private final class Turn extends Call {
        private final Runnable events;

        Turn(Runnable events) {
            super(Deadlines.now(), gate, arrival);
            this.events = events;
        }

        @Override
        public void run() {
            R reason = refuseInTurn();
            if (reason != null) {
                refusal = reason;
            }
            CallEvents.this.run(events);
        }

        @Override
        protected void answer(Shedding.Reason reason) {
            refusal = refuse(reason, arrival().method() + " was not served: " + reason);
            CallEvents.this.run(events);
        }
    }
}
