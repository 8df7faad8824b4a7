/**
 * Budgets as text, for the headers and fields that travel between machines.
 *
 * <p>A text holds the remaining time, never an instant. {@link greenwave.deadline.codec.BudgetField} is this
 * project's own format, with all fields of a budget, one text for an HTTP header, gRPC metadata, a Dubbo
 * attachment and a Storm tuple's field; {@link greenwave.deadline.codec.GrpcTimeout} and {@link
 * greenwave.deadline.codec.EnvoyTimeout} are formats that other systems already send and read. Spans are
 * rounded down, so that rounding never adds time. Every parser checks the length of a text before it parses
 * it. The Java and Rust implementations are tested with the same vectors, {@code spec/deadline/vectors.json}.
 */
package greenwave.deadline.codec;
