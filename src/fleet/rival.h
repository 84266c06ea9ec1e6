/* SPDX-License-Identifier: Apache-2.0 */
/* Two clusters with one replica: this one belongs to a cluster, and a replica of another cluster
 * dials its Raft port as one of its own members.
 *
 * The hello alone proves nothing: addresses are reused, and anybody may send it. So the join
 * addresses are asked for their members. When the leader of another cluster lists this replica's
 * name, one of the two clusters was bootstrapped by mistake, and found() is called. */
#ifndef FLEET_RIVAL_H
#define FLEET_RIVAL_H
#include "fleet/survey.h"
#include "log/log.h"

struct rival;
struct rival_options {
    struct survey_to to;
    const struct log_source *log; /* may be NULL */
    const struct replica *replica;
    const char *name; /* of this node; copied */
    void (*found)(void *owner, const struct note *note);
    void *owner;
};
enum err rival_open(const struct rival_options *options, struct rival **ret_rival,
                    struct note *note);
/* A replica of cluster `cluster_id`, which is not ours, said hello. Any time, from anywhere. */
void rival_greeted(struct rival *rival, uint64_t cluster_id); /* NULL rival: nothing */
/* closed() (may be NULL) when nothing of it is left; at once when rival is NULL. */
void rival_close(struct rival *rival, void (*closed)(void *owner), void *owner);
#endif
