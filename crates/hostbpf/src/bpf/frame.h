/* Parser of a frame's headers: whether it is a SYN, and its addresses and ports.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#pragma once

#include "kernel.h"

struct ethernet {
	__u8 target[6], source[6];
	__u16 type;
} __attribute__((packed));

struct vlan {
	__u16 tag, type;
} __attribute__((packed));

struct ipv4 {
	__u8 version_len, tos;
	__u16 total_len, id, fragment;
	__u8 ttl, protocol;
	__u16 checksum;
	__u32 source, target;
} __attribute__((packed));

struct ipv6 {
	__u32 version_class_flow;
	__u16 len;
	__u8 next, hops;
	__u32 source[4], target[4];
} __attribute__((packed));

/* An IPv6 extension header, up to the field of a routing header that gives the
 * remaining segments. */
struct extension {
	__u8 next, len, kind, left;
	__u32 rest;
} __attribute__((packed));

struct tcp {
	__u16 source, target;
	__u32 seq, ack;
	__u8 offset, flags;
	__u16 window, checksum, urgent;
} __attribute__((packed));

#define TCP 6
#define HOP_BY_HOP 0
#define ROUTING 43
#define DESTINATION 60
/* Maximum of extension headers before a SYN. */
#define EXTENSIONS 6
/* Ethertypes of VLAN tags. */
#define TAGS 2

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

/* A parsed SYN. */
struct who {
	struct tuple6 tuple;
	__u32 is_v6;
	/* Number of VLAN tags, and true if TCP is directly behind the IP header. */
	__u32 tags;
	__u32 is_plain;
};

INLINE int is_extension(__u8 kind)
{
	return kind == HOP_BY_HOP || kind == ROUTING || kind == DESTINATION;
}

/* Parses the frame if it is a SYN with a complete header and no other flags, behind at
 * most two VLAN tags and six IPv6 extension headers. */
INLINE int read_syn(struct xdp_md *context, struct who *who)
{
	void *at = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct ethernet *ethernet = at;
	if ((void *)(ethernet + 1) > end)
		return 0;
	at = ethernet + 1;
	__u16 type = ethernet->type;
	for (int tags = 0; tags < TAGS; tags++) {
		if (type != be16(0x8100) && type != be16(0x88a8))
			break;
		struct vlan *vlan = at;
		if ((void *)(vlan + 1) > end)
			return 0;
		type = vlan->type;
		at = vlan + 1;
		who->tags = tags + 1;
	}
	if (type == be16(0x0800)) {
		struct ipv4 *ip = at;
		if ((void *)(ip + 1) > end || ip->protocol != TCP || ip->version_len >> 4 != 4)
			return 0;
		__u32 len = (ip->version_len & 15) * 4;
		if (len < sizeof(*ip) || ip->fragment & be16(0x3fff))
			return 0;
		who->tuple.source[2] = be16(0xffff) << 16;
		who->tuple.source[3] = ip->source;
		who->tuple.target[3] = ip->target;
		who->is_plain = len == sizeof(*ip);
		at += len;
	} else if (type == be16(0x86dd)) {
		struct ipv6 *ip = at;
		if ((void *)(ip + 1) > end || (*(__u8 *)at) >> 4 != 6)
			return 0;
		__builtin_memcpy(who->tuple.source, ip->source, 16);
		__builtin_memcpy(who->tuple.target, ip->target, 16);
		who->is_v6 = 1;
		who->is_plain = ip->next == TCP;
		__u8 next = ip->next;
		at = ip + 1;
		for (int n = 0; n < EXTENSIONS && is_extension(next); n++) {
			struct extension *extension = at;
			if ((void *)(extension + 1) > end || (next == ROUTING && extension->left))
				return 0;
			next = extension->next;
			at += 8 + extension->len * 8;
		}
		if (next != TCP)
			return 0;
	} else {
		return 0;
	}
	struct tcp *tcp = at;
	if ((void *)(tcp + 1) > end || (tcp->flags & (SYN | ACK | RST | FIN)) != SYN)
		return 0;
	who->tuple.source_port = tcp->source;
	who->tuple.target_port = tcp->target;
	return 1;
}
