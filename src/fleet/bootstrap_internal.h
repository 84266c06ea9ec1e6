/* SPDX-License-Identifier: Apache-2.0 */
/* What bootstrap.c and bootstrap_serve.c share. */
#ifndef FLEET_BOOTSTRAP_INTERNAL_H
#define FLEET_BOOTSTRAP_INTERNAL_H
#include "fleet/bootstrap.h"
#include "fleet/survey.h"

enum { BOOTSTRAP_TEXT_CAP = 512 };
struct bootstrap {
    struct io *io;
    struct log_source log;
    struct bootstrap_options options;
    struct bootstrap_identity identity;
    struct survey *survey;
    struct timer timer;
    mono_time began, said;
    struct bootstrap_peer peers[BOOTSTRAP_PEERS_MAX];
    char addresses[BOOTSTRAP_PEERS_MAX][TARGET_CAP];
    char reasons[BOOTSTRAP_PEERS_MAX][128]; /* of UNCLEAR and REFUSED */
    size_t count;
    bool running, by_hand; /* a round runs; it was ordered by an administrator */
    bool stopped, decided;
    struct rpc_call *order; /* BootstrapReplica that waits for its round; NULL: none */
    char name[BOOTSTRAP_NAME_CAP];
    char text[BOOTSTRAP_TEXT_CAP]; /* what it waits for */
};
static_assert((int)BOOTSTRAP_PEERS_MAX >= (int)TARGETS_MAX, "every address is asked");

/* A round by an administrator's order as soon as none runs. */
void bootstrap_hurry(struct bootstrap *bootstrap);
/* The order was carried out, or is refused with the reason. */
void bootstrap_answer_order(struct bootstrap *bootstrap, bool done, const char *reason);
#endif
