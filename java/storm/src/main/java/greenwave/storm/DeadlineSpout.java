package greenwave.storm;

import greenwave.deadline.Budget;
import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichSpout;
import org.apache.storm.topology.OutputFieldsDeclarer;

/**
 * Wraps a spout and gives each request its budget.
 *
 * <pre>{@code
 * builder.setSpout("users", new DeadlineSpout(new UserSpout(), 200_000_000));
 * }</pre>
 *
 * <p>A request is created when the wrapped spout emits it. Only the application knows the time that the
 * request spent before, in a broker or until the spout was called: {@link Birth} reports it. A replayed tuple
 * is a new attempt with a new budget.
 */
public final class DeadlineSpout implements IRichSpout, ICredentialsListener {
    private static final long serialVersionUID = 1L;

    private final IRichSpout spout;
    private final Birth birth;

    /** Wraps {@code spout}; its requests have a deadline of {@code expectedNanos}. */
    public DeadlineSpout(IRichSpout spout, long expectedNanos) {
        this(spout, (stream, values) -> Budget.of(expectedNanos));
    }

    /** Wraps {@code spout}; {@code birth} gives the budget of each tuple. */
    public DeadlineSpout(IRichSpout spout, Birth birth) {
        this.spout = spout;
        this.birth = birth;
    }

    /** Remaining budget of a request that enters the topology. */
    @FunctionalInterface
    public interface Birth extends Serializable {
        /** The budget of the tuple {@code values}, emitted now on {@code stream}; null for one without a deadline. */
        Budget of(String stream, List<Object> values);
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        spout.open(conf, context, new SpoutOutputCollector(new Budgeted(collector)));
    }

    @Override
    public void close() {
        spout.close();
    }

    @Override
    public void activate() {
        spout.activate();
    }

    @Override
    public void deactivate() {
        spout.deactivate();
    }

    @Override
    public void nextTuple() {
        spout.nextTuple();
    }

    @Override
    public void ack(Object message) {
        spout.ack(message);
    }

    @Override
    public void fail(Object message) {
        spout.fail(message);
    }

    @Override
    public void setCredentials(Map<String, String> credentials) {
        if (spout instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        spout.declareOutputFields(new BudgetedFields(declarer));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return spout.getComponentConfiguration();
    }

    private final class Budgeted implements ISpoutOutputCollector {
        private final SpoutOutputCollector collector;

        Budgeted(SpoutOutputCollector collector) {
            this.collector = collector;
        }

        private List<Object> born(String stream, List<Object> values) {
            Budget budget = birth.of(stream, values);
            String text = budget == null ? null : TupleBudget.write(budget, TupleBudget.now());
            return BudgetedFields.append(values, text);
        }

        @Override
        public List<Integer> emit(String stream, List<Object> values, Object message) {
            return collector.emit(stream, born(stream, values), message);
        }

        @Override
        public void emitDirect(int task, String stream, List<Object> values, Object message) {
            collector.emitDirect(task, stream, born(stream, values), message);
        }

        @Override
        public long getPendingCount() {
            return collector.getPendingCount();
        }

        @Override
        public void flush() {
            collector.flush();
        }

        @Override
        public void reportError(Throwable error) {
            collector.reportError(error);
        }
    }
}
