package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.BudgetValidator.Received;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Validation of peers' budgets: outcomes for missing, too large and malformed ones. */
//~ java: budgets, deadlines and queue follow the rules of the Rust side
class BudgetValidatorTest {
    private static final long MS = 1_000_000;
    private static final Limits LIMITS = new Limits(500 * MS, 60_000 * MS, false);
    private static final Limits TRUSTED = new Limits(500 * MS, 60_000 * MS, true);

    @Test
    void anInvalidOrMissingBudgetGetsTheDefaultAndIsCounted() {
        Map<Received, InvalidBudget> cases = new LinkedHashMap<>();
        cases.put(Received.of(null, null, null), InvalidBudget.MISSING);
        cases.put(field("tomorrow"), InvalidBudget.GARBLED);
        cases.put(field("x".repeat(1 << 20)), InvalidBudget.GARBLED);
        cases.put(grpcTimeout("5 fortnights"), InvalidBudget.GARBLED);
        cases.put(grpcTimeout("-5m"), InvalidBudget.NEGATIVE);
        cases.put(field("expected=5, remaining=-5"), InvalidBudget.NEGATIVE);
        cases.forEach((received, fault) -> {
            for (Limits limits : List.of(LIMITS, TRUSTED)) {
                BudgetValidator validator = new BudgetValidator(limits);
                assertEquals(Budget.of(LIMITS.defaultNanos()), validator.accept(received));
                for (InvalidBudget other : InvalidBudget.values()) {
                    assertEquals(other == fault ? 1 : 0, validator.faults(other), other + " of " + fault);
                }
            }
        });
    }

    @Test
    void fiveSecondsStayFiveAndTwoHoursBecomeTheMaximum() {
        assertEquals(Budget.of(5_000 * MS), new BudgetValidator(LIMITS).accept(grpcTimeout("5S")));
        Received year = field("expected=31536000000000, remaining=31536000000000");
        for (Received received : List.of(grpcTimeout("2H"), grpcTimeout("8760H"), year)) {
            for (Limits limits : List.of(LIMITS, TRUSTED)) {
                BudgetValidator validator = new BudgetValidator(limits);
                assertEquals(Budget.of(LIMITS.longestNanos()), validator.accept(received));
                assertEquals(1, validator.shortened());
            }
        }
        BudgetValidator validator = new BudgetValidator(LIMITS);
        assertEquals(Budget.of(1_000), validator.accept(field("expected=31536000000000, remaining=1")));
        assertEquals(1, validator.faults(InvalidBudget.ABSURD));
        BudgetValidator standard = new BudgetValidator(Limits.DEFAULT);
        assertTrue(!standard.accept(Received.of(null, null, null)).isLimited(), "no deadline by default");
        assertEquals(1, standard.faults(InvalidBudget.MISSING));
    }

    @Test
    void aZeroBudgetIsAcceptedAndMissedAtOnce() {
        for (Received received : List.of(field("expected=0, remaining=0"), grpcTimeout("0m"))) {
            BudgetValidator validator = new BudgetValidator(LIMITS);
            assertEquals(new Remaining(0), validator.accept(received).remaining());
            assertTrue(validator.accept(received).remaining().isMissed());
            assertEquals(0, faults(validator));
        }
    }

    @Test
    void theShortestOfSeveralTimeoutsApplies() {
        Received all = Received.of("expected=400000, remaining=300000", "200m", "250");
        Budget budget = new BudgetValidator(LIMITS).accept(all);
        assertEquals(200 * MS, budget.remaining().leftNanos());
        assertEquals(100 * MS, budget.elapsedNanos(), "what is known of the way so far stays");
        Budget ofEnvoy = new BudgetValidator(LIMITS).accept(Received.of(null, null, "250"));
        assertEquals(Budget.of(250 * MS), ofEnvoy);
    }

    @Test
    void noPeerGetsMoreThanTheShortestTimeAndTheMaximum() {
        Random random = new Random(11);
        for (int round = 0; round < 3_000; round++) {
            long most = 1_000_000_000_000L;
            Budget sent = Budget.restored(random.nextLong(most), random.nextLong(most), List.of());
            long timeout = random.nextLong(100_000) * MS;
            long envoy = random.nextLong(100_000) * MS;
            Received received = Received.of(
                    BudgetField.write(sent), GrpcTimeout.write(timeout), EnvoyTimeout.write(envoy));
            Limits limits = random.nextBoolean() ? TRUSTED : LIMITS;
            BudgetValidator validator = new BudgetValidator(limits);
            long left = validator.accept(received).remaining().leftNanos();
            long shortest = Math.min(sent.remaining().leftNanos(), Math.min(timeout, envoy));
            long allowed = Math.max(shortest, MS);
            assertTrue(left <= Math.min(allowed, LIMITS.longestNanos()));
        }
    }

    //~ java: only a trusted peer's expectation of its parts is used
    @Test
    void onlyATrustedPeersSubrequestEstimatesAreUsed() {
        Received sent = field("expected=200000, remaining=195000, split=5000, takes=1, slowest=2");
        SubrequestEstimate expected = new SubrequestEstimate(1_000, 2_000);
        assertEquals(Optional.of(expected), new BudgetValidator(TRUSTED).accept(sent).part());
        assertEquals(Optional.empty(), new BudgetValidator(LIMITS).accept(sent).part());
    }

    private static long faults(BudgetValidator validator) {
        return Arrays.stream(InvalidBudget.values()).mapToLong(validator::faults).sum();
    }

    private static Received field(String text) {
        return Received.of(text, null, null);
    }

    private static Received grpcTimeout(String text) {
        return Received.of(null, text, null);
    }
}
