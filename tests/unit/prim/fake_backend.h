/* SPDX-License-Identifier: Apache-2.0 */
/* A backend for tests of prim/: it grants every request, stores nothing, and runs the test's hook
 * before it answers. */
#ifndef TESTS_UNIT_PRIM_FAKE_BACKEND_H
#define TESTS_UNIT_PRIM_FAKE_BACKEND_H
#include <pthread.h>
#include <stdatomic.h>

#include "disturb/fault.h"
#include "prim/lease.h"

struct fake {
    struct prim_backend base;
    struct prim_backend_ops ops;
    struct prim_host *host;
    coord_caps caps;
    pthread_mutex_t lock;
    uint64_t revision;
    bool grants_nothing;  /* answers OK to a grant, but makes no lease */
    int calls[FAULT_OPS]; /* by enum fault_op */
    int guarded, closes;  /* guarded: open watches of guards */
    int late;             /* calls after close */
    uint32_t attempt;     /* of the last call */
    coord_id request_id;
    size_t claim_count; /* keys of the last claim */
    /* Replaces the answer when set; `op` of enum fault_op. */
    coord_result (*act)(struct fake *fake, enum fault_op op, const struct prim_call *call);
    void *arg;
    int64_t sent_ns;        /* returned for grants and renewals; 0: none */
    int64_t left_ms;        /* of adopt */
    struct prim_feed *feed; /* of the newest watch */
};
/* Everything, cluster scope. */
void fake_init(struct fake *fake);
/* Opens a store over the fake. `options` may be NULL. */
coord_result fake_open(struct fake *fake, const coord_options *options, coord_store **ret_store);
int fake_calls(struct fake *fake, enum fault_op op);
int fake_guarded(struct fake *fake);

/* A clock that a test moves. */
struct turned_clock {
    _Atomic int64_t now_ns;
};
int64_t turned_clock_now(void *arg);
#endif
