package greenwave.storm;

import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;

/** Spout that emits tests' tuples and records their acks and failures. */
final class TestSpout extends BaseRichSpout {
    private static final long serialVersionUID = 1L;

    private record Emission(String stream, List<Object> values, Object message) {}

    private static final Map<String, Queue<Emission>> WAITING = new ConcurrentHashMap<>();
    static final Map<Object, String> ACKS = new ConcurrentHashMap<>();

    private final String name;
    private final List<String> streams;
    private final List<String> fields;
    private transient SpoutOutputCollector collector;

    TestSpout(String name, List<String> streams, List<String> fields) {
        this.name = name;
        this.streams = streams;
        this.fields = fields;
    }

    /**
     * Makes spout {@code name} emit {@code values} on {@code stream}; the first value is the message's id.
     */
    static void emit(String name, String stream, Object... values) {
        WAITING.computeIfAbsent(name, each -> new ConcurrentLinkedQueue<>())
                .add(new Emission(stream, List.of(values), values[0]));
    }

    /** True if spout {@code name} has emitted everything. */
    static boolean isEmpty(String name) {
        return WAITING.get(name).isEmpty();
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
    }

    /** An emission is removed after it was made, so an empty queue means that all were made. */
    @Override
    public void nextTuple() {
        Queue<Emission> waiting = WAITING.computeIfAbsent(name, each -> new ConcurrentLinkedQueue<>());
        Emission next = waiting.peek();
        if (next != null) {
            collector.emit(next.stream, next.values, next.message);
            waiting.remove();
        }
    }

    @Override
    public void ack(Object message) {
        ACKS.merge(message, "ack", (before, now) -> before + " " + now);
    }

    @Override
    public void fail(Object message) {
        ACKS.merge(message, "fail", (before, now) -> before + " " + now);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        streams.forEach(stream -> declarer.declareStream(stream, new Fields(fields)));
    }
}
