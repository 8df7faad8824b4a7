/* Settings of all programs of the guard, and checks against them.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#pragma once

#include "kernel.h"

#include "intf.h"

static const __u32 first = 0;

struct {
	NUMBER(type, ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, struct settings);
} gw_settings SEC(".maps");

struct {
	NUMBER(type, HASH);
	NUMBER(max_entries, PORTS);
	TYPE(key, __u16);
	TYPE(value, struct port);
} gw_ports SEC(".maps");

INLINE int is_guarded(const struct settings *settings, __u16 port)
{
	return settings->guarded[port >> 6] >> (port & 63) & 1;
}

/* True if a connection in this state waits for or is in service. */
INLINE int is_served(int state)
{
	return state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT;
}
