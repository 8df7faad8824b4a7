/* What the core scheduler's program and its manager share, in memory that both
 * see. host::cores::scx::words is the same in Rust; loading checks that the
 * lengths agree. Every word has one writer at a time: the manager those that say
 * so, the kernel the others.
 */
#pragma once

/* Cores, by Linux's numbers. */
#define CORES 256
/* Tasks, of which each has a queue of that number. */
#define TASKS 64
/* Threads whose waits are told; more run and wait as others do, unseen. */
#define THREADS 4096
/* Who has none of these places. */
#define NOWHERE 0xffffffffU

/* A core. What is wanted: the lower half is 0 for idle, else a task's number
 * plus one; the upper half is different for each decision. */
struct core {
	/* The manager's. */
	__u64 wanted;
	/* What was wanted when this core last looked. */
	__u64 seen;
	/* The task that runs there, plus one; 0: none of ours. */
	__u64 runs;
	/* Since when (CLOCK_MONOTONIC). */
	__u64 since_ns;
	/* How often it was about to run who had lost it. */
	__u64 stale;
	__u64 unused[3];
};
#define TASK_OF(wanted) ((wanted) & 0xffffffffU)

/* A task's cores, so that who wakes up finds an idle one. The manager's. */
struct task {
	__u32 count;
	__u32 unused;
	__u32 cores[CORES];
};

/* A thread of a task, as long as it lives. */
struct thread {
	/* Its number, plus one; 0: the place is free. Who takes it changes it from 0 at once. */
	__u64 owner;
	__u64 task;
	/* Since when it waits for a core; 0: it does not. */
	__u64 waits_ns;
	/* Since when it runs; 0: it does not. */
	__u64 runs_ns;
	/* Altogether: on cores, waiting for one, and how often it got one. */
	__u64 ran_ns;
	__u64 waited_ns;
	__u64 turns;
	/* When it last went to sleep. */
	__u64 slept_ns;
};

/* What a thread belongs to: kept with the thread by the kernel. */
struct member {
	__u32 task;
	__u32 place;
};

/* Why the kernel took the scheduler off. */
struct state {
	/* 0: it has not. */
	__u64 kind;
	__u64 code;
	char reason[64];
	char message[128];
};

/* Asks cores to look again: a bit each. */
struct kick {
	__u64 cores[CORES / 64];
	__u64 flags;
};
