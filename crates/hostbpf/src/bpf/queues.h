/* Accept queues of a listener and of those that share its port (SO_REUSEPORT): length
 * of each, and age of the first connection.
 *
 * They are read in place by a program that is not attached; the controller runs it on
 * a query in place of a frame. A netlink dump would walk the kernel's whole socket
 * table, whose size grows with the machine's memory.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#pragma once

#include "kernel.h"

#include "intf.h"

/* When a connection was made, by its socket; one that is missing is older than the
 * guard, or than the table's capacity. */
struct {
	NUMBER(type, LRU_HASH);
	NUMBER(max_entries, MADE);
	TYPE(key, __u64);
	TYPE(value, __u64);
} gw_made SEC(".maps");

/* Fails if the kernel has no memory mapped at an address; the destination is unchanged
 * then. */
#define READ(to, from) probe_read(&(to), sizeof(to), (const void *)&(from))

INLINE void read_queue(const struct sock *sk, struct queue *queue)
{
	const struct inet_connection_sock *listener = (const void *)sk;
	const struct request_sock *first = 0;
	const struct sock *child = 0;
	__u32 waiting = 0, room = 0;
	READ(waiting, sk->sk_ack_backlog);
	READ(room, sk->sk_max_ack_backlog);
	queue->waiting = waiting;
	queue->room = room;
	queue->first = 0;
	READ(first, listener->icsk_accept_queue.rskq_accept_head);
	if (!first)
		return;
	READ(child, first->sk);
	__u64 key = (__u64)child;
	const __u64 *made = map_lookup(&gw_made, &key);
	queue->first = made ? *made : key;
}

/* Writes the queues of `sk` and of its SO_REUSEPORT group; their number. */
INLINE __u32 read_queues(const struct sock *sk, struct queue *queue, void *end)
{
	const struct sock_reuseport *group = 0;
	__u16 members = 0;
	READ(group, sk->sk_reuseport_cb);
	if (!group) {
		if ((void *)(queue + 1) > end)
			return 0;
		read_queue(sk, queue);
		return 1;
	}
	READ(members, group->num_socks);
	struct sock *const *sockets = &group->socks[0];
	__u32 found = 0;
	for (__u32 n = 0; n < QUEUES; n++) {
		const struct sock *member = 0;
		if (n >= members || (void *)(queue + 1) > end)
			break;
		READ(member, sockets[n]);
		read_queue(member, queue);
		queue++;
		found++;
	}
	return found;
}
