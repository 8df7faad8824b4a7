/* XDP program of the guard: admits or sheds a SYN before the kernel allocates an skb.
 *
 * A SYN to a guarded port with a listener in this network namespace is subject to the
 * limit of that port, which the controller wrote into a map. All other frames, and unreadable ones,
 * pass. User space sets the limit (crate guard) and the classes, and renews a sign of
 * life at every look: after one second without it, everything passes.
 *
 * A second program records when connections were made, and a third reads accept queues
 * for user space: together they give the wait of the first connection in each. If
 * requested, two more do the same for connections without a response.
 *
 * Not here: fragments, which pass unlimited. host::guard::model is the same decision
 * in Rust; shared vectors and random frames compare the two.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#include "answers.h"
#include "frame.h"
#include "intf.h"
#include "kernel.h"
#include "queues.h"
#include "reset.h"
#include "settings.h"

/* The kernel permits reading its structures to programs of this license. */
char gw_license[] SEC("license") = "GPL";

/* Entries of the ports, and the totals. */
struct {
	NUMBER(type, ARRAY);
	NUMBER(max_entries, PORTS + 1);
	TYPE(key, __u32);
	TYPE(value, struct limit);
} gw_limits SEC(".maps");

/* Time (CLOCK_MONOTONIC) until which a port's bucket is spent. */
struct {
	NUMBER(type, ARRAY);
	NUMBER(max_entries, PORTS);
	TYPE(key, __u32);
	TYPE(value, __u64);
} gw_spent SEC(".maps");

struct {
	NUMBER(type, PERCPU_ARRAY);
	NUMBER(max_entries, PORTS);
	TYPE(key, __u32);
	TYPE(value, struct counts);
} gw_counts SEC(".maps");

/* Class of a source prefix. */
struct {
	NUMBER(type, LPM_TRIE);
	NUMBER(max_entries, PREFIXES);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, struct prefix);
	TYPE(value, __u32);
} gw_prefixes SEC(".maps");

struct {
	NUMBER(type, ARRAY);
	NUMBER(max_entries, PORTS);
	TYPE(key, __u32);
	TYPE(value, struct connections);
} gw_connections SEC(".maps");

/* struct bpf_fib_lookup, with the fields that are set here. */
struct fib {
	__u8 family, l4_protocol;
	__u16 source_port, target_port, total_len;
	__u32 ifindex;
	__u32 tos_flow;
	__u32 source[4], target[4];
	__u8 rest[16];
};
#define AF_INET 2
#define AF_INET6 10
#define NOT_FORWARDED 4
#define FORWARDING_OFF 5

INLINE void *lookup_sock(struct xdp_md *context, struct who *who)
{
	if (who->is_v6)
		return skc_lookup_tcp(context, &who->tuple, sizeof(struct tuple6), -1, 0);
	struct tuple4 tuple = {
		.source = who->tuple.source[3],
		.target = who->tuple.target[3],
		.source_port = who->tuple.source_port,
		.target_port = who->tuple.target_port,
	};
	return skc_lookup_tcp(context, &tuple, sizeof(tuple), -1, 0);
}

/* Listener of a SYN. */
struct listener {
	__u32 is_there;
	__u32 waiting, room;
};

/* A SYN of an existing connection has no listener: it passes. One that matches a
 * connection in TIME_WAIT is a new one. */
INLINE struct listener find_listener(struct xdp_md *context, struct who *who)
{
	struct listener found = {};
	void *sock = lookup_sock(context, who);
	if (!sock)
		return found;
	if (skc_to_tcp_timewait_sock(sock)) {
		sk_release(sock);
		who->tuple.source_port = 0;
		sock = lookup_sock(context, who);
		if (!sock)
			return found;
	}
	struct tcp_sock *tcp = skc_to_tcp_sock(sock);
	if (tcp) {
		struct sock *sk = &tcp->inet_conn.icsk_inet.sk;
		if (sk->__sk_common.skc_state == TCP_LISTEN) {
			found.is_there = 1;
			found.waiting = sk->sk_ack_backlog;
			found.room = sk->sk_max_ack_backlog;
		}
	}
	sk_release(sock);
	return found;
}

/* True if a packet is for this host. If the interface does not forward, the kernel
 * reports that before it looks up a route. */
INLINE int is_ours(struct xdp_md *context, const struct who *who)
{
	struct fib fib = {
		.family = who->is_v6 ? AF_INET6 : AF_INET,
		.l4_protocol = 6,
		.ifindex = context->ingress_ifindex,
	};
	if (who->is_v6) {
		__builtin_memcpy(fib.source, who->tuple.source, 16);
		__builtin_memcpy(fib.target, who->tuple.target, 16);
	} else {
		fib.source[0] = who->tuple.source[3];
		fib.target[0] = who->tuple.target[3];
	}
	int way = fib_lookup(context, &fib, sizeof(fib), 0);
	return way == NOT_FORWARDED || way == FORWARDING_OFF;
}

INLINE __u32 class_of(const struct settings *settings, const struct who *who, __u32 by_port)
{
	__u32 class = by_port;
	if (settings->prefixes) {
		struct prefix key = { .bits = 128 };
		__builtin_memcpy(key.address, who->tuple.source, 16);
		const __u32 *by_prefix = map_lookup(&gw_prefixes, &key);
		if (by_prefix && *by_prefix < class)
			class = *by_prefix;
	}
	return class & (CLASSES - 1);
}

/* Takes the cost of one connection from the bucket, unless it holds too little. */
INLINE int takes(const struct limit *limit, __u32 slot, __u64 now, __u64 need)
{
	__u64 *spent = map_lookup(&gw_spent, &slot);
	if (!spent)
		return 1;
	for (int attempt = 0; attempt < 8; attempt++) {
		__u64 old = *(volatile __u64 *)spent;
		__u64 from = now > limit->burst_ns ? now - limit->burst_ns : 0;
		if (old > from)
			from = old;
		if (from + need > now)
			return 0;
		if (__sync_val_compare_and_swap(spent, old, from + limit->cost_ns) == old)
			return 1;
	}
	/* Eight other SYNs came in between: they were subject to the limit. */
	return 1;
}

/* Reason to shed a SYN; REASONS: admit it. */
INLINE __u32 reason_of(const struct limit *limit, __u32 slot, __u64 now, __u32 class, struct listener listener,
		       __u64 present)
{
	if (listener.waiting > listener.room)
		return BY_FULL;
	if (limit->kind == CLOSED)
		return BY_CLOSED;
	if (limit->kind == PRESENT && present >= limit->present[class])
		return BY_PRESENT;
	if (limit->kind == RATE && !takes(limit, slot, now, limit->need_ns[class]))
		return BY_RATE;
	return REASONS;
}

INLINE int guarded_syn(struct xdp_md *context, struct who *who)
{
	__u16 number = be16(who->tuple.target_port);
	const struct settings *settings = map_lookup(&gw_settings, &first);
	if (!settings || !is_guarded(settings, number))
		return XDP_PASS;
	const struct port *port = map_lookup(&gw_ports, &number);
	if (!port)
		return XDP_PASS;
	__u32 slot = port->slot;
	const struct limit *limit = map_lookup(&gw_limits, &slot);
	const struct connections *connections = map_lookup(&gw_connections, &slot);
	struct counts *counts = map_lookup(&gw_counts, &slot);
	if (!limit || !connections || !counts)
		return XDP_PASS;
	if (!is_ours(context, who))
		return XDP_PASS;
	struct listener listener = find_listener(context, who);
	if (!listener.is_there)
		return XDP_PASS;
	__u32 class = class_of(settings, who, port->class);
	counts->seen[class]++;
	__u64 now = ktime_ns(), alive = limit->alive_ns;
	if (now > alive && now - alive > DEADMAN_NS) {
		counts->silent++;
		return XDP_PASS;
	}
	__u64 opened = connections->opened + port->before, closed = connections->closed;
	__u64 present = opened > closed ? opened - closed : 0;
	__u32 reason = reason_of(limit, slot, now, class, listener, present);
	if (reason >= REASONS)
		return XDP_PASS;
	counts->shed[class][reason]++;
	if (settings->watching)
		return XDP_PASS;
	__u32 way = settings->resets;
	return way == NOWHERE ? XDP_DROP : answered(context, who, way);
}

SEC("xdp")
int gw_guard(struct xdp_md *context)
{
	struct who who = {};
	return read_syn(context, &who) ? guarded_syn(context, &who) : XDP_PASS;
}

/* Not attached: the controller runs it, with a query in place of the frame. */
SEC("xdp")
int gw_look(struct xdp_md *context)
{
	struct question *question = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	const struct settings *settings = map_lookup(&gw_settings, &first);
	if (!settings || (void *)(question + 1) > end)
		return 0;
	struct who who = { .is_v6 = question->is_v6 };
	__builtin_memcpy(who.tuple.target, question->address, 16);
	who.tuple.target_port = question->port;
	void *sock = lookup_sock(context, &who);
	if (!sock)
		return 0;
	__u32 found = 0;
	struct tcp_sock *tcp = skc_to_tcp_sock(sock);
	if (tcp) {
		struct sock *sk = &tcp->inet_conn.icsk_inet.sk;
		const struct sock_common *common = &sk->__sk_common;
		if (common->skc_state == TCP_LISTEN && common->skc_net.net->ns.inum == settings->netns)
			found = read_queues(sk, (void *)(question + 1), end);
	}
	sk_release(sock);
	return found;
}

/* Not attached; its query is the frame, and its result overwrites that. */
SEC("xdp")
int gw_waits(struct xdp_md *context)
{
	struct waits *answer = (void *)(long)context->data;
	if ((void *)(answer + 1) > (void *)(long)context->data_end)
		return 0;
	struct waits *waits = map_lookup(&gw_waiting, &first);
	if (!waits)
		return 0;
	for (__u32 slot = 0; slot < PORTS; slot++)
		waits->of[slot] = answer->of[slot];
	for_each(&gw_unanswered, add_waiting, 0, 0);
	for (__u32 slot = 0; slot < PORTS; slot++)
		answer->of[slot] = waits->of[slot];
	return 1;
}

/* Connections of a socket's port, if that is guarded and of this network namespace. */
INLINE struct connections *connections_of(const struct settings *settings, const struct sock *sk)
{
	__u16 number = sk->__sk_common.skc_num;
	if (!is_guarded(settings, number) || sk->__sk_common.skc_net.net->ns.inum != settings->netns)
		return 0;
	const struct port *port = map_lookup(&gw_ports, &number);
	if (!port)
		return 0;
	__u32 slot = port->slot;
	return map_lookup(&gw_connections, &slot);
}

SEC("tp_btf/inet_sock_set_state")
int gw_state(__u64 *arguments)
{
	const struct sock *sk = (const void *)arguments[0];
	int before = arguments[1], after = arguments[2];
	int opens = before == TCP_SYN_RECV && after == TCP_ESTABLISHED;
	int closes = is_served(before) && !is_served(after);
	if (!opens && !closes)
		return 0;
	const struct settings *settings = map_lookup(&gw_settings, &first);
	if (!settings)
		return 0;
	struct connections *connections = connections_of(settings, sk);
	if (!connections)
		return 0;
	__u64 child = (__u64)sk;
	if (closes) {
		__sync_fetch_and_add(&connections->closed, 1);
		/* A server that closes has dealt with it; a client that resets has not waited for
		 * that. */
		if (settings->answers && after != TCP_CLOSE)
			count_response(connections, child);
		else if (settings->answers)
			map_delete(&gw_unanswered, &child);
		return 0;
	}
	__sync_fetch_and_add(&connections->opened, 1);
	__u64 now = ktime_ns();
	map_update(&gw_made, &child, &now, 0);
	if (settings->answers)
		map_update(&gw_unanswered, &child, &now, 0);
	return 0;
}

/* Loaded only if requested: it runs for every transmission of this machine. */
SEC("tp_btf/sock_send_length")
int gw_answer(__u64 *arguments)
{
	const struct sock *sk = (const void *)arguments[0];
	int sent = arguments[1];
	const struct settings *settings = map_lookup(&gw_settings, &first);
	if (sent <= 0 || !settings)
		return 0;
	struct connections *connections = connections_of(settings, sk);
	if (!connections)
		return 0;
	count_response(connections, (__u64)sk);
	return 0;
}
