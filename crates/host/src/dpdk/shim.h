/* What DPDK has as inline functions or large structures, as plain functions
 * on small ones. It decides nothing: the Rust files beside it do. The other
 * functions of DPDK are called from Rust as they are. */
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
	/* Received: GW_CHECKED, GW_CHAINED. To be sent: where the TCP header
	 * starts whose checksum the port completes, or 0. */
	uint16_t note;
};
/* The transport checksum needs no look. */
#define GW_CHECKED 1
/* There is more of the frame in other mbufs. */
#define GW_CHAINED 2

/* What a port is and can. */
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

/* Starts EAL; what it prints goes to the text that gw_said returns. */
int gw_init(int argc, char **argv);
/* What DPDK has logged since gw_forget, errors only; the caller keeps others
 * from logging meanwhile. */
const char *gw_said(void);
void gw_forget(void);

int gw_describe(uint16_t port, struct gw_port *out);
/* Configures and starts a port with a pool for each queue. `mtu` 0: as it is. */
int gw_start(uint16_t port, uint16_t queues, uint16_t frames, uint16_t mtu,
	     uint32_t use, struct rte_mempool **pools);

/* Stops and closes a port and takes its device away. That is done by EAL's
 * interrupt thread: a driver that learns there that the other end has gone
 * closes the same things, and memif's takes no lock against that. */
void gw_close(uint16_t port, struct rte_device *device);

/* Up to `max` received frames. */
uint16_t gw_receive(uint16_t port, uint16_t queue, struct gw_frame *frames, uint16_t max);
/* `count` empty frames, or 0 when the pool has fewer. */
uint16_t gw_take(struct rte_mempool *pool, struct gw_frame *frames, uint16_t count);
/* Sends frames as far as there is room; how many are DPDK's now. `*bad` grows
 * by those that the driver refused, which are freed. */
uint16_t gw_send(uint16_t port, uint16_t queue, const struct gw_frame *frames,
		 uint16_t count, uint64_t *bad);
/* Whether every mbuf of the pool is back in it. */
int gw_is_full(const struct rte_mempool *pool);

#endif
