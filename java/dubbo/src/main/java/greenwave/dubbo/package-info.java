/**
 * Deadlines that travel through Apache Dubbo 3.3.
 *
 * <p>Two filters carry a request's budget in the attachment {@code greenwave-budget}; a thread pool named
 * {@code deadline} counts the wait in its queue, serves by remaining budget, and answers requests that cannot
 * meet their deadlines; {@link greenwave.deadline.thread.Deadlines} gives a handler its remaining budget.
 * Stock Dubbo's countdown starts after the pool's queue, is lost when a future completes on another thread,
 * and does not affect the order of service. No part of Dubbo is replaced: the filters and the pool are Dubbo
 * extensions, configured as Dubbo's own are. Source: D2P §3.
 */
package greenwave.dubbo;
