package greenwave.testbed;

import greenwave.storm.DeadlineAggregator;
import java.util.List;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * The answer of a unit: the number of its used parts; zero if parts are missing and the unit may not answer
 * in part.
 */
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

    /**
     * Warm-up requests end here unless this is the last stage, since services after this one cannot recognize
     * them.
     */
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
