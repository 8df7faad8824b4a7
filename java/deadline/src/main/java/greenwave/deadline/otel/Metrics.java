package greenwave.deadline.otel;

import greenwave.deadline.Cause;
import greenwave.deadline.Gate;
import greenwave.deadline.Outcome;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.metrics.ObservableLongCounter;
import java.util.function.ToLongFunction;

/**
 * Metrics with the names and attributes of Rust: asynchronous counters, so that a collection reads the counters that
 * there are, and a request costs nothing more. The number of time series is bounded by {@link Gate#outcomes}.
 */
public final class Metrics {
    private static final AttributeKey<String> SERVER = AttributeKey.stringKey("greenwave.server");
    private static final AttributeKey<String> METHOD = AttributeKey.stringKey("greenwave.method");
    private static final AttributeKey<String> OUTCOME = AttributeKey.stringKey("greenwave.outcome");
    private static final AttributeKey<String> CLIENT = AttributeKey.stringKey("greenwave.client");
    private static final AttributeKey<String> CAUSE = AttributeKey.stringKey("greenwave.cause");

    private Metrics() {}

    /**
     * Registers {@code greenwave.deadline.requests}: requests at {@code gate} that have ended, by {@code
     * greenwave.server} ({@code server}), {@code greenwave.method} and {@code greenwave.outcome}. Close it to end it.
     */
    public static ObservableLongCounter register(Meter meter, Gate gate, String server) {
        return meter.counterBuilder("greenwave.deadline.requests")
                .setDescription("Requests that have ended, by method and outcome.")
                .setUnit("{request}")
                .buildWithCallback(observer -> gate.outcomes().forEach((method, counts) -> {
                    for (Outcome outcome : Outcome.values()) {
                        if (counts[outcome.ordinal()] > 0) {
                            observer.record(
                                    counts[outcome.ordinal()],
                                    Attributes.of(SERVER, server, METHOD, method, OUTCOME, outcome.word()));
                        }
                    }
                }));
    }

    /**
     * Registers {@code greenwave.deadline.call_failures}: calls that were refused or failed, by {@code greenwave.client}
     * ({@code client}) and {@code greenwave.cause}. {@code failures} is the client's counter, such as {@code
     * deadlineClient::failures}. Close it to end it.
     */
    public static ObservableLongCounter register(Meter meter, ToLongFunction<Cause> failures, String client) {
        return meter.counterBuilder("greenwave.deadline.call_failures")
                .setDescription("Calls that were refused or failed, by cause.")
                .setUnit("{call}")
                .buildWithCallback(observer -> {
                    for (Cause cause : Cause.values()) {
                        long count = failures.applyAsLong(cause);
                        if (count > 0) {
                            observer.record(count, Attributes.of(CLIENT, client, CAUSE, cause.word()));
                        }
                    }
                });
    }
}
