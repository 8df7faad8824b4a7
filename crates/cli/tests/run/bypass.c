/* Sockets of the kernel's that `greenwave run` has to find, and what io_uring
 * does on sockets of ours.
 *
 * bypass CALLS listen|datagrams|connect ADDRESS PORT: such a socket by CALLS,
 * libc or ring, then "ready" and a wait for the end.
 * bypass mixed accept|connect|echo|hold ADDRESS PORT: socket, bind and listen, or
 * socket and connect, by libc; the rest by a ring; what became of it is printed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than some headers: Linux 5.19 and 6.11. */
enum { SOCKET = 45, BIND = 56, LISTEN = 57 };

static struct io_uring_params params;
static int ring_fd;
static char *ring;
static struct io_uring_sqe *sqes;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(3);
}

static void open_ring(void) {
    ring_fd = syscall(__NR_io_uring_setup, 4, &params);
    if (ring_fd < 0) fail("io_uring");
    size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    int flags = MAP_SHARED | MAP_POPULATE, prot = PROT_READ | PROT_WRITE;
    ring = mmap(NULL, sq > cq ? sq : cq, prot, flags, ring_fd, IORING_OFF_SQ_RING);
    sqes = mmap(NULL, params.sq_entries * sizeof *sqes, prot, flags, ring_fd, IORING_OFF_SQES);
    if (ring == MAP_FAILED || sqes == MAP_FAILED) fail("io_uring");
}

/* One operation to its end: its result, or -1 and errno. */
static int operate(int op, int fd, const void *addr, unsigned len, unsigned long off) {
    unsigned *tail = (unsigned *)(ring + params.sq_off.tail), at = *tail & (params.sq_entries - 1);
    memset(&sqes[at], 0, sizeof sqes[at]);
    sqes[at].opcode = op;
    sqes[at].fd = fd;
    sqes[at].addr = (unsigned long)addr;
    sqes[at].len = len;
    sqes[at].off = off;
    ((unsigned *)(ring + params.sq_off.array))[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(__NR_io_uring_enter, ring_fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) return -1;
    unsigned *head = (unsigned *)(ring + params.cq_off.head);
    struct io_uring_cqe *cqes = (struct io_uring_cqe *)(ring + params.cq_off.cqes);
    int result = cqes[*head & (params.cq_entries - 1)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    if (result >= 0) return result;
    errno = -result;
    return -1;
}

static void ready(void) {
    puts("ready");
    fflush(stdout);
    alarm(50);
    pause();
}

static void check(int result, const char *what) {
    if (result < 0) fail(what);
}

static void by_libc(const char *what, struct sockaddr_in *to) {
    int fd = socket(AF_INET, strcmp(what, "datagrams") ? SOCK_STREAM : SOCK_DGRAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!strcmp(what, "connect")) {
        check(connect(fd, (struct sockaddr *)to, sizeof *to), "connect");
    } else {
        check(bind(fd, (struct sockaddr *)to, sizeof *to), "bind");
        if (!strcmp(what, "listen")) check(listen(fd, 5), "listen");
    }
    ready();
}

static void by_ring(const char *what, struct sockaddr_in *to) {
    open_ring();
    int fd = operate(SOCKET, AF_INET, NULL, 0, SOCK_STREAM);
    check(fd, "socket");
    if (!strcmp(what, "connect")) {
        check(operate(IORING_OP_CONNECT, fd, to, 0, sizeof *to), "connect");
    } else {
        check(operate(BIND, fd, to, 0, sizeof *to), "bind");
        check(operate(LISTEN, fd, NULL, 5, 0), "listen");
    }
    ready();
}

static void mixed(const char *what, struct sockaddr_in *to) {
    open_ring();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (!strcmp(what, "connect")) {
        check(operate(IORING_OP_CONNECT, fd, to, 0, sizeof *to), "connect");
        puts("connected");
        return ready();
    }
    check(bind(fd, (struct sockaddr *)to, sizeof *to), "bind");
    check(listen(fd, 5), "listen");
    puts("listening");
    fflush(stdout);
    alarm(50);
    if (!strcmp(what, "hold")) return ready();
    if (!strcmp(what, "accept")) {
        check(operate(IORING_OP_ACCEPT, fd, NULL, 0, 0), "accept");
        puts("accepted");
        return;
    }
    int conn = accept(fd, NULL, NULL);
    check(conn, "accept");
    char bytes[64];
    int len = operate(IORING_OP_RECV, conn, bytes, sizeof bytes, 0);
    check(len, "recv");
    check(operate(IORING_OP_SEND, conn, bytes, len, 0), "send");
    len = operate(IORING_OP_READ, conn, bytes, sizeof bytes, 0);
    check(len, "read");
    check(operate(IORING_OP_WRITE, conn, bytes, len, 0), "write");
    puts("echoed");
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[4]))};
    inet_pton(AF_INET, argv[3], &to.sin_addr);
    if (!strcmp(argv[1], "libc")) by_libc(argv[2], &to);
    else if (!strcmp(argv[1], "ring")) by_ring(argv[2], &to);
    else mixed(argv[2], &to);
    return 0;
}
