package greenwave.storm;

import greenwave.deadline.Budget;
import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicBoltExecutor;
import org.apache.storm.topology.IBasicBolt;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/**
 * A bolt around another one, which serves what waits for it by deadline.
 *
 * <pre>{@code
 * builder.setBolt("search", new DeadlineBolt(new SearchBolt()), 18).directGrouping("partition");
 * }</pre>
 *
 * <p>Storm's queue in front of a bolt is first in, first out. So this takes tuples out of it as they come, into
 * a {@link DeadlineQueue}, and a thread of its own, one for each task, calls the bolt inside with the one whose
 * turn it is. While the queue is full of tuples that can still make it, no more are taken, so Storm's own
 * back-pressure works. Of what is shed becomes what {@link OnShed} says; the bolt inside acks and fails the
 * others as it always did, and when it throws, the worker dies as it always did. It finds what is left through
 * {@link greenwave.deadline.thread.Deadlines}, and what it emits carries that on. Ticks go before everything.
 */
public final class DeadlineBolt implements IRichBolt, ICredentialsListener {
    private static final long serialVersionUID = 1L;

    private final IRichBolt bolt;
    private Limits limits = TRUSTED;
    private DeadlineQueue.Settings settings = DeadlineQueue.Settings.DEFAULT;
    private OnShed onShed = OnShed.FAIL;
    private long restNanos;
    private boolean splits;
    private long reserveNanos;
    private transient BoltThread serving;

    /** Around {@code bolt}, which must not depend on the order of its tuples. */
    public DeadlineBolt(IRichBolt bolt) {
        this.bolt = bolt;
    }

    /** Around {@code bolt}, which acks, and fails by {@code FailedException}, as in Storm. */
    public DeadlineBolt(IBasicBolt bolt) {
        this(new BasicBoltExecutor(bolt));
    }

    /** Sets the queue's {@code settings}. */
    public DeadlineBolt withQueue(DeadlineQueue.Settings settings) {
        this.settings = settings;
        return this;
    }

    /** Grants within {@code limits}; by default none without a budget, an hour at most, and components are trusted. */
    public DeadlineBolt withLimits(Limits limits) {
        this.limits = limits;
        return this;
    }

    /** Handling of shed tuples; by default {@link OnShed#FAIL}. */
    public DeadlineBolt withShed(OnShed onShed) {
        this.onShed = onShed;
        return this;
    }

    /**
     * The bolts after this one are expected to take {@code restNanos}, which is added to what this one is expected
     * to take by what it took ({@link Gate}): a request that they would shed is shed here, before the work. By
     * default 0.
     */
    public DeadlineBolt withRest(long restNanos) {
        this.restNanos = restNanos;
        return this;
    }

    /**
     * Makes this bolt's output sub-requests: they must be back {@code reserveNanos} early, which is kept for
     * the aggregate phase, and carry the flag {@code split}.
     */
    public DeadlineBolt withSplit(long reserveNanos) {
        this.splits = true;
        this.reserveNanos = reserveNanos;
        return this;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        TaskThread.check(conf);
        UnaryOperator<Budget> onward = splits ? budget -> budget.split(reserveNanos) : UnaryOperator.identity();
        BudgetedCollector budgeted = new BudgetedCollector(collector, onward);
        bolt.prepare(conf, context, new OutputCollector(budgeted));
        String name = context.getThisComponentId() + "-deadline" + context.getThisTaskId();
        Gate gate = new Gate(limits, settings);
        serving = new BoltThread(name, bolt, gate, new Arrivals(gate, restNanos, context), budgeted, onShed);
        Arrivals.gauge(context, "shed", gate::sheds);
        Arrivals.gauge(context, "waiting", serving::waiting);
        serving.start();
    }

    @Override
    public void execute(Tuple tuple) {
        serving.take(tuple);
    }

    /** Waiting tuples are neither acked nor failed: Storm replays them after its timeout. */
    @Override
    public void cleanup() {
        serving.close();
        bolt.cleanup();
    }

    @Override
    public void setCredentials(Map<String, String> credentials) {
        if (bolt instanceof ICredentialsListener listener) {
            if (serving == null) {
                listener.setCredentials(credentials);
            } else {
                serving.first(() -> listener.setCredentials(credentials));
            }
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        bolt.declareOutputFields(new BudgetedFields(declarer));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return bolt.getComponentConfiguration();
    }

    /** A topology's components are of one house: what comes from outside is the spout's to judge. */
    static final Limits TRUSTED = new Limits(Limits.DEFAULT.defaultNanos(), Limits.DEFAULT.longestNanos(), true);
}
