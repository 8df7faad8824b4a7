/* What a program under `greenwave run` can ask of the stack: docs/guide/c-api.md.
 * Made from crates/capi/src/api.rs by cbindgen; change it there. */

#ifndef GREENWAVE_H
#define GREENWAVE_H

#include <stddef.h>
#include <stdint.h>

/*
 Bytes that a connection shares with its classifiers.
 */
#define GREENWAVE_PRIVATE 48

/*
 State of a connection as of its last segment received.
 */
struct GreenwaveFlow {
  /*
   Smoothed round-trip time in nanoseconds; 0 before the first sample.
   */
  uint64_t rtt_ns;
  /*
   Bytes received.
   */
  uint64_t received;
  /*
   Bytes sent and acknowledged.
   */
  uint64_t sent;
  /*
   Segments retransmitted of the latest thousands of segments sent, 0.0 to 1.0.
   */
  float loss;
};

/*
 An event.
 */
struct GreenwaveEvent {
  /*
   The descriptor that was watched.
   */
  int fd;
  /*
   Event mask, as in epoll.
   */
  uint32_t events;
  /*
   0 (most urgent) to 7; -1 for a descriptor that is no connection on the stack. Events with -1
   come first.
   */
  int priority;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Kind of a descriptor: 3 for a UDP socket on the stack, 2 for a connection, 1 for a listener, 0
 for anything else.
 */
int greenwave_owns(int fd);

/*
 Priority of connection `fd`, 0 (most urgent) to 7 (least): that of the data received last, or
 the one set. -1 and errno if it is not known.
 */
int greenwave_priority(int fd);

/*
 Sets the priority, 0 to 7, of data sent on connection `fd` until data arrives on it. Returns 0,
 or -1 and errno.
 */
int greenwave_set_priority(int fd, int priority);

/*
 Copies connection `fd`'s private bytes to `bytes`. Returns 0, or -1 and errno.

 # Safety
 `bytes` has space for `GREENWAVE_PRIVATE` bytes.
 */
int greenwave_private_read(int fd, uint8_t *bytes);

/*
 Sets connection `fd`'s private bytes; its classifiers see them from the next packet on. Returns
 0, or -1 and errno.

 # Safety
 `bytes` points to `GREENWAVE_PRIVATE` bytes.
 */
int greenwave_private_write(int fd, const uint8_t *bytes);

/*
 Copies the state of connection `fd` to `flow`. Returns 0, or -1 and errno.

 # Safety
 `flow` points to a flow.
 */
int greenwave_flow(int fd, struct GreenwaveFlow *flow);

/*
 Registers `policy` (TOML, see the guide to policies; transport rules only) for the connections
 that listener `fd` will accept. It replaces the operator's rules; call it between bind and
 listen. Returns 0, or -1 and errno. `EINVAL` means an invalid policy; the reason is in `why`,
 cut to `why_len` bytes with the NUL.

 # Safety
 `policy` ends with NUL; `why` has space for `why_len` bytes, or is null.
 */
int greenwave_classify(int fd, const char *policy, char *why, size_t why_len);

/*
 Registers `fd` for `events` (EPOLLIN and the like, level-triggered) in the epoll set `epfd`,
 replacing an earlier registration; 0 for `events` removes it. Returns 0, or -1 and errno.
 */
int greenwave_watch(int epfd, int fd, uint32_t events);

/*
 Waits as epoll_wait for events that `greenwave_watch` registered in `epfd`, and returns up to
 `max` of them, the most urgent first. Of connections, only those are returned whose priority has
 its bit in `levels` (1 << priority; 0xff for all). Returns their number, 0 after `timeout`
 milliseconds (-1: no timeout), or -1 and errno.

 # Safety
 `events` has space for `max` events.
 */
int greenwave_wait(int epfd, struct GreenwaveEvent *events, int max, int timeout, uint32_t levels);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GREENWAVE_H */
