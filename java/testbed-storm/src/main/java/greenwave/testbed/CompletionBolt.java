package greenwave.testbed;

import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Tuple;

/** Last bolt: completes the futures of requests. */
final class CompletionBolt extends BaseBasicBolt {
    private static final long serialVersionUID = 1L;

    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
        TopologyState.get().end(tuple.getInteger(0), tuple.getInteger(2), tuple.getInteger(3));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}
}
