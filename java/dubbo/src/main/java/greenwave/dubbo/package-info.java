/**
 * Deadlines that travel through Apache Dubbo 3.3.
 *
 * <p>Two filters carry a request's budget in the attachment {@code greenwave-budget}; a thread pool named
 * {@code deadline} counts the wait in its queue, serves by what is left, and answers what cannot make it any
 * more; {@link greenwave.deadline.thread.Deadlines} tells a handler what is left. Stock Dubbo's countdown starts
 * after the pool's queue, is lost when a future completes on another thread, and orders nothing. Nothing of
 * Dubbo is replaced: all of it is plugged in and configured as Dubbo's own parts are. Source: D2P §3.
 */
package greenwave.dubbo;
