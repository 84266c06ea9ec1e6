/* SPDX-License-Identifier: Apache-2.0 */
/* The key space: every key with its versions, back to the compaction point.
 *
 * One number, the revision, counts the steps that changed something; all changes of one step share
 * it. A key's versions hang newest first, so a read of now looks at one; a read of the past walks
 * back. Changes are in one list by revision, which watches resume from and compaction
 * eats from its front.
 *
 * Pure and deterministic: same calls, same state, on every replica. That holds for `bytes`, too,
 * which the quota is judged by: it counts what the contract keeps (keys, values, versions), not
 * what this process happens to hold. A view (a snapshot under way) may hold more for a while:
 * versions it has not read yet are kept though compacted, and are not counted.
 *
 * Memory that runs out ends the process: apply may not fail on one replica alone. The quota, which
 * is the same for all, refuses long before. */
#ifndef STORE_CORE_KEYS_H
#define STORE_CORE_KEYS_H
#include "base/err.h"
#include "base/order.h"
#include "base/str.h"
#include "store/core/key_range.h"

struct keys;

struct key_value { /* a view, valid until the key space changes; read at a revision: until that is
                   * compacted */
    struct str key, value;
    uint64_t create, mod, version; /* version 0: deleted at `mod` */
    uint64_t lease;                /* 0: none */
    uint32_t sub;                  /* its place among the changes of its step */
    bool expired; /* deleted at its lease's deadline; not known of what a snapshot brought */
};

struct keys *keys_open(void);
void keys_close(struct keys *keys);               /* NULL is fine */
uint64_t keys_revision(const struct keys *keys);  /* 1 when nothing was ever written */
uint64_t keys_compacted(const struct keys *keys); /* 0: nothing yet */
uint64_t keys_count(const struct keys *keys);     /* live ones */
uint64_t keys_bytes(const struct keys *keys);
uint64_t keys_history_bytes(const struct keys *keys); /* of them, what only the past needs */
uint64_t keys_hash(const struct keys *keys);          /* of everything replicated */

/* -- writing: between begin and commit, all at one revision -- */
void keys_begin(struct keys *keys);
/* Each key at most once in a step. `lease` 0: none; the key leaves the lease it had. */
void keys_put(struct keys *keys, struct str key, struct str value, uint64_t lease);
bool keys_delete(struct keys *keys, struct str key); /* false: was not there */
/* The first `max` live keys of the range, in order; how many there were. */
size_t keys_delete_range(struct keys *keys, struct key_range range, size_t max);
/* The new revision, or the old one when nothing changed. */
uint64_t keys_commit(struct keys *keys);
/* A step of deletions in key order may take many turns. While it is paused every read of now, and
 * the list of changes, is as it was before the step. */
void keys_pause(struct keys *keys, bool paused);
/* What a new key with this value counts. */
uint64_t keys_cost(size_t key_len, size_t value_len);

/* -- reading -- */
/* revision 0: now. At or above the compaction point and not in the future: the caller's check. */
bool keys_get(const struct keys *keys, struct str key, uint64_t revision,
              struct key_value *ret_value);
struct keys_cursor { /* valid until the key space changes */
    const struct keys *keys;
    struct key_range range;
    uint64_t revision;
    struct order_place place;
    /* Rows that may still be looked at; a seek sets no bound. Of the past those count, too, that
     * were not there then. When keys_next is false with none left, `next` is where it goes on. */
    uint64_t rows_left;
    struct str next;
};
/* In key order; what is read is looked for as it is asked for, so a limit costs what it shows. */
void keys_seek(const struct keys *keys, struct key_range range, uint64_t revision,
               struct keys_cursor *ret_cursor);
bool keys_next(struct keys_cursor *cursor, struct key_value *ret_value);
/* Of now: two ways down the tree. Of the past: a walk over what changed since, or the range. */
uint64_t keys_count_range(const struct keys *keys, struct key_range range, uint64_t revision);
/* What reading the past looks at, counted no further than `max`: keys, also those that were not there
 * then, and versions that are newer; a walk until more than `found_max` were found, and a count.
 * Not the same on every replica: a view keeps more. */
uint64_t keys_walk_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                        uint64_t found_max, uint64_t max);
uint64_t keys_count_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                         uint64_t max);

/* Changes have numbers of their own, in order of revision and within a step in the order made; a
 * number stays good while the space changes. Those from `first` up to, not including, `end` are
 * there. */
struct key_changes {
    uint64_t first, end;
};
struct key_changes keys_changes(const struct keys *keys);
/* The number of the first change at or after `revision`, which is at least the compaction point. */
uint64_t keys_change_seek(const struct keys *keys, uint64_t revision);
/* `before` is the version that the change replaced: version 0 when there was none, or when it is
 * compacted. */
void keys_change_at(const struct keys *keys, uint64_t number, struct key_value *ret_change,
                    struct key_value *ret_before);

/* -- keys of a lease -- */
size_t keys_of_lease_count(const struct keys *keys, uint64_t lease);
/* The next of them behind *last, up to `cap`, in key order; begin with *last "". Views as above. */
size_t keys_of_lease(const struct keys *keys, uint64_t lease, struct str *last, struct str *out,
                     size_t cap);
/* As keys_delete_range. */
size_t keys_delete_of_lease(struct keys *keys, uint64_t lease, bool expired, size_t max);

/* -- compaction -- */
/* Reads below `revision` are over from now on. Larger than the last one, at most the present. */
void keys_compact(struct keys *keys, uint64_t revision);
/* Frees what compaction made unreachable, at most `changes_max` changes of it. Part of the state:
 * call it with the same number at the same place everywhere. True: there is more to do. */
bool keys_prune(struct keys *keys, uint32_t changes_max);
bool keys_prune_left(const struct keys *keys);
/* Grows with what changing it costs: versions made, changes pruned. */
uint64_t keys_work(const struct keys *keys);

/* -- a view of one revision while writing goes on -- */
struct keys_view;
struct keys_marks { /* the numbers that go with the versions */
    uint64_t revision, compacted, pruned;
    uint32_t pruned_sub; /* of the step `pruned`: changes before this place are gone, too */
};
struct keys_view *keys_view_open(struct keys *keys); /* one at a time; NULL: memory */
void keys_view_close(struct keys_view *view);        /* NULL is fine */
struct keys_marks keys_view_marks(const struct keys_view *view);
/* Every version as of the view's revision, key by key in order, each key's from old to new, until
 * about `budget` bytes were given. False: there is nothing left. */
typedef void keys_view_fn(void *context, const struct key_value *version);
bool keys_view_next(struct keys_view *view, size_t budget, keys_view_fn *each, void *context);

/* Revisions go on `by` higher, and what was before can never be named again (a copy from the past
 * became the present). */
void keys_jump(struct keys *keys, uint64_t by);

/* -- restore: into an empty space, in the order a view gives -- */
/* ERR_CORRUPT: not in order, or numbers that cannot be. */
enum err keys_restore(struct keys *keys, const struct key_value *version);
/* ERR_CORRUPT: the marks do not fit the versions. Nothing but keys_close may follow. */
enum err keys_restore_done(struct keys *keys, struct keys_marks marks);
#endif
