/* Connections that wait for a response: they have sent data and received none. Where
 * threads accept at once and wait for a core together, accept queues are empty and
 * connections wait here.
 *
 * Later requests of a connection are not tracked: only new connections are shed, and
 * only new ones are observed.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#pragma once

#include "kernel.h"

#include "intf.h"
#include "queues.h"
#include "settings.h"

/* When a connection was made, by its socket, until it is sent its first byte or ends. */
struct {
	NUMBER(type, HASH);
	NUMBER(max_entries, UNANSWERED);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, __u64);
	TYPE(value, __u64);
} gw_unanswered SEC(".maps");

/* Result of a walk; one walk runs at a time. */
struct {
	NUMBER(type, ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, struct waits);
} gw_waiting SEC(".maps");

/* A connection that has sent nothing is not waiting, such as a browser's preconnect.
 * If the end of one was missed, its socket's memory is another's by now, or unused. */
static long add_waiting(void *map, const __u64 *child, const __u64 *made, void *context)
{
	(void)map, (void)context;
	const struct tcp_sock *tcp = (const void *)*child;
	const struct sock_common *common = &tcp->inet_conn.icsk_inet.sk.__sk_common;
	__u64 received = 0;
	__u16 number = 0;
	__u8 state = 0;
	READ(number, common->skc_num);
	READ(state, common->skc_state);
	const struct port *port = map_lookup(&gw_ports, &number);
	struct waits *waits = map_lookup(&gw_waiting, &first);
	if (!port || !waits || !is_served(state))
		return 0;
	READ(received, tcp->bytes_received);
	if (!received)
		return 0;
	__u32 slot = port->slot & (PORTS - 1);
	waits->of[slot].waiting++;
	if (!waits->of[slot].since_ns || *made < waits->of[slot].since_ns)
		waits->of[slot].since_ns = *made;
	if (*made < waits->of[slot].long_polls_end_ns)
		waits->of[slot].long_polls++;
	else if (!waits->of[slot].recent_ns || *made < waits->of[slot].recent_ns)
		waits->of[slot].recent_ns = *made;
	return 0;
}

/* Ends the wait of `child`, if it waits, with a response. */
INLINE void count_response(struct connections *connections, __u64 child)
{
	const __u64 *made = map_lookup(&gw_unanswered, &child);
	__u64 time = made ? ktime_ns() - *made : 0;
	if (map_delete(&gw_unanswered, &child))
		return;
	__sync_fetch_and_add(&connections->answered, 1);
	__u32 octave = RESPONSE_OCTAVE_MIN;
	while (octave < RESPONSE_OCTAVE_MAX && time >> (octave + 1))
		octave++;
	__u32 quarter = time >> RESPONSE_OCTAVE_MIN ? (time >> (octave - 2)) & 3 : 0;
	__u32 bin = 4 * (octave - RESPONSE_OCTAVE_MIN) + quarter;
	if (bin < RESPONSE_BINS)
		__sync_fetch_and_add(&connections->by_time[bin], 1);
}
