package greenwave.testbed;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import greenwave.storm.DeadlineAggregator;
import greenwave.storm.DeadlineBolt;
import greenwave.storm.DeadlineSpout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.commons.io.FileUtils;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.policy.WaitStrategyPark;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;

/**
 * A topology on a real Storm LocalCluster: services in series, of which at most one is a unit of workers.
 *
 * <p>Components: a spout; for each service a bolt with as many executors as it has threads; for the unit a
 * bolt that splits requests, a bolt with parts × threads executors, and an aggregator; a bolt that receives
 * the ends of requests. Storm gives each executor its own queue, so two threads never share one. The expected
 * time of a bolt is its own service time only: in Storm no answer comes back from which the times of later
 * bolts could be learned. An executor that finds its queue empty looks again after half a millisecond, which
 * each hop may add: Storm's own strategy would keep a core busy with polling.
 */
public final class Storm implements Runner {
    private final ExternalWork reality;

    Storm(ExternalWork reality) {
        this.reality = reality;
    }

    /** The main program; see spec/testbed.md. For its arguments see {@link ExternalWork#of}. */
    public static void main(String[] arguments) {
        Runner.main(() -> new Storm(ExternalWork.of(List.of(arguments))));
    }

    @Override
    public boolean searches() {
        return true;
    }

    @Override
    public void run(Plan plan, Lines lines) throws Exception {
        List<Plan.Stage> units =
                plan.settings().stages().stream().filter(stage -> stage.parts() > 1).toList();
        if (units.size() > 1) {
            throw new RunnerException(
                    "stage " + units.get(1).name() + ": parts " + units.get(1).parts() + " is not 1, in a second unit",
                    "one unit, services before and after it");
        }
        if (reality.searches() && plan.requests().stream().anyMatch(request -> request.query() == Plan.Request.NONE)) {
            throw new RunnerException("search is given, and not every request has a query", "a last column, its number");
        }
        Path scratch = Files.createTempDirectory("greenwave-storm");
        System.setProperty("java.io.tmpdir", scratch.toString());
        Runnable cleanup = () -> FileUtils.deleteQuietly(scratch.toFile());
        // After Ctrl-C or SIGTERM the finally block does not run.
        Runtime.getRuntime().addShutdownHook(new Thread(cleanup));
        try {
            TopologyState here = new TopologyState(plan, new Run(plan, lines), reality);
            TopologyState.set(here);
            new LocalCluster().submitTopology("testbed", config(), topology(plan.settings()).createTopology());
            here.warmUp();
            here.run().begin();
            here.run().all(here::send);
        } finally {
            // The cluster ends with the process: an orderly shutdown takes five seconds.
            cleanup.run();
        }
    }

    private static Config config() {
        Config config = new Config();
        config.setNumWorkers(1);
        config.setMessageTimeoutSecs(24 * 3600);
        config.put(Config.TOPOLOGY_SPOUT_WAIT_STRATEGY, WaitStrategyPark.class.getName());
        config.put(Config.TOPOLOGY_SPOUT_WAIT_PARK_MICROSEC, 100);
        config.put(Config.TOPOLOGY_BOLT_WAIT_STRATEGY, WaitStrategyPark.class.getName());
        config.put(Config.TOPOLOGY_BOLT_WAIT_PARK_MICROSEC, 500);
        return config;
    }

    private static TopologyBuilder topology(Plan.Settings settings) throws RunnerException {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("users", new DeadlineSpout(new RequestSpout(), (stream, values) -> TopologyState.get().budget(values)));
        BoltDeclarer ends = builder.setBolt("ends", new CompletionBolt());
        String before = "users";
        for (int at = 0; at < settings.stages().size(); at++) {
            Plan.Stage stage = settings.stages().get(at);
            String name = "stage" + at;
            DeadlineBolt bolt = new DeadlineBolt(new Work(at)).withQueue(settings.queue());
            if (stage.parts() == 1) {
                bolt.withShed(Work.shed(at, false));
                grouping(builder.setBolt(name, bolt, stage.threads()), before);
                ends.shuffleGrouping(name, Work.FAILED);
                before = name;
                continue;
            }
            bolt.withShed(Work.shed(at, true));
            String split = "split" + at;
            DeadlineBolt partition =
                    new DeadlineBolt(new Partition(name, stage)).withQueue(plain(settings));
            partition.withSplit(stage.reserveNs());
            grouping(builder.setBolt(split, partition), before);
            builder.setBolt(name, bolt, stage.parts() * stage.threads())
                    .directGrouping(split, RequestSpout.WORK)
                    .directGrouping(split, RequestSpout.WARM);
            before = JOIN;
            builder.setBolt(JOIN, aggregator(stage, at + 1 == settings.stages().size()))
                    .shuffleGrouping(name, RequestSpout.WORK)
                    .shuffleGrouping(name, RequestSpout.WARM)
                    .shuffleGrouping(split, Partition.OPEN);
        }
        grouping(ends, before);
        return builder;
    }

    private static void grouping(BoltDeclarer bolt, String before) {
        if (before.equals(JOIN)) {
            bolt.shuffleGrouping(before);
        } else {
            bolt.shuffleGrouping(before, RequestSpout.WORK).shuffleGrouping(before, RequestSpout.WARM);
        }
    }

    private static DeadlineAggregator aggregator(Plan.Stage stage, boolean isLast) {
        Answer answer = new Answer(stage.partial(), isLast);
        DeadlineAggregator aggregator =
                new DeadlineAggregator("request", "part", stage.parts(), answer).withOpening(Partition.OPEN);
        return stage.partial() ? aggregator : aggregator.withAllParts();
    }

    /** Settings of components outside the plan: first in, first out, without shedding. */
    private static DeadlineQueue.Settings plain(Plan.Settings settings) {
        return new DeadlineQueue.Settings(settings.capacity(), Order.FIFO, Shedding.NONE, settings.ageMaxNs());
    }

    /** The fields of all tuples; of {@code parts} answers, {@code used} were used. */
    static final Fields FIELDS = new Fields("request", "part", "used", "parts");

    private static final String JOIN = "join";
}
