package greenwave.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import greenwave.deadline.Budget;
import greenwave.deadline.Limits;
import greenwave.deadline.Stage;
import greenwave.deadline.thread.Deadlines;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Invalid budget fields: missing, malformed, out of range; each has an outcome and is counted. */
//~ java: Storm: missing, oversized, invalid and forged budgets are handled
class PeersTest extends StormCluster {
    private static final Budget DEFAULT = Budget.of(Limits.DEFAULT.defaultNanos());

    private final Map<Object, Budget> budgets = new ConcurrentHashMap<>();

    @BeforeEach
    void remember() {
        Step.WORKS.put("peers", (tuple, collector, context) -> {
            budgets.put(tuple.getValue(0), Deadlines.current().orElseThrow().budget());
            collector.ack(tuple);
        });
    }

    @Test
    void aSpoutWithoutTheFieldGetsTheDefaultAndIsCounted() {
        long before = StormEvents.metric("peers", "missing");
        String id = id("stranger");
        TestSpout.emit("strangers", "peers", id, 0L);
        assertEquals("ack", acks(id));
        assertEquals(DEFAULT, budgets.get(id));
        assertEquals(before + 1, StormEvents.metric("peers", "missing"));
    }

    @Test
    void theFieldIsParsedAsInTheTestVectors() throws Exception {
        JsonNode vectors = new ObjectMapper().readTree(Path.of("../../spec/deadline/vectors.json").toFile());
        int read = 0;
        for (JsonNode vector : vectors.get("greenwave-budget").get("read")) {
            String fault = vector.has("fault") ? vector.get("fault").asText() : null;
            Budget expected = fault == null ? budget(vector.get("budget")) : DEFAULT;
            if (expected.isLimited() && expected.elapsedNanos() > Limits.DEFAULT.longestNanos()) {
                fault = "absurd";
                expected = Budget.of(expected.remaining().leftNanos());
            }
            if (expected.isLimited()) {
                expected = expected.capped(Limits.DEFAULT.longestNanos());
            }
            check(vector.get("text").asText(), expected, fault);
            read++;
        }
        assertTrue(read > 10, read + " vectors");
    }

    @Test
    void anUnreadableFieldGetsTheDefault() {
        check("(".repeat(1_000_000), DEFAULT, "garbled");
        check(12L, DEFAULT, "garbled");
        check("expected=-5, remaining=-5", DEFAULT, "negative");
        check("expected=31536000000000, remaining=31536000000000", Budget.of(Limits.DEFAULT.longestNanos()), null);
        Budget elsewhere = Budget.restored(5_000_000, 1_000_000, List.of());
        check("expected=5000, remaining=4000, sent=\"0123456789abcdef 1\"", elsewhere, null);
        for (String sent : List.of("", " ", "x", "-1", "99999999999999999999", "1 2")) {
            String ours = TupleBudget.write(Budget.of(900 * MS), 0);
            String forged = ours.substring(0, ours.lastIndexOf(' ') + 1) + sent + '"';
            check(forged, Budget.of(900 * MS), null);
        }
    }

    /** A send time in the future counts as now; an old one leaves no budget. */
    @Test
    void theSendTimeCanOnlyShortenTheBudget() {
        long now = TupleBudget.now();
        Budget budget = Budget.of(900 * MS);
        assertEquals(0, TupleBudget.underwayNanos(TupleBudget.write(budget, now + 5 * MS), now));
        assertEquals(5 * MS, TupleBudget.underwayNanos(TupleBudget.write(budget, now - 5 * MS), now));
        assertEquals(0, TupleBudget.underwayNanos(null, now));
        String id = id("old");
        TestSpout.emit("forgers", "peers", id, TupleBudget.write(budget, now - Math.min(now, 900 * MS)));
        assertEquals("fail", acks(id));
    }

    /** {@code value} in the field is {@code expected} to the bolt, or shed there; {@code fault} is counted. */
    private void check(Object value, Budget expected, String fault) {
        long before = fault == null ? 0 : StormEvents.metric("peers", fault);
        String id = id("forger");
        TestSpout.emit("forgers", "peers", id, value);
        if (expected.remaining().isMissed()) {
            assertEquals("fail", acks(id), value.toString());
        } else {
            assertEquals("ack", acks(id));
            assertEquals(expected, budgets.get(id));
        }
        if (fault != null) {
            assertEquals(before + 1, StormEvents.metric("peers", fault));
        }
    }

    private static long nanos(JsonNode micros) {
        return micros.asLong() * 1_000;
    }

    private static Budget budget(JsonNode value) {
        List<Stage> stages = new ArrayList<>();
        for (JsonNode row : value.path("stages")) {
            stages.add(new Stage(nanos(row.get(0)), nanos(row.get(1)), nanos(row.get(2))));
        }
        Budget budget = Budget.restored(nanos(value.get("expected")), nanos(value.get("elapsed")), stages);
        return value.has("split") ? budget.split(nanos(value.get("split"))) : budget;
    }
}
