/* SPDX-License-Identifier: Apache-2.0 */
/* The rule stale: see judge.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "changes.h"

struct session {
    int64_t at_ns;   /* when its last read was called */
    uint64_t newest; /* the largest revision that it has read */
};

static bool ended_between(const struct hist *h, uint32_t replica, int64_t from_ns, int64_t to_ns)
{
    for (size_t i = 0; i < h->fault_count; i++)
        if (h->faults[i].replica == replica && h->faults[i].at_ns >= from_ns &&
            h->faults[i].at_ns <= to_ns)
            return true;
    return false;
}

static void look_back(const struct hist *h, const struct changes *c, const struct hist_call *call,
                      uint64_t newest, struct judge_result *result)
{
    const struct change *last = changes_last(c, call->key, newest);

    if (!last) return;
    if (call->code == COORD_OK) {
        if (call->revision < last->revision)
            judge_bad(result,
                      "session %" PRIu32 " read %s at revision %" PRIu64
                      " after it had seen %" PRIu64 ", and there was a change at %" PRIu64,
                      call->session, h->keys[call->key], call->revision, newest, last->revision);
    } else if (!last->gone && !changes_may_be_gone(h, last, call->ended_ns)) {
        judge_bad(result,
                  "session %" PRIu32 " did not find %s after it had seen revision %" PRIu64
                  ", and it was there at %" PRIu64,
                  call->session, h->keys[call->key], newest, last->revision);
    }
}

void judge_stale(const struct hist *h, struct judge_result *result)
{
    struct session *sessions;
    struct changes c;
    uint32_t most = 0;

    for (size_t i = 0; i < h->call_count; i++)
        if (h->calls[i].session > most) most = h->calls[i].session;
    sessions = calloc((size_t)most + 1, sizeof *sessions);
    if (!sessions) abort();
    changes_open(h, &c, result);
    for (size_t i = 0; i < h->call_count; i++) { /* in each session, calls do not overlap */
        const struct hist_call *call = &h->calls[i];
        struct session *session = &sessions[call->session];

        if (call->op != HIST_STALE || call->ended_ns == HIST_OPEN) continue;
        if (call->code != COORD_OK && call->code != COORD_NOT_FOUND) continue;
        result->looked_at++;
        if (call->code == COORD_OK)
            changes_must_be(h, call->key, call->found, call->revision, call->ended_ns,
                            "a stale read", result);
        if (ended_between(h, call->session, session->at_ns, call->ended_ns)) session->newest = 0;
        look_back(h, &c, call, session->newest, result);
        if (call->code == COORD_OK && call->revision > session->newest)
            session->newest = call->revision;
        session->at_ns = call->called_ns;
    }
    changes_close(&c);
    free(sessions);
}
