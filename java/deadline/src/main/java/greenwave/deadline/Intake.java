package greenwave.deadline;

import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * What a server makes of the budget a peer sent.
 *
 * <p>Believes of it what cannot do harm: an untrusted peer may shorten the time its request gets, never
 * lengthen it, and what cannot be read counts as not sent. Every request gets a budget, and every fault
 * is counted by kind. Threads may share one.
 */
public final class Intake {
    private final Limits limits;
    private final AtomicLongArray faults = new AtomicLongArray(Fault.values().length);
    private final AtomicLong shortened = new AtomicLong();

    /** Grants within {@code limits}. */
    public Intake(Limits limits) {
        this.limits = limits;
    }

    /**
     * The budget fields of one request, as they came; null for one that did not.
     *
     * @param budget {@link BudgetField}
     * @param grpcTimeout {@link GrpcTimeout}
     * @param envoyExpected {@link EnvoyTimeout}, or whole milliseconds that say the same
     */
    public record Received(String budget, String grpcTimeout, String envoyExpected) {}

    /** How many requests got the default for {@code fault}. */
    public long faults(Fault fault) {
        return faults.get(fault.ordinal());
    }

    /** How many requests got less than they asked for, being of untrusted peers. */
    public long shortened() {
        return shortened.get();
    }

    /**
     * The budget of a request that brought {@code received}.
     *
     * <p>Where several fields are there the shortest rules: each of them is a time after which somebody
     * stops waiting. One that cannot be read is a fault even beside one that can.
     */
    public Budget accept(Received received) {
        try {
            Budget asked = read(received);
            if (asked == null) {
                return faulty(Fault.MISSING);
            }
            long left = asked.remaining().leftNanos();
            if (left > limits.longestNanos() || asked.elapsedNanos() > limits.longestNanos()) {
                return faulty(Fault.ABSURD);
            }
            if (limits.trusted()) {
                return asked;
            }
            // Whoever claims to be short would go first.
            asked = asked.arrived();
            if (left > limits.defaultNanos()) {
                shortened.incrementAndGet();
                return asked.capped(limits.defaultNanos());
            }
            return asked;
        } catch (BadBudget bad) {
            return faulty(bad.fault());
        }
    }

    private static Budget read(Received received) throws BadBudget {
        Budget budget = received.budget() == null ? null : BudgetField.parse(received.budget());
        if (received.grpcTimeout() != null) {
            budget = shorter(budget, GrpcTimeout.parse(received.grpcTimeout()));
        }
        if (received.envoyExpected() != null) {
            budget = shorter(budget, EnvoyTimeout.parse(received.envoyExpected()));
        }
        return budget;
    }

    private static Budget shorter(Budget budget, long timeoutNanos) {
        return budget == null ? Budget.of(timeoutNanos) : budget.capped(timeoutNanos);
    }

    private Budget faulty(Fault fault) {
        faults.incrementAndGet(fault.ordinal());
        return Budget.of(limits.defaultNanos());
    }
}
