/* SPDX-License-Identifier: Apache-2.0 */
/* Views of the trial machine, and restoring it.
 *
 * Registers are in the order of their creation. A snapshot walks that order. A register that
 * changes before the walk reaches it keeps its old value for the snapshot (values are counted, so
 * nothing is copied); a register created meanwhile is not part of the snapshot.
 *
 * Snapshot:  u64 format, registers, index, entries, hash; then for each register
 *            u32 key length, u32 value length, u64 revision, i64 number, key, value
 * All little-endian. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trial/trial_internal.h"

enum { SNAPSHOT_FORMAT = 1, SNAPSHOT_HEAD = 40, REGISTER_HEAD = 24 };

void trial_view_keep(struct view *view, struct reg *reg)
{
    struct aside *aside;

    if (reg->view_number == view->number) return;
    reg->view_number = view->number;
    aside = malloc(sizeof *aside);
    if (!aside) {
        view->failed = ERR_NOMEM; /* the snapshot fails; applying does not */
        return;
    }
    aside->reg = *reg;
    if (reg->value) reg->value->holders++;
    aside->next = view->aside;
    view->aside = aside;
}

/* False: none is left. */
static bool drop_aside(struct view *view)
{
    struct aside *aside = view->aside;

    if (!aside) return false;
    view->aside = aside->next;
    trial_value_drop(aside->reg.value);
    free(aside);
    return true;
}

/* -- snapshots -- */
enum err trial_snapshot_begin(void *state, uint64_t index, void **ret_view)
{
    struct trial *t = state;
    struct view *view;

    assert(!t->view);
    view = calloc(1, sizeof *view);
    if (!view) return ERR_NOMEM;
    *view = (struct view){.trial = t,
                          .number = ++t->views,
                          .next = t->by_age.next,
                          .index = index,
                          .entries = t->entries,
                          .hash = trial_hash(t),
                          .count = trial_count(t)};
    t->view = view;
    *ret_view = view;
    return ERR_OK;
}

static enum err give_register(const struct reg *reg, struct buf *into)
{
    size_t value = trial_value_len(reg);
    char *room;
    enum err err = buf_reserve(into, REGISTER_HEAD + reg->key_len + value, &room);

    if (err) return err;
    store_le32(room, reg->key_len);
    store_le32(room + 4, (uint32_t)value);
    store_le64(room + 8, reg->revision);
    store_le64(room + 16, (uint64_t)reg->number);
    memcpy(room + REGISTER_HEAD, reg->key, reg->key_len);
    if (value > 0) memcpy(room + REGISTER_HEAD + reg->key_len, reg->value->bytes, value);
    buf_commit(into, REGISTER_HEAD + reg->key_len + value);
    return ERR_OK;
}

static enum err give_head(struct view *view, struct buf *into)
{
    char head[SNAPSHOT_HEAD];
    enum err err;

    store_le64(head, SNAPSHOT_FORMAT);
    store_le64(head + 8, view->count);
    store_le64(head + 16, view->index);
    store_le64(head + 24, view->entries);
    store_le64(head + 32, view->hash);
    err = buf_append(into, str_of(head, sizeof head));
    if (!err) view->begun = true;
    return err;
}

/* The next register of the walk that the view still needs; NULL at the end. */
static struct reg *next_in_walk(struct view *view)
{
    while (view->next != &view->trial->by_age) {
        struct reg *reg = CONTAINER_OF(view->next, struct reg, link);
        if (reg->view_number != view->number) return reg;
        view->next = view->next->next;
    }
    return NULL;
}

enum err trial_snapshot_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct view *view = opaque;
    size_t start = into->len;
    enum err err = view->failed;

    assert(budget > 0);
    if (!err && !view->begun) err = give_head(view, into);
    while (!err && into->len - start < budget) {
        struct reg *reg = view->aside ? &view->aside->reg : next_in_walk(view);

        if (!reg) break;
        err = give_register(reg, into);
        if (err) break;
        if (view->aside)
            drop_aside(view);
        else
            reg->view_number = view->number;
    }
    if (err) return err;
    *ret_done = !view->aside && !next_in_walk(view);
    return ERR_OK;
}

void trial_snapshot_end(void *opaque)
{
    struct view *view = opaque;

    while (drop_aside(view)) continue;
    view->trial->view = NULL;
    free(view);
}

/* -- restoring -- */
enum err trial_restore_begin(void *state, uint64_t index, struct note *note)
{
    struct trial *t = state;

    (void)note;
    assert(!t->view);
    trial_forget(t);
    buf_clear(&t->pending);
    t->restoring = true;
    t->head_seen = false;
    t->index = index;
    t->expected_count = 0;
    return ERR_OK;
}

static enum err damaged(struct note *note, const char *what)
{
    note_set(note, "trial: %s", what);
    return ERR_CORRUPT;
}

static enum err take_head(struct trial *t, struct str *rest, struct note *note)
{
    const char *at = rest->at;

    if (load_le64(at) != SNAPSHOT_FORMAT) {
        note_set(note, "trial: snapshot format %llu", (unsigned long long)load_le64(at));
        return ERR_VERSION;
    }
    if (load_le64(at + 16) != t->index) return damaged(note, "snapshot of another index");
    t->expected_count = load_le64(at + 8);
    t->entries = load_le64(at + 24);
    t->expected_hash = load_le64(at + 32);
    t->head_seen = true;
    *rest = str_tail(*rest, SNAPSHOT_HEAD);
    return ERR_OK;
}

/* Takes one register; *ret_took false: its bytes are not all there yet. */
static enum err take_register(struct trial *t, struct str *rest, bool *ret_took, struct note *note)
{
    const char *at = rest->at;
    size_t key, value;
    struct reg *reg;

    *ret_took = false;
    if (rest->len < REGISTER_HEAD) return ERR_OK;
    key = load_le32(at);
    value = load_le32(at + 4);
    if (key > TRIAL_KEY_MAX || value > TRIAL_VALUE_MAX)
        return damaged(note, "a register longer than any");
    if (load_le64(at + 8) == 0) return damaged(note, "a register that was never set");
    if (rest->len < REGISTER_HEAD + key + value) return ERR_OK;
    if (map_count(&t->by_key) >= t->expected_count)
        return damaged(note, "more registers than it says");
    if (map_get(&t->by_key, str_of(at + REGISTER_HEAD, key)))
        return damaged(note, "a register twice");
    reg = trial_make(t, str_of(at + REGISTER_HEAD, key));
    trial_fill(t, reg, load_le64(at + 8), (int64_t)load_le64(at + 16),
               str_of(at + REGISTER_HEAD + key, value));
    *rest = str_tail(*rest, REGISTER_HEAD + key + value);
    *ret_took = true;
    return ERR_OK;
}

enum err trial_restore_next(void *state, struct str bytes, struct note *note)
{
    struct trial *t = state;
    bool took = true;
    struct str rest;
    enum err err = ERR_OK;

    assert(t->restoring);
    /* Piece by piece, so that an incomplete register stays under its memory ceiling. */
    while (!err && bytes.len > 0) {
        size_t piece = min_size(bytes.len, TRIAL_VALUE_MAX);
        err = buf_append(&t->pending, str_of(bytes.at, piece));
        if (err) return err;
        bytes = str_tail(bytes, piece);
        rest = buf_peek(&t->pending);
        if (!t->head_seen && rest.len >= SNAPSHOT_HEAD) err = take_head(t, &rest, note);
        for (took = t->head_seen; !err && took;) err = take_register(t, &rest, &took, note);
        buf_consume(&t->pending, t->pending.len - rest.len);
    }
    return err;
}

enum err trial_restore_end(void *state, struct note *note)
{
    struct trial *t = state;

    assert(t->restoring);
    t->restoring = false;
    if (!t->head_seen && t->pending.len == 0) return ERR_OK; /* was in no snapshot yet */
    if (t->pending.len > 0 || !t->head_seen) return damaged(note, "its end is missing");
    if (trial_count(t) != t->expected_count) return damaged(note, "registers are missing");
    if (trial_hash(t) != t->expected_hash) return damaged(note, "another hash than it says");
    buf_deinit(&t->pending);
    buf_init(&t->pending, (size_t)4 * TRIAL_VALUE_MAX);
    return ERR_OK;
}
