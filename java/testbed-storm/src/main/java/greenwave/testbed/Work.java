package greenwave.testbed;

import greenwave.storm.OnShed;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * A service of the plan, or a worker of its unit: works for the planned service time and emits the result.
 */
final class Work extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    /** Stream of failed requests. */
    static final String FAILED = "failed";

    private final int stage;
    private transient OutputCollector collector;

    /** The service at {@code stage} of the plan. */
    Work(int stage) {
        this.stage = stage;
    }

    /** Handling of shed requests: a service ends them; a worker sends the aggregator an unused part. */
    static OnShed shed(int stage, boolean isWorker) {
        return (tuple, reason, collector) -> {
            int request = tuple.getInteger(0);
            TopologyState.get().run().dropped(request, stage, tuple.getInteger(1));
            collector.emit(isWorker ? RequestSpout.stream(request) : FAILED, tuple, values(tuple, 0));
            collector.ack(tuple);
        };
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
    }

    @Override
    public void execute(Tuple tuple) {
        int request = tuple.getInteger(0);
        int used = tuple.getInteger(2);
        if (request >= 0 && used > 0) {
            TopologyState.get().work(request, stage, tuple.getInteger(1));
        }
        collector.emit(used > 0 ? RequestSpout.stream(request) : FAILED, tuple, values(tuple, used));
        collector.ack(tuple);
    }

    /** The fields of {@code tuple}, without the budget, with {@code used} replaced. */
    private static List<Object> values(Tuple tuple, int used) {
        return new Values(tuple.getValue(0), tuple.getValue(1), used, tuple.getValue(3));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(RequestSpout.WORK, Storm.FIELDS);
        declarer.declareStream(RequestSpout.WARM, Storm.FIELDS);
        declarer.declareStream(FAILED, Storm.FIELDS);
    }
}
