/**
 * Metrics of gates and clients by OpenTelemetry. An optional part: it needs {@code opentelemetry-api}, which the
 * application has.
 */
package greenwave.deadline.otel;
