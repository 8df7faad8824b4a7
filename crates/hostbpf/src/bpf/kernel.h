/* Minimal Linux declarations for greenwave's BPF programs, so that only clang is
 * needed to build them: no kernel headers, no libbpf headers.
 *
 * The kernel's structures contain only the fields that are read; the loader relocates
 * them by the running kernel's BTF (CO-RE).
 * Source: linux/bpf.h; libbpf's documentation of map definitions.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

/* Map definitions in libbpf's format. */
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, type) type *name
#define HASH 1
#define ARRAY 2
#define PERCPU_ARRAY 6
#define LRU_HASH 9
#define LPM_TRIE 11
#define NO_PREALLOC 1

#define XDP_DROP 1
#define XDP_PASS 2
#define XDP_TX 3
#define XDP_REDIRECT 4

/* Conversion of constants to and from network order. */
#define be16(x) __builtin_bswap16(x)
#define be32(x) __builtin_bswap32(x)
/* TTL or hop limit of our packets. */
#define HOPS 64

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

struct tuple4 {
	__u32 source, target;
	__u16 source_port, target_port;
};

struct tuple6 {
	__u32 source[4], target[4];
	__u16 source_port, target_port;
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static __u64 (*const ktime_ns)(void) = (void *)5;
static long (*const redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const adjust_tail)(void *context, int more) = (void *)65;
static int (*const fib_lookup)(void *context, void *parameters, int len, __u32 flags) = (void *)69;
static void (*const sk_release)(void *sock) = (void *)86;
static void *(*const skc_lookup_tcp)(void *context, void *tuple, __u32 len, __u64 netns, __u64 flags) = (void *)99;
static long (*const probe_read)(void *to, __u32 len, const void *from) = (void *)113;
static struct tcp_sock *(*const skc_to_tcp_sock)(void *sock) = (void *)137;
static void *(*const skc_to_tcp_timewait_sock)(void *sock) = (void *)138;
static long (*const for_each)(void *map, void *call, void *context, __u64 flags) = (void *)164;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	__u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__u16 skc_num;
	volatile __u8 skc_state;
	possible_net_t skc_net;
};

struct sock_reuseport;

struct sock {
	struct sock_common __sk_common;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
	struct sock_reuseport *sk_reuseport_cb;
};

struct sock_reuseport {
	__u16 num_socks;
	struct sock *socks[];
};

struct inet_sock {
	struct sock sk;
};

struct request_sock {
	struct sock *sk;
};

struct request_sock_queue {
	struct request_sock *rskq_accept_head;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_received;
};

#pragma clang attribute pop

#define TCP_ESTABLISHED 1
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LISTEN 10
