package greenwave.deadline;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * What one server grants, expects and counts; what holds requests back is its queue.
 *
 * <p>Expected is the time from a request's turn to its answer, calls to other services included, by method:
 * 95 % of those answered before took no longer; of a part, what its aggregator says. Under
 * {@link Shedding#INFEASIBLE} estimates must not lock out for good what was slow once: one infeasible request of
 * {@value #TRY_EVERY} is tried all the same, and if it makes it, what was learned is forgotten. Threads share one. Source: D2P §3; the rules of the crate's {@code tower} layer.
 */
public final class Gate {
    private final BudgetValidator validator;
    private final DeadlineQueue.Settings queue;
    private final AtomicLongArray shed = new AtomicLongArray(Shedding.Reason.values().length);
    private final AtomicLong answered = new AtomicLong();

    /** Locks itself, for both of these. */
    private final History<String> history = new History<>(METHODS_MAX);

    private int infeasible;

    /** A gate that grants within {@code limits}, for a queue with {@code queue}. */
    public Gate(Limits limits, DeadlineQueue.Settings queue) {
        this.validator = new BudgetValidator(limits);
        this.queue = queue;
    }

    /** What its queue is made of. */
    public DeadlineQueue.Settings queue() {
        return queue;
    }

    /** A request for {@code method} came at {@code nowNanos} with {@code received}. */
    public Arrival arrive(long nowNanos, BudgetValidator.Received received, String method) {
        return arrive(nowNanos, received, method, 0, 0);
    }

    /**
     * It came over a hop that took {@code networkNanos} (C), which nobody has taken off yet, and what comes after
     * its answer here is expected to take {@code restNanos}.
     */
    public Arrival arrive(
            long nowNanos, BudgetValidator.Received received, String method, long networkNanos, long restNanos) {
        Budget budget = validator.accept(received);
        StageTimer timer = StageTimer.arrive(nowNanos, budget.arrived(), networkNanos);
        Optional<SubrequestEstimate> part = budget.part();
        long own = part.map(SubrequestEstimate::serviceNanos).orElseGet(() -> expectedNanos(method));
        long expected = Spans.plus(own, restNanos);
        Forecast forecast = part.map(known -> Forecast.constant(known.serviceNanos())).orElseGet(() -> forecast(method));
        boolean late = queue.shedding() == Shedding.INFEASIBLE && timer.remaining(nowNanos).leftNanos() < expected;
        boolean tried = late && tries();
        long service = tried ? 0 : expected;
        long slowest = part.map(SubrequestEstimate::slowestNanos).orElse(service);
        return new Arrival(timer, method, service, slowest, forecast, restNanos, tried);
    }

    /**
     * A request at the gate.
     *
     * @param timer its clock
     * @param method what its time is learned by
     * @param serviceNanos how long it is expected to take once its turn has come
     * @param slowestNanos how long the slowest is of those that are waited for together with it
     * @param forecast distribution of the time from its turn to its answer here
     * @param restNanos what comes after its answer here is expected to take
     * @param tried whether too little was left, and it was let in all the same
     */
    public record Arrival(
            StageTimer timer,
            String method,
            long serviceNanos,
            long slowestNanos,
            Forecast forecast,
            long restNanos,
            boolean tried) {}

    /** {@code arrival} was answered at {@code nowNanos}, with what it asked for: a failure teaches nothing. */
    public void answered(long nowNanos, Arrival arrival) {
        StageTimer timer = arrival.timer();
        long service = timer.stage(nowNanos).serviceNanos();
        answered.incrementAndGet();
        synchronized (history) {
            if (arrival.tried() && !timer.remaining(nowNanos).isMissed()) {
                history.forget(arrival.method());
            }
            history.record(nowNanos, arrival.method(), service);
        }
    }

    /** A request was answered with {@code reason} instead of being served. */
    public void shed(Shedding.Reason reason) {
        shed.incrementAndGet(reason.ordinal());
    }

    /** How many requests were served and taught how long that takes. */
    public long answered() {
        return answered.get();
    }

    /** How many requests were answered with {@code reason} instead of being served. */
    public long sheds(Shedding.Reason reason) {
        return shed.get(reason.ordinal());
    }

    /** How many requests were answered without being served, whatever the reason. */
    public long sheds() {
        long sum = 0;
        for (Shedding.Reason reason : Shedding.Reason.values()) {
            sum += sheds(reason);
        }
        return sum;
    }

    /** How many requests got the default for {@code fault}. */
    public long faults(InvalidBudget fault) {
        return validator.faults(fault);
    }

    /** How many requests got less than they asked for, their peers not being trusted. */
    public long shortened() {
        return validator.shortened();
    }

    /**
     * What 95 % of the requests for {@code method} took no longer than, from their turn to the answer, in
     * nanoseconds; 0 while fewer than {@value History#SAMPLES_MIN} are known.
     */
    public long expectedNanos(String method) {
        synchronized (history) {
            History.Estimate estimate = history.estimate(method);
            return estimate.samples() < History.SAMPLES_MIN ? 0 : estimate.p95Nanos();
        }
    }

    private Forecast forecast(String method) {
        synchronized (history) {
            return history.forecast(method);
        }
    }

    /** Whether an infeasible request is the one that is tried all the same. */
    private boolean tries() {
        synchronized (history) {
            infeasible = (infeasible + 1) % TRY_EVERY;
            return infeasible == 0;
        }
    }

    /** Methods whose time is told apart, about 6 kB each; the least recently used makes room. */
    private static final int METHODS_MAX = 1_024;
    /** Of infeasible requests one in so many is tried all the same. */
    private static final int TRY_EVERY = 64;
}
