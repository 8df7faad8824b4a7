package greenwave.storm;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/** A bolt whose behaviour the test sets; it declares (id, text). */
final class Step extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    /** Sets the work of bolt {@code name}. */
    interface Work {
        void on(Tuple tuple, OutputCollector collector, TopologyContext context) throws Exception;
    }

    /** Work by component; a component without work acks. */
    static final Map<String, Work> WORKS = new ConcurrentHashMap<>();

    private final List<String> direct;
    private final Integer tickSeconds;
    private transient OutputCollector collector;
    private transient TopologyContext context;

    /** Declares the default stream and direct ones, {@code direct}. */
    Step(String... direct) {
        this(null, direct);
    }

    Step(Integer tickSeconds, String... direct) {
        this.tickSeconds = tickSeconds;
        this.direct = List.of(direct);
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        this.context = context;
    }

    @Override
    public void execute(Tuple tuple) {
        Work work = WORKS.getOrDefault(context.getThisComponentId(), (each, out, here) -> out.ack(each));
        try {
            work.on(tuple, collector, context);
        } catch (RuntimeException thrown) {
            throw thrown;
        } catch (Exception thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("id", "text"));
        declarer.declareStream("open", new Fields("id"));
        direct.forEach(stream -> declarer.declareStream(stream, true, new Fields("id", "part")));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return tickSeconds == null ? null : Map.of("topology.tick.tuple.freq.secs", tickSeconds);
    }
}
