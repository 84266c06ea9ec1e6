/* SPDX-License-Identifier: Apache-2.0 */
/* Detects that two clusters claim the same replica: this replica belongs to a cluster, and a
 * replica of another cluster connects to its Raft port as to a member.
 *
 * The connection alone proves nothing, because addresses are reused and any process may connect.
 * The join addresses are therefore asked for their members. If the leader of another cluster lists
 * this replica's name, one of the clusters was bootstrapped by mistake, and found() is called. */
#ifndef FLEET_RIVAL_H
#define FLEET_RIVAL_H
#include "fleet/survey.h"
#include "log/log.h"

struct rival;
struct rival_options {
    struct survey_to to;
    const struct log_source *log; /* may be NULL */
    const struct replica *replica;
    const char *name; /* name of this node; copied */
    void (*found)(void *owner, const struct note *note);
    void *owner;
};
enum err rival_open(const struct rival_options *options, struct rival **ret_rival,
                    struct note *note);
/* Reports that a replica of another cluster connected. May be called at any time. */
void rival_greeted(struct rival *rival, uint64_t cluster_id); /* no effect if rival is NULL */
/* Closes `rival`, which may be NULL. Calls closed(), unless NULL, when all memory is freed. */
void rival_close(struct rival *rival, void (*closed)(void *owner), void *owner);
#endif
