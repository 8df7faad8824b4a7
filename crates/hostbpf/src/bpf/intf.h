/* Interface of the guard's program and its controller: keys and values of the maps.
 * host::guard::{map_layout, settings} are the same in Rust; loading compares the
 * lengths.
 */
#pragma once

/* Maximum of classes; the first is shed last. */
#define CLASSES 8
/* Maximum of guarded ports. */
#define PORTS 64
/* Maximum of prefixes in classes. */
#define PREFIXES 1024
/* Connections whose arrival is recorded: more than wait in any accept queue. */
#define MADE 65536
/* Connections tracked until a response. A walk visits the whole table, however few
 * there are. */
#define UNANSWERED 8192
/* Bins of the time to a response: guard::ResponseWaits. */
#define RESPONSE_BINS 68
#define RESPONSE_OCTAVE_MIN 16
#define RESPONSE_OCTAVE_MAX 33
/* Accept queues read behind one address and port. */
#define QUEUES 192
/* Accept queues shown in the status. */
#define SHOWN 16
/* Bytes of the metadata. */
#define NOTES 2048
/* Silence of the controller after which everything passes. */
#define DEADMAN_NS 1000000000ULL

/* Limit: guard::Limit. */
enum kind { OPEN, RATE, PRESENT, CLOSED };

/* Reason to shed a SYN; FULL: its accept queue is full, and the kernel would drop it
 * too. */
enum reason { BY_CLOSED, BY_RATE, BY_PRESENT, BY_FULL, REASONS };

/* Way of a reset back to the client: none, XDP_TX by the driver, or XDP_REDIRECT to
 * the device. */
enum way { NOWHERE, BY_DRIVER, BY_REDIRECT };

/* Settings, written once at the start. */
struct settings {
	/* Number of the network namespace, as in /proc/PID/ns/net. */
	__u32 netns;
	/* Number of classes; connections in none are in the last. */
	__u32 classes;
	/* True: sheds no connection, and counts those it would have shed. */
	__u32 watching;
	/* True if there are prefixes. */
	__u32 prefixes;
	/* Reset for a shed SYN: enum way. */
	__u32 resets;
	/* True if connections are tracked until they are sent their first byte. */
	__u32 answers;
	/* One bit per guarded port, so that a SYN to another port passes at once. */
	__u64 guarded[65536 / 64];
	/* Metadata for the status: text, padded with zeros. */
	char notes[NOTES];
};

/* Guarded port. Its limit, counts and connections are at `slot` of their maps. */
struct port {
	/* Class of its connections, unless their prefix gives a more important one. */
	__u32 class;
	__u32 slot;
	/* Its connections before the attach. */
	__u32 before;
};

/* Limit of a port, written at each look of the controller. The entry behind those of the
 * ports has the totals, for the status. */
struct limit {
	/* Time of the look, by CLOCK_MONOTONIC. */
	__u64 alive_ns;
	__u64 kind;
	/* RATE: time per SYN, and size of the bucket. */
	__u64 cost_ns;
	__u64 burst_ns;
	/* RATE: time that the bucket must hold for each class. */
	__u64 need_ns[CLASSES];
	/* PRESENT: connections in the server below which a class is admitted. */
	__u64 present[CLASSES];
	/* Signals for the status: length and capacity of the accept queues, wait of their
	 * first connection, connections accepted since the start, and the kernel's drops. */
	__u64 waiting;
	__u64 room;
	__u64 delay_ns;
	__u64 served;
	__u64 overflows;
	__u64 drops;
	/* Queue reports: services configured, services reporting, waiting requests, wait of
	 * the first, and the time that half of them can spare (all bits set: unknown). */
	__u64 services;
	__u64 telling;
	__u64 requests;
	__u64 requests_delay_ns;
	__u64 requests_budget_ns;
	/* Connections that have sent data and received none, and the wait of the first; zeros
	 * if they are not tracked. */
	__u64 unanswered;
	__u64 unanswered_delay_ns;
	/* Recent handshakes completed per million admitted SYNs. */
	__u64 handshakes_ppm;
	/* Accept queues in descending order of the first connection's wait; port 0: end. */
	struct {
		__u64 port, waiting, room, delay_ns;
	} shown[SHOWN];
};

/* Query for the accept queues behind an address and a port, as in a SYN; the result, a
 * queue for each listener, follows it. */
struct question {
	/* IPv4 in the last word. */
	__u32 address[4];
	__u16 port;
	__u16 is_v6;
	__u32 unused;
};

/* Accept queue of a listener. */
struct queue {
	__u32 waiting;
	__u32 room;
	/* When the first in it was made (CLOCK_MONOTONIC), or its address if that is unknown;
	 * 0: empty. */
	__u64 first;
};

/* Counts per processor, of SYNs to the listeners of a port. */
struct counts {
	__u64 seen[CLASSES];
	__u64 shed[CLASSES][REASONS];
	/* Of those seen: admitted because the controller was silent. */
	__u64 silent;
};

/* Connections of each port that wait for a response, and when the first was made
 * (CLOCK_MONOTONIC); 0: none waits. Those made before `long_polls_end_ns`, which the
 * controller sets, are long polls; the first of the others was made at `recent_ns`. */
struct waits {
	struct {
		__u32 waiting, long_polls;
		__u64 since_ns, recent_ns, long_polls_end_ns;
	} of[PORTS];
};

/* Connections of a port: established, no longer served, and sent their
 * first byte or closed by the server without one. */
struct connections {
	__u64 opened;
	__u64 closed;
	__u64 answered;
	/* Those answered, by the time that it took; longer than the last bin: none. */
	__u64 by_time[RESPONSE_BINS];
};

/* Prefix of an IPv6 address, or of ::ffff:a.b.c.d, as the key of an LPM trie. */
struct prefix {
	__u32 bits;
	__u8 address[16];
};
