/* SPDX-License-Identifier: Apache-2.0 */
/* The faults between two hosts, per direction.
 *
 * Streams (io/net.h) behave like TCP: a small transport in sim_tcp.c numbers, acknowledges, resends
 * and reassembles the bytes. The effect of each fault on a stream:
 *   loss         a delay of at least one resend timeout (200 ms, doubling); the connection breaks
 *                when no packet gets through for sim_options.give_up_ms
 *   delay        the same delay
 *   duplication  no effect on data; a duplicate of the first packet may open a half-open connection
 *                that a reset removes
 *   reordering   data that arrives early waits until the gap is filled; connections to the same
 *                host overtake each other
 *   one-way      data or acknowledgements are lost: the window fills, stream_write returns
 *                ERR_FULL, the sender gives up, and the receiver keeps a half-open connection
 *   clogging     all packets wait until the clog ends, then arrive in one burst
 *   rate         a packet leaves when the previous packet has left
 * Without `reorder` a link is first in, first out. A host's link to itself has no faults. */
#ifndef SIM_SIM_LINK_H
#define SIM_SIM_LINK_H
#include "sim/sim.h"

enum { SIM_LINK_PACKETS_MAX = 4096 }; /* in flight on one link; further packets are lost */

struct sim_link_faults {
    uint64_t delay_min_ns;
    uint64_t delay_spread_ns; /* random addition; exponential with base 2 */
    uint32_t loss_ppm, duplicate_ppm, reorder_ppm;
    uint64_t reorder_ns_max;
    uint64_t bytes_per_second; /* 0: no limit */
};
struct sim_link_stats {
    uint64_t sent, delivered, lost, blocked, duplicated, reordered, clogged, overflowed;
};

/* A delay of 100 us and a spread of 100 us, nothing else. */
extern const struct sim_link_faults sim_link_calm;

/* also for hosts added later */
void sim_link_set_all(struct sim *sim, const struct sim_link_faults *faults);
/* A blocked direction loses all packets, including packets in flight. */
void sim_link_block(struct sim_host *from, struct sim_host *to, bool blocked);
/* Holds all packets of this direction, including packets in flight, until `ms` from now. */
void sim_link_clog(struct sim_host *from, struct sim_host *to, uint64_t ms);
/* Removes all blocks and clogs and makes every link calm. Packets held by a clog arrive now. */
void sim_link_heal_all(struct sim *sim);
struct sim_link_stats sim_link_stats(const struct sim_host *from, const struct sim_host *to);
#endif
