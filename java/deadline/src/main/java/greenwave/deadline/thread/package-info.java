/**
 * Deadlines on threads, for what binds a framework.
 *
 * <p>{@link greenwave.deadline.thread.Deadlines} knows which request the present thread works on, and is the
 * only class that reads a clock; a {@link greenwave.deadline.thread.DeadlinePool} is threads behind a queue
 * that serves by what is left. Nothing here knows any framework. Source: D2P §3 (thread-local storage).
 */
package greenwave.deadline.thread;
