package greenwave.storm;

import greenwave.deadline.Budget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import java.security.SecureRandom;

/**
 * A budget as the value of a tuple's field: the text of {@link BudgetField}, and the time at which it was
 * sent.
 *
 * <p>Text, since every Storm can send it: between workers Kryo needs no registration for it, and bolts in
 * other languages get it as JSON. The budget is followed by {@code sent="PROCESS INSTANT"}, a key that other
 * readers ignore. The process that wrote it computes from it how long the tuple waited in Storm's queues;
 * other processes ignore it, since their clocks may differ.
 */
final class TupleBudget {
    /** The field's name. */
    static final String FIELD = BudgetField.HEADER;

    /** Unique name of this process and of the class that reads its clock. */
    private static final String PROCESS = Long.toHexString(new SecureRandom().nextLong() | 1L << 63);

    private static final String SENT = ", sent=\"" + PROCESS + ' ';

    private TupleBudget() {}

    /** {@code budget} as text, with the time of sending {@code nowNanos}. */
    static String write(Budget budget, long nowNanos) {
        return BudgetField.write(budget) + SENT + nowNanos + '"';
    }

    /**
     * Time from the sending of {@code value} to {@code nowNanos}, in nanoseconds; zero if another process
     * sent it.
     */
    static long underwayNanos(Object value, long nowNanos) {
        if (!(value instanceof String text) || text.length() > BudgetField.LEN_MAX) {
            return 0;
        }
        int from = text.lastIndexOf(SENT) + SENT.length();
        int to = text.length() - 1;
        if (from < SENT.length() || from >= to || to - from > DIGITS_MAX) {
            return 0;
        }
        try {
            return Math.max(0, nowNanos - Long.parseUnsignedLong(text, from, to, 10));
        } catch (NumberFormatException unreadable) {
            return 0;
        }
    }

    /** The current time by the process-wide clock. */
    static long now() {
        return Deadlines.now();
    }

    private static final int DIGITS_MAX = 18;
}
