/* A connection's number becomes another file's, in ways that no library sees; what is then
 * written to the number lands in that file or nowhere, never at the connection's client.
 *
 *   reused ADDRESS PORT
 *
 * Clients connect and read until the end. A connection of which the number is taken away is kept
 * by another, so it lives: its client reads "hello\n" and "bye\n". Where another connection gets the number
 * its client reads "other\n" and what is written. The last line says how often that was.
 */
#define _GNU_SOURCE /* sendmmsg, splice, dup3 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 8
static const char stray[LEN + 1] = "stray..\n";
static int listener, source;

static void give_up(const char *what)
{
	fprintf(stderr, "error: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* A system call that passes every function by. */
static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	long said;
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "=a"(said) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	said = x0;
#else
	said = syscall(number, a, b, c, d, e, f);
	if (said < 0)
		said = -errno;
#endif
	return said;
}

static void is(long said, long wanted, const char *what)
{
	if (said != wanted) {
		errno = said < 0 ? (int)-said : 0;
		give_up(what);
	}
}

/* Ways by which `fd` becomes the file `to`. */
static void by_close(int fd, int to)
{
	is(raw(SYS_close, fd, 0, 0, 0, 0, 0), 0, "close");
	is(raw(SYS_fcntl, to, F_DUPFD, fd, 0, 0, 0), fd, "F_DUPFD");
}

static void by_dup3(int fd, int to)
{
	is(raw(SYS_dup3, to, fd, 0, 0, 0, 0), fd, "dup3");
}

static void by_range(int fd, int to)
{
	if (raw(SYS_close_range, fd, fd, 0, 0, 0, 0) != 0)
		by_close(fd, to);
	else
		is(fcntl(to, F_DUPFD, fd), fd, "fcntl");
}

static void by_library(int fd, int to)
{
	void *library = dlopen("libc.so.6", RTLD_NOW);
	int (*its_close)(int), (*its_dup2)(int, int);

	if (library == NULL)
		give_up("dlopen");
	*(void **)&its_close = dlsym(library, "close");
	*(void **)&its_dup2 = dlsym(library, "dup2");
	is(its_close(fd), 0, "close of the C library");
	is(its_dup2(to, fd), fd, "dup2 of the C library");
	dlclose(library);
}

static void by_functions(int fd, int to)
{
	is(close(fd), 0, "close");
	is(dup2(to, fd), fd, "dup2");
}

static void by_stream(int fd, int to)
{
	FILE *stream = fdopen(fd, "w");

	is(stream == NULL ? -1 : fclose(stream), 0, "fclose");
	is(dup(to), fd, "dup");
}

/* Of a process that shares the descriptors, as a thread made by hand does. */
static void by_another(int fd, int to)
{
	int status;
	long child = raw(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0, 0);

	if (child == 0) {
		by_close(fd, to);
		raw(SYS_exit, 0, 0, 0, 0, 0, 0);
	}
	if (waitpid((pid_t)child, &status, 0) != child || status != 0)
		give_up("the other process");
}

/* What another process hands on takes the lowest number. */
static void by_rights(int fd, int to)
{
	int pair[2], got;
	char byte = 'x', room[CMSG_SPACE(sizeof(int))];
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof room };
	struct cmsghdr *header;

	memset(room, 0, sizeof room);
	is(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0, "socketpair");
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof to);
	memcpy(CMSG_DATA(header), &to, sizeof to);
	is(sendmsg(pair[0], &message, 0), 1, "sendmsg");
	is(raw(SYS_close, fd, 0, 0, 0, 0, 0), 0, "close");
	is(raw(SYS_recvmsg, pair[1], (long)&message, 0, 0, 0, 0), 1, "recvmsg");
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
	is(got, fd, "the number of what was handed on");
	close(pair[0]);
	close(pair[1]);
}

/* io_uring, where the kernel has it. */
static void by_ring(int fd, int to)
{
	struct io_uring_params params = { 0 };
	long ring = raw(SYS_io_uring_setup, 1, (long)&params, 0, 0, 0, 0);
	size_t len = params.sq_off.array + 16, entries = sizeof(struct io_uring_sqe);
	struct io_uring_sqe *entry;
	char *queue;

	if (ring < 0) {
		by_close(fd, to);
		return;
	}
	queue = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, (int)ring, IORING_OFF_SQ_RING);
	entry = mmap(NULL, entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, (int)ring, IORING_OFF_SQES);
	if (queue == MAP_FAILED || (void *)entry == MAP_FAILED)
		give_up("the ring");
	memset(entry, 0, sizeof *entry);
	entry->opcode = IORING_OP_CLOSE;
	entry->fd = fd;
	*(uint32_t *)(queue + params.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(queue + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	is(raw(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0), 1, "io_uring_enter");
	if (fcntl(fd, F_GETFD) != -1)
		is(raw(SYS_close, fd, 0, 0, 0, 0, 0), 0, "close, as the ring does not");
	munmap(queue, len);
	munmap(entry, entries);
	close((int)ring);
	is(raw(SYS_fcntl, to, F_DUPFD, fd, 0, 0, 0), fd, "F_DUPFD");
}

/* Ways to write. */
static ssize_t w_write(int fd) { return write(fd, stray, LEN); }
static ssize_t w_pwrite(int fd) { return pwrite(fd, stray, LEN, 0); }
static ssize_t w_send(int fd) { return send(fd, stray, LEN, MSG_NOSIGNAL); }
static ssize_t w_sendto(int fd) { return sendto(fd, stray, LEN, MSG_NOSIGNAL, NULL, 0); }
static ssize_t w_dprintf(int fd) { return dprintf(fd, "%s", stray); }

static ssize_t w_writev(int fd)
{
	struct iovec piece = { (char *)stray, LEN };

	return writev(fd, &piece, 1);
}

static ssize_t w_sendmsg(int fd)
{
	struct iovec piece = { (char *)stray, LEN };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static ssize_t w_sendmmsg(int fd)
{
	struct iovec piece = { (char *)stray, LEN };
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &piece, .msg_iovlen = 1 } };

	return sendmmsg(fd, &message, 1, MSG_NOSIGNAL) == 1 ? (ssize_t)message.msg_len : -1;
}

static ssize_t w_sendfile(int fd)
{
	off_t at = 0;

	return sendfile(fd, source, &at, LEN);
}

static ssize_t w_splice(int fd)
{
	int ends[2];
	ssize_t sent;

	is(pipe(ends), 0, "pipe");
	is(write(ends[1], stray, LEN), LEN, "write");
	sent = splice(ends[0], NULL, fd, NULL, LEN, 0);
	close(ends[0]);
	close(ends[1]);
	return sent;
}

/* Files that get the number: `make` gives one and where what is written to it is read. */
static int k_file(int *read_at) { return *read_at = memfd_create("file", 0); }
static int k_event(int *read_at) { return *read_at = eventfd(0, EFD_NONBLOCK); }

static int k_pipe(int *read_at)
{
	int ends[2];

	is(pipe2(ends, O_NONBLOCK), 0, "pipe");
	*read_at = ends[0];
	return ends[1];
}

static int k_pair(int *read_at)
{
	int ends[2];

	is(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0, "socketpair");
	*read_at = ends[0];
	return ends[1];
}

static int k_kernels(int *read_at)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof addr;
	int door = socket(AF_INET, SOCK_STREAM, 0), end = socket(AF_INET, SOCK_STREAM, 0);

	is(bind(door, (struct sockaddr *)&addr, sizeof addr), 0, "bind");
	is(listen(door, 1), 0, "listen");
	is(getsockname(door, (struct sockaddr *)&addr, &len), 0, "getsockname");
	is(connect(end, (struct sockaddr *)&addr, sizeof addr), 0, "connect");
	*read_at = accept(door, NULL, NULL);
	close(door);
	return end;
}

/* Another connection, whose client says what it read. */
static int k_ours(int *read_at)
{
	int other = accept(listener, NULL, NULL);

	*read_at = -1;
	is(write(other, "other\n", 6), 6, "write to another connection");
	return other;
}

static const struct { const char *name; void (*of)(int, int); } ways[] = {
	{ "close", by_close }, { "dup3", by_dup3 }, { "close_range", by_range }, { "another's close", by_library },
	{ "close and dup2 that are seen", by_functions }, { "fclose and dup", by_stream },
	{ "another process", by_another }, { "SCM_RIGHTS", by_rights }, { "io_uring", by_ring },
};
static const struct { const char *name; int (*of)(int *); } kinds[] = {
	{ "file", k_file }, { "eventfd", k_event }, { "pipe", k_pipe }, { "socket pair", k_pair },
	{ "TCP of the kernel's", k_kernels }, { "connection of ours", k_ours },
};
static const struct { const char *name; ssize_t (*of)(int); } calls[] = {
	{ "write", w_write }, { "writev", w_writev }, { "send", w_send }, { "sendto", w_sendto },
	{ "sendmsg", w_sendmsg }, { "sendmmsg", w_sendmmsg }, { "pwrite", w_pwrite }, { "sendfile", w_sendfile },
	{ "splice", w_splice }, { "dprintf", w_dprintf },
};
#define COUNT(of) (sizeof(of) / sizeof *(of))

/* What arrived where the file is read; waits for what the kernel's TCP has on its way. */
static ssize_t arrived(int read_at, int is_kernels, ssize_t sent, char *into)
{
	if (is_kernels)
		return sent == LEN ? recv(read_at, into, LEN, MSG_WAITALL) : recv(read_at, into, LEN, MSG_DONTWAIT);
	lseek(read_at, 0, SEEK_SET);
	return read(read_at, into, LEN);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int strays = 0;

	signal(SIGPIPE, SIG_IGN);
	if (argc != 3 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((unsigned short)atoi(argv[2]));
	source = memfd_create("source", 0);
	is(write(source, stray, LEN), LEN, "write to a file");
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&addr, sizeof addr) != 0 || listen(listener, 64) != 0)
		give_up("listen");
	for (size_t w = 0; w < COUNT(ways); w++)
		for (size_t k = 0; k < COUNT(kinds); k++)
			for (size_t c = 0; c < COUNT(calls); c++) {
				char got[LEN] = "";
				int read_at, fd = accept(listener, NULL, NULL), kept = dup(fd), file;
				ssize_t sent, there;

				if (fd < 0 || kept < 0)
					give_up("accept");
				/* Through the pair, which wakes the stack; and it is awake for a while. */
				is(write(fd, "hello\n", 6), 6, "write to a connection");
				file = kinds[k].of(&read_at);
				ways[w].of(fd, file);
				sent = calls[c].of(fd);
				if (read_at < 0) {
					strays += sent == LEN;
				} else {
					there = arrived(read_at, kinds[k].of == k_kernels, sent, got);
					if ((sent == LEN) != (there == LEN && memcmp(got, stray, LEN) == 0)) {
						fprintf(stderr, "error: %s, then %s to a %s: %zd sent, %zd there\n",
							ways[w].name, calls[c].name, kinds[k].name, sent, there);
						return 1;
					}
				}
				close(fd);
				close(file);
				if (read_at >= 0 && read_at != file)
					close(read_at);
				is(write(kept, "bye\n", 4), 4, "write by another number");
				close(kept);
			}
	fprintf(stderr, "strays to connections: %d\n", strays);
	return 0;
}
