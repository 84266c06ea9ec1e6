/* SPDX-License-Identifier: Apache-2.0 */
/* The key space: every key with its versions, back to the compaction point.
 *
 * The revision counts the steps that changed something. All changes of one step have the same
 * revision. The versions of a key form a list from new to old. A read of the current revision needs
 * one version; a read of the past walks the list. All changes are also in one list by revision.
 * Watches resume from that list, and compaction removes its oldest part.
 *
 * Pure and deterministic: the same calls produce the same state on every replica. That includes
 * `bytes`, which the quota limits: `bytes` counts keys, values and versions, not the memory of this
 * process. An open view (a snapshot in progress) may use more memory for a while, because the view
 * keeps compacted versions that it has not read yet. `bytes` does not count these versions.
 *
 * The process ends when memory runs out, because apply must not fail on a single replica. The
 * quota, which is the same on all replicas, refuses writes long before. */
#ifndef STORE_CORE_KEYS_H
#define STORE_CORE_KEYS_H
#include "base/err.h"
#include "base/order.h"
#include "base/str.h"
#include "store/core/key_range.h"

struct keys;

/* Strings are valid until the key space changes, or for a past revision until its compaction. */
struct key_value {
    struct str key, value;
    uint64_t create, mod, version; /* version 0: the key was deleted at `mod` */
    uint64_t lease;                /* 0: no lease */
    uint32_t sub;                  /* index among the changes of its step */
    bool expired; /* deleted because its lease expired; lost when a snapshot is restored */
};

struct keys *keys_open(void);
void keys_close(struct keys *keys);               /* NULL is fine */
uint64_t keys_revision(const struct keys *keys);  /* 1 if nothing was ever written */
uint64_t keys_compacted(const struct keys *keys); /* 0: nothing is compacted */
uint64_t keys_count(const struct keys *keys);     /* keys that exist now */
uint64_t keys_bytes(const struct keys *keys);
/* the part of keys_bytes() that only past revisions need */
uint64_t keys_history_bytes(const struct keys *keys);
uint64_t keys_hash(const struct keys *keys); /* hash of the replicated state */

/* -- writing: between keys_begin() and keys_commit(), at one revision -- */
void keys_begin(struct keys *keys);
/* Writes a key, at most once per step. `lease` may be 0. The key leaves its former lease. */
void keys_put(struct keys *keys, struct str key, struct str value, uint64_t lease);
bool keys_delete(struct keys *keys, struct str key); /* False if the key did not exist. */
/* Deletes the first `max` existing keys of the range, in order. Returns their number. */
size_t keys_delete_range(struct keys *keys, struct key_range range, size_t max);
/* Returns the new revision, or the old revision if nothing changed. */
uint64_t keys_commit(struct keys *keys);
/* A step that deletes keys in key order may take many turns. While the step is paused, reads of the
 * current revision and the list of changes show the state before the step. */
void keys_pause(struct keys *keys, bool paused);
/* How many bytes a new key with this value adds to keys_bytes(). */
uint64_t keys_cost(size_t key_len, size_t value_len);

/* -- reading -- */
/* Reads a key at a revision that is neither compacted nor in the future; 0: the current one. */
bool keys_get(const struct keys *keys, struct str key, uint64_t revision,
              struct key_value *ret_value);
struct keys_cursor { /* valid until the key space changes */
    const struct keys *keys;
    struct key_range range;
    uint64_t revision;
    struct order_place place;
    /* How many more rows the cursor may read, including rows that did not exist at the revision.
     * keys_seek() sets no limit. If keys_next() returns false with rows_left 0, `next` is the next
     * key. */
    uint64_t rows_left;
    struct str next;
};
/* Reads in key order. Rows are looked up on demand, so the cost is that of the rows returned. */
void keys_seek(const struct keys *keys, struct key_range range, uint64_t revision,
               struct keys_cursor *ret_cursor);
bool keys_next(struct keys_cursor *cursor, struct key_value *ret_value);
/* Counts the existing keys of the range. The current revision takes two descents of the tree. A
 * past revision takes a walk over the later changes or over the range, whichever is shorter. */
uint64_t keys_count_range(const struct keys *keys, struct key_range range, uint64_t revision);
/* Returns how many keys (existing or not) and newer versions a read of the past visits, up to
 * `max`. keys_walk_cost() is for a walk that stops after `found_max` found keys, keys_count_cost()
 * for a count. Replicas may differ, because an open view keeps more versions. */
uint64_t keys_walk_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                        uint64_t found_max, uint64_t max);
uint64_t keys_count_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                         uint64_t max);

/* Changes are numbered by revision, and within a step in the order they were made. A number stays
 * valid while the key space changes. Changes from `first` up to `end`, exclusive, are available. */
struct key_changes {
    uint64_t first, end;
};
struct key_changes keys_changes(const struct keys *keys);
/* Number of the first change at or after `revision`, which must not be compacted. */
uint64_t keys_change_seek(const struct keys *keys, uint64_t revision);
/* *ret_before is the replaced version. Its `version` is 0 if none existed or it is compacted. */
void keys_change_at(const struct keys *keys, uint64_t number, struct key_value *ret_change,
                    struct key_value *ret_before);

/* -- keys of a lease -- */
size_t keys_of_lease_count(const struct keys *keys, uint64_t lease);
/* Returns up to `cap` keys of the lease after *last, in key order. Set *last to "" before the first
 * call. The keys are valid until the key space changes. */
size_t keys_of_lease(const struct keys *keys, uint64_t lease, struct str *last, struct str *out,
                     size_t cap);
/* Deletes the first `max` keys of the lease, like keys_delete_range(). */
size_t keys_delete_of_lease(struct keys *keys, uint64_t lease, bool expired, size_t max);

/* -- compaction -- */
/* Forbids reads below `revision` from now on. `revision` must be larger than that of the last
 * compaction, and not in the future. */
void keys_compact(struct keys *keys, uint64_t revision);
/* Frees at most `changes_max` compacted changes. The progress is part of the state, so all replicas
 * must make the call at the same point with the same number. True if there is more to free. */
bool keys_prune(struct keys *keys, uint32_t changes_max);
bool keys_prune_left(const struct keys *keys);
/* A counter of the work done by writes: versions created and changes pruned. */
uint64_t keys_work(const struct keys *keys);

/* -- a view of one revision during writes -- */
struct keys_view;
struct keys_marks { /* the counters that belong to the versions */
    uint64_t revision, compacted, pruned;
    uint32_t pruned_sub; /* changes of the step `pruned` before this index are freed, too */
};
struct keys_view *keys_view_open(struct keys *keys); /* one view at a time; NULL without memory */
void keys_view_close(struct keys_view *view);        /* NULL is fine */
struct keys_marks keys_view_marks(const struct keys_view *view);
/* Emits the versions at the view's revision, key by key in key order, from old to new, until about
 * `budget` bytes were emitted. Returns false when no version is left. */
typedef void keys_view_fn(void *context, const struct key_value *version);
bool keys_view_next(struct keys_view *view, size_t budget, keys_view_fn *each, void *context);

/* Increases the revision by `by` after a restore from an old copy, so that no revision from after
 * that copy is used again. */
void keys_jump(struct keys *keys, uint64_t by);

/* -- restore into an empty key space, in the order of a view -- */
/* Adds a version. Returns ERR_CORRUPT if it is out of order or has impossible numbers. */
enum err keys_restore(struct keys *keys, const struct key_value *version);
/* Sets the marks. ERR_CORRUPT: they contradict the versions; then only keys_close() is allowed. */
enum err keys_restore_done(struct keys *keys, struct keys_marks marks);
#endif
