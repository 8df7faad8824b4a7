package greenwave.deadline;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Counter of requests or calls by their {@link Cause}, which also logs each at level DEBUG.
 *
 * <p>The logger is {@code greenwave.deadline} of the platform ({@link System.Logger}). Thread-safe.
 */
public final class CauseCounter {
    private static final System.Logger LOGGER = System.getLogger("greenwave.deadline");

    private final AtomicLongArray counts = new AtomicLongArray(Cause.values().length);

    /** A counter at zero. */
    public CauseCounter() {}

    /** Counts one with {@code cause} and logs {@code event} with the method or peer {@code of}. */
    public void record(Cause cause, String of, String event) {
        counts.incrementAndGet(cause.ordinal());
        LOGGER.log(System.Logger.Level.DEBUG, () -> event + " cause=" + cause.word() + " of=" + of);
    }

    /** Number with {@code cause}. */
    public long count(Cause cause) {
        return counts.get(cause.ordinal());
    }
}
