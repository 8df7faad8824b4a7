/* Memory layout shared by the core scheduler's program and its manager.
 * host::cores::scx::shared_layout is the same in Rust; loading compares the lengths.
 * Every word has one writer at a time: the manager where noted, the kernel elsewhere.
 */
#pragma once

/* Maximum of Linux's core numbers. */
#define CORES 256
/* Maximum of tasks, each with a queue of its number. */
#define TASKS 64
/* Maximum of threads whose waits are published; others run and wait untracked. */
#define THREADS 4096
/* A thread without a slot. */
#define NOWHERE 0xffffffffU

/* A core. Decision: the lower half is 0 for idle, else a task's number plus one; the
 * upper half is a sequence number. */
struct core {
	/* Written by the manager. */
	__u64 wanted;
	/* Decision that this core last read. */
	__u64 seen;
	/* Task that runs there, plus one; 0: none of ours. */
	__u64 runs;
	/* Since when (CLOCK_MONOTONIC). */
	__u64 since_ns;
	/* Number of times it was about to run a task that had lost it. */
	__u64 stale;
	__u64 unused[3];
};
#define TASK_OF(wanted) ((wanted) & 0xffffffffU)

/* Cores of a task, so that a waking thread finds an idle one. Written by the manager. */
struct task {
	__u32 count;
	__u32 unused;
	__u32 cores[CORES];
};

/* A thread of a task, for as long as it lives. */
struct thread {
	/* Thread number plus one; 0: the slot is free. Taken by compare-and-exchange from 0. */
	__u64 owner;
	__u64 task;
	/* Since when it waits for a core; 0: it does not. */
	__u64 waits_ns;
	/* Since when it runs; 0: it does not. */
	__u64 runs_ns;
	/* Totals: time on cores, time waiting for one, and times it got one. */
	__u64 ran_ns;
	__u64 waited_ns;
	__u64 turns;
	/* When it last went to sleep. */
	__u64 slept_ns;
};

/* Membership of a thread, stored with it by the kernel. */
struct member {
	__u32 task;
	__u32 place;
};

/* The kernel's reason for removing the scheduler. */
struct state {
	/* 0: not removed. */
	__u64 kind;
	__u64 code;
	char reason[64];
	char message[128];
};

/* Cores to reschedule, one bit each. */
struct kick {
	__u64 cores[CORES / 64];
	__u64 flags;
};
