package greenwave.deadline;

/**
 * Overload measured by the queue itself: the share of requests that were lost recently.
 *
 * <p>A request that expires is lost; one that is served is lost by the probability that it will be late. The
 * share is over the last one to two seconds. Without losses the floor is zero, and the queue drops what has
 * expired and nothing else. One thread at a time.
 */
final class LossMeter {
    private long openedNanos;
    private long previousLost;
    private long previousRequests;
    private long lost;
    private long requests;

    /** Records a request that leaves at {@code nowNanos}, in time with {@code probability}. */
    void record(long nowNanos, long probability) {
        long age = nowNanos - openedNanos;
        if (age >= WINDOW_NANOS) {
            boolean recent = age < WINDOW_NANOS * 2;
            previousLost = recent ? lost : 0;
            previousRequests = recent ? requests : 0;
            lost = 0;
            requests = 0;
            openedNanos = nowNanos;
        }
        lost += Forecast.ONE - probability;
        requests++;
    }

    /** Least probability with which a request is served before others. */
    long floor() {
        long scaled = (previousLost + lost) * LOSS_FACTOR / (previousRequests + requests + SAMPLES_PRIOR);
        return Math.min(Forecast.ONE, scaled) * FLOOR_MAX / Forecast.ONE;
    }

    private static final long WINDOW_NANOS = 1_000_000_000L;
    /** Inverse of the share of losses at which the floor is highest. */
    private static final long LOSS_FACTOR = 10;
    /** Highest floor: 0.8. */
    private static final long FLOOR_MAX = Forecast.ONE * 4 / 5;
    /** Requests without loss that are imagined before the first. */
    private static final long SAMPLES_PRIOR = 8;
}
