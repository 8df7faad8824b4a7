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
 * A bolt that joins the parts of each request, and answers with those that came when its time runs out.
 *
 * <pre>{@code
 * builder.setBolt("answer", new DeadlineAggregator("query", "partition", 18, new BestHits()))
 *         .fieldsGrouping("search", new Fields("query"));
 * }</pre>
 *
 * <p>An answer is given once all parts are there, or at the instant at which the most urgent of them has
 * nothing left: that is before the user gives up by what {@link DeadlineBolt#withSplit} reserved, which the
 * answer may take. It is anchored to its parts, which are acked after it. A part that comes after the answer
 * is acked and counted. Parts belong together when they have the same id and come from the same tuple of a
 * spout, so a request that a spout replays is answered anew. A worker that dies is a part that does not come:
 * the answer is given without it, and the spout hears of the loss when Storm's timeout has passed.
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
     * Joins requests of {@code parts} (1 and more) parts: tuples with the same value in the field {@code
     * idField} and different ones in {@code partField}.
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
         * The answer to request {@code id} from the parts that came, in the order in which they came, out of
         * {@code expected}; null for none. {@link greenwave.deadline.thread.Deadlines} says what is left.
         */
        List<Object> of(Object id, List<Tuple> parts, int expected);
    }

    /**
     * At most {@code capacity} (1 and more) requests are open; one too many has the most urgent one answered
     * early. As many that were answered are remembered. By default 10,000.
     */
    public DeadlineAggregator withCapacity(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException("capacity " + capacity + " is outside 1.." + Integer.MAX_VALUE);
        }
        this.capacity = capacity;
        return this;
    }

    /**
     * Waits for all parts, however long: for answers that are of no use without one. Bolts before this one then
     * have to say what they shed ({@link OnShed#answer}). A request that must make room for others is failed,
     * and counted by the metric {@code greenwave-refused}.
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
     * Tuples of {@code stream} are no parts but open a request, with its id and budget: it is then answered in
     * time even if no part comes at all.
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

    /** Requests that are open are not answered; Storm's timeout brings them back. */
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
