/* SPDX-License-Identifier: Apache-2.0 */
#include "checker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool history_add(struct history *history, const struct history_op *op)
{
    if (history->count == history->cap) {
        size_t cap = history->cap == 0 ? 256 : history->cap * 2;
        struct history_op *ops = realloc(history->ops, cap * sizeof *ops);
        if (ops == NULL) { return false; }
        history->ops = ops;
        history->cap = cap;
    }
    history->ops[history->count++] = *op;
    return true;
}

void history_deinit(struct history *history)
{
    free(history->ops);
    *history = (struct history){0};
}

/* -- a life: one grant, from acquire to its end -- */

struct life {
    const struct history_op *grant;
    int64_t from_ns, to_ns; /* when it certainly lived */
    int64_t lives_to_ns;    /* TTL after the last call that returned OK */
    bool closed;
};

static bool is_grant(const struct history_op *op)
{
    return op->code == COORD_OK && op->handle != 0 &&
           (op->op == COORD_OP_ACQUIRE || op->op == COORD_OP_CREATE);
}

static int by_call(const void *a, const void *b)
{
    const struct history_op *left = a, *right = b;
    if (left->called_ns != right->called_ns) { return left->called_ns < right->called_ns ? -1 : 1; }
    return left->replied_ns < right->replied_ns ? -1 : left->replied_ns > right->replied_ns;
}

static int by_handle(const void *a, const void *b)
{
    const struct history_op *left = *(struct history_op *const *)a,
                            *right = *(struct history_op *const *)b;
    if (left->handle != right->handle) { return left->handle < right->handle ? -1 : 1; }
    return by_call(left, right);
}

static bool complain(char *why, const char *rule, const struct history_op *a,
                     const struct history_op *b)
{
    (void)snprintf(why, CHECKER_TEXT_CAP,
                   "%s: %s slot %" PRIu32 ", client %" PRIu32 " (op %d, revision %" PRIu64
                   ", token %" PRIu64 ") and client %" PRIu32 " (op %d, revision %" PRIu64
                   ", token %" PRIu64 ")",
                   rule, a->key, a->slot, a->client, a->op, a->revision, a->token, b->client, b->op,
                   b->revision, b->token);
    return false;
}

/* All calls with one handle, by time of call. */
static bool read_handle(const struct history_op **ops, size_t count, struct life *life, char *why)
{
    const struct history_op *expired = NULL;
    *life = (struct life){0};
    for (size_t i = 0; i < count; i++) { /* the first EXPIRED to arrive */
        if (ops[i]->code == COORD_EXPIRED &&
            (expired == NULL || ops[i]->replied_ns < expired->replied_ns)) {
            expired = ops[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct history_op *op = ops[i];
        int64_t lives_to_ns = op->called_ns + op->ttl_ms * 1000000;
        if (expired != NULL && op->code == COORD_OK && op->reason != COORD_R_ALREADY &&
            op->called_ns > expired->replied_ns) {
            return complain(why, "an OK after EXPIRED", expired, op);
        }
        if (is_grant(op)) {
            life->grant = op;
            life->from_ns = op->replied_ns;
            life->lives_to_ns = lives_to_ns;
        } else if (op->op == COORD_OP_RENEW && op->code == COORD_OK) {
            if (lives_to_ns > life->lives_to_ns) { life->lives_to_ns = lives_to_ns; }
        } else if ((op->op == COORD_OP_RELEASE || op->code == COORD_EXPIRED) && !life->closed) {
            /* From the call on the lease is not certain any more, whatever the answer was. */
            life->closed = true;
            life->to_ns = op->called_ns;
        }
    }
    if (!life->closed || life->lives_to_ns < life->to_ns) { life->to_ns = life->lives_to_ns; }
    return true;
}

/* -- instants -- */

struct edge {
    int64_t at_ns;
    int step; /* +1, -1; at the same instant ends come first */
    const struct life *life;
};

static int by_group(const void *a, const void *b)
{
    const struct edge *left = a, *right = b;
    int order = strcmp(left->life->grant->key, right->life->grant->key);
    if (order != 0) { return order; }
    if (left->at_ns != right->at_ns) { return left->at_ns < right->at_ns ? -1 : 1; }
    return left->step - right->step;
}

static bool check_instants(const struct life *lives, size_t count, char *why)
{
    struct edge *edges = calloc(count * 2 + 1, sizeof *edges);
    const struct life **slots = calloc(1024, sizeof(void *));
    bool fine = edges != NULL && slots != NULL;
    size_t used = 0;
    if (!fine) { (void)snprintf(why, CHECKER_TEXT_CAP, "out of memory"); }
    for (size_t i = 0; fine && i < count; i++) {
        if (lives[i].grant == NULL || lives[i].to_ns <= lives[i].from_ns) { continue; }
        edges[used++] = (struct edge){lives[i].from_ns, 1, &lives[i]};
        edges[used++] = (struct edge){lives[i].to_ns, -1, &lives[i]};
    }
    if (fine && used > 0) { qsort(edges, used, sizeof *edges, by_group); }
    int live = 0;
    for (size_t i = 0; fine && i < used; i++) {
        const struct history_op *grant = edges[i].life->grant;
        uint32_t slot = grant->op == COORD_OP_ACQUIRE ? grant->slot : 0;
        uint32_t most = grant->op == COORD_OP_ACQUIRE ? grant->slots_max : 1;
        if (i > 0 && strcmp(edges[i - 1].life->grant->key, grant->key) != 0) {
            live = 0;
            memset(slots, 0, 1024 * sizeof(void *));
        }
        if (slot >= 1024) { continue; }
        live += edges[i].step;
        if (edges[i].step < 0) {
            if (slots[slot] == edges[i].life) { slots[slot] = NULL; }
        } else if (slots[slot] != NULL) {
            fine = complain(why, "two holders of one slot", slots[slot]->grant, grant);
        } else if (live > (int)most) {
            fine = complain(why, "more holders than slots", edges[i - 1].life->grant, grant);
        } else {
            slots[slot] = edges[i].life;
        }
    }
    free(slots);
    free(edges);
    return fine;
}

static bool check_handles(const struct history *history, char *why)
{
    const struct history_op **ops = calloc(history->count + 1, sizeof(void *));
    struct life *lives = calloc(history->count + 1, sizeof *lives);
    size_t count = 0, handles = 0;
    bool fine = ops != NULL && lives != NULL;
    if (!fine) { (void)snprintf(why, CHECKER_TEXT_CAP, "out of memory"); }
    for (size_t i = 0; fine && i < history->count; i++) {
        if (history->ops[i].handle != 0) { ops[count++] = &history->ops[i]; }
    }
    if (fine && count > 0) { qsort(ops, count, sizeof *ops, by_handle); }
    for (size_t i = 0, end; fine && i < count; i = end) {
        end = i + 1;
        while (end < count && ops[end]->handle == ops[i]->handle) { end++; }
        fine = read_handle(ops + i, end - i, &lives[handles++], why);
    }
    fine = fine && check_instants(lives, handles, why);
    free(lives);
    free(ops);
    return fine;
}

/* -- order of numbers -- */

struct mark { /* the call or the reply of one op on one key */
    int64_t at_ns;
    bool reply;
    const struct history_op *op;
    uint64_t floor_revision, floor_token; /* set at the call, by reference from the reply */
    struct mark *call;
};

static uint32_t slot_of(const struct history_op *op)
{
    return op->op == COORD_OP_ACQUIRE ? op->slot : UINT32_MAX;
}

static int by_key(const struct history_op *left, const struct history_op *right)
{
    int order = strcmp(left->key, right->key);
    if (order != 0) { return order; }
    return slot_of(left) < slot_of(right) ? -1 : slot_of(left) > slot_of(right);
}

static int by_mark(const void *a, const void *b)
{
    const struct mark *left = *(struct mark *const *)a, *right = *(struct mark *const *)b;
    int order = by_key(left->op, right->op);
    if (order != 0) { return order; }
    if (left->at_ns != right->at_ns) { return left->at_ns < right->at_ns ? -1 : 1; }
    return (int)left->reply - (int)right->reply; /* calls first: no order at one instant */
}

static bool changes(const struct history_op *op)
{
    return op->op != COORD_OP_GET && op->op != COORD_OP_RENEW && op->op != COORD_OP_RELEASE;
}

static bool check_reply(const struct mark *mark, const struct history_op *newest_token,
                        const struct history_op *newest, char *why)
{
    const struct history_op *op = mark->op;
    if (op->revision == 0) { return complain(why, "a revision of 0", op, op); } /* R4 */
    if (changes(op) && op->reason != COORD_R_REPLAYED &&
        op->revision <= mark->call->floor_revision) {
        return complain(why, "a revision that is not larger", newest, op);
    }
    if (!changes(op) && op->revision < mark->call->floor_revision) {
        return complain(why, "a read of the past", newest, op);
    }
    if (is_grant(op) && op->reason != COORD_R_REPLAYED && op->token <= mark->call->floor_token) {
        return complain(why, "a token that is not larger", newest_token, op);
    }
    return true;
}

static int by_revision(const void *a, const void *b)
{
    const struct history_op *left = *(struct history_op *const *)a,
                            *right = *(struct history_op *const *)b;
    int order = by_key(left, right);
    if (order != 0) { return order; }
    return left->revision < right->revision ? -1 : left->revision > right->revision;
}

static bool is_numbered(const struct history_op *op)
{
    return op->code == COORD_OK && op->op != COORD_OP_RENEW && op->op != COORD_OP_RELEASE;
}

static bool check_reuse(const struct history *history, char *why)
{
    const struct history_op **ops = calloc(history->count + 1, sizeof(void *));
    size_t count = 0;
    bool fine = ops != NULL;
    for (size_t i = 0; fine && i < history->count; i++) {
        const struct history_op *op = &history->ops[i];
        if (is_numbered(op) && changes(op) && op->reason != COORD_R_REPLAYED &&
            op->reason != COORD_R_ALREADY) {
            ops[count++] = op;
        }
    }
    if (fine && count > 0) { qsort(ops, count, sizeof *ops, by_revision); }
    for (size_t i = 1; fine && i < count; i++) {
        if (by_key(ops[i - 1], ops[i]) == 0 && ops[i - 1]->revision == ops[i]->revision) {
            fine = complain(why, "a revision used twice", ops[i - 1], ops[i]);
        }
    }
    free(ops);
    return fine;
}

static bool check_order(const struct history *history, char *why)
{
    struct mark *marks = calloc(history->count * 2 + 1, sizeof *marks);
    struct mark **order = calloc(history->count * 2 + 1, sizeof(void *));
    size_t count = 0;
    bool fine = marks != NULL && order != NULL;
    for (size_t i = 0; fine && i < history->count; i++) {
        const struct history_op *op = &history->ops[i];
        if (!is_numbered(op) || op->reason == COORD_R_ALREADY) { continue; }
        marks[count] = (struct mark){.at_ns = op->called_ns, .op = op};
        marks[count + 1] =
            (struct mark){.at_ns = op->replied_ns, .reply = true, .op = op, .call = &marks[count]};
        order[count] = &marks[count];
        order[count + 1] = &marks[count + 1];
        count += 2;
    }
    if (fine && count > 0) { qsort(order, count, sizeof *order, by_mark); }
    const struct history_op *newest = NULL, *newest_token = NULL;
    for (size_t i = 0; fine && i < count; i++) {
        struct mark *mark = order[i];
        if (i == 0 || by_key(order[i - 1]->op, mark->op) != 0) { newest = newest_token = NULL; }
        if (!mark->reply) {
            mark->floor_revision = newest != NULL ? newest->revision : 0;
            mark->floor_token = newest_token != NULL ? newest_token->token : 0;
            continue;
        }
        fine = check_reply(mark, newest_token, newest, why);
        if (newest == NULL || mark->op->revision > newest->revision) { newest = mark->op; }
        if (is_grant(mark->op) && (newest_token == NULL || mark->op->token > newest_token->token)) {
            newest_token = mark->op;
        }
    }
    free(order);
    free(marks);
    return fine;
}

bool checker_run(struct history *history, char why[CHECKER_TEXT_CAP])
{
    why[0] = '\0';
    if (history->count == 0) { return true; }
    qsort(history->ops, history->count, sizeof *history->ops, by_call);
    return check_handles(history, why) && check_reuse(history, why) && check_order(history, why);
}
