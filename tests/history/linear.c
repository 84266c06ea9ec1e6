/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/str.h"

/* Calls without a place in the order, in a ring by time of call; 0 is its head. */
struct link {
    uint32_t before, after;
};
struct frame { /* a call that has a place in the order */
    uint32_t call;
    bool lost_ones; /* tries calls without an answer, after all others */
    int64_t at_ns;  /* before it */
    uint8_t state[LINEAR_STATE_BYTES];
};
struct tried { /* a set of calls as the sum of their random 64-bit names, which do not collide */
    uint64_t a, b;
};
struct search {
    const struct linear_model *model;
    const struct linear_call *calls;
    size_t count, depth, answered, best;
    struct link *links;
    struct tried *names, *tried, set;
    size_t tried_count, tried_cap;
    struct frame *frames;
    bool *twins; /* by number: one call of that number has a place */
    uint8_t state[LINEAR_STATE_BYTES];
    int64_t at_ns;
    const void *stuck;
};

static void *need(size_t count, size_t size)
{
    void *rows = calloc(count ? count : 1, size);

    if (!rows) abort();
    return rows;
}

static bool is_lost(const struct search *s, uint32_t i)
{
    return s->calls[i - 1].ended_ns == INT64_MAX;
}

static void take_out(struct search *s, uint32_t i)
{
    s->links[s->links[i].before].after = s->links[i].after;
    s->links[s->links[i].after].before = s->links[i].before;
    s->set.a ^= s->names[i].a;
    s->set.b ^= s->names[i].b;
    s->twins[s->calls[i - 1].twin] = true;
    if (!is_lost(s, i)) s->answered++;
}

static void put_back(struct search *s, uint32_t i)
{
    s->links[s->links[i].before].after = i;
    s->links[s->links[i].after].before = i;
    s->set.a ^= s->names[i].a;
    s->set.b ^= s->names[i].b;
    s->twins[s->calls[i - 1].twin] = false;
    if (!is_lost(s, i)) s->answered--;
}

/* No call may be placed after this time: an answer had come by then. */
static int64_t first_end(const struct search *s, uint32_t *ret_call)
{
    int64_t end_ns = INT64_MAX;

    for (uint32_t i = s->links[0].after; i; i = s->links[i].after) {
        const struct linear_call *call = &s->calls[i - 1];
        if (call->called_ns > end_ns) break;
        if (call->ended_ns >= end_ns) continue;
        end_ns = call->ended_ns;
        *ret_call = i;
    }
    return end_ns;
}

static void more_room(struct search *s)
{
    size_t cap = s->tried_cap ? s->tried_cap * 2 : 1024;
    struct tried *rows = need(cap, sizeof *rows);

    for (size_t i = 0; i < s->tried_cap; i++) {
        size_t at = s->tried[i].a & (cap - 1);
        if (!s->tried[i].a && !s->tried[i].b) continue;
        while (rows[at].a || rows[at].b) at = (at + 1) & (cap - 1);
        rows[at] = s->tried[i];
    }
    free(s->tried);
    s->tried = rows;
    s->tried_cap = cap;
}

/* False: the search was here before, with the same remaining calls, in the same state. */
static bool is_new(struct search *s)
{
    struct tried key = s->set;
    size_t at;

    key.a ^= str_hash(str_of((const char *)s->state, s->model->state_bytes), (uint64_t)s->at_ns);
    key.b ^= str_hash(str_of((const char *)s->state, s->model->state_bytes), ~(uint64_t)s->at_ns);
    if (!key.a && !key.b) key.a = 1;
    if (s->tried_count * 2 >= s->tried_cap) more_room(s);
    for (at = key.a & (s->tried_cap - 1); s->tried[at].a || s->tried[at].b;
         at = (at + 1) & (s->tried_cap - 1))
        if (s->tried[at].a == key.a && s->tried[at].b == key.b) return false;
    s->tried[at] = key;
    s->tried_count++;
    return true;
}

static bool try_call(struct search *s, uint32_t i, int64_t end_ns, bool lost_ones)
{
    struct frame *frame = &s->frames[s->depth];
    const struct linear_call *call = &s->calls[i - 1];

    if (is_lost(s, i) != lost_ones || call->called_ns > end_ns) return false;
    if (call->twin && s->twins[call->twin]) return false;
    if (call->after && !s->twins[call->after]) return false;
    frame->call = i;
    frame->lost_ones = lost_ones;
    frame->at_ns = s->at_ns;
    memcpy(frame->state, s->state, s->model->state_bytes);
    if (call->called_ns > s->at_ns) s->at_ns = call->called_ns;
    if (s->model->step(s->state, call, &s->at_ns, s->model->arg) && s->at_ns <= end_ns) {
        take_out(s, i);
        if (is_new(s)) {
            s->depth++;
            return true;
        }
        put_back(s, i);
    }
    s->at_ns = frame->at_ns;
    memcpy(s->state, frame->state, s->model->state_bytes);
    return false;
}

/* The next call that can have its place here: from `i` on, then calls without an answer. */
static bool go_on(struct search *s, uint32_t i, bool lost_ones)
{
    uint32_t first = 0;
    int64_t end_ns = first_end(s, &first);

    if (!s->stuck || s->answered > s->best) {
        s->best = s->answered;
        s->stuck = first ? s->calls[first - 1].what : NULL;
    }
    for (;;) {
        for (; i && s->calls[i - 1].called_ns <= end_ns; i = s->links[i].after)
            if (try_call(s, i, end_ns, lost_ones)) return true;
        if (lost_ones) return false;
        lost_ones = true;
        i = s->links[0].after;
    }
}

void linear_check(const struct linear_model *model, const struct linear_call *calls, size_t count,
                  uint64_t steps_max, struct linear_result *ret_result)
{
    struct search s = {.model = model, .calls = calls, .count = count, .at_ns = INT64_MIN};
    struct linear_result result = {.verdict = LINEAR_BAD};
    struct prng prng;
    size_t answered = 0;
    bool deeper = true;

    assert(model->state_bytes <= LINEAR_STATE_BYTES);
    assert(count < UINT32_MAX);
    s.links = need(count + 1, sizeof *s.links);
    s.names = need(count + 1, sizeof *s.names);
    s.frames = need(count + 1, sizeof *s.frames);
    s.twins = need(count + 1, sizeof *s.twins);
    prng_seed(&prng, 1);
    for (uint32_t i = 0; i <= count; i++) {
        s.links[i] = (struct link){i ? i - 1 : (uint32_t)count, i < count ? i + 1 : 0};
        s.names[i] = (struct tried){prng_u64(&prng), prng_u64(&prng)};
        if (i && !is_lost(&s, i)) answered++;
        assert(!i || (calls[i - 1].twin <= count && calls[i - 1].after <= count));
        assert(i < 2 || calls[i - 2].called_ns <= calls[i - 1].called_ns);
    }
    model->begin(s.state, model->arg);
    for (;;) {
        if (s.answered == answered) {
            result.verdict = LINEAR_GOOD;
            break;
        }
        if (++result.steps > steps_max) {
            result.verdict = LINEAR_GAVE_UP;
            break;
        }
        if (deeper) {
            deeper = go_on(&s, s.links[0].after, false);
            if (deeper) continue;
        }
        if (s.depth == 0) break;
        struct frame *frame = &s.frames[--s.depth];
        uint32_t i = frame->call;
        bool lost_ones = frame->lost_ones;
        put_back(&s, i);
        s.at_ns = frame->at_ns;
        memcpy(s.state, frame->state, model->state_bytes);
        deeper = go_on(&s, s.links[i].after, lost_ones);
    }
    result.explained = s.best > s.answered ? s.best : s.answered;
    result.stuck = s.stuck;
    free(s.links);
    free(s.names);
    free(s.tried);
    free(s.frames);
    free(s.twins);
    *ret_result = result;
}
