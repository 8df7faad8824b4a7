package greenwave.deadline;

/**
 * Times of a request at one stage.
 *
 * @param networkNanos on the way to it: C of the hop before
 * @param queueNanos waiting for its turn
 * @param serviceNanos being served, calls to other services included
 */
public record Stage(long networkNanos, long queueNanos, long serviceNanos) {
    /** All of it: {@code C(S_{i-1}) + L(S_i)}. */
    public long totalNanos() {
        return Spans.plus(Spans.plus(networkNanos, queueNanos), serviceNanos);
    }

    Stage plus(Stage other) {
        return new Stage(
                Spans.plus(networkNanos, other.networkNanos),
                Spans.plus(queueNanos, other.queueNanos),
                Spans.plus(serviceNanos, other.serviceNanos));
    }
}
