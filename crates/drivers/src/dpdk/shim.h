/* Plain C functions and small structures for DPDK's inline functions and large
 * structures. It decides nothing: the Rust files beside it do. Rust calls DPDK's other
 * functions directly. */
#ifndef GW_DPDK_SHIM_H
#define GW_DPDK_SHIM_H

#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_device;

/* A frame in an mbuf. */
struct gw_frame {
	struct rte_mbuf *mbuf;
	/* Its first byte, or the first that can be written. */
	uint8_t *data;
	/* Bytes from there on. */
	uint16_t len;
	/* Received: GW_CHECKED, GW_CHAINED. To be sent: offset of the TCP header whose
	 * checksum the port completes, or 0. */
	uint16_t note;
};
/* The transport checksum can be ignored. */
#define GW_CHECKED 1
/* The frame continues in other mbufs. */
#define GW_CHAINED 2

/* Properties of a port. */
struct gw_port {
	struct rte_device *device;
	char driver[32];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t mtu_max;
	/* The lesser of receive and transmit queues. */
	uint16_t queues_max;
	/* GW_TX_CHECKSUM, GW_RX_CHECKSUM, GW_RSS. */
	uint32_t can;
};
#define GW_TX_CHECKSUM 1
#define GW_RX_CHECKSUM 2
#define GW_RSS 4

/* Starts EAL, whose output goes to the text that gw_log returns. */
int gw_init(int argc, char **argv);
/* Errors that DPDK has logged since gw_forget; the caller prevents concurrent logging. */
const char *gw_log(void);
void gw_forget(void);

int gw_describe(uint16_t port, struct gw_port *out);
/* Configures and starts a port with a pool for each queue. `mtu` 0: unchanged. */
int gw_start(uint16_t port, uint16_t queues, uint16_t frames, uint16_t mtu,
	     uint32_t use, struct rte_mempool **pools);

/* Stops and closes a port and removes its device. EAL's interrupt thread does this: a
 * driver that learns there of the peer's close frees the same objects, and memif's
 * takes no lock against that. */
void gw_close(uint16_t port, struct rte_device *device);

/* Receives up to `max` frames. */
uint16_t gw_receive(uint16_t port, uint16_t queue, struct gw_frame *frames, uint16_t max);
/* Takes `count` empty frames, or 0 if the pool has fewer. */
uint16_t gw_take(struct rte_mempool *pool, struct gw_frame *frames, uint16_t count);
/* Sends as many frames as fit; the number that DPDK now owns. `*bad` grows by those
 * that the driver rejected, which are freed. */
uint16_t gw_send(uint16_t port, uint16_t queue, const struct gw_frame *frames,
		 uint16_t count, uint64_t *bad);
/* True if every mbuf of the pool is back in it. */
int gw_is_full(const struct rte_mempool *pool);

#endif
