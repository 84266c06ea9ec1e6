/* SPDX-License-Identifier: Apache-2.0 */
/* The key space: every key with its versions, back to the compaction point.
 *
 * The revision counts the steps that changed something. All changes of one step have the same
 * revision. A key's versions form a list from new to old. One more list has all changes by
 * revision: watches resume from it, and compaction removes its oldest part.
 *
 * Pure and deterministic: the same calls produce the same state on every replica. `bytes` counts
 * keys, values and versions, not memory: an open view may keep compacted versions in memory, and
 * `bytes` does not count them.
 *
 * The process ends when memory runs out, because apply must not fail on a single replica. */
#ifndef STORE_CORE_KEYS_H
#define STORE_CORE_KEYS_H
#include "base/err.h"
#include "base/order.h"
#include "base/str.h"
#include "store/core/key_range.h"

struct keys;

/* Strings are valid until the key space changes. Strings from a past revision stay valid until its
 * compaction. */
struct key_value {
    struct str key, value;
    uint64_t create, mod, version; /* version 0: the key was deleted at `mod` */
    uint64_t lease;                /* 0: no lease */
    uint32_t sub;                  /* index among the changes of its step */
    bool expired;                  /* the lease expired; a restored snapshot has lost this flag */
};

struct keys *keys_open(void);
void keys_close(struct keys *keys);               /* NULL is fine */
uint64_t keys_revision(const struct keys *keys);  /* 1 if nothing was ever written */
uint64_t keys_compacted(const struct keys *keys); /* 0: nothing is compacted */
uint64_t keys_count(const struct keys *keys);     /* keys that exist now */
uint64_t keys_bytes(const struct keys *keys);
uint64_t keys_history_bytes(const struct keys *keys);
uint64_t keys_hash(const struct keys *keys); /* hash of the replicated state */

/* -- writing: between keys_begin() and keys_commit(), at one revision -- */
void keys_begin(struct keys *keys);
/* Call at most once per key and step. `lease` 0: none. The key leaves its former lease. */
void keys_put(struct keys *keys, struct str key, struct str value, uint64_t lease);
bool keys_delete(struct keys *keys, struct str key); /* false: the key did not exist */
/* Deletes the first `max` existing keys in key order, and returns their number. */
size_t keys_delete_range(struct keys *keys, struct key_range range, size_t max);
/* returns the unchanged revision if nothing changed */
uint64_t keys_commit(struct keys *keys);
/* A step that deletes keys in key order may take many turns. While the step is paused, reads of the
 * current revision and the list of changes show the state before the step. */
void keys_pause(struct keys *keys, bool paused);
/* bytes that a new key with this value adds to keys_bytes() */
uint64_t keys_cost(size_t key_len, size_t value_len);

/* -- reading -- */
/* `revision` must not be compacted or in the future; 0: the current revision */
bool keys_get(const struct keys *keys, struct str key, uint64_t revision,
              struct key_value *ret_value);
struct keys_cursor { /* valid until the key space changes */
    const struct keys *keys;
    struct key_range range;
    uint64_t revision;
    struct order_place place;
    /* Rows that the cursor may still read, including rows that did not exist at the revision;
     * keys_seek() sets no limit. When rows_left ends the walk, `next` is the next key. */
    uint64_t rows_left;
    struct str next;
};
/* in key order */
void keys_seek(const struct keys *keys, struct key_range range, uint64_t revision,
               struct keys_cursor *ret_cursor);
bool keys_next(struct keys_cursor *cursor, struct key_value *ret_value);
/* The current revision needs two descents of the tree. A past revision needs a walk over the later
 * changes or over the range, whichever is shorter. */
uint64_t keys_count_range(const struct keys *keys, struct key_range range, uint64_t revision);
/* How many rows and newer versions a read of the past visits, up to `max`. keys_walk_cost() is for
 * a walk that ends after `found_max` keys. Replicas may differ, because an open view keeps more
 * versions. */
uint64_t keys_walk_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                        uint64_t found_max, uint64_t max);
uint64_t keys_count_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                         uint64_t max);

/* Changes are numbered by revision, and within a step in the order made. Changes first <= n < end
 * are available. */
struct key_changes {
    uint64_t first, end;
};
struct key_changes keys_changes(const struct keys *keys);
/* `revision` must not be compacted. */
uint64_t keys_change_seek(const struct keys *keys, uint64_t revision);
/* *ret_before: the replaced version; its `version` is 0 if none existed or if it is compacted */
void keys_change_at(const struct keys *keys, uint64_t number, struct key_value *ret_change,
                    struct key_value *ret_before);

/* -- keys of a lease -- */
size_t keys_of_lease_count(const struct keys *keys, uint64_t lease);
/* Returns up to `cap` keys after *last in key order. *last is "" at first. The keys are valid until
 * the key space changes. */
size_t keys_of_lease(const struct keys *keys, uint64_t lease, struct str *last, struct str *out,
                     size_t cap);
/* like keys_delete_range() */
size_t keys_delete_of_lease(struct keys *keys, uint64_t lease, bool expired, size_t max);

/* -- compaction -- */
/* Reads below `revision` fail from now on. `revision` must be above the last compaction, and not in
 * the future. */
void keys_compact(struct keys *keys, uint64_t revision);
/* Frees at most `changes_max` compacted changes; true: more are left. Progress is replicated state,
 * so all replicas must call this at the same point with the same number. */
bool keys_prune(struct keys *keys, uint32_t changes_max);
bool keys_prune_left(const struct keys *keys);
/* counts the work of writes: versions created and changes pruned */
uint64_t keys_work(const struct keys *keys);

/* -- a view of one revision during writes -- */
struct keys_view;
struct keys_marks {
    uint64_t revision, compacted, pruned;
    uint32_t pruned_sub; /* in the step `pruned`, changes before this index are freed */
};
struct keys_view *keys_view_open(struct keys *keys); /* one view at a time; NULL without memory */
void keys_view_close(struct keys_view *view);        /* NULL is fine */
struct keys_marks keys_view_marks(const struct keys_view *view);
/* Emits versions by key, then from old to new, until about `budget` bytes were emitted. Returns
 * false when no version is left. */
typedef void keys_view_fn(void *context, const struct key_value *version);
bool keys_view_next(struct keys_view *view, size_t budget, keys_view_fn *each, void *context);

/* After a restore from an old copy, revisions used since that copy must not be used again. */
void keys_jump(struct keys *keys, uint64_t by);

/* -- restore into an empty key space, in the order of a view -- */
/* ERR_CORRUPT: the version is out of order or has impossible numbers */
enum err keys_restore(struct keys *keys, const struct key_value *version);
/* ERR_CORRUPT: the marks contradict the versions; then only keys_close() is allowed */
enum err keys_restore_done(struct keys *keys, struct keys_marks marks);
#endif
