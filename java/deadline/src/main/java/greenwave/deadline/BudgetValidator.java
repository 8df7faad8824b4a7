package greenwave.deadline;

import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Validation of budgets that peers send.
 *
 * <p>A budget above the maximum is shortened to it; an unreadable one counts as missing. A request without a
 * budget has no deadline, unless a default is set. Faults are counted by kind. Thread-safe.
 */
public final class BudgetValidator {
    private final Limits limits;
    private final AtomicLongArray faults = new AtomicLongArray(InvalidBudget.values().length);
    private final AtomicLong shortened = new AtomicLong();

    /** A validator with these {@code limits}. */
    public BudgetValidator(Limits limits) {
        this.limits = limits;
    }

    /**
     * Budget fields of one request as received; null for missing ones.
     *
     * @param budget {@link BudgetField}
     * @param grpcTimeout {@link GrpcTimeout}
     * @param envoyExpected {@link EnvoyTimeout}, or whole milliseconds that say the same
     */
    public record Received(String budget, String grpcTimeout, String envoyExpected) {}

    /** Number of requests with {@code fault}; all but those with {@link InvalidBudget#ABSURD} got the default. */
    public long faults(InvalidBudget fault) {
        return faults.get(fault.ordinal());
    }

    /** Number of requests whose budget was shortened to the maximum. */
    public long shortened() {
        return shortened.get();
    }

    /**
     * Budget of a request with the fields {@code received}.
     *
     * <p>Of several fields the shortest applies: each of them is a time after which a caller
     * stops waiting. An invalid field is a fault even if another one is valid.
     */
    public Budget accept(Received received) {
        try {
            Budget asked = read(received);
            if (asked == null) {
                return faulty(InvalidBudget.MISSING);
            }
            // An untrusted peer could claim a short service time to be served first.
            asked = limits.trusted() ? asked : asked.arrived();
            long left = asked.remaining().leftNanos();
            if (asked.elapsedNanos() > limits.longestNanos()) {
                faults.incrementAndGet(InvalidBudget.ABSURD.ordinal());
                asked = Budget.of(left);
            }
            if (left > limits.longestNanos()) {
                shortened.incrementAndGet();
                asked = asked.capped(limits.longestNanos());
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

    private Budget faulty(InvalidBudget fault) {
        faults.incrementAndGet(fault.ordinal());
        return Budget.of(limits.defaultNanos());
    }
}
