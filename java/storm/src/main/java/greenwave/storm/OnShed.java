package greenwave.storm;

import greenwave.deadline.Shedding;
import java.io.Serializable;
import java.util.List;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.Utils;

/**
 * Handling of a shed tuple: it is failed or acked, exactly once.
 *
 * <p>{@link #FAIL} tells the spout, as Storm's own timeout would, but at once; a spout that replays what failed
 * gives it a new budget and makes more work of it, just when there is too much. {@link #ACK} ends it here.
 * {@link #answer} ends it with a tuple that says so, which an aggregator does not have to wait for.
 */
public interface OnShed extends Serializable {
    /** Fails the tuple. */
    OnShed FAIL = (tuple, reason, collector) -> collector.fail(tuple);

    /** Acks the tuple. */
    OnShed ACK = (tuple, reason, collector) -> collector.ack(tuple);

    /** Acks or fails {@code tuple} with {@code collector}, exactly once. */
    void shed(Tuple tuple, Shedding.Reason reason, OutputCollector collector);

    /** Emits what {@code answer} makes of the tuple, anchored to it, and acks it. */
    static OnShed answer(Answer answer) {
        return answer(Utils.DEFAULT_STREAM_ID, answer);
    }

    /** Emits it on {@code stream}. */
    static OnShed answer(String stream, Answer answer) {
        return (tuple, reason, collector) -> {
            collector.emit(stream, tuple, answer.of(tuple, reason));
            collector.ack(tuple);
        };
    }

    /** The values of an empty answer, without the budget. */
    @FunctionalInterface
    interface Answer extends Serializable {
        /** To {@code tuple}, which is not served for {@code reason}. */
        List<Object> of(Tuple tuple, Shedding.Reason reason);
    }
}
