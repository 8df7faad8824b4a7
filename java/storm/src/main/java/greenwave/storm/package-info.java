/**
 * Deadlines that travel through Apache Storm 2.8.
 *
 * <p>{@link greenwave.storm.DeadlineSpout} gives each request its budget; {@link greenwave.storm.DeadlineBolt}
 * is put around any bolt, orders what waits for it by deadline, and sheds what cannot make it any more; {@link
 * greenwave.storm.DeadlineAggregator} joins the parts of a request and answers with those that came when its
 * time runs out. The budget is one more field of every tuple, {@code greenwave-budget}, that bolts neither
 * declare nor emit themselves. Storm's own queues are first in, first out, and carry no deadline. Nothing of
 * Storm is replaced; what is acked and failed, and when a worker dies, stays as Storm has it. Source: D2P §3.
 */
package greenwave.storm;
