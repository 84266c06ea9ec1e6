/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the trial machine: what trial.c (registers and commands) and trial_snapshot.c
 * (views and restoring) share. */
#ifndef TESTS_TRIAL_TRIAL_INTERNAL_H
#define TESTS_TRIAL_TRIAL_INTERNAL_H
#include "base/list.h"
#include "base/map.h"
#include "trial/trial.h"

struct value { /* held by a register and by an open snapshot */
    uint32_t holders, len;
    uint64_t hash;
    char bytes[];
};
struct reg {
    struct list link;    /* by age */
    struct value *value; /* NULL: empty */
    uint64_t revision;   /* 0 nowhere: a register was changed at least when it was made */
    int64_t number;
    uint64_t view_number; /* of the newest view that needs nothing more of it */
    uint32_t key_len;
    char key[TRIAL_KEY_MAX];
};
struct aside { /* a register as it was, for a view that had not come to it */
    struct aside *next;
    struct reg reg;
};
struct view {
    struct trial *trial;
    uint64_t number;
    struct list *next; /* the register to give next; the list's head: none is left */
    struct aside *aside;
    uint64_t index, entries, hash;
    size_t count;
    bool begun;
    enum err failed; /* memory, when something had to be put aside */
};
struct trial {
    struct map by_key;
    struct list by_age;
    uint64_t keys_max;
    uint64_t index, entries; /* of the last one applied; how many were */
    uint64_t sum;            /* of the registers' hashes */
    uint64_t bytes;
    uint64_t views; /* ever begun */
    struct view *view;
    /* while restoring */
    struct buf pending;
    bool restoring, head_seen;
    uint64_t expected_count, expected_hash;
};

/* -- trial.c -- */
struct reg *trial_make(struct trial *trial, struct str key); /* revision 0, nothing in it */
/* Only while no view is open. */
void trial_fill(struct trial *trial, struct reg *reg, uint64_t revision, int64_t number,
                struct str value);
void trial_forget(struct trial *trial);
void trial_value_drop(struct value *value); /* by one of its holders; NULL is fine */
size_t trial_value_len(const struct reg *reg);

/* -- trial_snapshot.c -- */
/* Before `reg` changes: an open view that has not come to it keeps it as it was. */
void trial_view_keep(struct view *view, struct reg *reg);
enum err trial_snapshot_begin(void *state, uint64_t index, void **ret_view);
enum err trial_snapshot_next(void *view, size_t budget, struct buf *into, bool *ret_done);
void trial_snapshot_end(void *view);
enum err trial_restore_begin(void *state, uint64_t index, struct note *note);
enum err trial_restore_next(void *state, struct str bytes, struct note *note);
enum err trial_restore_end(void *state, struct note *note);
#endif
