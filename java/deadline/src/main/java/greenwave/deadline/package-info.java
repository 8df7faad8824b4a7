/**
 * Deadlines that travel with a request.
 *
 * <p>A {@link greenwave.deadline.Budget} is the remaining time of a request and the time spent so far, by stage; a
 * {@link greenwave.deadline.StageTimer} counts it down at one stage, its queue included; {@link
 * greenwave.deadline.codec} writes it on the wire as remaining time, so that machines' clocks need not
 * agree; {@link greenwave.deadline.BudgetValidator} validates budgets of peers; {@link
 * greenwave.deadline.DeadlineQueue} orders requests by it and drops those that cannot meet it; {@link
 * greenwave.deadline.Gate} is the admission of one server.
 *
 * <p>Nothing here reads a clock, starts a thread or does I/O: the caller passes the time (adapters of frameworks
 * take it from {@link greenwave.deadline.thread}). Instants ({@code nowNanos}) are nanoseconds
 * since an epoch of the caller's choosing, spans are nanoseconds; neither is negative, and both stay at
 * {@link Long#MAX_VALUE} (292 years) when they would exceed it. The same names, rules and vectors as the
 * crate {@code deadline}, in Rust. Source: D2P (distributed deadline propagation).
 */
package greenwave.deadline;
