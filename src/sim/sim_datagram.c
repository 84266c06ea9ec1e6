/* SPDX-License-Identifier: Apache-2.0 */
/* Messages without a transport: what the link did to them is what the receiver sees. */
#include "sim/world.h"

static void hand_over(struct sim_ready *ready)
{
    struct sim_host *host = CONTAINER_OF(ready, struct sim_host, datagram_ready);
    struct list batch;

    list_init(&batch);
    list_splice(&batch, &host->datagrams);
    host->datagram_count = 0;
    for (struct list *node; (node = list_pop(&batch));) {
        struct sim_packet *packet = CONTAINER_OF(node, struct sim_packet, link);
        if (host->datagram_fn && sim_host_heard(host)) {
            host->datagram_fn(host->datagram_context, packet->from,
                              str_of(packet->bytes, packet->len));
        }
        sim_packet_free(packet);
    }
}

void sim_datagram_init(struct sim_host *host)
{
    list_init(&host->datagrams);
    sim_ready_init(&host->datagram_ready, hand_over);
}

void sim_datagram_bind(struct sim_host *host, sim_datagram_fn *fn, void *context)
{
    host->datagram_fn = fn;
    host->datagram_context = context;
}

void sim_datagram_death(struct sim_host *host)
{
    host->datagram_fn = NULL;
    host->datagram_count = 0;
    list_remove(&host->datagram_ready.link);
    while (!list_empty(&host->datagrams)) {
        sim_packet_free(CONTAINER_OF(host->datagrams.next, struct sim_packet, link));
    }
}

enum err sim_datagram_send(struct sim_host *from, struct sim_host *to, struct str bytes)
{
    struct sim_packet *packet;

    if (bytes.len > SIM_DATAGRAM_MAX) return ERR_TOO_LARGE;
    if (!from->powered || !sim_host_heard(from)) return ERR_UNAVAILABLE;
    packet = sim_packet_new(from, to, SIM_DATAGRAM, bytes);
    if (!packet) return ERR_NOMEM;
    sim_packet_send(packet);
    return ERR_OK;
}

void sim_datagram_receive(struct sim_packet *packet)
{
    struct sim_host *host = packet->to;

    if (!host->datagram_fn || host->datagram_count >= SIM_DATAGRAMS_WAITING_MAX) {
        sim_packet_free(packet);
        return;
    }
    host->datagram_count++;
    list_append(&host->datagrams, &packet->link);
    sim_host_ready(host, &host->datagram_ready);
}
