/* Minimal sched_ext declarations for greenwave's scheduler; other Linux declarations
 * are in kernel.h.
 *
 * The table of operations is matched with the running kernel's by member name, so only
 * members in use are declared. Functions that differ between versions are weak:
 * loading selects the one that exists.
 * Source: linux/sched/ext.h, kernel/sched/ext.c (6.12 to 7.3).
 */
#pragma once
#include "kernel.h"

typedef int __s32;
typedef long long __s64;

#define TASK_STORAGE 29
/* User space may map it. */
#define MMAPABLE 1024

#define KSYM __attribute__((section(".ksyms")))
#define WEAK __attribute__((weak))

/* Schedules threads of class SCHED_EXT only. */
#define OPS_SWITCH_PARTIAL 8
/* Calls enqueue for the last thread of a core, too, so that the core can be idled. */
#define OPS_ENQUEUE_LAST 2
/* Global queue, which every core serves before it calls dispatch. */
#define DSQ_GLOBAL 0x8000000000000001ULL
#define KICK_IDLE 1
#define KICK_PREEMPT 2

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	int pid;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
};

struct sched_ext_ops {
	__s32 (*select_cpu)(__u64 *);
	void (*enqueue)(__u64 *);
	void (*dispatch)(__u64 *);
	void (*running)(__u64 *);
	void (*stopping)(__u64 *);
	void (*quiescent)(__u64 *);
	__s32 (*init_task)(__u64 *);
	void (*exit_task)(__u64 *);
	__s32 (*init)(__u64 *);
	void (*exit)(__u64 *);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

#pragma clang attribute pop

static __u32 (*const processor)(void) = (void *)8;
static long (*const read_text)(void *to, __u32 len, const void *from) = (void *)115;
static void *(*const storage_get)(void *map, void *task, void *value, __u64 flags) = (void *)156;
static struct task_struct *(*const current)(void) = (void *)158;
#define STORAGE_CREATE 1

extern __s32 scx_bpf_create_dsq(__u64 dsq, __s32 node) KSYM;
extern void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) KSYM;
extern __s32 scx_bpf_task_cpu(const struct task_struct *p) KSYM;
/* Names since 6.13; before, dispatch and consume. */
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq, __u64 slice, __u64 flags) KSYM WEAK;
extern _Bool scx_bpf_dsq_move_to_local(__u64 dsq) KSYM WEAK;
extern void scx_bpf_dispatch(struct task_struct *p, __u64 dsq, __u64 slice, __u64 flags) KSYM WEAK;
extern _Bool scx_bpf_consume(__u64 dsq) KSYM WEAK;

/* Appends a thread to a queue, to run for a slice once it is taken from there. */
INLINE void insert(struct task_struct *p, __u64 dsq, __u64 slice, __u64 flags)
{
	if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(p, dsq, slice, flags);
	else
		scx_bpf_dispatch(p, dsq, slice, flags);
}

/* Runs the first thread of a queue that may run on this core. */
INLINE void run_first(__u64 dsq)
{
	if (scx_bpf_dsq_move_to_local)
		scx_bpf_dsq_move_to_local(dsq);
	else
		scx_bpf_consume(dsq);
}
