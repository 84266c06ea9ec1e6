/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a lease with many keys.
 *
 * Its keys go at one revision in the order of keys, and nothing is seen of that before the last, as
 * with a DELETE_RANGE of many. But they hang on the lease in the order they came, and a million of
 * them are a second's work to gather, sort and delete; so each of the three is done in parts:
 * gathered and sorted run by run, the runs merged pair by pair, then deleted. Only the last changes
 * the key space, and until it began nothing but the memory taken tells that anything goes on. */
#include <stdlib.h>

#include "store/core/internal.h"

enum { RUN_KEYS = 1024, MERGED_KEYS = 8192 };

struct lease_ending {
    struct lease *lease;
    int reason;
    struct str *names, *merged; /* the second has what is merged of this round */
    size_t count, gathered, deleted;
    const struct list *place;
    /* of the merge: runs of `width` are in order; those at `first` and behind it are being joined */
    size_t width, first, left, right, out;
    bool deleting;
};

bool ending_suits(const struct store *store, const struct lease *lease)
{
    return lease_is_plain(lease) &&
           keys_of_lease_count(store->keys, lease->number) > STORE_SWEEP_KEYS;
}

void ending_begin(struct store *store, struct lease *lease, int reason)
{
    struct lease_ending *e = store_must(calloc(1, sizeof *e));

    assert(!store->ending && ending_suits(store, lease) && !lease->waiter && !lease->claim_count);
    e->lease = lease;
    e->reason = reason;
    e->count = keys_of_lease_count(store->keys, lease->number);
    e->names = store_must(malloc(e->count * sizeof *e->names));
    e->merged = store_must(malloc(e->count * sizeof *e->merged));
    e->width = RUN_KEYS;
    store->ending = e;
}

void ending_close(struct store *store)
{
    if (!store->ending) return;
    free(store->ending->names);
    free(store->ending->merged);
    free(store->ending);
    store->ending = NULL;
}

static int by_key(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static void begin_join(struct lease_ending *e, size_t first)
{
    e->first = e->left = e->out = first;
    e->right = min_size(first + e->width, e->count);
}

/* One run. */
static void gather(const struct store *store, struct lease_ending *e)
{
    struct str *run = e->names + e->gathered;
    size_t len = keys_of_lease_next(store->keys, e->lease->number, &e->place, run,
                                    min_size(RUN_KEYS, e->count - e->gathered));

    qsort(run, len, sizeof *run, by_key);
    e->gathered += len;
    if (e->gathered == e->count) begin_join(e, 0);
}

/* False: all of them are in order. */
static bool merge(struct lease_ending *e)
{
    for (size_t i = 0; i < MERGED_KEYS && e->width < e->count; i++) {
        size_t middle = min_size(e->first + e->width, e->count);
        size_t end = min_size(middle + e->width, e->count);
        bool left = e->left < middle &&
                    (e->right == end || str_compare(e->names[e->left], e->names[e->right]) < 0);

        e->merged[e->out++] = e->names[left ? e->left++ : e->right++];
        if (e->out == end) begin_join(e, end);
        if (end == e->count && e->first == end) { /* the round is over */
            struct str *sorted = e->merged;

            e->merged = e->names;
            e->names = sorted;
            e->width *= 2;
            begin_join(e, 0);
        }
    }
    return e->width < e->count;
}

/* False: there are no more. */
static bool delete_some(struct store *store, struct lease_ending *e)
{
    size_t end = min_size(e->deleted + STORE_SWEEP_KEYS, e->count);

    if (e->deleting)
        keys_pause(store->keys, false);
    else
        keys_begin(store->keys);
    e->deleting = true;
    while (e->deleted < end) (void)keys_delete(store->keys, e->names[e->deleted++]);
    if (e->deleted < e->count)
        keys_pause(store->keys, true);
    else
        (void)keys_commit(store->keys);
    return e->deleted < e->count;
}

bool ending_more(struct store *store)
{
    struct lease_ending *e = store->ending;

    /* Counted as work, so that a turn of the loop ends in between. */
    if (e->gathered < e->count) {
        gather(store, e);
        store->work += STORE_SWEEP_KEYS;
        return true;
    }
    if (!e->deleting && merge(e)) {
        store->work += STORE_SWEEP_KEYS;
        return true;
    }
    if (delete_some(store, e)) return true;
    lease_end_done(store, e->lease, e->reason, e->count);
    ending_close(store);
    return false;
}

/* -- reading -- */
static const struct lease_ending *halfway(const struct store *store, int64_t number)
{
    const struct lease_ending *e = store->ending;

    return e && e->deleting && e->lease->number == (uint64_t)number ? e : NULL;
}

size_t store_lease_key_count(const struct store *store, int64_t number)
{
    const struct lease_ending *e = halfway(store, number);

    return e ? e->count : keys_of_lease_count(store->keys, (uint64_t)number);
}

size_t store_lease_keys(const struct store *store, int64_t number, struct str *out, size_t cap)
{
    const struct lease_ending *e = halfway(store, number);

    if (!e) return keys_of_lease(store->keys, (uint64_t)number, out, cap);
    assert(e->count <= cap);
    for (size_t i = 0; i < e->count; i++) out[i] = e->names[i];
    return e->count;
}

size_t store_lease_keys_next(const struct store *store, int64_t number,
                             struct store_lease_walk *walk, struct str *out, size_t cap)
{
    const struct lease_ending *e = halfway(store, number);
    size_t count;

    if (!e) return keys_of_lease_next(store->keys, (uint64_t)number, &walk->place, out, cap);
    count = min_size(cap, e->count - walk->told);
    for (size_t i = 0; i < count; i++) out[i] = e->names[walk->told + i];
    walk->told += count;
    return count;
}
