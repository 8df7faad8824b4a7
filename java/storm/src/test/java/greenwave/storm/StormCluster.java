package greenwave.storm;

import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.Budget;
import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.policy.WaitStrategyPark;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.FailedException;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.BeforeEach;

/**
 * Real Storm in this process: one cluster, one topology in which each test has bolts of its own.
 *
 * <p>The clock of deadlines is the tests' and stands still, so what is waited for takes as long as they say.
 * Two workers share the bolts, so tuples are serialised on their way (the others are for the test's sake, {@code
 * topology.testing.always.try.serialize}), and ten are gathered for the other worker unless they are flushed.
 */
abstract class StormCluster {
    static final long MS = 1_000_000;
    static final int PARTS = 3;

    /** Final tuples by their first value. */
    static final Map<Object, Tuple> SEEN = new ConcurrentHashMap<>();

    private static final AtomicInteger IDS = new AtomicInteger();

    static {
        TestClock.install();
        try {
            Config conf = modest();
            conf.setNumWorkers(2);
            conf.setMessageTimeoutSecs(300);
            conf.put(Config.TOPOLOGY_TESTING_ALWAYS_TRY_SERIALIZE, true);
            conf.put(Config.TOPOLOGY_STATS_SAMPLE_RATE, 1.0);
            conf.put(Config.TOPOLOGY_TRANSFER_BATCH_SIZE, 10);
            conf.put(Config.TOPOLOGY_AUTO_TASK_HOOKS, List.of(StormEvents.Hook.class.getName()));
            conf.put(Config.TOPOLOGY_METRICS_REPORTERS, List.of(Map.of("class", StormEvents.Reporter.class.getName())));
            // Directory of the files that Storm writes.
            Path folder = Files.createDirectories(Path.of("target", "storm").toAbsolutePath());
            System.setProperty("java.io.tmpdir", folder.toString());
            new LocalCluster().submitTopology("deadlines", conf, topology().createTopology());
        } catch (Exception broken) {
            throw new ExceptionInInitializerError(broken);
        }
    }

    /** Idle executors park, so that others can use the cores. */
    static Config modest() {
        Config conf = new Config();
        conf.put(Config.TOPOLOGY_SPOUT_WAIT_STRATEGY, WaitStrategyPark.class.getName());
        conf.put(Config.TOPOLOGY_SPOUT_WAIT_PARK_MICROSEC, 1_000);
        conf.put(Config.TOPOLOGY_BOLT_WAIT_STRATEGY, WaitStrategyPark.class.getName());
        conf.put(Config.TOPOLOGY_BOLT_WAIT_PARK_MICROSEC, 1_000);
        return conf;
    }

    private static TopologyBuilder topology() {
        TopologyBuilder builder = new TopologyBuilder();
        List<String> streams = List.of(
                "orders", "narrow", "fails", "acks", "answers", "learns", "basic", "refuses", "later", "ticks",
                "first", "split", "few", "all");
        builder.setSpout("users", new DeadlineSpout(
                new TestSpout("users", streams, List.of("id", "left")),
                (stream, values) -> Budget.of((Long) values.get(1))));
        builder.setSpout("strangers", new TestSpout("strangers", List.of("peers"), List.of("id", "left")));
        builder.setSpout("forgers", new TestSpout("forgers", List.of("peers"), List.of("id", TupleBudget.FIELD)));
        builder.setBolt("peers", new DeadlineBolt(new Step()))
                .shuffleGrouping("strangers", "peers")
                .shuffleGrouping("forgers", "peers");

        one(builder, "orders", new DeadlineBolt(new Step()));
        one(builder, "narrow", new DeadlineBolt(new Step()).withQueue(narrow()));
        one(builder, "fails", new DeadlineBolt(new Step()));
        one(builder, "acks", new DeadlineBolt(new Step()).withShed(OnShed.ACK));
        one(builder, "answers", new DeadlineBolt(new Step()).withShed(OnShed.answer(
                (tuple, reason) -> List.of(tuple.getValue(0), reason.name()))));
        one(builder, "learns", new DeadlineBolt(new Step()).withRest(50 * MS).withQueue(infeasible()));
        one(builder, "basic", new DeadlineBolt(new Refusing()));
        one(builder, "refuses", new DeadlineBolt(new Step()));
        one(builder, "later", new DeadlineBolt(new Step()));
        one(builder, "ticks", new DeadlineBolt(new Step(1)));
        one(builder, "first", new DeadlineBolt(new Step()));
        builder.setBolt("second", new DeadlineBolt(new Step())).shuffleGrouping("first");

        one(builder, "split", new DeadlineBolt(new Step("part")).withSplit(50 * MS));
        OnShed empty = OnShed.answer((tuple, reason) -> List.of(tuple.getValue(0), "none" + tuple.getValue(1)));
        DeadlineBolt worker = new DeadlineBolt(new Step()).withShed(empty).withQueue(patient());
        builder.setBolt("worker", worker, PARTS).directGrouping("split", "part");
        DeadlineBolt hasty = new DeadlineBolt(new Step()).withShed(empty).withRest(1_000 * MS);
        builder.setBolt("hasty", hasty.withQueue(infeasible())).directGrouping("split", "part");
        builder.setBolt("join", new DeadlineAggregator("id", "text", PARTS, new PartsAnswer()).withOpening("open"))
                .shuffleGrouping("worker")
                .shuffleGrouping("hasty")
                .shuffleGrouping("split", "open");
        builder.setBolt("few", new DeadlineAggregator("id", "left", 2, new Count()).withCapacity(1))
                .shuffleGrouping("users", "few");

        builder.setBolt("all", new DeadlineAggregator("id", "left", 2, new Count()).withCapacity(1).withAllParts())
                .shuffleGrouping("users", "all");

        BoltDeclarer sink = builder.setBolt("sink", new Sink());
        for (String bolt : List.of("answers", "later", "second", "join", "few", "all")) {
            sink.shuffleGrouping(bolt);
        }
        return builder;
    }

    private static void one(TopologyBuilder builder, String name, DeadlineBolt bolt) {
        builder.setBolt(name, bolt).shuffleGrouping("users", name);
    }

    private static DeadlineQueue.Settings narrow() {
        return new DeadlineQueue.Settings(1, Order.EDF, Shedding.INFEASIBLE, 1_000 * MS);
    }

    /** Sheds every tuple that its estimate excludes, overloaded or not. */
    private static DeadlineQueue.Settings infeasible() {
        return new DeadlineQueue.Settings(100, Order.EDF, Shedding.INFEASIBLE, 1_000 * MS);
    }

    /** Sheds only expired tuples, not by estimates, since tests share the workers. */
    private static DeadlineQueue.Settings patient() {
        return new DeadlineQueue.Settings(100, Order.EDF, Shedding.EXPIRED, 1_000 * MS);
    }

    @BeforeEach
    void stopTheClock() {
        TestClock.stop();
        Step.WORKS.clear();
    }

    /** An id unique among all tests. */
    static String id(String name) {
        return name + IDS.incrementAndGet();
    }

    /** Emits a request with {@code leftMs} remaining for the bolt {@code name}; returns its id. */
    static String send(String name, long leftMs) {
        String id = id(name);
        TestSpout.emit("users", name, id, leftMs * MS);
        return id;
    }

    /** The spout's acks and failures of {@code id}; waits for the first. */
    static String acks(Object id) {
        await(() -> TestSpout.ACKS.containsKey(id));
        return TestSpout.ACKS.get(id);
    }

    /** Acks and failures of {@code id} by {@code bolt}, once there are {@code count}; the spout may get them before. */
    static String acks(String bolt, String id, int count) {
        await(() -> {
            String acks = StormEvents.acks(bolt, id);
            return acks != null && acks.split(" ").length >= count;
        });
        return StormEvents.acks(bolt, id);
    }

    /** Final tuple of {@code id}; waits for it. */
    static Tuple seen(Object id) {
        await(() -> SEEN.containsKey(id));
        return SEEN.get(id);
    }

    /** Waits until {@code count} tuples wait in {@code bolt}'s queue. */
    static void awaitWaiting(String bolt, long count) {
        await(() -> StormEvents.metric(bolt, "waiting") == count);
    }

    /**
     * Occupies {@code bolt} with one tuple until that is released, and gives other tuples to {@code work}.
     */
    static Block block(String bolt, Step.Work work) {
        Block block = new Block();
        Step.WORKS.put(bolt, (tuple, collector, context) -> {
            if (!tuple.getValue(0).equals(block.id)) {
                work.on(tuple, collector, context);
                return;
            }
            block.entered.countDown();
            assertTrue(block.released.await(LIMIT_S, TimeUnit.SECONDS), "never released");
            collector.ack(tuple);
        });
        TestSpout.emit("users", bolt, block.id, 3_000_000 * MS);
        await(() -> block.entered.getCount() == 0);
        return block;
    }

    /** A tuple that occupies a bolt. */
    static final class Block {
        final String id = id("block");
        private final CountDownLatch entered = new CountDownLatch(1);
        private final CountDownLatch released = new CountDownLatch(1);

        void release() {
            released.countDown();
        }
    }

    /** Waits until {@code condition} holds; fails if it does not within the limit. */
    static void await(BooleanSupplier condition) {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < limit, "waited in vain");
            LockSupport.parkNanos(100_000);
        }
    }

    /** A basic bolt that fails tuples whose text contains "no". */
    private static final class Refusing extends BaseBasicBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            if (tuple.getString(0).contains("no")) {
                throw new FailedException("no");
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    /** A last bolt, without a deadline. */
    private static final class Sink extends BaseBasicBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            SEEN.put(tuple.getValue(0), tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    /** Number of parts received. */
    private static final class Count implements DeadlineAggregator.Answer {
        private static final long serialVersionUID = 1L;

        @Override
        public Fields fields() {
            return new Fields("id", "count");
        }

        @Override
        public List<Object> of(Object id, List<Tuple> parts, int expected) {
            return List.of(id, parts.size());
        }
    }

    static final long LIMIT_S = 60;
}
