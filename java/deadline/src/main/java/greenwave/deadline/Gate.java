package greenwave.deadline;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Admission of one server: budgets granted, expected service times and counters. It holds no requests; its queue
 * does.
 *
 * <p>The expected time of a method is the 95th percentile of earlier requests, from the start of service to the
 * answer, calls to other services included; for a sub-request it is the aggregator's estimate. Under
 * {@link Shedding#INFEASIBLE} one infeasible request of {@value ProbeInterval#EVERY}, and one a second, is
 * served all the same, so that an estimate cannot exclude a method for good; if it is in time, the method's
 * history is dropped. Thread-safe.
 * Source: D2P §3; the rules of the crate's {@code tower} layer.
 */
public final class Gate {
    private final BudgetValidator validator;
    private final DeadlineQueue.Settings queue;
    private final CauseCounter causes = new CauseCounter();
    private final OutcomeTable outcomes = new OutcomeTable(METHODS_MAX);
    private final AtomicLong answered = new AtomicLong();
    /** Rule of which a dry run counts the drops; {@link Shedding#NONE} without one. */
    private final Shedding dryRun;

    private final AtomicLong wouldDrop = new AtomicLong();
    private final AtomicLong wouldDropInTime = new AtomicLong();

    /** Also the lock for {@code infeasible}. */
    private final History<String> history = new History<>(METHODS_MAX);

    private final ProbeInterval infeasible = new ProbeInterval();

    /** A gate that grants within {@code limits}, for a queue with {@code queue}. */
    public Gate(Limits limits, DeadlineQueue.Settings queue) {
        this(limits, queue, Shedding.NONE);
    }

    private Gate(Limits limits, DeadlineQueue.Settings queue, Shedding dryRun) {
        this.validator = new BudgetValidator(limits);
        this.queue = queue;
        this.dryRun = dryRun;
    }

    /**
     * A gate whose queue is in order of arrival and drops nothing but what finds it full. It counts the requests
     * that the shedding of {@code queue} would have dropped when they were next.
     */
    public static Gate dryRun(Limits limits, DeadlineQueue.Settings queue) {
        DeadlineQueue.Settings idle = new DeadlineQueue.Settings(
                queue.capacity(), Order.FIFO, Shedding.NONE, queue.ageMaxNanos());
        return new Gate(limits, idle, queue.shedding());
    }

    /** Settings of the queue. */
    public DeadlineQueue.Settings queue() {
        return queue;
    }

    /** Registers the arrival of a request for {@code method} at {@code nowNanos} with the fields {@code received}. */
    public Arrival arrive(long nowNanos, BudgetValidator.Received received, String method) {
        return arrive(nowNanos, received, method, 0, 0);
    }

    /**
     * The same for a request whose budget does not yet account for the network delay {@code networkNanos} (C) of
     * its last hop. Work after its answer here is expected to take {@code restNanos}.
     */
    public Arrival arrive(
            long nowNanos, BudgetValidator.Received received, String method, long networkNanos, long restNanos) {
        Budget budget = validator.accept(received);
        StageTimer timer = validator.trustsPeers()
                ? StageTimer.arrive(nowNanos, budget.arrived(), networkNanos)
                : StageTimer.arriveUntrusted(nowNanos, budget.arrived(), networkNanos);
        Optional<SubrequestEstimate> part = budget.part();
        long own = part.map(SubrequestEstimate::serviceNanos).orElseGet(() -> expectedNanos(method));
        long expected = Spans.plus(own, restNanos);
        Forecast forecast = part.map(known -> Forecast.constant(known.serviceNanos())).orElseGet(() -> forecast(method));
        boolean late = queue.shedding() == Shedding.INFEASIBLE && timer.remaining(nowNanos).leftNanos() < expected;
        boolean tried = late && isProbe(nowNanos);
        long service = tried ? 0 : expected;
        long slowest = part.map(SubrequestEstimate::slowestNanos).orElse(service);
        return new Arrival(timer, method, service, slowest, forecast, restNanos, tried);
    }

    /**
     * A request at the gate.
     *
     * @param timer timer of its budget
     * @param method key of its service time estimate
     * @param serviceNanos expected time from the start of service to the answer
     * @param slowestNanos expected time of the slowest sub-request of the same request
     * @param forecast distribution of the time from the start of service to its answer here
     * @param restNanos expected time of the work after its answer here
     * @param tried true if it was admitted although infeasible
     */
    public record Arrival(
            StageTimer timer,
            String method,
            long serviceNanos,
            long slowestNanos,
            Forecast forecast,
            long restNanos,
            boolean tried) {}

    /** Counts that the handler answered {@code arrival} at {@code nowNanos} with an error of its own. No sample. */
    public void failed(long nowNanos, Arrival arrival) {
        outcomes.record(arrival.method(), answer(nowNanos, arrival), true);
    }

    private static Outcome answer(long nowNanos, Arrival arrival) {
        return arrival.timer().remaining(nowNanos).isMissed() ? Outcome.LATE : Outcome.IN_TIME;
    }

    /** Counts that the client of {@code arrival} has gone before its handler began. */
    public void cancelled(Arrival arrival) {
        outcomes.record(arrival.method(), Outcome.CANCELLED, false);
    }

    /** Records that {@code arrival} was answered successfully at {@code nowNanos}: its service time is a sample. */
    public void answered(long nowNanos, Arrival arrival) {
        outcomes.record(arrival.method(), answer(nowNanos, arrival), true);
        StageTimer timer = arrival.timer();
        long service = timer.stage(nowNanos).serviceNanos();
        answered.incrementAndGet();
        OptionalLong due = OptionalLong.of(timer.dueNanos());
        if (dryRun.sheds(Spans.minus(nowNanos, service), due, arrival.serviceNanos()) != null) {
            wouldDrop.incrementAndGet();
            wouldDropInTime.addAndGet(timer.remaining(nowNanos).isMissed() ? 0 : 1);
        }
        synchronized (history) {
            if (arrival.tried() && !timer.remaining(nowNanos).isMissed()) {
                history.forget(arrival.method());
            }
            history.record(nowNanos, arrival.method(), service);
        }
    }

    /** Counts and logs that {@code arrival} was answered with {@code reason} instead of being served. */
    public void shed(Arrival arrival, Shedding.Reason reason) {
        outcomes.record(arrival.method(), Outcome.of(reason.cause()), false);
        causes.record(reason.cause(), arrival.method(), "request ended without its answer");
    }

    /**
     * Counts and logs that the handler answered {@code arrival} with {@code cause}, which a called service gave it:
     * a timeout or a failure.
     */
    public void upstream(Arrival arrival, Cause cause) {
        Cause here = cause.seenFromDownstream();
        outcomes.record(arrival.method(), Outcome.of(here), true);
        causes.record(here, arrival.method(), "request ended without its answer");
    }

    /**
     * Outcomes of requests by method, from a method's first answer on, and of all others as {@code _OTHER}; counts in
     * the order of {@link Outcome}. At most 1,024 methods and that one.
     */
    public Map<String, long[]> outcomes() {
        return outcomes.methods();
    }

    /** Number of requests that ended with {@code cause}. */
    public long endedWith(Cause cause) {
        return causes.count(cause);
    }

    /** Number of requests whose service time was recorded. */
    public long answered() {
        return answered.get();
    }

    /** Number of answered requests that only a {@link #dryRun dry run} served: its rule would have dropped them. */
    public long wouldDrop() {
        return wouldDrop.get();
    }

    /** Number of those that were answered before their deadline all the same. */
    public long wouldDropInTime() {
        return wouldDropInTime.get();
    }

    /** Number of requests answered with {@code reason} instead of being served. */
    public long sheds(Shedding.Reason reason) {
        return causes.count(reason.cause());
    }

    /** Number of requests answered without being served, for any reason. */
    public long sheds() {
        long sum = 0;
        for (Shedding.Reason reason : Shedding.Reason.values()) {
            sum += sheds(reason);
        }
        return sum;
    }

    /** Number of requests that got the default because of {@code fault}. */
    public long faults(InvalidBudget fault) {
        return validator.faults(fault);
    }

    /** Number of requests whose budget was shortened to the maximum. */
    public long shortened() {
        return validator.shortened();
    }

    /**
     * 95th percentile of the time from the start of service to the answer of requests for {@code method}, in
     * nanoseconds; 0 with fewer than {@value History#SAMPLES_MIN} samples.
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

    /** True if the infeasible request that arrives at {@code nowNanos} is to be served all the same. */
    private boolean isProbe(long nowNanos) {
        synchronized (history) {
            return infeasible.isDue(nowNanos);
        }
    }

    /** Maximum number of methods with an estimate, about 6 kB each; the least recently used is evicted. */
    private static final int METHODS_MAX = 1_024;
}
