/**
 * Deadlines that travel through grpc-java.
 *
 * <p>{@link greenwave.grpc.DeadlineServer} puts a queue that serves by what is left in front of a server's
 * handlers, and answers what cannot make it any more; {@link greenwave.grpc.DeadlineClient} sends what is left
 * along with each call that a handler makes. Stock grpc-java counts a deadline from receipt on, cancels by it,
 * and hands calls to its executor in order of arrival. Nothing of gRPC is replaced. Source: D2P §3.
 */
package greenwave.grpc;
