/**
 * Deadlines that travel with a request.
 *
 * <p>A {@link greenwave.deadline.Budget} is the time a request has left, and where the rest went; a
 * {@link greenwave.deadline.StageTimer} counts it down at one stage, its queue included; {@link
 * greenwave.deadline.codec} writes it on the wire as remaining time, so that machines' clocks need not
 * agree; {@link greenwave.deadline.BudgetValidator} decides what to believe of a peer's; {@link
 * greenwave.deadline.DeadlineQueue} serves by it and drops what cannot make it any more; a {@link
 * greenwave.deadline.Gate} is what one server grants, expects and counts.
 *
 * <p>Nothing here reads a clock, starts a thread or does I/O: who calls says what time it is ({@link
 * greenwave.deadline.thread} does, for what binds a framework). Instants ({@code nowNanos}) are nanoseconds
 * since an epoch of the caller's choosing, spans are nanoseconds; neither is negative, and both stay at
 * {@link Long#MAX_VALUE} (292 years) when they would exceed it. The same names, rules and vectors as the
 * crate {@code deadline}, in Rust. Source: D2P (distributed deadline propagation).
 */
package greenwave.deadline;
