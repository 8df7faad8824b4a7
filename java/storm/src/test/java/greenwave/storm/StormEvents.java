package greenwave.storm;

import com.codahale.metrics.MetricRegistry;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.hooks.BaseTaskHook;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltFailInfo;
import org.apache.storm.metrics2.reporters.StormReporter;
import org.apache.storm.tuple.Tuple;

/** Storm's own events of a topology: acks and failures by bolt, and metrics. */
final class StormEvents {
    /** By bolt and the tuple's first value: one "ack" or "fail" for each event. */
    static final Map<String, String> ACKS = new ConcurrentHashMap<>();

    /** Events of each worker. */
    private static final List<MetricRegistry> METRICS = new CopyOnWriteArrayList<>();

    private StormEvents() {}

    /** Acks and failures of {@code id} by {@code bolt}; null if there were none. */
    static String acks(String bolt, String id) {
        return ACKS.get(bolt + " " + id);
    }

    /** The sum of metric {@code greenwave-NAME} over the tasks of {@code bolt}. */
    static long metric(String bolt, String name) {
        AtomicLong sum = new AtomicLong();
        METRICS.forEach(metrics -> metrics.getGauges().forEach((key, gauge) -> {
            if (key.contains("." + bolt + ".") && key.endsWith("greenwave-" + name)) {
                sum.addAndGet((Long) gauge.getValue());
            }
        }));
        return sum.get();
    }

    /** Records bolts' acks and failures; one of Storm's hooks. */
    public static final class Hook extends BaseTaskHook {
        private String bolt;

        @Override
        public void prepare(Map<String, Object> conf, org.apache.storm.task.TopologyContext context) {
            bolt = context.getThisComponentId();
        }

        @Override
        public void boltAck(BoltAckInfo info) {
            record(info.tuple, "ack");
        }

        @Override
        public void boltFail(BoltFailInfo info) {
            record(info.tuple, "fail");
        }

        private void record(Tuple tuple, String what) {
            ACKS.merge(bolt + " " + tuple.getValue(0), what, (before, now) -> before + " " + now);
        }
    }

    /** Keeps the metrics; one of Storm's reporters. */
    public static final class Reporter implements StormReporter {
        @Override
        @Deprecated
        public void prepare(MetricRegistry registry, Map<String, Object> conf, Map<String, Object> reporterConf) {
            METRICS.add(registry);
        }

        @Override
        public void start() {}

        @Override
        public void stop() {}

        @Override
        public void close() {}
    }
}
