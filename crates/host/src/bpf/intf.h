/* What the guard's program and its controller share: the maps' keys and values.
 * host::guard::{layout, settings} are the same in Rust; loading checks that the
 * lengths agree.
 */
#pragma once

/* Classes that a guard tells apart, the first being shed last. */
#define CLASSES 8
/* Ports that it guards at most. */
#define PORTS 64
/* Prefixes that name classes. */
#define PREFIXES 1024
/* Connections whose arrival is remembered: more than wait in any accept queue. */
#define MADE 65536
/* Connections without an answer that are followed. A walk through them takes as
 * long as there is room, however few there are. */
#define UNANSWERED 8192
/* Accept queues behind one address and port that are looked at. */
#define QUEUES 192
/* Accept queues that are shown to whoever asks what is attached. */
#define SHOWN 16
/* Bytes of text about what is attached. */
#define NOTES 2048
/* Without a sign of the controller for so long, everything passes. */
#define DEADMAN_NS 1000000000ULL

/* What may come in: guard::Limit. */
enum kind { OPEN, RATE, PRESENT, CLOSED };

/* Why a SYN is shed; FULL: its accept queue is, and the kernel would drop it too. */
enum reason { BY_CLOSED, BY_RATE, BY_PRESENT, BY_FULL, REASONS };

/* By which way a reset goes back: there is none, as the driver sends back what
 * it received, or as what was redirected to the device. */
enum way { NOWHERE, BY_DRIVER, BY_REDIRECT };

/* Said once, at the start. */
struct settings {
	/* Of the network namespace, as /proc/PID/ns/net has it. */
	__u32 netns;
	/* How many there are; who is in none is in the last. */
	__u32 classes;
	/* Sheds nobody, and counts whom it would have shed. */
	__u32 watching;
	/* Whether there are prefixes. */
	__u32 prefixes;
	/* Whether who is shed hears so, by a reset: enum way. */
	__u32 resets;
	/* Whether connections are followed until they are sent their first byte. */
	__u32 answers;
	/* Connections of the guarded ports that were there before. */
	__u32 before;
	/* A bit for each guarded port, so that a SYN for another is passed on at once. */
	__u64 guarded[65536 / 64];
	/* For whoever asks what is attached: text, and zeros. */
	char notes[NOTES];
};

/* Said at each look of the controller. */
struct limit {
	/* When, by CLOCK_MONOTONIC. */
	__u64 alive_ns;
	__u64 kind;
	/* RATE: what one connection takes of the time that was saved up, and how
	 * much can be saved up. */
	__u64 cost_ns;
	__u64 burst_ns;
	/* RATE: what must have been saved up for a class to come in. */
	__u64 need_ns[CLASSES];
	/* PRESENT: below how many connections in the server a class comes in. */
	__u64 present[CLASSES];
	/* For whoever asks: what the controller saw. The length of the accept
	 * queues and the room in them, how long their first has waited, what was
	 * taken off since the start, and what the kernel dropped of them. */
	__u64 waiting;
	__u64 room;
	__u64 delay_ns;
	__u64 served;
	__u64 overflows;
	__u64 drops;
	/* What services told of their requests: how many services are listened to,
	 * how many of them tell, the requests that wait, how long the first of them
	 * has, and what half can spare (all bits set: that is not known). */
	__u64 services;
	__u64 telling;
	__u64 requests;
	__u64 requests_delay_ns;
	__u64 requests_budget_ns;
	/* Connections that have sent something and have not been sent a byte, and
	 * how long the first of them has waited; zeros where they are not followed. */
	__u64 unanswered;
	__u64 unanswered_delay_ns;
	/* The accept queues whose first has waited longest; port 0: no more. */
	struct {
		__u64 port, waiting, room, delay_ns;
	} shown[SHOWN];
};

/* Asks for the accept queues behind an address and a port, as a SYN has them;
 * the answer, a queue for each listener, is written behind it. */
struct question {
	/* Of IPv4: the last one. */
	__u32 address[4];
	__u16 port;
	__u16 is_v6;
	__u32 unused;
};

/* A listener's accept queue. */
struct queue {
	__u32 waiting;
	__u32 room;
	/* When the first in it was made (CLOCK_MONOTONIC); 0: that is not known. */
	__u64 since_ns;
};

/* What came, per processor. A SYN is seen when it asks for a guarded listener. */
struct counts {
	__u64 seen[CLASSES];
	__u64 shed[CLASSES][REASONS];
	/* Of those seen: let in as the controller was silent. */
	__u64 silent;
};

/* Connections that wait for an answer, and when the first of them was made
 * (CLOCK_MONOTONIC); 0: none waits. */
struct waits {
	__u64 waiting;
	__u64 since_ns;
};

/* Connections of the guarded ports: shaken hands, no longer served, and sent
 * their first byte, or closed by the server without one. */
struct connections {
	__u64 opened;
	__u64 closed;
	__u64 answered;
};

/* A prefix of an IPv6 address, or of ::ffff:a.b.c.d, as an LPM trie's key. */
struct prefix {
	__u32 bits;
	__u8 address[16];
};
