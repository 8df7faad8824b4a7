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
 What a connection has been like, as of what came last on it.
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
   What happened, as epoll says it.
   */
  uint32_t events;
  /*
   0 (most urgent) to 7; -1 for what is no connection on the stack. Those
   come first.
   */
  int priority;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Whose a descriptor is: 3 for a socket for datagrams on the stack, 2 for a
 connection on it, 1 for a listener, 0 for anything else.
 */
int greenwave_owns(int fd);

/*
 How urgent is what connection `fd` was handed last, or what was said of
 it: 0 (most) to 7 (least); -1 and errno where that is not known.
 */
int greenwave_priority(int fd);

/*
 What connection `fd` sends is as urgent as `priority`, 0 to 7, until
 something comes on it. 0, or -1 and errno.
 */
int greenwave_set_priority(int fd, int priority);

/*
 Copies connection `fd`'s private bytes to `bytes`. 0, or -1 and errno.

 # Safety
 `bytes` has room for `GREENWAVE_PRIVATE` bytes.
 */
int greenwave_private_read(int fd, uint8_t *bytes);

/*
 Sets connection `fd`'s private bytes; its classifiers see them from the
 next packet on. 0, or -1 and errno.

 # Safety
 `bytes` points to `GREENWAVE_PRIVATE` bytes.
 */
int greenwave_private_write(int fd, const uint8_t *bytes);

/*
 Copies what connection `fd` has been like to `flow`. 0, or -1 and errno.

 # Safety
 `flow` points to a flow.
 */
int greenwave_flow(int fd, struct GreenwaveFlow *flow);

/*
 Registers `policy` (TOML, see the guide to policies; rules of the
 transport) for the connections that listener `fd` will accept. To be called
 between bind and listen; it holds instead of the operator's rules. 0, or -1
 and errno: `EINVAL` for a policy that means nothing, with the reason in
 `why`, cut to `why_len` bytes with the NUL.

 # Safety
 `policy` ends with NUL; `why` has room for `why_len` bytes, or is null.
 */
int greenwave_classify(int fd, const char *policy, char *why, size_t why_len);

/*
 Watches `fd` for `events` (EPOLLIN and the like, level-triggered) in the
 epoll set `epfd`, in the place of what it was watched for before; 0 for
 `events` ends that. 0, or -1 and errno.
 */
int greenwave_watch(int epfd, int fd, uint32_t events);

/*
 Waits as epoll_wait for events of what `greenwave_watch` put into `epfd`,
 and returns up to `max` of them, the most urgent first. Of connections only
 those whose priority has its bit in `levels` (1 << priority; 0xff for all).
 Their number, 0 after `timeout` milliseconds (-1 waits on), or -1 and errno.

 # Safety
 `events` has room for `max` events.
 */
int greenwave_wait(int epfd, struct GreenwaveEvent *events, int max, int timeout, uint32_t levels);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GREENWAVE_H */
