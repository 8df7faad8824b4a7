package greenwave.testbed;

import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Splits each request over the workers of a unit, and opens it at the aggregator. */
final class Partition extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    /** Stream of the tuples that open requests at the aggregator. */
    static final String OPEN = "open";

    private final String workers;
    private final int parts;
    private final int threads;
    private transient OutputCollector collector;
    private transient List<Integer> tasks;
    private int requests;

    /**
     * Sends the parts to the tasks of bolt {@code workers}: each part has as many tasks as {@code unit} has
     * threads.
     */
    Partition(String workers, Plan.Stage unit) {
        this.workers = workers;
        this.parts = unit.parts();
        this.threads = unit.threads();
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        this.tasks = context.getComponentTasks(workers);
    }

    @Override
    public void execute(Tuple tuple) {
        int request = tuple.getInteger(0);
        collector.emit(OPEN, tuple, new Values(request, 0, 0, parts));
        requests++;
        for (int part = 0; part < parts; part++) {
            int task = tasks.get(part * threads + requests % threads);
            collector.emitDirect(task, tuple.getSourceStreamId(), tuple, new Values(request, part, 1, parts));
        }
        collector.ack(tuple);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(OPEN, Storm.FIELDS);
        declarer.declareStream(RequestSpout.WORK, true, Storm.FIELDS);
        declarer.declareStream(RequestSpout.WARM, true, Storm.FIELDS);
    }
}
