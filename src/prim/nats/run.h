/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer of the stream that begins with the last message of each subject under a filter, then
 * goes on: what a watch follows and a long list reads. It keeps its own order: a gap in its numbers
 * or a heartbeat that names another last one breaks it, and its user begins anew. One thread. */
#ifndef PRIM_NATS_RUN_H
#define PRIM_NATS_RUN_H
#include "prim/nats/store.h"

enum { JET_HEARTBEAT_MS = 1000 };

struct jet_run {
    natsSubscription *subscription; /* NULL: not open */
    char name[64];
    uint64_t delivered; /* its last number */
    uint64_t pending;   /* messages that were there when it began */
};
coord_result jet_run_open(struct jet_store *store, int64_t deadline_ns, const char *filter,
                          struct jet_run *run);
void jet_run_close(struct jet_store *store, struct jet_run *run);

enum jet_step {
    JET_STEP_MESSAGE, /* *ret_message is the caller's; `key` is its key, "" when none of ours */
    JET_STEP_IDLE,    /* the server says that nothing waits */
    JET_STEP_SILENT,  /* nothing within wait_ms */
    JET_STEP_BROKEN,
};
struct jet_message {
    natsMsg *message; /* the state borrows from it */
    struct jet_state state;
    uint64_t pending; /* behind it */
    char key[PRIM_KEY_MAX + 1];
};
enum jet_step jet_run_next(struct jet_store *store, struct jet_run *run, int64_t wait_ms,
                           struct jet_message *ret_message);
#endif
