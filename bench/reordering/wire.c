/* Wire between two interfaces that delays frames, some of those in one direction longer.
 *
 *   wire FROM TO DELAY_US LATE_US LATE_PERCENT
 *
 * Frames from FROM to TO arrive DELAY_US later, LATE_PERCENT of them LATE_US later than that;
 * all from TO to FROM arrive DELAY_US later, in order. No frame is lost: one for which there is
 * no memory, or that does not fit the link, ends the program. Which are late follows from a
 * fixed seed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAMES_MAX (1 << 16)
#define FRAME_MAX 2048
#define BATCH 64

struct frame {
    uint64_t due_ns, number;
    int out, len;
    unsigned char bytes[FRAME_MAX];
};

static struct frame *heap[FRAMES_MAX], *spare[FRAMES_MAX];
static int waiting, spares;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int before(const struct frame *a, const struct frame *b) {
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->number < b->number);
}

static void put(struct frame *f) {
    int i = waiting++;
    while (i > 0 && before(f, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = f;
}

static struct frame *take(void) {
    struct frame *first = heap[0], *last = heap[--waiting];
    int i = 0;
    for (int child; (child = 2 * i + 1) < waiting; i = child) {
        if (child + 1 < waiting && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], last)) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

static int opened(const char *name) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int on = 1, room = 64 << 20;
    if (fd < 0 || !(at.sll_ifindex = if_nametoindex(name))) fail(name);
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on)) fail("PACKET_IGNORE_OUTGOING");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room)) fail("SO_RCVBUFFORCE");
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room)) fail("SO_SNDBUFFORCE");
    if (bind(fd, (void *)&at, sizeof at)) fail("bind");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "wire FROM TO DELAY_US LATE_US LATE_PERCENT\n"), 2;
    int fds[2] = {opened(argv[1]), opened(argv[2])};
    uint64_t delay_ns = atoi(argv[3]) * 1000ull, late_ns = atoi(argv[4]) * 1000ull;
    uint64_t percent = atoi(argv[5]), number = 0, dice = 1;
    prctl(PR_SET_TIMERSLACK, 1);
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int side = 0; side < 2; side++) {
            for (int n = 0; n < BATCH; n++) {
                struct frame *f = spares ? spare[--spares] : malloc(sizeof *f);
                if (!f || waiting == FRAMES_MAX) return fprintf(stderr, "too many frames on the way\n"), 1;
                f->len = recv(fds[side], f->bytes, FRAME_MAX, MSG_TRUNC);
                if (f->len < 0) {
                    if (errno != EAGAIN && errno != ENETDOWN) fail("recv");
                    spare[spares++] = f;
                    break;
                }
                if (f->len > FRAME_MAX) return fprintf(stderr, "a frame of %d bytes\n", f->len), 1;
                dice = dice * 6364136223846793005ull + 1442695040888963407ull;
                int late = side == 0 && (dice >> 33) % 100 < percent;
                f->due_ns = now_ns() + delay_ns + (late ? late_ns : 0);
                f->number = number++;
                f->out = fds[1 - side];
                put(f);
            }
        }
        while (waiting && heap[0]->due_ns <= now_ns()) {
            struct frame *f = take();
            if (send(f->out, f->bytes, f->len, 0) < 0 && errno != ENETDOWN) fail("send");
            spare[spares++] = f;
        }
        struct pollfd ready[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
        uint64_t now = now_ns(), due = waiting ? heap[0]->due_ns : now + 1000000000ull;
        uint64_t left = due > now ? due - now : 0;
        struct timespec wait = {left / 1000000000ull, left % 1000000000ull};
        if (ppoll(ready, 2, &wait, NULL) < 0) fail("ppoll");
    }
}
