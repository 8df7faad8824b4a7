package greenwave.deadline;

/**
 * Probes against an estimate that rejects requests, since rejected requests give no samples: one rejected
 * request in {@value #EVERY}, and one a second where they are rare. Not thread-safe.
 */
final class ProbeInterval {
    private int rejected;
    private boolean begun;
    private long sinceNanos;

    /** True if the request that is rejected at {@code nowNanos} is a probe. */
    boolean isDue(long nowNanos) {
        if (!begun) {
            begun = true;
            sinceNanos = nowNanos;
        }
        rejected++;
        boolean due = rejected >= EVERY || nowNanos - sinceNanos >= AFTER_NANOS;
        if (due) {
            rejected = 0;
            sinceNanos = nowNanos;
        }
        return due;
    }

    static final int EVERY = 64;
    private static final long AFTER_NANOS = 1_000_000_000;
}
