package greenwave.storm;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/**
 * A bolt that joins the parts of each request, and answers at the deadline with the parts that have arrived.
 *
 * <pre>{@code
 * builder.setBolt("answer", new DeadlineAggregator("query", "partition", 18, new BestHits()))
 *         .fieldsGrouping("search", new Fields("query"));
 * }</pre>
 *
 * <p>The answer is given once all parts are there, or when the first of them has no remaining budget: that is
 * earlier than the user's deadline by the reserve of {@link DeadlineBolt#withSplit}, which is for the
 * answer's own work. It is anchored to its parts, which are acked after it. A part that arrives after the
 * answer is acked and counted. Parts belong together if they have the same id and come from the same tuple of
 * a spout, so a request that a spout replays is answered again. If a worker dies, its part does not arrive:
 * the answer is given without it, and the spout learns of the loss after Storm's timeout.
 */
public final class DeadlineAggregator implements IRichBolt {
    private static final long serialVersionUID = 1L;

    private final String idField;
    private final String partField;
    private final int parts;
    private final Answer answer;
    private Limits limits = DeadlineBolt.TRUSTED;
    private int capacity = 10_000;
    private String opening;
    private boolean partial = true;
    private transient AggregatorThread joining;

    /**
     * Joins requests of {@code parts} (1 or more) parts: tuples with the same value in the field {@code
     * idField} and different values in {@code partField}.
     */
    public DeadlineAggregator(String idField, String partField, int parts, Answer answer) {
        if (parts < 1) {
            throw new IllegalArgumentException("parts " + parts + " is outside 1.." + Integer.MAX_VALUE);
        }
        this.idField = idField;
        this.partField = partField;
        this.parts = parts;
        this.answer = answer;
    }

    /** Builder of a request's answer. */
    public interface Answer extends Serializable {
        /** The fields of the answer, without the budget. */
        Fields fields();

        /**
         * The answer to request {@code id} from the parts that arrived, in order of arrival, out of {@code
         * expected}; null for no answer. {@link greenwave.deadline.thread.Deadlines} gives the remaining
         * budget.
         */
        List<Object> of(Object id, List<Tuple> parts, int expected);
    }

    /**
     * Maximum number of open requests, at least 1; beyond it the most urgent one is answered early. Also the
     * number of answered requests that are remembered. By default 10,000.
     */
    public DeadlineAggregator withCapacity(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException("capacity " + capacity + " is outside 1.." + Integer.MAX_VALUE);
        }
        this.capacity = capacity;
        return this;
    }

    /**
     * Waits for all parts without a time limit, for answers that need every part. Bolts before this one must
     * then report what they shed ({@link OnShed#answer}). A request that is closed early to make space for
     * others is failed, and counted by the metric {@code greenwave-refused}.
     */
    public DeadlineAggregator withAllParts() {
        this.partial = false;
        return this;
    }

    /** Grants within {@code limits}; as for {@link DeadlineBolt#withLimits}. */
    public DeadlineAggregator withLimits(Limits limits) {
        this.limits = limits;
        return this;
    }

    /**
     * Tuples of {@code stream} are not parts: each opens a request, with its id and budget, which is then
     * answered in time even if no part arrives.
     */
    public DeadlineAggregator withOpening(String stream) {
        this.opening = stream;
        return this;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        TaskThread.check(conf);
        Arrivals arrivals = new Arrivals(new Gate(limits, DeadlineQueue.Settings.DEFAULT), 0, context);
        BudgetedCollector budgeted = new BudgetedCollector(collector, UnaryOperator.identity());
        String name = context.getThisComponentId() + "-deadline" + context.getThisTaskId();
        joining = new AggregatorThread(name, arrivals, budgeted, answer, partial, parts, capacity);
        Arrivals.gauge(context, "whole", joining::whole);
        Arrivals.gauge(context, "partial", joining::partial);
        Arrivals.gauge(context, "early", joining::early);
        Arrivals.gauge(context, "refused", joining::refused);
        Arrivals.gauge(context, "late", joining::late);
        joining.start();
    }

    @Override
    public void execute(Tuple tuple) {
        boolean isPart = !tuple.getSourceStreamId().equals(opening);
        joining.take(tuple, tuple.getValueByField(idField), isPart ? tuple.getValueByField(partField) : null, isPart);
    }

    /** Open requests are not answered; Storm replays them after its timeout. */
    @Override
    public void cleanup() {
        joining.close();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        new BudgetedFields(declarer).declare(answer.fields());
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return null;
    }
}
