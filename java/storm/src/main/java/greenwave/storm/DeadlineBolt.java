package greenwave.storm;

import greenwave.deadline.Budget;
import greenwave.deadline.Cause;
import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import java.util.List;
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
 * Wraps a bolt and serves its waiting tuples in deadline order.
 *
 * <pre>{@code
 * builder.setBolt("search", new DeadlineBolt(new SearchBolt()), 18).directGrouping("partition");
 * }</pre>
 *
 * <p>Storm's queue in front of a bolt is first in, first out. This bolt therefore moves tuples from it into a
 * {@link DeadlineQueue} as they arrive, and a thread of its own, one for each task, calls the wrapped bolt
 * with the next tuple. While the queue is full of tuples that can meet their deadlines, no more are taken, so
 * Storm's own back-pressure works. Shed tuples are handled by {@link OnShed}; the wrapped bolt acks and fails
 * the others as without this class, and if it throws, the worker dies as without it. The wrapped bolt reads
 * its remaining budget through {@link greenwave.deadline.thread.Deadlines}, and the tuples that it emits
 * carry the budget on. Ticks are served before all tuples.
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

    /** Wraps {@code bolt}, which must not depend on the order of its tuples. */
    public DeadlineBolt(IRichBolt bolt) {
        this.bolt = bolt;
    }

    /**
     * Wraps the basic bolt {@code bolt}: its tuples are acked when it returns, and failed by {@code
     * FailedException}, as in Storm.
     */
    public DeadlineBolt(IBasicBolt bolt) {
        this(new BasicBoltExecutor(bolt));
    }

    /** Sets the queue's {@code settings}. */
    public DeadlineBolt withQueue(DeadlineQueue.Settings settings) {
        this.settings = settings;
        return this;
    }

    /**
     * Limits on budgets. By default a tuple without a budget has no deadline, the longest budget is an hour,
     * and estimates of other components are trusted.
     */
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
     * Sets the expected time of the bolts after this one, {@code restNanos}. It is added to the expected time
     * of this one ({@link Gate}): a request that they would shed is shed here, before the work. By default 0.
     */
    public DeadlineBolt withRest(long restNanos) {
        this.restNanos = restNanos;
        return this;
    }

    /**
     * Makes this bolt's output sub-requests: they must be answered {@code reserveNanos} before the deadline,
     * which is reserved for the aggregate phase, and carry the flag {@code split}.
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
        for (Cause cause : List.of(Cause.EXPIRED, Cause.INFEASIBLE)) {
            Arrivals.gauge(context, cause.word(), () -> gate.endedWith(cause));
        }
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

    /**
     * Limits that trust peers: the components of a topology belong to one owner, and its spout validates
     * requests from outside.
     */
    static final Limits TRUSTED = new Limits(Limits.DEFAULT.defaultNanos(), Limits.DEFAULT.longestNanos(), true);
}
