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
 * <p>{@link #FAIL} fails the tuple at the spout, as Storm's own timeout would, but at once; a spout that
 * replays failed tuples gives them a new budget, which adds work during overload. {@link #ACK} ends the tuple
 * here. {@link #answer} ends it with an empty answer, so that an aggregator does not wait for it.
 */
public interface OnShed extends Serializable {
    /** Fails the tuple. */
    OnShed FAIL = (tuple, reason, collector) -> collector.fail(tuple);

    /** Acks the tuple. */
    OnShed ACK = (tuple, reason, collector) -> collector.ack(tuple);

    /** Acks or fails {@code tuple} with {@code collector}, exactly once. */
    void shed(Tuple tuple, Shedding.Reason reason, OutputCollector collector);

    /** Emits the answer that {@code answer} makes for the tuple, anchored to it, and acks the tuple. */
    static OnShed answer(Answer answer) {
        return answer(Utils.DEFAULT_STREAM_ID, answer);
    }

    /** As {@link #answer(Answer)}, but emits on {@code stream}. */
    static OnShed answer(String stream, Answer answer) {
        return (tuple, reason, collector) -> {
            collector.emit(stream, tuple, answer.of(tuple, reason));
            collector.ack(tuple);
        };
    }

    /** The values of an empty answer, without the budget. */
    @FunctionalInterface
    interface Answer extends Serializable {
        /** The answer to {@code tuple}, which is not served for {@code reason}. */
        List<Object> of(Tuple tuple, Shedding.Reason reason);
    }
}
