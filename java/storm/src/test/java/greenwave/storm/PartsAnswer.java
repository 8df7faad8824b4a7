package greenwave.storm;

import greenwave.deadline.thread.Deadlines;
import java.util.List;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/** The answer of the tests: the parts that arrived, and the remaining budget. */
final class PartsAnswer implements DeadlineAggregator.Answer {
    private static final long serialVersionUID = 1L;

    @Override
    public Fields fields() {
        return new Fields("id", "parts", "left");
    }

    @Override
    public List<Object> of(Object id, List<Tuple> parts, int expected) {
        List<String> texts = parts.stream().map(part -> part.getStringByField("text")).sorted().toList();
        return List.of(id, String.join(" ", texts), Deadlines.remaining().orElseThrow().leftNanos());
    }
}
