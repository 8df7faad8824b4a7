package greenwave.deadline;

import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Validation of budgets that peers send.
 *
 * <p>A budget above the maximum is shortened to it; an unreadable line is counted and ignored. A request without
 * a readable one has no deadline, unless a default is set. Thread-safe.
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
     * Budget fields of one request as received: the lines of each field, in order; none for a missing one.
     *
     * @param budgets {@link BudgetField}
     * @param grpcTimeouts {@link GrpcTimeout}
     * @param envoyExpected {@link EnvoyTimeout}, or whole milliseconds that say the same
     */
    public record Received(
            Iterable<String> budgets, Iterable<String> grpcTimeouts, Iterable<String> envoyExpected) {
        /** At most one line of each field; null for a missing one. */
        public static Received of(String budget, String grpcTimeout, String envoyExpected) {
            return new Received(lines(budget), lines(grpcTimeout), lines(envoyExpected));
        }

        private static List<String> lines(String line) {
            return line == null ? List.of() : List.of(line);
        }
    }

    /** True if peers are believed what they say of a request's past and parts. */
    boolean trustsPeers() {
        return limits.trusted();
    }

    /** Number of requests with {@code fault}, the first one of a request. Without a readable line it got the default. */
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
     * <p>The shortest of all readable lines of all fields applies: each is a time after which a caller stops
     * waiting. What is known of the way so far comes from {@link BudgetField}. An unreadable line beside a readable
     * one is counted, and changes nothing.
     */
    public Budget accept(Received received) {
        Reading reading = new Reading();
        received.budgets().forEach(reading::budget);
        received.grpcTimeouts().forEach(line -> reading.timeout(GrpcTimeout::parse, line));
        received.envoyExpected().forEach(line -> reading.timeout(BudgetValidator::envoy, line));
        Budget asked = reading.budget;
        if (reading.fault != null || asked == null) {
            faults.incrementAndGet((reading.fault == null ? InvalidBudget.MISSING : reading.fault).ordinal());
        }
        if (asked == null) {
            return Budget.of(limits.defaultNanos());
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
    }

    /** Envoy's 0 means no timeout. */
    private static long envoy(String line) throws BadBudget {
        long nanos = EnvoyTimeout.parse(line);
        return nanos == 0 ? Long.MAX_VALUE : nanos;
    }

    /** The lines of one request, read in the order of its fields. */
    private static final class Reading {
        /** The shortest; null before the first readable line. */
        private Budget budget;
        /** The first; null without one. */
        private InvalidBudget fault;

        void budget(String line) {
            try {
                Budget other = BudgetField.parse(line);
                if (budget == null || other.remaining().leftNanos() < budget.remaining().leftNanos()) {
                    budget = other;
                }
            } catch (BadBudget bad) {
                fault(bad);
            }
        }

        void timeout(Parser parser, String line) {
            try {
                long nanos = parser.parse(line);
                if (budget != null) {
                    budget = budget.capped(nanos);
                } else if (nanos < Long.MAX_VALUE) {
                    budget = Budget.of(nanos);
                }
            } catch (BadBudget bad) {
                fault(bad);
            }
        }

        private void fault(BadBudget bad) {
            fault = fault == null ? bad.fault() : fault;
        }
    }

    private interface Parser {
        long parse(String line) throws BadBudget;
    }
}
