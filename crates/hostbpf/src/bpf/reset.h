/* Reset for a SYN, as from a closed port: a RST that acknowledges it, without the
 * SYN's options, sent back the way it came.
 *
 * A veth that sends back a received frame (XDP_TX) puts it into the peer's ring
 * without a wake-up, unless a program runs there as well: the RST would wait until the
 * next frame. A redirect to a veth wakes its peer, so that is the way back there.
 *
 * Not here: SYNs behind IPv4 options or IPv6 extension headers, and those with a
 * multicast or broadcast address; they get no response.
 * Source: RFC 9293 §3.10.7.1; RFC 1071; RFC 1122 §4.2.3.10.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#pragma once

#include "frame.h"
#include "intf.h"

/* Checksum of a sum of at most some thousand words. */
INLINE __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Turns the SYN with `len` bytes of data into a RST; `addresses` is the sum of the
 * addresses. */
INLINE void refuse(struct tcp *tcp, __u32 len, __u64 addresses)
{
	__u16 source = tcp->target, target = tcp->source;
	__u32 ack = be32(be32(tcp->seq) + 1 + len);
	__u64 sum = addresses + be16(TCP) + be16(sizeof(*tcp)) + source + target + ack + be16(0x5000 | RST | ACK);
	tcp->source = source;
	tcp->target = target;
	tcp->seq = 0;
	tcp->ack = ack;
	tcp->offset = sizeof(*tcp) / 4 << 4;
	tcp->flags = RST | ACK;
	tcp->window = 0;
	tcp->checksum = folded(sum);
	tcp->urgent = 0;
}

/* Length of the SYN's data, if the IP header gives `len` bytes including the TCP
 * header; negative if invalid. */
INLINE long data_len(const struct tcp *tcp, long len)
{
	long header = (tcp->offset >> 4) * 4;
	return header < (long)sizeof(*tcp) ? -1 : len - header;
}

/* Both return the length of the packet, or 0: no response. */
INLINE __u32 refuse_v4(struct ipv4 *ip, void *end, const struct who *who)
{
	struct tcp *tcp = (void *)(ip + 1);
	if ((void *)(tcp + 1) > end)
		return 0;
	__u8 first = *(const __u8 *)&who->tuple.source[3];
	long len = data_len(tcp, (long)be16(ip->total_len) - (long)sizeof(*ip));
	if (first == 0 || first >= 224 || len < 0)
		return 0;
	__u32 source = who->tuple.target[3], target = who->tuple.source[3];
	__u64 addresses = (__u64)source + target;
	__u16 total_len = be16(sizeof(*ip) + sizeof(*tcp)), whole = be16(0x4000);
	ip->version_len = 0x45;
	ip->tos = 0;
	ip->total_len = total_len;
	ip->id = 0;
	ip->fragment = whole;
	ip->ttl = HOPS;
	ip->protocol = TCP;
	ip->checksum = folded(addresses + be16(0x4500) + total_len + whole + be16(HOPS << 8 | TCP));
	ip->source = source;
	ip->target = target;
	refuse(tcp, len, addresses);
	return sizeof(*ip) + sizeof(*tcp);
}

INLINE __u32 refuse_v6(struct ipv6 *ip, void *end, const struct who *who)
{
	struct tcp *tcp = (void *)(ip + 1);
	if ((void *)(tcp + 1) > end)
		return 0;
	long len = data_len(tcp, be16(ip->len));
	if (*(const __u8 *)who->tuple.source == 0xff || len < 0)
		return 0;
	__u64 addresses = 0;
	for (int n = 0; n < 4; n++)
		addresses += (__u64)who->tuple.source[n] + who->tuple.target[n];
	ip->version_class_flow = be32(0x60000000);
	ip->len = be16(sizeof(*tcp));
	ip->next = TCP;
	ip->hops = HOPS;
	__builtin_memcpy(ip->source, who->tuple.target, 16);
	__builtin_memcpy(ip->target, who->tuple.source, 16);
	refuse(tcp, len, addresses);
	return sizeof(*ip) + sizeof(*tcp);
}

/* Verdict on a SYN that is shed with a RST, by `way`. */
INLINE int answered(struct xdp_md *context, const struct who *who, __u32 way)
{
	void *start = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct ethernet *ethernet = start;
	__u32 at = sizeof(*ethernet) + (who->tags & 3) * sizeof(struct vlan), len;
	void *ip = start + at;
	if (!who->is_plain || (void *)(ethernet + 1) > end)
		return XDP_DROP;
	if ((ethernet->target[0] | ethernet->source[0]) & 1)
		return XDP_DROP;
	if (who->is_v6)
		len = refuse_v6(ip, end, who);
	else
		len = refuse_v4(ip, end, who);
	if (!len)
		return XDP_DROP;
	__u8 source[6];
	__builtin_memcpy(source, ethernet->source, 6);
	__builtin_memcpy(ethernet->source, ethernet->target, 6);
	__builtin_memcpy(ethernet->target, source, 6);
	long more = (long)(at + len) - (end - start);
	if (adjust_tail(context, more))
		return XDP_DROP;
	return way == BY_REDIRECT ? redirect(context->ingress_ifindex, 0) : XDP_TX;
}
