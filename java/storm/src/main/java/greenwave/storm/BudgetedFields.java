package greenwave.storm;

import java.util.ArrayList;
import java.util.List;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;

/** Declares the fields of a component, and the budget as the last field of every stream. */
final class BudgetedFields implements OutputFieldsDeclarer {
    private final OutputFieldsDeclarer declarer;

    BudgetedFields(OutputFieldsDeclarer declarer) {
        this.declarer = declarer;
    }

    @Override
    public void declare(Fields fields) {
        declare(false, fields);
    }

    @Override
    public void declare(boolean direct, Fields fields) {
        declareStream(Utils.DEFAULT_STREAM_ID, direct, fields);
    }

    @Override
    public void declareStream(String stream, Fields fields) {
        declareStream(stream, false, fields);
    }

    @Override
    public void declareStream(String stream, boolean direct, Fields fields) {
        List<String> names = new ArrayList<>(fields.toList());
        names.add(TupleBudget.FIELD);
        declarer.declareStream(stream, direct, new Fields(names));
    }

    /** {@code values} followed by {@code budget}, which is null for a tuple that belongs to no request. */
    static List<Object> append(List<Object> values, String budget) {
        List<Object> all = new ArrayList<>(values.size() + 1);
        all.addAll(values);
        all.add(budget);
        return all;
    }
}
