/* Calls with pointers and lengths that are wrong say on a connection of ours what they say on one of
 * the kernel's.
 *
 *   wild ADDRESS PORT
 *
 * A client connects, sends many bytes and reads until the end.
 */
#define _GNU_SOURCE /* sendmmsg */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096
static int fds[2], doors[2], set, wrong;
static const char *const whose[2] = { "kernel's", "ours" };
/* A page, one that nobody may touch, and after it nothing. */
static char *pages;

static void give_up(const char *what)
{
	fprintf(stderr, "error: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Whatever is compared: what the call said, and errno if that was an error. */
struct said { long value; int error; };

static struct said say(long value)
{
	return (struct said){ value, value < 0 ? errno : 0 };
}

static void compare(const char *what, long which, struct said kernels, struct said ours)
{
	if (kernels.value == ours.value && kernels.error == ours.error)
		return;
	wrong = 1;
	fprintf(stderr, "error: %s (case %ld): %s says %ld (%s), %s %ld (%s)\n", what, which, whose[0], kernels.value,
		strerror(kernels.error), whose[1], ours.value, strerror(ours.error));
}

#define BOTH(what, which, call) do { \
		struct said both_[2]; \
		for (int side = 0; side < 2; side++) { \
			int fd = fds[side], door = doors[side]; \
			(void)fd, (void)door; \
			/* Something goes well between: the stack is awake. */ \
			if (write(fd, "x", 1) != 1) \
				give_up(what); \
			errno = 0; \
			both_[side] = say(call); \
		} \
		compare(what, which, both_[0], both_[1]); \
	} while (0)

static void *nowhere(size_t at)
{
	void *const all[] = { NULL, (void *)8, pages + PAGE, pages + PAGE + 1, pages + 2 * PAGE, (void *)(PAGE * 5 + 3),
			      (void *)UINTPTR_MAX, (void *)(UINTPTR_MAX / 2), (void *)0xdead00000000 };

	return at < sizeof all / sizeof *all ? all[at] : MAP_FAILED;
}

static struct msghdr with(struct iovec *pieces, size_t count)
{
	return (struct msghdr){ .msg_iov = pieces, .msg_iovlen = count };
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET }, loop = { .sin_family = AF_INET };
	static char bytes[100], unaligned[200];
	static const size_t lengths[] = { 1, 100, 65472, 70000, INT_MAX, SSIZE_MAX, SIZE_MAX };
	socklen_t len = sizeof loop;
	int peer;

	signal(SIGPIPE, SIG_IGN);
	if (argc != 3 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((unsigned short)atoi(argv[2]));
	loop.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0 || munmap(pages + 2 * PAGE, PAGE) != 0)
		give_up("mmap");
	doors[0] = socket(AF_INET, SOCK_STREAM, 0);
	doors[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(doors[0], (struct sockaddr *)&loop, sizeof loop) != 0 || listen(doors[0], 8) != 0
	    || getsockname(doors[0], (struct sockaddr *)&loop, &len) != 0)
		give_up("listen");
	if (bind(doors[1], (struct sockaddr *)&addr, sizeof addr) != 0 || listen(doors[1], 8) != 0)
		give_up("listen");
	peer = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(peer, (struct sockaddr *)&loop, sizeof loop) != 0)
		give_up("connect");
	for (int i = 0; i < 200; i++)
		if (write(peer, unaligned, sizeof unaligned) != sizeof unaligned)
			give_up("write");
	for (int side = 0; side < 2; side++) {
		fds[side] = accept(doors[side], NULL, NULL);
		if (fds[side] < 0 || recv(fds[side], bytes, 1, 0) != 1)
			give_up("accept");
	}
	set = epoll_create1(EPOLL_CLOEXEC);
	for (size_t at = 0; nowhere(at) != MAP_FAILED; at++) {
		char *wild = nowhere(at);
		struct iovec far = { wild, 100 }, near = { bytes, sizeof bytes }, two[2] = { near, far };
		struct msghdr message = with(&far, 1), names = with(&near, 1), control = names, pieces = names, pair;
		struct mmsghdr many = { .msg_hdr = message };

		for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
			long which = (long)(at * 100 + n);

			BOTH("write", which, write(fd, wild, lengths[n]));
			BOTH("send", which, send(fd, wild, lengths[n], MSG_NOSIGNAL | MSG_DONTWAIT));
			BOTH("sendto", which, sendto(fd, wild, lengths[n], 0, NULL, 0));
			far.iov_len = lengths[n];
			BOTH("writev of one", which, writev(fd, &far, 1));
			BOTH("sendmsg of one", which, sendmsg(fd, &message, 0));
		}
		far.iov_len = 100;
		BOTH("writev of none", (long)at, writev(fd, (struct iovec *)wild, 0));
		BOTH("writev", (long)at, writev(fd, (struct iovec *)wild, 1));
		BOTH("writev of many", (long)at, writev(fd, (struct iovec *)wild, 70));
		BOTH("writev of too many", (long)at, writev(fd, (struct iovec *)wild, 1025));
		BOTH("writev of less than none", (long)at, writev(fd, (struct iovec *)wild, -1));
		BOTH("sendmsg", (long)at, sendmsg(fd, (struct msghdr *)wild, 0));
		BOTH("sendmmsg", (long)at, sendmmsg(fd, (struct mmsghdr *)wild, 1, 0));
		BOTH("sendmmsg of one", (long)at, sendmmsg(fd, &many, 1, 0));
		pieces.msg_iov = (struct iovec *)wild;
		BOTH("sendmsg of pieces", (long)at, sendmsg(fd, &pieces, 0));
		pieces.msg_iovlen = 1025;
		BOTH("sendmsg of too many", (long)at, sendmsg(fd, &pieces, 0));
		control.msg_control = wild;
		control.msg_controllen = 64;
		if (wild != NULL)
			BOTH("sendmsg with control data", (long)at, sendmsg(fd, &control, 0));
		pair = with(two, 2);
		two[1].iov_len = SSIZE_MAX;
		BOTH("pieces of more than there can be", (long)at, writev(fd, two, 2) < 0 || sendmsg(fd, &pair, 0) < 0);
		BOTH("recv", (long)at, recv(fd, wild, 10, MSG_DONTWAIT));
		BOTH("read", (long)at, read(fd, wild, 10));
		BOTH("readv", (long)at, readv(fd, (struct iovec *)wild, 1));
		BOTH("recvmsg", (long)at, recvmsg(fd, (struct msghdr *)wild, MSG_DONTWAIT));
		BOTH("recvmmsg", (long)at, recvmmsg(fd, (struct mmsghdr *)wild, 1, MSG_DONTWAIT, NULL));
		many.msg_hdr = names;
		if (wild != NULL)
			BOTH("recvmmsg in time", (long)at,
			     recvmmsg(fd, &many, 1, MSG_DONTWAIT, (struct timespec *)wild));
		BOTH("getsockname", (long)at, getsockname(fd, (struct sockaddr *)bytes, (socklen_t *)wild));
		BOTH("getpeername", (long)at, getpeername(fd, (struct sockaddr *)bytes, (socklen_t *)wild));
		len = sizeof loop;
		BOTH("getsockname there", (long)at, getsockname(fd, (struct sockaddr *)wild, &len));
		len = sizeof loop;
		BOTH("getpeername there", (long)at, getpeername(fd, (struct sockaddr *)wild, &len));
		BOTH("epoll_ctl", (long)at, epoll_ctl(set, EPOLL_CTL_ADD, fd, (struct epoll_event *)wild));
		BOTH("bind", (long)at, bind(fd, (struct sockaddr *)wild, sizeof loop) < 0);
		BOTH("connect", (long)at, connect(fd, (struct sockaddr *)wild, sizeof loop) < 0);
	}
	/* Structures that are not aligned are as good as others. */
	for (int shift = 0; shift < 8; shift++) {
		struct iovec near = { bytes, sizeof bytes };
		struct msghdr message;
		struct mmsghdr many = { 0 };

		memcpy(unaligned + shift, &near, sizeof near);
		message = with((struct iovec *)(void *)(unaligned + shift), 1);
		BOTH("writev unaligned", shift, writev(fd, (struct iovec *)(void *)(unaligned + shift), 1));
		memcpy(unaligned + 64 + shift, &message, sizeof message);
		BOTH("sendmsg unaligned", shift, sendmsg(fd, (struct msghdr *)(void *)(unaligned + 64 + shift), 0));
		BOTH("recvmsg unaligned", shift, recvmsg(fd, (struct msghdr *)(void *)(unaligned + 64 + shift), 0) > 0);
		many.msg_hdr = message;
		memcpy(unaligned + 64 + shift, &many, sizeof many);
		BOTH("sendmmsg unaligned", shift, sendmmsg(fd, (struct mmsghdr *)(void *)(unaligned + 64 + shift), 1, 0));
	}
	/* Half of it is there: how much of that goes out is the kernel's to say, but the program lives. */
	for (size_t n = 1; n < PAGE; n *= 2)
		for (int side = 0; side < 2; side++)
			if (write(fds[side], pages + PAGE - n, 2 * n) > (ssize_t)n)
				give_up("more was written than there is");
	return wrong;
}
