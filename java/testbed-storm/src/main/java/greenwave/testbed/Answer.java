package greenwave.testbed;

import greenwave.storm.DeadlineAggregator;
import java.util.List;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/** The answer of a unit: how many of its parts are of use. */
final class Answer implements DeadlineAggregator.Answer {
    private static final long serialVersionUID = 1L;

    private final boolean partial;

    Answer(Plan.Stage unit) {
        this.partial = unit.partial();
    }

    @Override
    public Fields fields() {
        return Storm.FIELDS;
    }

    @Override
    public List<Object> of(Object request, List<Tuple> parts, int expected) {
        int used = parts.stream().mapToInt(part -> part.getInteger(2)).sum();
        return List.of(request, expected, used < expected && !partial ? 0 : used);
    }
}
