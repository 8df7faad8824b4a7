/* Cancels threads while they wait for sockets, and joins them: the C library
 * unwinds what is on their stacks, ours too.
 *
 *   cancelled ADDRESS PORT
 *
 * A client connects, sends nothing and reads nothing. 0 when every thread was.
 */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int listener, connection, datagrams, set;
static char big[1 << 24];

static void give_up(const char *what)
{
	fprintf(stderr, "error: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void *by_accept(void *unused)
{
	int fd = accept(listener, NULL, NULL);

	(void)fd;
	return unused;
}

static void *by_accept4(void *unused)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	(void)fd;
	return unused;
}

static void *by_read(void *unused)
{
	char bytes[8];
	ssize_t len = read(connection, bytes, sizeof bytes);

	(void)len;
	return unused;
}

static void *by_recvmsg(void *unused)
{
	char bytes[8];
	struct sockaddr_in from;
	struct iovec piece = { bytes, sizeof bytes };
	struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &piece, .msg_iovlen = 1 };
	ssize_t len = recvmsg(connection, &message, 0);

	(void)len;
	return unused;
}

static void *by_recvfrom(void *unused)
{
	char bytes[8];
	struct sockaddr_in from;
	socklen_t from_len = sizeof from;
	ssize_t len = recvfrom(datagrams, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &from_len);

	(void)len;
	return unused;
}

static void *by_epoll_wait(void *unused)
{
	struct epoll_event event;
	int count = epoll_wait(set, &event, 1, -1);

	(void)count;
	return unused;
}

/* The client does not read: at some time nothing more goes in. */
static void *by_write(void *unused)
{
	ssize_t len;

	do
		len = write(connection, big, sizeof big);
	while (len > 0);
	return unused;
}

static void cancelled(const char *name, void *(*wait)(void *), useconds_t pause)
{
	pthread_t thread;
	void *said = NULL;

	alarm(30); /* Who cannot be cancelled is waited for no longer. */
	if (pthread_create(&thread, NULL, wait, NULL) != 0)
		give_up("pthread_create");
	usleep(pause);
	if (pthread_cancel(thread) != 0 || pthread_join(thread, &said) != 0)
		give_up(name);
	if (said != PTHREAD_CANCELED) {
		fprintf(stderr, "error: %s returned\n", name);
		exit(1);
	}
	printf("%s\n", name);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void *(*wait)(void *); } calls[] = {
		{ "accept", by_accept }, { "accept4", by_accept4 }, { "read", by_read }, { "recvmsg", by_recvmsg },
		{ "recvfrom", by_recvfrom }, { "epoll_wait", by_epoll_wait }, { "write", by_write },
	};
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct epoll_event event = { .events = EPOLLIN };

	if (argc != 3 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((unsigned short)atoi(argv[2]));
	listener = socket(AF_INET, SOCK_STREAM, 0);
	datagrams = socket(AF_INET, SOCK_DGRAM, 0);
	set = epoll_create1(EPOLL_CLOEXEC);
	if (bind(listener, (struct sockaddr *)&addr, sizeof addr) != 0 || listen(listener, 8) != 0)
		give_up("listen");
	if (bind(datagrams, (struct sockaddr *)&addr, sizeof addr) != 0)
		give_up("bind");
	connection = accept(listener, NULL, NULL);
	if (connection < 0)
		give_up("accept");
	if (epoll_ctl(set, EPOLL_CTL_ADD, connection, &event) != 0)
		give_up("epoll_ctl");
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		/* Before it waits, and while it does. */
		cancelled(calls[i].name, calls[i].wait, 0);
		cancelled(calls[i].name, calls[i].wait, 100000);
	}
	return 0;
}
