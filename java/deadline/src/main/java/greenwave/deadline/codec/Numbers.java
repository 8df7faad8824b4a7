package greenwave.deadline.codec;

/** Parser of plain decimal numbers in headers of other systems. */
final class Numbers {
    private Numbers() {}

    /** A number of at most {@code digits} digits (17 or fewer). */
    static long parse(String text, int digits) throws BadBudget {
        boolean negative = text.startsWith("-");
        int from = negative ? 1 : 0;
        if (text.length() == from || text.length() - from > digits) {
            throw BadBudget.GARBLED;
        }
        long value = 0;
        for (int at = from; at < text.length(); at++) {
            char digit = text.charAt(at);
            if (digit < '0' || digit > '9') {
                throw BadBudget.GARBLED;
            }
            value = value * 10 + (digit - '0');
        }
        if (negative && value > 0) {
            throw BadBudget.NEGATIVE;
        }
        return value;
    }

    /** {@code a × b}, at most {@link Long#MAX_VALUE}; neither is negative. */
    static long times(long a, long b) {
        return Math.multiplyHigh(a, b) == 0 && a * b >= 0 ? a * b : Long.MAX_VALUE;
    }
}
