/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between hosts. A packet's time of arrival and its faults are decided when it is sent. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

enum { PACKET_OVERHEAD = 60 };
#define LOOPBACK_NS   10000ull
#define NS_PER_SECOND (MS_PER_SECOND * NS_PER_MS)

const struct sim_link_faults sim_link_calm = {.delay_min_ns = 100000, .delay_spread_ns = 100000};

static void arrive(struct sim_event *event);

struct sim_packet *sim_packet_new(struct sim_host *from, struct sim_host *to,
                                  enum sim_packet_kind kind, struct str bytes)
{
    struct sim_packet *packet = calloc(1, sizeof *packet + bytes.len);

    if (!packet) return NULL;
    if (sim_event_init(&packet->event, from->sim, arrive)) {
        free(packet);
        return NULL;
    }
    list_init(&packet->link);
    packet->from = from;
    packet->to = to;
    packet->kind = kind;
    packet->len = bytes.len;
    if (bytes.len) memcpy(packet->bytes, bytes.at, bytes.len);
    return packet;
}

void sim_packet_free(struct sim_packet *packet)
{
    if (!packet) return;
    list_remove(&packet->link);
    sim_event_deinit(&packet->event);
    free(packet);
}

static struct sim_packet *twin(const struct sim_packet *packet)
{
    struct sim_packet *copy =
        sim_packet_new(packet->from, packet->to, packet->kind, str_of(packet->bytes, packet->len));
    if (!copy) return NULL;
    copy->connection = packet->connection;
    copy->side = packet->side;
    copy->tls = packet->tls;
    copy->fin = packet->fin;
    copy->probe = packet->probe;
    copy->sequence = packet->sequence;
    copy->ack = packet->ack;
    copy->window = packet->window;
    return copy;
}

static void lose(struct sim_packet *packet, uint64_t *count)
{
    (*count)++;
    sim_mark(packet->from->sim, SIM_MARK_LOSE, packet->from, packet->to->index, packet->kind);
    sim_packet_free(packet);
}

static struct sim_link *link_of(const struct sim_packet *packet)
{
    return &packet->from->links[packet->to->index];
}

/* An exponentially distributed delay (base 2): the number of leading zeros of a random word, plus a
 * random fraction. Without floating point the result is the same on every machine. */
static uint64_t exponential(struct prng *prng, uint64_t unit_ns)
{
    uint64_t word;

    if (!unit_ns) return 0;
    word = prng_u64(prng) | 1;
    return (uint64_t)__builtin_clzll(word) * unit_ns + prng_below(prng, unit_ns);
}

static void schedule(struct sim_packet *packet)
{
    struct sim *sim = packet->from->sim;
    struct sim_link *link = link_of(packet);
    const struct sim_link_faults *faults = &link->faults;
    uint64_t leaves = sim->now.ns, arrives;

    if (packet->from == packet->to) {
        sim_event_in(&packet->event, LOOPBACK_NS);
        link->in_flight++;
        return;
    }
    if (link->in_flight >= SIM_LINK_PACKETS_MAX) {
        lose(packet, &link->stats.overflowed);
        return;
    }
    if (faults->bytes_per_second) {
        leaves = max_u64(leaves, link->free_at.ns) +
                 (packet->len + PACKET_OVERHEAD) * NS_PER_SECOND / faults->bytes_per_second;
        link->free_at.ns = leaves;
    }
    arrives = leaves + faults->delay_min_ns + exponential(&sim->net_prng, faults->delay_spread_ns);
    if (prng_chance(&sim->net_prng, faults->reorder_ppm) && faults->reorder_ns_max) {
        arrives += prng_below(&sim->net_prng, faults->reorder_ns_max);
        link->stats.reordered++; /* packets that were sent later may arrive earlier */
    } else {
        arrives = max_u64(arrives, link->last_arrival.ns);
        link->last_arrival.ns = arrives;
    }
    link->in_flight++;
    sim_event_at(&packet->event, (sim_time){arrives});
}

void sim_packet_send(struct sim_packet *packet)
{
    struct sim *sim = packet->from->sim;
    struct sim_link *link = link_of(packet);

    link->stats.sent++;
    if (packet->from != packet->to) {
        if (link->blocked) {
            lose(packet, &link->stats.blocked);
            return;
        }
        if (prng_chance(&sim->net_prng, link->faults.loss_ppm)) {
            lose(packet, &link->stats.lost);
            return;
        }
        if (prng_chance(&sim->net_prng, link->faults.duplicate_ppm)) {
            struct sim_packet *copy = twin(packet);
            link->stats.duplicated++;
            if (copy) schedule(copy);
        }
    }
    schedule(packet);
}

static void arrive(struct sim_event *event)
{
    struct sim_packet *packet = CONTAINER_OF(event, struct sim_packet, event);
    struct sim_link *link = link_of(packet);
    struct sim *sim = packet->from->sim;

    list_remove(&packet->link);
    if (link->clogged_until.ns > sim->now.ns && !link->blocked) {
        link->stats.clogged++;
        list_append(&link->held, &packet->link);
        sim_event_at(event, link->clogged_until);
        return;
    }
    link->in_flight--;
    if (link->blocked) {
        lose(packet, &link->stats.blocked);
    } else if (!packet->to->powered || packet->to->frozen) {
        lose(packet, &link->stats.lost);
    } else {
        link->stats.delivered++;
        sim_mark(sim, SIM_MARK_ARRIVE, packet->to, packet->connection << 3 | packet->kind,
                 packet->sequence ^ packet->len << 48);
        sim_tcp_receive(packet);
    }
}

/* -- settings -- */

void sim_links_init(struct sim_host *host)
{
    for (size_t i = 0; i < SIM_HOSTS_MAX; i++) {
        host->links[i].faults = host->sim->new_link;
        list_init(&host->links[i].held);
    }
}

void sim_link_set_all(struct sim *sim, const struct sim_link_faults *faults)
{
    sim->new_link = *faults;
    for (size_t i = 0; i < sim->host_count; i++) {
        for (size_t j = 0; j < SIM_HOSTS_MAX; j++) sim->hosts[i]->links[j].faults = *faults;
    }
}

void sim_link_block(struct sim_host *from, struct sim_host *to, bool blocked)
{
    sim_mark(from->sim, SIM_MARK_LINK, from, to->index, blocked);
    from->links[to->index].blocked = blocked;
}

void sim_link_clog(struct sim_host *from, struct sim_host *to, uint64_t ms)
{
    struct sim_link *link = &from->links[to->index];

    sim_mark(from->sim, SIM_MARK_LINK, from, to->index, ms << 1);
    link->clogged_until.ns = max_u64(link->clogged_until.ns, from->sim->now.ns + ms * NS_PER_MS);
}

void sim_link_heal_all(struct sim *sim)
{
    sim_link_set_all(sim, &sim_link_calm);
    for (size_t i = 0; i < sim->host_count; i++) {
        for (size_t j = 0; j < sim->host_count; j++) {
            struct sim_link *link = &sim->hosts[i]->links[j];
            link->blocked = false;
            link->clogged_until = link->free_at = sim->now;
            LIST_EACH(&link->held, node)
            {
                sim_event_in(&CONTAINER_OF(node, struct sim_packet, link)->event, 0);
            }
        }
    }
}

struct sim_link_stats sim_link_stats(const struct sim_host *from, const struct sim_host *to)
{
    return from->links[to->index].stats;
}

/* Frees all packets. Other events are not in the queue any more. */
void sim_links_drop(struct sim *sim)
{
    for (struct heap_node *node; (node = heap_pop_due(&sim->queue, UINT64_MAX));) {
        struct sim_event *event = CONTAINER_OF(node, struct sim_event, node);
        if (event->fn == arrive) sim_packet_free(CONTAINER_OF(event, struct sim_packet, event));
    }
}
