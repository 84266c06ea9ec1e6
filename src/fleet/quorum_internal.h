/* SPDX-License-Identifier: Apache-2.0 */
/* What quorum.c (the join loop) and admission.c (the leader's side) share. */
#ifndef FLEET_QUORUM_INTERNAL_H
#define FLEET_QUORUM_INTERNAL_H
#include "fleet/join.h"
#include "fleet/quorum.h"

struct quorum {
    struct io *io;
    struct log_source log;
    struct replica *replica;
    const struct roster *roster;
    struct admit_request self; /* what we ask for; the cluster is filled in when asking */

    /* the join loop */
    struct join join;
    struct timer look_timer;
    struct survey *survey; /* asks the leader at the join addresses */

    /* the leader's side */
    struct list admissions;
    size_t admission_count;
    mono_time leading_since; /* 0: we do not lead */

    bool stopping;
};
/* Those that wait for a timer end here; those that the log has end with it. */
void admissions_stop(struct quorum *quorum);
#endif
