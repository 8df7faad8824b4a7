/**
 * Budgets as text: what travels between machines.
 *
 * <p>Always time that is left, never an instant. {@link greenwave.deadline.codec.BudgetField} is our own,
 * with everything a budget knows, one text for an HTTP header, gRPC metadata, a Dubbo attachment and a
 * Storm tuple's field; {@link greenwave.deadline.codec.GrpcTimeout} and {@link
 * greenwave.deadline.codec.EnvoyTimeout} are what others already send and read. Spans are rounded down, so
 * that a hop never gives time. Every parser is bounded before it looks. The same vectors,
 * {@code spec/deadline/vectors.json}, hold these and the Rust side.
 */
package greenwave.deadline.codec;
