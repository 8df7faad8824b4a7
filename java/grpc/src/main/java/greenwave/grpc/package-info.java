/**
 * Deadlines that travel through grpc-java.
 *
 * <p>{@link greenwave.grpc.DeadlineServer} puts a queue in front of a server's handlers that serves calls by
 * remaining budget and answers those that cannot meet their deadlines; {@link greenwave.grpc.DeadlineClient}
 * sends the remaining budget along with each call that a handler makes. Stock grpc-java counts a deadline
 * from receipt on, cancels by it, and hands calls to its executor in order of arrival. No part of gRPC is
 * replaced. Source: D2P §3.
 */
package greenwave.grpc;
