package greenwave.storm;

import greenwave.deadline.Budget;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.topology.TopologyBuilder;

/** A process with a bolt that throws at its first tuple. */
public final class ThrowingTopology {
    private ThrowingTopology() {}

    public static void main(String[] arguments) throws Exception {
        Step.WORKS.put("breaks", (tuple, collector, context) -> {
            throw new IllegalStateException("broken on purpose");
        });
        TopologyBuilder builder = new TopologyBuilder();
        TestSpout feed = new TestSpout("users", List.of("breaks"), List.of("id"));
        builder.setSpout("users", new DeadlineSpout(feed, (stream, values) -> Budget.of(TimeUnit.HOURS.toNanos(1))));
        builder.setBolt("breaks", new DeadlineBolt(new Step())).shuffleGrouping("users", "breaks");
        new LocalCluster().submitTopology("dying", new Config(), builder.createTopology());
        for (int n = 0; n < 1_000; n++) {
            TestSpout.emit("users", "breaks", n);
        }
    }
}
