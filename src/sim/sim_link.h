/* SPDX-License-Identifier: Apache-2.0 */
/* What may go wrong between two hosts, per direction.
 *
 * A link carries packets. Streams (io/net.h) are TCP-like: a small transport in sim_tcp.c numbers
 * the bytes, acknowledges, resends and reassembles, so on a stream
 *   loss         shows as a delay of at least one resend timeout (200 ms, doubling), and as a
 *                broken connection when nothing gets through for sim_options.give_up_ms;
 *   delay        is delay;
 *   duplication  of data is received once and acknowledged twice; a duplicate of the opening packet
 *                yields at most one accepted connection, or a half-open one that a reset removes;
 *   reordering   holds back what came early until the gap is filled (head-of-line blocking);
 *                connections to the same host overtake each other;
 *   a one-way partition lets data through and eats the acknowledgements, or the other way round:
 *                the window fills, stream_write answers ERR_FULL, in the end the sender gives up
 *                while the receiver keeps a half-open connection and hears nothing;
 *   clogging     holds everything until the clog ends, then delivers it in one burst;
 *   rate         spreads a burst: a packet leaves when the one before it has left.
 * Without `reorder` a link is first in, first out. A host's link to itself has no faults. */
#ifndef SIM_SIM_LINK_H
#define SIM_SIM_LINK_H
#include "sim/sim.h"

enum { SIM_LINK_PACKETS_MAX = 4096 }; /* in flight on one link; more are lost */

struct sim_link_faults {
    uint64_t delay_min_ns;    /* every packet waits at least this long, */
    uint64_t delay_spread_ns; /* and an exponential share of this, halving per unit */
    uint32_t loss_ppm, duplicate_ppm, reorder_ppm; /* per packet, of a million */
    uint64_t reorder_ns_max;                       /* how far a reordered packet is held back */
    uint64_t bytes_per_second;                     /* 0: no limit */
};
struct sim_link_stats {
    uint64_t sent, delivered, lost, blocked, duplicated, reordered, clogged, overflowed;
};

/* What a new link has: 100 us and a spread of 100 us, nothing else. */
extern const struct sim_link_faults sim_link_calm;

void sim_link_set_all(struct sim *sim, const struct sim_link_faults *faults); /* future hosts too */
/* A blocked direction loses everything, including what is on its way. */
void sim_link_block(struct sim_host *from, struct sim_host *to, bool blocked);
/* Holds all packets of this direction until `ms` from now, those on their way too. */
void sim_link_clog(struct sim_host *from, struct sim_host *to, uint64_t ms);
/* No blocks, no clogs, calm links everywhere; packets held by a clog arrive now. */
void sim_link_heal_all(struct sim *sim);
struct sim_link_stats sim_link_stats(const struct sim_host *from, const struct sim_host *to);
#endif
