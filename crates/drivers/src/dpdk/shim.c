#include "shim.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#define BURST 64
#define ETHERNET 14

static char said[4096];
static FILE *log_file;

const char *gw_log(void)
{
	return said;
}

void gw_forget(void)
{
	rewind(log_file);
	memset(said, 0, sizeof said);
}

int gw_init(int argc, char **argv)
{
	/* The last byte is never written. */
	log_file = fmemopen(said, sizeof said - 1, "w");
	if (log_file == NULL)
		return -ENOMEM;
	setbuf(log_file, NULL);
	/* EAL prints errors to stderr regardless of its settings. In this process, Rust does
	 * not use this variable. */
	FILE *kept = stderr;
	stderr = log_file;
	int done = rte_eal_init(argc, argv);
	int why = rte_errno;
	stderr = kept;
	rte_openlog_stream(log_file);
	rte_log_set_global_level(RTE_LOG_ERR);
	rte_log_set_level_pattern("*", RTE_LOG_ERR);
	return done < 0 ? (why > 0 ? -why : -EINVAL) : 0;
}

static const uint64_t RX_CHECKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
static const uint64_t HASHES = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;

int gw_describe(uint16_t port, struct gw_port *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int done = rte_eth_dev_info_get(port, &info);
	if (done == 0)
		done = rte_eth_macaddr_get(port, &mac);
	if (done == 0)
		done = rte_eth_dev_get_mtu(port, &out->mtu);
	if (done != 0)
		return done;
	out->device = info.device;
	snprintf(out->driver, sizeof out->driver, "%s", info.driver_name);
	memcpy(out->mac, mac.addr_bytes, sizeof out->mac);
	/* As in rte_eth_dev_set_mtu. */
	uint32_t overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
	if (info.max_mtu != UINT16_MAX && info.max_rx_pktlen > info.max_mtu)
		overhead = info.max_rx_pktlen - info.max_mtu;
	out->mtu_max = RTE_MIN((uint32_t)info.max_mtu, info.max_rx_pktlen - overhead);
	out->queues_max = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	out->can = 0;
	if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_CKSUM)
		out->can |= GW_TX_CHECKSUM;
	if ((info.rx_offload_capa & RX_CHECKSUM) == RX_CHECKSUM)
		out->can |= GW_RX_CHECKSUM;
	if (info.flow_type_rss_offloads & HASHES)
		out->can |= GW_RSS;
	return 0;
}

int gw_start(uint16_t port, uint16_t queues, uint16_t frames, uint16_t mtu,
	     uint32_t use, struct rte_mempool **pools)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	uint16_t receiving = frames, sending = frames;
	int done = rte_eth_dev_info_get(port, &info);
	if (done != 0)
		return done;
	memset(&conf, 0, sizeof conf);
	conf.rxmode.mtu = mtu;
	if (use & GW_RX_CHECKSUM)
		conf.rxmode.offloads |= RX_CHECKSUM;
	if (use & GW_TX_CHECKSUM)
		conf.txmode.offloads |= info.tx_offload_capa &
			(RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
	if (use & GW_RSS) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & HASHES;
	}
	done = rte_eth_dev_configure(port, queues, queues, &conf);
	if (done == 0 && mtu != 0) {
		done = rte_eth_dev_set_mtu(port, mtu);
		if (done == -ENOTSUP) /* Then configuring has done it. */
			done = 0;
	}
	if (done == 0)
		done = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receiving, &sending);
	int socket = rte_eth_dev_socket_id(port);
	for (uint16_t queue = 0; done == 0 && queue < queues; queue++) {
		info.default_rxconf.offloads = conf.rxmode.offloads;
		info.default_txconf.offloads = conf.txmode.offloads;
		done = rte_eth_rx_queue_setup(port, queue, receiving, socket,
					      &info.default_rxconf, pools[queue]);
		if (done == 0)
			done = rte_eth_tx_queue_setup(port, queue, sending, socket,
						      &info.default_txconf);
	}
	if (done == 0)
		done = rte_eth_dev_start(port);
	/* IPv6 neighbours solicit by multicast; some drivers receive all multicast anyway. */
	if (done == 0)
		(void)rte_eth_allmulticast_enable(port);
	return done;
}

struct closing {
	uint16_t port;
	struct rte_device *device;
	sem_t done;
};

static void close_now(void *argument)
{
	struct closing *closing = argument;
	(void)rte_eth_dev_stop(closing->port);
	(void)rte_eth_dev_close(closing->port);
	(void)rte_dev_remove(closing->device);
	sem_post(&closing->done);
}

void gw_close(uint16_t port, struct rte_device *device)
{
	struct closing closing = { .port = port, .device = device };
	sem_init(&closing.done, 0, 0);
	/* Earliest alarm; it fails only when memory has run out. */
	if (rte_eal_alarm_set(1, close_now, &closing) != 0)
		close_now(&closing);
	while (sem_wait(&closing.done) != 0)
		; /* A signal came. */
	sem_destroy(&closing.done);
}

uint16_t gw_receive(uint16_t port, uint16_t queue, struct gw_frame *frames, uint16_t max)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t got = rte_eth_rx_burst(port, queue, mbufs, RTE_MIN(max, BURST));
	for (uint16_t i = 0; i < got; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		uint64_t sum = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
		int checked = sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD ||
			      sum == RTE_MBUF_F_RX_L4_CKSUM_NONE;
		frames[i].mbuf = mbuf;
		frames[i].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
		frames[i].len = mbuf->data_len;
		frames[i].note = (checked ? GW_CHECKED : 0) | (mbuf->nb_segs > 1 ? GW_CHAINED : 0);
		rte_prefetch0(frames[i].data);
	}
	return got;
}

uint16_t gw_take(struct rte_mempool *pool, struct gw_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];
	count = RTE_MIN(count, BURST);
	if (rte_pktmbuf_alloc_bulk(pool, mbufs, count) != 0)
		return 0;
	for (uint16_t i = 0; i < count; i++) {
		frames[i].mbuf = mbufs[i];
		frames[i].data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
		frames[i].len = rte_pktmbuf_tailroom(mbufs[i]);
		frames[i].note = 0;
	}
	return count;
}

uint16_t gw_send(uint16_t port, uint16_t queue, const struct gw_frame *frames,
		 uint16_t count, uint64_t *bad)
{
	struct rte_mbuf *mbufs[BURST];
	count = RTE_MIN(count, BURST);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = mbufs[i] = frames[i].mbuf;
		mbuf->data_len = frames[i].len;
		mbuf->pkt_len = frames[i].len;
		mbuf->ol_flags = 0;
		if (frames[i].note == 0)
			continue;
		mbuf->l2_len = ETHERNET;
		mbuf->l3_len = frames[i].note - ETHERNET;
		mbuf->l4_len = (frames[i].data[frames[i].note + 12] >> 4) * 4;
		mbuf->ol_flags = RTE_MBUF_F_TX_TCP_CKSUM |
			(frames[i].data[ETHERNET] >> 4 == 4 ? RTE_MBUF_F_TX_IPV4
							    : RTE_MBUF_F_TX_IPV6);
	}
	/* Some drivers must prepare offloads first. */
	uint16_t ready = rte_eth_tx_prepare(port, queue, mbufs, count);
	uint16_t sent = rte_eth_tx_burst(port, queue, mbufs, ready);
	if (sent == ready && ready < count) {
		rte_pktmbuf_free(mbufs[ready]);
		*bad += 1;
		sent++;
	}
	return sent;
}

int gw_is_full(const struct rte_mempool *pool)
{
	return rte_mempool_full(pool);
}
