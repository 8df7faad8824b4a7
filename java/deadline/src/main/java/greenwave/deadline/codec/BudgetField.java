package greenwave.deadline.codec;

import greenwave.deadline.Budget;
import greenwave.deadline.SubrequestEstimate;
import greenwave.deadline.Stage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * {@code greenwave-budget}: everything a {@link Budget} knows, as one text.
 *
 * <p>A dictionary of RFC 9651 (Structured Field Values) with spans in microseconds: {@code expected=200000,
 * remaining=148000, split, spent=(900 30000 21100)}. {@code expected} and {@code remaining} are required.
 * Optional keys: {@code split} (the paper's {@code PU_flag}), alone or with the reserve for the aggregate
 * phase ({@code split=5000}); {@code takes} and {@code slowest}, both or neither, the aggregator's estimates
 * for a sub-request and for the slowest sub-request of the same request; and {@code spent} (network, queue,
 * service of each stage). Unknown keys are ignored, so that a later version can add some. The time since a
 * missed deadline is not sent: the remaining budget is then 0. Source: D2P §3; RFC 9651 §3.2.
 */
public final class BudgetField {
    /** The name, as an HTTP header, gRPC metadata, Dubbo attachment or Storm field. */
    public static final String HEADER = "greenwave-budget";

    /** Maximum length of a text; longer ones are rejected without being parsed. */
    public static final int LEN_MAX = 1024;

    private BudgetField() {}

    /**
     * The budget written as {@code text}.
     *
     * @throws BadBudget if the text is not such a dictionary, is longer than {@link #LEN_MAX}, lacks a
     *     required key, has more time remaining than expected, or holds a negative span
     */
    public static Budget parse(String text) throws BadBudget {
        if (text.length() > LEN_MAX) {
            throw BadBudget.GARBLED;
        }
        Map<String, Object> dictionary = new Dictionary(text).parse();
        long expected = micros(dictionary.get("expected"));
        long remaining = micros(dictionary.get("remaining"));
        Object split = dictionary.getOrDefault("split", false);
        boolean isSplit = !Boolean.FALSE.equals(split);
        long reserve = split instanceof Boolean ? 0 : micros(split);
        long granted = Math.max(0, expected - reserve);
        if (remaining > granted) {
            throw BadBudget.GARBLED;
        }
        List<Stage> stages = stages(dictionary.getOrDefault("spent", List.of()));
        Budget budget = Budget.restored(expected, granted - remaining, stages);
        budget = isSplit ? budget.split(reserve) : budget;
        Object takes = dictionary.get("takes");
        Object slowest = dictionary.get("slowest");
        boolean isPart = takes != null || slowest != null;
        return isPart ? budget.expecting(new SubrequestEstimate(micros(takes), micros(slowest))) : budget;
    }

    /** {@code budget} as text; spans in whole microseconds, the remaining budget rounded down. */
    public static String write(Budget budget) {
        long expected = budget.expectedNanos() / 1_000;
        long reserve = budget.reserveNanos() / 1_000;
        long remaining = Math.min(budget.remaining().leftNanos() / 1_000, expected - reserve);
        StringBuilder text = new StringBuilder(64);
        text.append("expected=").append(expected).append(", remaining=").append(remaining);
        if (budget.isSplit()) {
            text.append(", split");
            if (reserve > 0) {
                text.append('=').append(reserve);
            }
        }
        budget.part().ifPresent(part -> {
            text.append(", takes=").append(part.serviceNanos() / 1_000);
            text.append(", slowest=").append(part.slowestNanos() / 1_000);
        });
        String before = ", spent=(";
        for (Stage stage : budget.stages()) {
            text.append(before).append(stage.networkNanos() / 1_000);
            text.append(' ').append(stage.queueNanos() / 1_000);
            text.append(' ').append(stage.serviceNanos() / 1_000);
            before = " ";
        }
        return budget.stages().isEmpty() ? text.toString() : text.append(')').toString();
    }

    /** Nanoseconds of a number of microseconds, of at most fifteen digits. */
    private static long micros(Object value) throws BadBudget {
        if (!(value instanceof Long n)) {
            throw BadBudget.GARBLED;
        }
        if (n < 0) {
            throw BadBudget.NEGATIVE;
        }
        return n * 1_000;
    }

    private static List<Stage> stages(Object value) throws BadBudget {
        if (!(value instanceof List<?> list)) {
            throw BadBudget.GARBLED;
        }
        long[] spans = new long[list.size()];
        for (int at = 0; at < spans.length; at++) {
            spans[at] = micros(list.get(at));
        }
        if (spans.length % 3 != 0 || spans.length > 3 * Budget.STAGES_MAX) {
            throw BadBudget.GARBLED;
        }
        List<Stage> stages = new ArrayList<>();
        for (int at = 0; at < spans.length; at += 3) {
            stages.add(new Stage(spans[at], spans[at + 1], spans[at + 2]));
        }
        return stages;
    }
}
