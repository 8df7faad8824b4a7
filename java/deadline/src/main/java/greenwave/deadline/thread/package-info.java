/**
 * The deadline of each thread, for adapters of frameworks.
 *
 * <p>{@link greenwave.deadline.thread.Deadlines} knows which request the present thread works on, and is the
 * only class that reads a clock; a {@link greenwave.deadline.thread.DeadlinePool} is a thread pool that
 * serves its queue by remaining budget. Nothing here depends on a framework. Source: D2P §3 (thread-local
 * storage).
 */
package greenwave.deadline.thread;
