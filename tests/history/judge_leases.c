/* SPDX-License-Identifier: Apache-2.0 */
/* The rules grants, early and check: see judge.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "conformance/checker.h"
#include "judge.h"

/* -- grants -- */

static int op_of(const struct hist_call *call)
{
    static const int ops[HIST_OP_COUNT] = {
        [HIST_CREATE] = COORD_OP_CREATE,   [HIST_CAS] = COORD_OP_CAS,
        [HIST_DELETE] = COORD_OP_DELETE,   [HIST_GET] = COORD_OP_GET,
        [HIST_ACQUIRE] = COORD_OP_ACQUIRE, [HIST_RENEW] = COORD_OP_RENEW,
        [HIST_RELEASE] = COORD_OP_RELEASE,
    };

    return ops[call->op];
}

void judge_grants(const struct hist *h, struct judge_result *result)
{
    struct history plain = {0};
    char why[CHECKER_TEXT_CAP];

    for (size_t i = 0; i < h->call_count; i++) {
        const struct hist_call *call = &h->calls[i];
        struct history_op op = {
            .op = op_of(call),
            .code = call->code,
            .reason = call->reason,
            .client = call->client,
            .slot = call->slot,
            .slots_max = call->slots,
            .handle = call->lease        ? call->lease
                      : call->ttl_ms > 0 ? call->id
                                         : 0,
            .revision = call->op == HIST_ACQUIRE ? call->token : call->revision,
            .token = call->token,
            .called_ns = call->called_ns,
            .replied_ns = call->ended_ns,
            .ttl_ms = call->ttl_ms,
        };
        if (!op.op) continue;
        (void)snprintf(op.key, sizeof op.key, "%s", h->keys[call->key]);
        if (!history_add(&plain, &op)) abort();
        result->looked_at++;
    }
    if (!checker_run(&plain, why)) judge_bad(result, "%s", why);
    history_deinit(&plain);
}

/* -- early, check -- */

struct life {
    int64_t to_ns;      /* the lease lives at least until then; 0: no such lease */
    int64_t trusted_ns; /* its holder may rely on it until then; after a wait: from the answer on */
    int64_t let_go_ns;  /* begin of its first release; INT64_MAX: never */
};

static bool is_grant(const struct hist_call *call)
{
    return call->ended_ns != HIST_OPEN && call->code == COORD_OK && call->ttl_ms > 0 &&
           (call->op == HIST_CREATE || call->op == HIST_ACQUIRE || call->op == HIST_RENEW);
}

/* One entry per call; a lease has the index of the call that created it. */
static struct life *lives_of(const struct hist *h)
{
    struct life *lives = calloc(h->call_count + 1, sizeof *lives);

    if (!lives) abort();
    for (size_t i = 0; i < h->call_count; i++) lives[i].let_go_ns = INT64_MAX;
    for (size_t i = 0; i < h->call_count; i++) {
        const struct hist_call *call = &h->calls[i];
        const struct hist_call *lease = call->lease ? hist_call(h, call->lease) : call;
        struct life *life = lease ? &lives[lease - h->calls] : NULL;
        int64_t to_ns = call->called_ns + call->ttl_ms * (int64_t)NS_PER_MS;

        if (!life) continue;
        if (is_grant(call)) {
            if (to_ns > life->to_ns) life->to_ns = to_ns;
            if (call->waits) to_ns += call->ended_ns - call->called_ns;
            if (to_ns > life->trusted_ns) life->trusted_ns = to_ns;
        }
        if (call->op == HIST_RELEASE && call->called_ns < life->let_go_ns)
            life->let_go_ns = call->called_ns;
    }
    return lives;
}

static void early(struct judge_result *result, const struct hist *h, uint64_t lease, int64_t by_ns,
                  const char *who)
{
    const struct hist_call *made = hist_call(h, lease);

    judge_bad(result, "lease %" PRIu64 " on %s was over %.1f ms too early, says %s", lease,
              made ? h->keys[made->key] : "?", (double)by_ns / 1e6, who);
}

/* Checks the ends of leases that watches report. */
static void look_at_ends(const struct hist *h, const struct life *lives,
                         struct judge_result *result)
{
    uint64_t *holder = calloc(h->key_count + 1, sizeof *holder); /* last writer of the key */

    if (!holder) abort();
    for (size_t i = 0; i < h->event_count; i++) {
        const struct hist_event *event = &h->events[i];
        const struct hist_call *made;
        const struct life *life;

        if (i == 0 || h->events[i - 1].watch != event->watch || event->type == COORD_RESYNC)
            memset(holder, 0, h->key_count * sizeof *holder);
        if (event->type == COORD_PUT || event->type == COORD_ENTRY) {
            holder[event->key] = event->value;
            continue;
        }
        if (event->type != COORD_EXPIRE && event->type != COORD_DELETE) continue;
        made = hist_call(h, holder[event->key]);
        holder[event->key] = 0;
        if (!made) continue;
        life = &lives[made - h->calls];
        result->looked_at++;
        if (event->at_ns < life->to_ns && event->at_ns < life->let_go_ns)
            early(result, h, made->id, life->to_ns - event->at_ns, "a watch");
    }
    free(holder);
}

void judge_early(const struct hist *h, struct judge_result *result)
{
    struct life *lives = lives_of(h);

    for (size_t i = 0; i < h->call_count; i++) {
        const struct hist_call *call = &h->calls[i], *lease = hist_call(h, call->lease);
        const struct life *life = lease ? &lives[lease - h->calls] : NULL;

        if (!life || call->ended_ns == HIST_OPEN || call->code != COORD_EXPIRED) continue;
        if (call->op == HIST_CHECK) continue; /* it may return no before the lease ends */
        if (call->reason == COORD_R_LOCAL || call->reason == COORD_R_RELEASED) continue;
        result->looked_at++;
        /* A release that began earlier may have been done. */
        if (call->ended_ns < life->to_ns &&
            (call->op == HIST_RELEASE || call->ended_ns < life->let_go_ns))
            early(result, h, call->lease, life->to_ns - call->ended_ns, hist_op_name(call->op));
    }
    look_at_ends(h, lives, result);
    free(lives);
}

void judge_check(const struct hist *h, struct judge_result *result)
{
    struct life *lives = lives_of(h);

    for (size_t i = 0; i < h->call_count; i++) {
        const struct hist_call *call = &h->calls[i], *lease = hist_call(h, call->lease);
        const struct life *life = lease ? &lives[lease - h->calls] : NULL;

        if (call->op != HIST_CHECK || call->code != COORD_OK || !life) continue;
        result->looked_at++;
        if (call->called_ns >= life->trusted_ns)
            judge_bad(result, "check of %" PRIu64 " says yes %.1f ms after its end", call->lease,
                      (double)(call->called_ns - life->trusted_ns) / 1e6);
        if (call->called_ns > life->let_go_ns)
            judge_bad(result, "check of %" PRIu64 " says yes after its release", call->lease);
    }
    free(lives);
}
