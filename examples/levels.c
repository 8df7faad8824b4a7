/* A server in C that knows of greenwave: the most urgent first.
 *
 * Clients send lines. A line that starts with "urgent" is urgent, which the
 * program does not decide itself: it registers the rule with the stack. Each
 * answer says how urgent the line was, how many lines the connection has sent
 * so far, a count that is kept in the connection's private area, which answer of
 * the server's it is, and what the stack knows of the path.
 *
 *   cc -o levels levels.c -I../crates/capi/include -L../target/release -lgreenwave
 *   greenwave run --device tap:gw0 --addr 10.77.0.2/24 -- ./levels 10.77.0.2 7000
 */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "greenwave.h"

#define EVENTS 64
#define LINE 512

static const char POLICY[] =
	"default = 6\n"
	"[message]\n"
	"end = \"\\n\"\n"
	"[[rule]]\n"
	"name = \"urgent lines\"\n"
	"layer = \"transport\"\n"
	"message = { equals = \"urgent\" }\n"
	"priority = 0\n";

static void give_up(const char *what)
{
	fprintf(stderr, "error: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Answers the lines that have come; 0 when the client has gone. A line that
 * comes in pieces is answered as often: this is an example. */
static int answer(int fd, int priority)
{
	static unsigned turn;
	char in[LINE], out[LINE];
	unsigned char own[GREENWAVE_PRIVATE];
	struct GreenwaveFlow flow;
	ssize_t len = read(fd, in, sizeof in);

	if (len <= 0)
		return 0;
	/* On the kernel's TCP there is no private area, and no path is known. */
	if (greenwave_private_read(fd, own) != 0)
		memset(own, 0, sizeof own);
	for (ssize_t i = 0; i < len; i++)
		own[0] += in[i] == '\n';
	greenwave_private_write(fd, own);
	if (greenwave_flow(fd, &flow) != 0)
		memset(&flow, 0, sizeof flow);
	len = snprintf(out, sizeof out, "turn %u priority %d lines %d received %llu rtt %s loss %.2f\n", turn++, priority, own[0],
		       (unsigned long long)flow.received, flow.rtt_ns > 0 ? "known" : "unknown", flow.loss);
	return write(fd, out, (size_t)len) == len;
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct GreenwaveEvent events[EVENTS];
	char why[256] = "";
	int listener, set;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1) {
		fprintf(stderr, "error: not an address and a port\n  try: %s 10.77.0.2 7000\n", argv[0]);
		return 2;
	}
	addr.sin_port = htons((unsigned short)atoi(argv[2]));
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, sizeof addr) != 0)
		give_up(argv[1]);
	if (greenwave_owns(listener) && greenwave_classify(listener, POLICY, why, sizeof why) != 0) {
		fprintf(stderr, "error: the policy: %s\n", why);
		return 2;
	}
	set = epoll_create1(EPOLL_CLOEXEC);
	if (listen(listener, 64) != 0 || set < 0 || greenwave_watch(set, listener, EPOLLIN) != 0)
		give_up("listen");
	for (;;) {
		int count = greenwave_wait(set, events, EVENTS, -1, 0xff);

		if (count < 0 && errno != EINTR)
			give_up("wait");
		for (int i = 0; i < count; i++) {
			int fd = events[i].fd;

			if (fd == listener) {
				fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
				if (fd >= 0 && greenwave_watch(set, fd, EPOLLIN) != 0)
					close(fd);
			} else if (!answer(fd, events[i].priority)) {
				close(fd);
			}
		}
	}
}
