/* Kernel half of the core scheduler: a core runs threads of the task that owns it, and
 * no others.
 *
 * User space decides (crate sched). It writes the wanted task of each core and kicks
 * the core by a program that does not wait. Threads of a task wait in its FIFO queue;
 * a core takes from the queue of the wanted task, and idles if there is none or the
 * queue is empty. Children of a thread belong to its task from their first moment.
 * Waits are measured here, per thread, where they begin and end.
 *
 * Nothing here lasts: when the manager ends, in any way, the kernel removes the
 * scheduler and schedules all threads as usual; likewise when the manager hangs and a
 * thread has waited for TIMEOUT_MS.
 *
 * Not here: preference of one task over another, which would be a decision; cores for
 * threads of no task, which run in the kernel's own order.
 * Source: Caladan (OSDI '20) §4.3 (KSCHED); Linux,
 * Documentation/scheduler/sched-ext.rst.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#include "scx.h"
#include "cores.h"

/* The kernel requires this license of schedulers. */
char gw_license[] SEC("license") = "GPL";

/* Time slice of threads of one task that share a core. */
#define SLICE_NS 4000000ULL
#define TIMEOUT_MS 5000
/* Slots that a new thread tries. */
#define TRIES 64

struct {
	NUMBER(type, ARRAY);
	NUMBER(map_flags, MMAPABLE);
	NUMBER(max_entries, CORES);
	TYPE(key, __u32);
	TYPE(value, struct core);
} gw_core SEC(".maps");

struct {
	NUMBER(type, ARRAY);
	NUMBER(map_flags, MMAPABLE);
	NUMBER(max_entries, TASKS);
	TYPE(key, __u32);
	TYPE(value, struct task);
} gw_task SEC(".maps");

struct {
	NUMBER(type, ARRAY);
	NUMBER(map_flags, MMAPABLE);
	NUMBER(max_entries, THREADS);
	TYPE(key, __u32);
	TYPE(value, struct thread);
} gw_thread SEC(".maps");

struct {
	NUMBER(type, ARRAY);
	NUMBER(map_flags, MMAPABLE);
	NUMBER(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, struct state);
} gw_state SEC(".maps");

struct {
	NUMBER(type, TASK_STORAGE);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct member);
} gw_member SEC(".maps");

static const __u32 first = 0;

/* Written by user space at any time: read once. */
INLINE __u64 wanted(struct core *core)
{
	return *(volatile __u64 *)&core->wanted;
}

INLINE struct member *member_of(struct task_struct *p)
{
	struct member *member = storage_get(&gw_member, p, 0, 0);
	return member && member->task < TASKS ? member : 0;
}

INLINE struct thread *thread_of(struct member *member)
{
	__u32 place = member->place;
	return map_lookup(&gw_thread, &place);
}

/* True if `core` is the task's and runs none of its threads. */
INLINE int is_idle(struct core *core, __u32 task)
{
	return TASK_OF(wanted(core)) == task + 1 && *(volatile __u64 *)&core->runs == 0;
}

/* An idle core of the task, preferably `here`; -1: none. */
INLINE __s32 idle_core(__u32 task, __u32 here)
{
	struct core *core = map_lookup(&gw_core, &here);
	if (core && is_idle(core, task))
		return here;
	struct task *its = map_lookup(&gw_task, &task);
	if (!its)
		return -1;
	__u32 count = *(volatile __u32 *)&its->count;
	for (__u32 i = 0; i < CORES; i++) {
		if (i >= count)
			return -1;
		__u32 number = its->cores[i];
		core = map_lookup(&gw_core, &number);
		if (core && is_idle(core, task))
			return number;
	}
	return -1;
}

/* Core of a thread that wakes up: an idle one of its task, which then reads the queue
 * at once. */
SEC("struct_ops/gw_select")
int gw_select(__u64 *context)
{
	struct task_struct *p = (void *)context[0];
	__s32 before = context[1];
	struct member *member = member_of(p);
	if (!member)
		return before;
	__s32 idle = idle_core(member->task, before);
	return idle < 0 ? before : idle;
}

SEC("struct_ops/gw_enqueue")
int gw_enqueue(__u64 *context)
{
	struct task_struct *p = (void *)context[0];
	__u64 flags = context[1];
	struct member *member = member_of(p);
	if (!member) {
		insert(p, DSQ_GLOBAL, SLICE_NS, flags);
		return 0;
	}
	struct thread *thread = thread_of(member);
	if (thread)
		thread->waits_ns = ktime_ns();
	__u32 task = member->task;
	insert(p, task, SLICE_NS, flags);
	/* The thread is queued when the kick arrives, which is later. If a core is assigned
	 * meanwhile, the manager sees that it idles while a thread waits. */
	__s32 idle = idle_core(task, scx_bpf_task_cpu(p));
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, KICK_IDLE);
	return 0;
}

/* A core has no thread to run. */
SEC("struct_ops/gw_dispatch")
int gw_dispatch(__u64 *context)
{
	__u32 number = context[0];
	struct core *core = map_lookup(&gw_core, &number);
	if (!core)
		return 0;
	__u64 now_wanted = wanted(core);
	core->seen = now_wanted;
	__u32 task = TASK_OF(now_wanted);
	if (task)
		run_first(task - 1);
	return 0;
}

SEC("struct_ops/gw_running")
int gw_running(__u64 *context)
{
	struct member *member = member_of((void *)context[0]);
	__u32 number = processor();
	struct core *core = map_lookup(&gw_core, &number);
	if (!member || !core)
		return 0;
	__u64 now = ktime_ns();
	core->since_ns = now;
	core->runs = member->task + 1;
	struct thread *thread = thread_of(member);
	if (thread) {
		__u64 since = thread->waits_ns;
		if (since && since < now)
			thread->waited_ns += now - since;
		thread->waits_ns = 0;
		thread->runs_ns = now;
		thread->turns++;
	}
	/* A thread displaced by another class is put back without a call of dispatch, and a
	 * decision may have come meanwhile: then this core reschedules. */
	if (TASK_OF(wanted(core)) != member->task + 1) {
		core->stale++;
		scx_bpf_kick_cpu(number, KICK_PREEMPT);
	}
	return 0;
}

SEC("struct_ops/gw_stopping")
int gw_stopping(__u64 *context)
{
	struct member *member = member_of((void *)context[0]);
	__u32 has_work = context[1] & 1;
	if (!member)
		return 0;
	__u64 now = ktime_ns();
	__u32 number = processor();
	struct core *core = map_lookup(&gw_core, &number);
	if (core) {
		core->since_ns = now;
		core->runs = 0;
	}
	struct thread *thread = thread_of(member);
	if (thread) {
		__u64 since = thread->runs_ns;
		if (since && since < now)
			thread->ran_ns += now - since;
		thread->runs_ns = 0;
		/* The thread waits, in the queue or, displaced by another class, on this core. */
		if (has_work)
			thread->waits_ns = now;
	}
	return 0;
}

/* A thread blocks. */
SEC("struct_ops/gw_quiescent")
int gw_quiescent(__u64 *context)
{
	struct member *member = member_of((void *)context[0]);
	struct thread *thread = member ? thread_of(member) : 0;
	if (thread) {
		thread->waits_ns = 0;
		thread->slept_ns = ktime_ns();
	}
	return 0;
}

/* Takes a free slot for thread `number`. */
INLINE __u32 take_place(__u32 number, __u32 task)
{
	for (__u32 i = 0; i < TRIES; i++) {
		__u32 place = (number + i) & (THREADS - 1);
		struct thread *thread = map_lookup(&gw_thread, &place);
		if (!thread || __sync_val_compare_and_swap(&thread->owner, 0, (__u64)number + 1))
			continue;
		thread->task = task;
		thread->waits_ns = thread->runs_ns = 0;
		thread->ran_ns = thread->waited_ns = thread->turns = thread->slept_ns = 0;
		return place;
	}
	return NOWHERE;
}

/* A new thread belongs to its parent's task. */
SEC("struct_ops.s/gw_init_task")
int gw_init_task(__u64 *context)
{
	struct task_struct *p = (void *)context[0];
	struct task_struct *parent = current();
	struct member *its = storage_get(&gw_member, parent, 0, 0);
	if (!its || its->task >= TASKS)
		return 0;
	struct member member = { .task = its->task };
	member.place = take_place(p->pid, member.task);
	/* Without memory for its entry, the thread belongs to no task, and runs. */
	storage_get(&gw_member, p, &member, STORAGE_CREATE);
	return 0;
}

SEC("struct_ops/gw_exit_task")
int gw_exit_task(__u64 *context)
{
	struct member *member = member_of((void *)context[0]);
	struct thread *thread = member ? thread_of(member) : 0;
	if (thread) {
		thread->waits_ns = thread->runs_ns = 0;
		thread->owner = 0;
	}
	return 0;
}

SEC("struct_ops.s/gw_init")
int gw_init(__u64 *context)
{
	(void)context;
	for (__u32 task = 0; task < TASKS; task++) {
		__s32 failed = scx_bpf_create_dsq(task, -1);
		if (failed)
			return failed;
	}
	return 0;
}

SEC("struct_ops/gw_exit")
int gw_exit(__u64 *context)
{
	struct scx_exit_info *why = (void *)context[0];
	struct state *state = map_lookup(&gw_state, &first);
	if (!state)
		return 0;
	read_text(state->reason, sizeof(state->reason), why->reason);
	read_text(state->message, sizeof(state->message), why->msg);
	state->code = why->exit_code;
	state->kind = why->kind;
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops gw_scheduler = {
	.select_cpu = (void *)gw_select,
	.enqueue = (void *)gw_enqueue,
	.dispatch = (void *)gw_dispatch,
	.running = (void *)gw_running,
	.stopping = (void *)gw_stopping,
	.quiescent = (void *)gw_quiescent,
	.init_task = (void *)gw_init_task,
	.exit_task = (void *)gw_exit_task,
	.init = (void *)gw_init,
	.exit = (void *)gw_exit,
	.flags = OPS_SWITCH_PARTIAL | OPS_ENQUEUE_LAST,
	.timeout_ms = TIMEOUT_MS,
	.name = "greenwave",
};

/* The manager's call: makes cores reschedule. Returns before they have. */
SEC("syscall")
int gw_kick(struct kick *kick)
{
	__u64 flags = kick->flags;
	__u64 words[CORES / 64];
	for (__u32 w = 0; w < CORES / 64; w++)
		words[w] = kick->cores[w];
	for (__u32 number = 0; number < CORES; number++) {
		if (words[number / 64] >> (number % 64) & 1)
			scx_bpf_kick_cpu(number, flags);
	}
	return 0;
}
