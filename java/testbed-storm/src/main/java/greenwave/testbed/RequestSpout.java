package greenwave.testbed;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;

/** The spout: emits each request when it is due. */
final class RequestSpout extends BaseRichSpout {
    private static final long serialVersionUID = 1L;

    /** Stream of the plan's requests. Service time estimates are kept by stream. */
    static final String WORK = "work";
    /** Stream of warm-up requests. */
    static final String WARM = "warm";

    private transient SpoutOutputCollector collector;

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
    }

    @Override
    public void nextTuple() {
        Integer request = TopologyState.get().next();
        if (request != null) {
            collector.emit(stream(request), new Values(request, 0, 1, 1), request);
        }
    }

    /** Output stream of {@code request}. */
    static String stream(int request) {
        return request < 0 ? WARM : WORK;
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(WORK, Storm.FIELDS);
        declarer.declareStream(WARM, Storm.FIELDS);
    }
}
