package greenwave.testbed;

import greenwave.storm.OnShed;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** A service of the plan, or a worker of its unit: works as long as the plan says, and passes on. */
final class Work extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    /** Requests that a service shed. */
    static final String FAILED = "failed";

    private final int stage;
    private transient OutputCollector collector;

    /** At {@code stage} of the plan. */
    Work(int stage) {
        this.stage = stage;
    }

    /** A service ends what it sheds; a worker tells the aggregator, with a part of no use. */
    static OnShed shed(int stage, boolean isWorker) {
        return (tuple, reason, collector) -> {
            int request = tuple.getInteger(0);
            int part = tuple.getInteger(1);
            Here.get().run().dropped(request, stage, part);
            collector.emit(isWorker ? tuple.getSourceStreamId() : FAILED, tuple, new Values(request, part, 0));
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
        int part = tuple.getInteger(1);
        if (request >= 0) {
            Here.get().run().work(request, stage, part);
            Here.get().run().served(request, stage, part);
        }
        collector.emit(tuple.getSourceStreamId(), tuple, new Values(request, part, 1));
        collector.ack(tuple);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(Births.WORK, Storm.FIELDS);
        declarer.declareStream(Births.WARM, Storm.FIELDS);
        declarer.declareStream(FAILED, Storm.FIELDS);
    }
}
