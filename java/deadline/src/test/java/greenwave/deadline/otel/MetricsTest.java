package greenwave.deadline.otel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import greenwave.deadline.Budget;
import greenwave.deadline.BudgetValidator;
import greenwave.deadline.Cause;
import greenwave.deadline.CauseCounter;
import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import greenwave.deadline.Outcome;
import greenwave.deadline.Shedding;
import greenwave.deadline.codec.BudgetField;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Outcomes per method, and their metrics by OpenTelemetry's own SDK. */
class MetricsTest {
    private static final long MS = 1_000_000;

    private final Gate gate = new Gate(Limits.DEFAULT, DeadlineQueue.Settings.DEFAULT);

    private Gate.Arrival arrive(String method) {
        String budget = BudgetField.write(Budget.of(100 * MS));
        return gate.arrive(0, BudgetValidator.Received.of(budget, null, null), method);
    }

    /** A request for every outcome of {@code method}, some of them before it has a row. */
    private void everyOutcome(String method) {
        gate.answered(50 * MS, arrive(method));
        gate.failed(150 * MS, arrive(method));
        gate.cancelled(arrive(method));
        for (Shedding.Reason reason : Shedding.Reason.values()) {
            gate.shed(arrive(method), reason);
        }
        for (Cause cause : new Cause[] {Cause.UPSTREAM_TIMEOUT, Cause.UPSTREAM_FAILED}) {
            gate.upstream(arrive(method), cause);
        }
    }

    /** Points of {@code metric}: the values of {@code keys}, and the count. */
    private static Map<String, Long> points(InMemoryMetricReader reader, String metric, String... keys) {
        Map<String, Long> points = new TreeMap<>();
        for (MetricData data : reader.collectAllMetrics()) {
            if (data.getName().equals(metric)) {
                data.getLongSumData().getPoints().forEach(point -> {
                    StringBuilder values = new StringBuilder();
                    for (String key : keys) {
                        values.append(point.getAttributes().get(AttributeKey.stringKey(key))).append(' ');
                    }
                    points.put(values.toString().trim(), point.getValue());
                });
            }
        }
        return points;
    }

    //~ java: OpenTelemetry exports the counters of methods, outcomes and failed calls, in a bounded number of rows
    @Test
    void theMetricsAreTheGatesCounters() {
        gate.shed(arrive("/never-answered"), Shedding.Reason.EXPIRED);
        everyOutcome("Step/Go");
        for (int method = 0; method < 2_000; method++) {
            gate.answered(50 * MS, arrive("/" + method));
        }
        CauseCounter failures = new CauseCounter();
        failures.record(Cause.QUEUE_FULL, "peer", "call failed");
        InMemoryMetricReader reader = InMemoryMetricReader.create();
        try (SdkMeterProvider provider =
                SdkMeterProvider.builder().registerMetricReader(reader).build()) {
            Meter meter = provider.get("test");
            Metrics.register(meter, gate, "shop");
            Metrics.register(meter, failures::count, "stock");
            Map<String, Long> requests = points(
                    reader, "greenwave.deadline.requests", "greenwave.server", "greenwave.method", "greenwave.outcome");
            for (Outcome outcome : Outcome.values()) {
                // No plug-in in Java stops a handler.
                Long expected = outcome == Outcome.ABORTED ? null : 1L;
                assertEquals(expected, requests.get("shop Step/Go " + outcome.word()), outcome.word());
            }
            assertEquals(1, requests.get("shop _OTHER expired"));
            assertEquals(2_000 - 1_023, requests.get("shop _OTHER in-time"), "beyond the bound");
            assertEquals(Outcome.values().length - 1 + 2_000 + 1, requests.values().stream().mapToLong(n -> n).sum());
            assertEquals(
                    Map.of("stock queue-full", 1L),
                    points(reader, "greenwave.deadline.call_failures", "greenwave.client", "greenwave.cause"));
        }
    }
}
