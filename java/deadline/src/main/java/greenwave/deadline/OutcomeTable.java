package greenwave.deadline;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Outcomes of requests, counted per method.
 *
 * <p>A bounded number of methods has a row of its own, from their first answer on; requests for others share one. A
 * row stays. Thread-safe.
 */
final class OutcomeTable {
    /** Name of the methods without a row of their own, as in OpenTelemetry's conventions. */
    static final String OTHER = "_OTHER";

    private final int methodsMax;
    private final Map<String, AtomicLongArray> rows = new ConcurrentHashMap<>();
    private final AtomicLongArray others = row();

    OutcomeTable(int methodsMax) {
        this.methodsMax = methodsMax;
    }

    private static AtomicLongArray row() {
        return new AtomicLongArray(Outcome.values().length);
    }

    /** Counts a request for {@code method}, which gets a row if it was {@code answered} and there is room. */
    void record(String method, Outcome outcome, boolean answered) {
        AtomicLongArray row = rows.get(method);
        if (row == null && answered) {
            synchronized (this) {
                row = rows.size() < methodsMax ? rows.computeIfAbsent(method, unknown -> row()) : rows.get(method);
            }
        }
        (row == null ? others : row).incrementAndGet(outcome.ordinal());
    }

    /** Counts of every method with a row, by name, and of {@link #OTHER}, in the order of {@link Outcome}. */
    Map<String, long[]> methods() {
        Map<String, long[]> counts = new TreeMap<>();
        rows.forEach((method, row) -> counts.put(method, counts(row)));
        counts.put(OTHER, counts(others));
        return counts;
    }

    private static long[] counts(AtomicLongArray row) {
        long[] counts = new long[row.length()];
        for (int index = 0; index < counts.length; index++) {
            counts[index] = row.get(index);
        }
        return counts;
    }
}
