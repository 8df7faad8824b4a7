package greenwave.storm;

import greenwave.deadline.thread.Deadlines;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Search over four partitions within 200 ms; every third query has a partition that is too slow. */
public final class Example {
    private static final int PARTITIONS = 4;
    private static final int QUERIES = 6;
    private static final long MS = 1_000_000;
    private static final CountDownLatch DONE = new CountDownLatch(QUERIES);

    private Example() {}

    public static void main(String[] arguments) throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("users", new DeadlineSpout(new Users(), 200 * MS));
        builder.setBolt("split", new DeadlineBolt(new Split()).withSplit(20 * MS)).shuffleGrouping("users");
        builder.setBolt("search", new DeadlineBolt(new Search()), PARTITIONS)
                .fieldsGrouping("split", new Fields("partition"));
        builder.setBolt("answer", new DeadlineAggregator("query", "partition", PARTITIONS, new Count()))
                .fieldsGrouping("search", new Fields("query"));
        builder.setBolt("print", new Print()).globalGrouping("answer");
        try (LocalCluster cluster = new LocalCluster()) {
            cluster.submitTopology("search", new Config(), builder.createTopology());
            DONE.await(60, TimeUnit.SECONDS);
        }
        System.exit(0);
    }

    private static final class Users extends BaseRichSpout {
        private static final long serialVersionUID = 1L;
        private transient SpoutOutputCollector collector;
        private int query;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void nextTuple() {
            if (query < QUERIES) {
                LockSupport.parkNanos(100 * MS); // a query every 100 ms
                collector.emit(new Values(++query), query);
            }
        }

        @Override
        public void ack(Object message) {
            DONE.countDown();
        }

        @Override
        public void fail(Object message) {
            System.out.println("query " + message + ": a part of it was not served");
            DONE.countDown();
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("query"));
        }
    }

    private static final class Split extends BaseBasicBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            for (int partition = 0; partition < PARTITIONS; partition++) {
                collector.emit(new Values(tuple.getInteger(0), partition));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("query", "partition"));
        }
    }

    private static final class Search extends BaseBasicBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            boolean isSlow = tuple.getInteger(0) % 3 == 0 && tuple.getInteger(1) == 0;
            LockSupport.parkNanos((isSlow ? 250 : 10) * MS); // the work
            collector.emit(new Values(tuple.getInteger(0), tuple.getInteger(1)));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("query", "partition"));
        }
    }

    private static final class Count implements DeadlineAggregator.Answer {
        private static final long serialVersionUID = 1L;

        @Override
        public Fields fields() {
            return new Fields("text");
        }

        @Override
        public List<Object> of(Object query, List<Tuple> parts, int expected) {
            long left = Deadlines.remaining().orElseThrow().leftNanos() / 1_000;
            return List.of("query " + query + ": " + parts.size() + " of " + expected + " parts, " + left + " us left");
        }
    }

    private static final class Print extends BaseBasicBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            System.out.println(tuple.getString(0));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }
}
