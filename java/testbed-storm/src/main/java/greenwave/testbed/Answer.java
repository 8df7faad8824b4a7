package greenwave.testbed;

import greenwave.storm.DeadlineAggregator;
import java.util.List;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** The answer of a unit: how many of its parts are of use; none when it is to be whole and is not. */
final class Answer implements DeadlineAggregator.Answer {
    private static final long serialVersionUID = 1L;

    private final boolean partial;
    private final boolean isLast;

    /** Answer of a unit that may answer in part and is the topology's last stage. */
    Answer(boolean partial, boolean isLast) {
        this.partial = partial;
        this.isLast = isLast;
    }

    @Override
    public Fields fields() {
        return Storm.FIELDS;
    }

    /** Warming requests end here, since services after this one tell them by nothing. */
    @Override
    public List<Object> of(Object request, List<Tuple> parts, int expected) {
        int used = parts.stream().mapToInt(part -> part.getInteger(2)).sum();
        if (!isLast && (Integer) request < 0) {
            TopologyState.get().end((Integer) request, used, expected);
            return null;
        }
        return new Values(request, 0, used < expected && !partial ? 0 : used, expected);
    }
}
