/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between hosts that may be lost, doubled and overtaken: the raw face of a link.
 *
 * For state machines that are tested below the transport, such as a consensus engine stepped by
 * messages; struct io has no datagrams, so a process that ships uses streams. A message arrives in
 * a turn of the receiver's loop. One receiver per host; it is forgotten when the process dies, and
 * messages without a receiver are lost. */
#ifndef SIM_SIM_DATAGRAM_H
#define SIM_SIM_DATAGRAM_H
#include "sim/sim.h"

enum {
    SIM_DATAGRAM_MAX = 1024 * 1024,   /* bytes in one */
    SIM_DATAGRAMS_WAITING_MAX = 4096, /* for a paused or busy receiver; more are lost */
};
/* `bytes` is valid during the call. */
typedef void sim_datagram_fn(void *context, struct sim_host *from, struct str bytes);

void sim_datagram_bind(struct sim_host *host, sim_datagram_fn *fn,
                       void *context); /* NULL unbinds */
/* ERR_TOO_LARGE, ERR_NOMEM, ERR_UNAVAILABLE when `from` is dead. ERR_OK says nothing about
 * arrival. */
enum err sim_datagram_send(struct sim_host *from, struct sim_host *to, struct str bytes);
#endif
