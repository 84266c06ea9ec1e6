/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"

#include <string.h>

#include "base/time.h"

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static bool is_open(const struct hist_call *call)
{
    return call->ended_ns == HIST_OPEN;
}

/* The lease does not end before. A grant without an answer has no bound: it may be released
 * already. */
static int64_t lives_to(const struct hist_call *call)
{
    return hist_in_doubt(call) ? call->called_ns
                               : call->called_ns + call->ttl_ms * (int64_t)NS_PER_MS;
}

/* An answer that the lease is over does not say why. */
static bool says_it_is_over(const struct hist_call *call)
{
    return call->code == COORD_EXPIRED && call->reason != COORD_R_LOCAL &&
           call->reason != COORD_R_RELEASED;
}

/* -- a key -- */

struct key_state {
    uint64_t writer;   /* 0: absent */
    uint64_t revision; /* 0: not known, because its write was not answered */
    uint64_t newest;   /* the largest so far */
    uint64_t lease;    /* 0: none */
    int64_t lives_to_ns;
};
static_assert(sizeof(struct key_state) == 40, "no padding: states are compared bytewise");

static void key_begin(void *state, void *arg)
{
    (void)arg;
    memset(state, 0, sizeof(struct key_state));
}

static bool become_absent(struct key_state *s, int64_t *at_ns)
{
    if (s->writer && !s->lease) return false;
    if (s->writer) *at_ns = later(*at_ns, s->lives_to_ns);
    s->writer = s->revision = s->lease = 0;
    s->lives_to_ns = 0;
    return true;
}

static bool same_revision(const struct key_state *s, uint64_t revision)
{
    return s->revision == revision || s->revision == 0 || revision == 0;
}

static bool number(struct key_state *s, uint64_t revision)
{
    if (!revision) return true;
    if (revision <= s->newest) return false;
    s->newest = revision;
    return true;
}

static bool put(struct key_state *s, const struct hist_call *call)
{
    if (!number(s, call->revision)) return false;
    s->writer = call->id;
    s->revision = call->revision;
    if (call->ttl_ms > 0) {
        s->lease = call->id;
        s->lives_to_ns = lives_to(call);
    }
    return true;
}

static bool gone(struct key_state *s, const struct hist_call *call)
{
    s->writer = s->revision = s->lease = 0;
    s->lives_to_ns = 0;
    return number(s, call->revision);
}

static bool is_expected(const struct key_state *s, const struct hist_call *call)
{
    return s->writer && (call->expected == COORD_ANY || same_revision(s, call->expected));
}

static bool is_other(const struct key_state *s, const struct hist_call *call)
{
    return s->writer && same_revision(s, call->revision) &&
           (s->revision == 0 || s->revision != call->expected);
}

static bool step_change(struct key_state *s, const struct hist_call *call, int64_t *at_ns)
{
    bool creates = call->op == HIST_CREATE || (call->op == HIST_CAS && call->expected == 0);

    if (is_open(call) || call->code == COORD_OK) {
        if (creates) return become_absent(s, at_ns) && put(s, call);
        if (!is_expected(s, call)) return false;
        return call->op == HIST_CAS ? put(s, call) : gone(s, call);
    }
    switch (call->code) {
    case COORD_EXISTS: return s->writer && same_revision(s, call->revision);
    case COORD_NOT_FOUND: return become_absent(s, at_ns);
    case COORD_CONFLICT:
        if (call->reason == COORD_R_ABSENT) return become_absent(s, at_ns);
        if (call->reason == COORD_R_REVISION) return is_other(s, call);
        return s->writer != 0;
    default: return true; /* refused before it reached the object */
    }
}

static bool step_key_lease(struct key_state *s, const struct hist_call *call, int64_t *at_ns)
{
    bool mine = s->writer && s->lease == call->lease;

    if (call->op == HIST_RELEASE && (is_open(call) || call->code == COORD_OK)) {
        if (!mine) return !is_open(call) && call->reason == COORD_R_ALREADY;
        return gone(s, call); /* also by this call's own first attempt */
    }
    if (is_open(call)) return false; /* a renewal without an answer is never needed */
    if (call->code == COORD_OK) {
        if (!mine || call->op == HIST_CHECK) return mine;
        s->lives_to_ns = later(s->lives_to_ns, lives_to(call));
        return true;
    }
    return !mine || !says_it_is_over(call) || become_absent(s, at_ns);
}

static bool key_step(void *state, const struct linear_call *what, int64_t *at_ns, void *arg)
{
    const struct hist_call *call = ((const struct model_call *)what->what)->call;
    struct key_state *s = state;

    (void)arg;
    switch (call->op) {
    case HIST_CREATE:
    case HIST_CAS:
    case HIST_DELETE: return step_change(s, call, at_ns);
    case HIST_CHECK:
    case HIST_RENEW:
    case HIST_RELEASE: return step_key_lease(s, call, at_ns);
    default: break;
    }
    if (call->code != COORD_OK) return become_absent(s, at_ns);
    if (s->writer != call->found || !same_revision(s, call->revision)) return false;
    if (!s->revision) {
        if (!number(s, call->revision)) return false;
        s->revision = call->revision;
    }
    return true;
}

bool key_model_knows(const struct hist_call *call)
{
    if (call->op == HIST_GET)
        return !is_open(call) && (call->code == COORD_OK || call->code == COORD_NOT_FOUND);
    if (call->op == HIST_CHECK) return call->code == COORD_OK;
    if (is_open(call)) return hist_may_change(call) && call->op != HIST_ACQUIRE;
    return call->op == HIST_CREATE || call->op == HIST_CAS || call->op == HIST_DELETE ||
           call->op == HIST_RENEW || call->op == HIST_RELEASE;
}

const struct linear_model key_model = {sizeof(struct key_state), key_begin, key_step, NULL};

/* -- a group -- */

#define UNSEEN UINT64_MAX /* a holder that appears in no other call */
struct group_state {
    struct {
        uint64_t lease; /* 0: free */
        int64_t lives_to_ns;
    } slots[HIST_SLOTS_MAX];
    uint64_t token; /* the largest so far */
};
static_assert(sizeof(struct group_state) == HIST_SLOTS_MAX * 16 + 8, "no padding");
static_assert(sizeof(struct group_state) <= LINEAR_STATE_BYTES, "it fits");

static void group_begin(void *state, void *arg)
{
    (void)arg;
    memset(state, 0, sizeof(struct group_state));
}

static void become_free(struct group_state *s, uint32_t slot, int64_t *at_ns)
{
    if (s->slots[slot].lease) *at_ns = later(*at_ns, s->slots[slot].lives_to_ns);
    s->slots[slot].lease = 0;
    s->slots[slot].lives_to_ns = 0;
}

static bool all_held(const struct group_state *s, uint32_t slots)
{
    for (uint32_t i = 0; i < slots; i++)
        if (!s->slots[i].lease) return false;
    return true;
}

static bool step_acquire(struct group_state *s, const struct model_call *what, int64_t *at_ns)
{
    const struct hist_call *call = what->call;
    uint32_t slot = what->slot;

    if (!what->doubt && call->code == COORD_EXISTS) return all_held(s, call->slots);
    if (!what->doubt && call->code != COORD_OK) return true;
    if (slot >= call->slots || !all_held(s, slot)) return false; /* the lowest that is free */
    become_free(s, slot, at_ns);
    if (call->token) {
        if (call->token <= s->token) return false;
        s->token = call->token;
    }
    s->slots[slot].lease = what->doubt && !call->seen && !call->named ? UNSEEN : call->id;
    s->slots[slot].lives_to_ns = what->doubt ? 0 : lives_to(call);
    return true;
}

static bool step_holders(struct group_state *s, const struct hist_call *call, int64_t *at_ns)
{
    for (uint32_t i = 0; i < HIST_SLOTS_MAX; i++) {
        if (call->holders[i] == s->slots[i].lease) continue;
        if (call->holders[i]) return false;
        become_free(s, i, at_ns);
    }
    return true;
}

static bool step_group_lease(struct group_state *s, const struct hist_call *call, int64_t *at_ns)
{
    uint32_t slot = 0;

    while (slot < HIST_SLOTS_MAX && s->slots[slot].lease != call->lease) slot++;
    if (call->op == HIST_RELEASE && (is_open(call) || call->code == COORD_OK)) {
        if (slot == HIST_SLOTS_MAX) return !is_open(call) && call->reason == COORD_R_ALREADY;
        s->slots[slot].lease = 0;
        s->slots[slot].lives_to_ns = 0;
        return true;
    }
    if (is_open(call)) return false;
    if (call->code == COORD_OK) {
        if (slot == HIST_SLOTS_MAX || call->op == HIST_CHECK) return slot < HIST_SLOTS_MAX;
        s->slots[slot].lives_to_ns = later(s->slots[slot].lives_to_ns, lives_to(call));
    } else if (slot < HIST_SLOTS_MAX && says_it_is_over(call)) {
        become_free(s, slot, at_ns);
    }
    return true;
}

static bool group_step(void *state, const struct linear_call *what, int64_t *at_ns, void *arg)
{
    const struct model_call *placed = what->what;

    (void)arg;
    if (placed->call->op == HIST_ACQUIRE) return step_acquire(state, placed, at_ns);
    if (placed->call->op == HIST_HOLDERS) return step_holders(state, placed->call, at_ns);
    return step_group_lease(state, placed->call, at_ns);
}

bool group_model_knows(const struct hist_call *call)
{
    if (call->op == HIST_HOLDERS) return !is_open(call) && call->code == COORD_OK;
    if (call->op == HIST_CHECK) return call->code == COORD_OK;
    if (is_open(call)) return call->op == HIST_ACQUIRE || call->op == HIST_RELEASE;
    return call->op == HIST_ACQUIRE || call->op == HIST_RENEW || call->op == HIST_RELEASE;
}

const struct linear_model group_model = {sizeof(struct group_state), group_begin, group_step, NULL};
