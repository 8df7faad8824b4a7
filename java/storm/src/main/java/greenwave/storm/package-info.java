/**
 * Deadlines that travel through Apache Storm 2.8.
 *
 * <p>{@link greenwave.storm.DeadlineSpout} gives each request its budget; {@link
 * greenwave.storm.DeadlineBolt} wraps any bolt, queues its tuples in deadline order, and sheds those that
 * cannot meet their deadlines; {@link greenwave.storm.DeadlineAggregator} joins the parts of a request and
 * answers at the deadline with the parts that have arrived. The budget is an additional field of every tuple,
 * {@code greenwave-budget}, which bolts neither declare nor emit themselves. Storm's own queues are first in,
 * first out, and carry no deadline. No part of Storm is replaced; acks, failures and the end of a worker are
 * Storm's own. Source: D2P §3.
 */
package greenwave.storm;
