/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's partitions as rows sorted by partition. No I/O. */
#include "worker/core/tenure.h"

#include <stdlib.h>
#include <string.h>

void tenures_init(struct tenures *t)
{
    *t = (struct tenures){0};
}

void tenures_deinit(struct tenures *t)
{
    free(t->rows);
    tenures_init(t);
}

static void tenures_check(const struct tenures *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct tenure *row = &t->rows[i];
        assert(!i || row[-1].partition < row->partition);          /* invariant I6 of tenure.h */
        assert(row->state != TENURE_WORK || row->begun);           /* invariant I7 */
        assert(row->ack == ACK_NONE || row->state == TENURE_GONE); /* invariant I8 */
    }
}

static size_t place_of(const struct tenures *t, uint32_t partition)
{
    size_t low = 0, high = t->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->rows[middle].partition < partition)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct tenure *tenures_find(struct tenures *t, uint32_t partition)
{
    size_t at = place_of(t, partition);
    return at < t->count && t->rows[at].partition == partition ? &t->rows[at] : NULL;
}

struct tenure *tenures_next(struct tenures *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct tenure *row = &t->rows[(t->cursor + i) % t->count];
        if (row->state == TENURE_GONE) continue;
        t->cursor = (size_t)(row - t->rows + 1) % t->count;
        return row;
    }
    return NULL;
}

void tenure_claimed(struct tenure *row)
{
    assert(row->state == TENURE_CLAIM || row->state == TENURE_LEAVE);
    row->begun = true;
    if (row->state == TENURE_CLAIM) row->state = TENURE_WORK;
}

void tenure_left(struct tenure *row)
{
    assert(row->state == TENURE_LEAVE);
    row->state = TENURE_GONE;
    row->ack = ACK_DUE;
}

size_t tenures_held(const struct tenures *t)
{
    size_t held = 0;

    for (size_t i = 0; i < t->count; i++) held += t->rows[i].state != TENURE_GONE;
    return held;
}

bool tenures_unacked(const struct tenures *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].ack != ACK_NONE) return true;
    return false;
}

void tenures_acked(struct tenures *t, bool done)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].ack == ACK_SENT) t->rows[i].ack = done ? ACK_NONE : ACK_DUE;
}

/* -- assignments -- */

static int by_partition(const void *left, const void *right)
{
    const struct grant *a = left, *b = right;
    return (a->partition > b->partition) - (a->partition < b->partition);
}

static struct tenure row_after(const struct tenure *held, const struct grant *grant)
{
    struct tenure row = held ? *held : (struct tenure){.partition = grant->partition};
    bool newer = !held || grant->token > held->token;

    if (!newer && grant->token < held->token) return row; /* an old message */
    row.token = grant->token;
    if (newer) { /* the new token was not claimed yet */
        row.begun = false;
        row.ack = ACK_NONE;
    }
    if (grant->revoking) {
        if (newer || row.state != TENURE_GONE) row.state = TENURE_LEAVE;
        return row;
    }
    if (newer) row.state = TENURE_CLAIM; /* store the token before writing */
    return row;
}

enum err tenures_assign(struct tenures *t, uint64_t assignment_epoch, struct grant *grants,
                        size_t count, tenure_drop_fn *drop, void *owner)
{
    struct tenure *rows;
    size_t at = 0;

    tenures_check(t);
    if (assignment_epoch < t->assignment_epoch) return ERR_CONFLICT;
    if (count > TENURES_MAX) return ERR_FULL;
    if (count > 1) qsort(grants, count, sizeof *grants, by_partition);
    for (size_t i = 1; i < count; i++)
        if (grants[i - 1].partition == grants[i].partition) return ERR_INVALID;
    rows = calloc(count + 1, sizeof *rows);
    if (!rows) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        rows[i] = row_after(tenures_find(t, grants[i].partition), &grants[i]);
    for (size_t i = 0; i < t->count; i++) { /* both arrays are sorted; drops rows without a grant */
        while (at < count && rows[at].partition < t->rows[i].partition) at++;
        if (at == count || rows[at].partition != t->rows[i].partition) drop(owner, &t->rows[i]);
    }
    free(t->rows);
    t->rows = rows;
    t->count = count;
    if (t->cursor >= count) t->cursor = 0;
    t->assignment_epoch = assignment_epoch;
    tenures_check(t);
    return ERR_OK;
}

void tenures_drop_all(struct tenures *t, tenure_drop_fn *drop, void *owner)
{
    for (size_t i = 0; i < t->count; i++) drop(owner, &t->rows[i]);
    tenures_deinit(t); /* also resets the epoch, because the worker registers again */
}

void tenures_leave_all(struct tenures *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].state != TENURE_GONE) t->rows[i].state = TENURE_LEAVE;
}
