/* SPDX-License-Identifier: Apache-2.0 */
/* The key space.
 *
 * A row is one key. Tree `all` has a row until compaction removes the key. Tree `live` has only
 * keys that exist now, so deleted keys cost reads of the current revision nothing.
 *
 * Invariants:
 * 1. newest->mod > older->mod > ... ; between two deletions of a key there is a put
 * 2. a row is in `live` exactly when its newest version is not a deletion
 * 3. `changes` contains every version after (pruned, pruned_sub), by mod and then in the order made
 * 4. pruned < compacted, because a watch may begin at the compaction point itself
 * 5. `bytes` is the sum of keys_cost over rows and versions that compaction has not subtracted
 * 6. a row is in `leased`, by the lease of its newest version, exactly while that version has a
 * lease */
#include "store/core/keys.h"

#include <stdlib.h>
#include <string.h>

#include "store/core/must.h"

enum { KEY_COST = 160, VERSION_COST = 80, BLOCK = 4096 };

struct version {
    struct version *older, *newer;
    uint64_t create, mod, version, lease; /* version 0: a deletion */
    uint32_t value_len, sub;
    uint32_t counted_out; /* keys.stamp at the compaction; 0: no view keeps the version */
    bool expired;         /* not replicated */
    char value[];
};
struct key_row {
    struct version *newest;
    uint32_t key_len;
    bool waits;       /* in `waiting` until no view is open and the row is pruned */
    bool counted_out; /* compacted, and kept only for the open view */
    char key[];
};
struct change {
    struct key_row *row;
    struct version *version;
};
struct block {
    struct change changes[BLOCK];
};
struct keys_view {
    struct keys *keys;
    struct keys_marks marks;
    struct key_row *last;
    const struct version *next; /* next version of `last`; NULL: all were returned */
    uint32_t stamp;
    bool all_read;
};
struct keys {
    struct order all, live, leased;
    /* Change n, first <= n < end, is in block n / BLOCK - block_first. */
    struct block **blocks;
    size_t block_count, block_cap;
    uint64_t block_first, first, end;
    uint64_t revision, compacted, pruned, bytes, hash, tree_bytes;
    uint64_t newest_bytes; /* the part of `bytes` for existing keys and their newest versions */
    uint64_t work;
    uint32_t pruned_sub; /* in the step `pruned`, changes before this index are freed */
    struct order_kind kind, leased_kind;
    struct keys_view *view;   /* NULL: no view is open */
    struct key_row **waiting; /* rows that compaction could not prune because of a view */
    size_t waiting_count, waiting_cap;
    uint32_t stamp; /* one more than the number of views ever opened */
    uint32_t sub;
    uint64_t step_first; /* number of the step's first change */
    bool in_step, paused;
};

static void *grow(void *array, size_t *cap, size_t size)
{
    *cap = *cap ? *cap * 2 : 16;
    return store_must(realloc(array, *cap * size));
}

uint64_t keys_cost(size_t key_len, size_t value_len)
{
    return VERSION_COST + value_len + KEY_COST + key_len;
}

/* -- rows and versions -- */
static struct str row_key(const struct key_row *row)
{
    return str_of(row->key, row->key_len);
}

static struct order_key order_key_of(const void *row)
{
    return (struct order_key){row_key(row), STR_EMPTY};
}

static struct order_key order_key(struct str key)
{
    return (struct order_key){key, STR_EMPTY};
}

static struct key_row *row_find(const struct keys *keys, struct str key)
{
    return order_find(&keys->all, order_key(key));
}

static struct key_row *row_make(struct keys *keys, struct str key)
{
    struct key_row *row = store_must(malloc(sizeof *row + key.len));

    *row = (struct key_row){.key_len = (uint32_t)key.len};
    if (key.len) memcpy(row->key, key.at, key.len);
    if (order_insert(&keys->all, row)) (void)store_must(NULL);
    keys->bytes += KEY_COST + key.len;
    return row;
}

static struct version *version_at(const struct key_row *row, uint64_t revision)
{
    struct version *version = row->newest;

    while (version && version->mod > revision) version = version->older;
    return version;
}

static struct key_value view_of(const struct key_row *row, const struct version *version)
{
    return (struct key_value){row_key(row),     str_of(version->value, version->value_len),
                              version->create,  version->mod,
                              version->version, version->lease,
                              version->sub,     version->expired};
}

/* Adds or removes a version. The hash is the exclusive or over all versions, so their order does
 * not matter. */
static void version_toggle(struct keys *keys, const struct key_row *row,
                           const struct version *version)
{
    uint64_t seed = str_hash(row_key(row), version->mod);

    seed ^= version->version * 0x9e3779b97f4a7c15ull ^ version->lease ^ version->create << 20;
    keys->hash ^= str_hash(str_of(version->value, version->value_len), seed);
}

/* -- leases -- */
static struct order_key leased_key(const uint64_t *lease, struct str key)
{
    return (struct order_key){str_of(lease, sizeof *lease), key};
}

static struct order_key leased_key_of(const void *row)
{
    const struct key_row *of = row;

    return leased_key(&of->newest->lease, row_key(of));
}

static void lease_detach(struct keys *keys, struct key_row *row)
{
    if (row->newest && row->newest->lease) order_remove(&keys->leased, row);
}

static void lease_attach(struct keys *keys, struct key_row *row)
{
    if (row->newest->lease && order_insert(&keys->leased, row)) (void)store_must(NULL);
}

size_t keys_of_lease_count(const struct keys *keys, uint64_t lease)
{
    char id[sizeof lease + 1] = {0}; /* one byte longer than an id: after all keys of the lease */
    struct order_key begin = {str_of(id, sizeof lease), STR_EMPTY},
                     end = {str_of(id, sizeof id), STR_EMPTY};

    memcpy(id, &lease, sizeof lease);
    return order_rank(&keys->leased, end) - order_rank(&keys->leased, begin);
}

static struct key_row *leased_next(struct order_place *place, uint64_t lease)
{
    struct key_row *row = order_next(place);

    return row && row->newest->lease == lease ? row : NULL;
}

size_t keys_of_lease(const struct keys *keys, uint64_t lease, struct str *last, struct str *out,
                     size_t cap)
{
    struct order_place place = order_behind(&keys->leased, leased_key(&lease, *last));
    const struct key_row *row;
    size_t count = 0;

    while (count < cap && (row = leased_next(&place, lease))) out[count++] = *last = row_key(row);
    return count;
}

/* -- changes -- */
static struct change *change_slot(const struct keys *keys, uint64_t number)
{
    return &keys->blocks[number / BLOCK - keys->block_first]->changes[number % BLOCK];
}

static void change_append(struct keys *keys, struct key_row *row, struct version *version)
{
    if (keys->end / BLOCK - keys->block_first == keys->block_count) {
        if (keys->block_count == keys->block_cap)
            keys->blocks = grow(keys->blocks, &keys->block_cap, sizeof(void *));
        keys->blocks[keys->block_count++] = store_must(malloc(sizeof(struct block)));
    }
    *change_slot(keys, keys->end++) = (struct change){row, version};
}

static void change_drop_blocks(struct keys *keys)
{
    size_t gone = (size_t)(keys->first / BLOCK - keys->block_first);

    if (gone > keys->block_count) gone = keys->block_count;
    for (size_t i = 0; i < gone; i++) free(keys->blocks[i]);
    if (gone)
        memmove(keys->blocks, keys->blocks + gone, (keys->block_count - gone) * sizeof(void *));
    keys->block_count -= gone;
    keys->block_first += gone;
}

struct key_changes keys_changes(const struct keys *keys)
{
    return (struct key_changes){keys->first, keys->paused ? keys->step_first : keys->end};
}

uint64_t keys_change_seek(const struct keys *keys, uint64_t revision)
{
    uint64_t low = keys->first, high = keys->end;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (change_slot(keys, middle)->version->mod < revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void keys_change_at(const struct keys *keys, uint64_t number, struct key_value *ret_change,
                    struct key_value *ret_before)
{
    const struct change *change;
    const struct version *before;

    assert(number >= keys->first && number < keys->end);
    change = change_slot(keys, number);
    *ret_change = view_of(change->row, change->version);
    /* Other replicas do not have a version that only this replica's view keeps. */
    before = change->version->older;
    *ret_before = before && !before->counted_out ? view_of(change->row, before)
                                                 : (struct key_value){.key = row_key(change->row)};
}

/* -- life -- */
struct keys *keys_open(void)
{
    struct keys *keys = calloc(1, sizeof *keys);

    if (!keys) return NULL;
    keys->revision = keys->stamp = 1;
    keys->kind = (struct order_kind){order_key_of, &keys->tree_bytes};
    keys->leased_kind = (struct order_kind){leased_key_of, &keys->tree_bytes};
    keys->all.kind = keys->live.kind = &keys->kind;
    keys->leased.kind = &keys->leased_kind;
    return keys;
}

static void versions_free(struct version *version)
{
    while (version) {
        struct version *older = version->older;
        free(version);
        version = older;
    }
}

static void row_free(struct key_row *row)
{
    versions_free(row->newest);
    free(row);
}

void keys_close(struct keys *keys)
{
    struct order_place place;

    if (!keys) return;
    assert(!keys->view);
    place = order_begin(&keys->all);
    for (struct key_row *row; (row = order_next(&place));) row_free(row);
    order_clear(&keys->all);
    order_clear(&keys->live);
    order_clear(&keys->leased);
    for (size_t i = 0; i < keys->block_count; i++) free(keys->blocks[i]);
    free(keys->blocks);
    free(keys->waiting);
    free(keys);
}

uint64_t keys_revision(const struct keys *keys)
{
    return keys->revision;
}
uint64_t keys_compacted(const struct keys *keys)
{
    return keys->compacted;
}
uint64_t keys_count(const struct keys *keys)
{
    return keys->live.count + (keys->paused ? keys->sub : 0);
}
uint64_t keys_hash(const struct keys *keys)
{
    return keys->hash ^ keys->revision * 0xd6e8feb86659fd93ull ^ keys->compacted << 32 ^
           keys->pruned ^ (uint64_t)keys->pruned_sub << 24;
}

uint64_t keys_work(const struct keys *keys)
{
    return keys->work;
}

/* Version number 0: the key does not exist. */
static void newest_changed(struct keys *keys, const struct key_row *row,
                           const struct version *before, const struct version *now)
{
    uint64_t key_cost = KEY_COST + row->key_len;

    if (before && before->version > 0)
        keys->newest_bytes -= key_cost + VERSION_COST + before->value_len;
    if (now->version > 0) keys->newest_bytes += key_cost + VERSION_COST + now->value_len;
}

uint64_t keys_history_bytes(const struct keys *keys)
{
    return keys->bytes - keys->newest_bytes;
}

uint64_t keys_bytes(const struct keys *keys)
{
    return keys->bytes;
}

/* -- writing -- */
void keys_begin(struct keys *keys)
{
    assert(!keys->in_step);
    keys->in_step = true;
    keys->step_first = keys->end;
    keys->sub = 0;
}

void keys_pause(struct keys *keys, bool paused)
{
    assert(keys->in_step);
    keys->paused = paused;
}

/* adds a copy of `as`, with another value, as the newest version */
static void row_add(struct keys *keys, struct key_row *row, const struct version *as,
                    struct str value)
{
    struct version *before = row->newest;
    struct version *version = store_must(malloc(sizeof *version + value.len));
    bool lived = before && before->version > 0, lives = as->version > 0;

    lease_detach(keys, row);
    *version = *as;
    version->older = before;
    version->value_len = (uint32_t)value.len;
    if (value.len) memcpy(version->value, value.at, value.len);
    if (before) before->newer = version;
    row->newest = version;
    lease_attach(keys, row);
    newest_changed(keys, row, before, version);
    if (lived && !lives) order_remove(&keys->live, row);
    if (!lived && lives && order_insert(&keys->live, row)) (void)store_must(NULL);
    change_append(keys, row, version);
    version_toggle(keys, row, version);
    keys->bytes += VERSION_COST + value.len;
}

static void row_push(struct keys *keys, struct key_row *row, struct str value, uint64_t lease,
                     bool deletion)
{
    const struct version *before = row->newest;
    struct version as = {.mod = keys->revision + 1, .lease = lease, .sub = keys->sub++};

    assert(keys->in_step && (!before || before->mod <= keys->revision)); /* once in a step */
    if (!deletion) {
        as.create = before && before->version > 0 ? before->create : as.mod;
        as.version = before ? before->version + 1 : 1;
    }
    row_add(keys, row, &as, value);
    keys->work++;
    if (row->counted_out) keys->bytes += KEY_COST + row->key_len;
    row->counted_out = false;
}

void keys_put(struct keys *keys, struct str key, struct str value, uint64_t lease)
{
    struct key_row *row = row_find(keys, key);

    row_push(keys, row ? row : row_make(keys, key), value, lease, false);
}

bool keys_delete(struct keys *keys, struct str key)
{
    struct key_row *row = row_find(keys, key);

    if (!row || !row->newest->version) return false;
    row_push(keys, row, STR_EMPTY, 0, true);
    return true;
}

size_t keys_delete_of_lease(struct keys *keys, uint64_t lease, bool expired, size_t max)
{
    size_t count = 0;

    for (; count < max; count++) {
        struct order_place place = order_behind(&keys->leased, leased_key(&lease, STR_EMPTY));
        struct key_row *row = leased_next(&place, lease);

        if (!row) break;
        row_push(keys, row, STR_EMPTY, 0, true);
        row->newest->expired = expired;
    }
    return count;
}

uint64_t keys_commit(struct keys *keys)
{
    assert(keys->in_step && !keys->paused);
    keys->in_step = false;
    if (keys->sub > 0) keys->revision++;
    return keys->revision;
}

/* -- reading -- */
bool keys_get(const struct keys *keys, struct str key, uint64_t revision,
              struct key_value *ret_value)
{
    const struct key_row *row = row_find(keys, key);
    const struct version *version;

    if (!revision && keys->paused) revision = keys->revision;
    version = !row ? NULL : (revision ? version_at(row, revision) : row->newest);
    if (!version || !version->version) return false;
    *ret_value = view_of(row, version);
    return true;
}

/* The key must not be before the range's start. */
static bool in_range(struct key_range range, struct str key)
{
    return key_range_is_open(range) ||
           (key_range_is_one(range) ? str_equal(key, range.from) : str_compare(key, range.end) < 0);
}

static struct order_place place_from(const struct order *order, struct str from)
{
    /* order_behind() returns the place after a row with the key `from`: step back. */
    struct order_place place = order_behind(order, order_key(from));

    if (order_find(order, order_key(from))) place.slot--;
    return place;
}

void keys_seek(const struct keys *keys, struct key_range range, uint64_t revision,
               struct keys_cursor *ret_cursor)
{
    if (!revision && keys->paused) revision = keys->revision;
    *ret_cursor = (struct keys_cursor){
        .keys = keys,
        .range = range,
        .revision = revision,
        .rows_left = UINT64_MAX,
        .place = place_from(revision ? &keys->all : &keys->live, range.from),
    };
}

bool keys_next(struct keys_cursor *cursor, struct key_value *ret_value)
{
    for (const struct key_row *row; (row = order_next(&cursor->place));) {
        const struct version *version =
            cursor->revision ? version_at(row, cursor->revision) : row->newest;
        if (!in_range(cursor->range, row_key(row))) return false;
        if (cursor->rows_left == 0) {
            cursor->next = row_key(row);
            return false;
        }
        cursor->rows_left--;
        if (!version || !version->version) continue;
        *ret_value = view_of(row, version);
        return true;
    }
    return false;
}

size_t keys_delete_range(struct keys *keys, struct key_range range, size_t max)
{
    size_t count = 0;

    for (; count < max; count++) {
        struct order_place place = place_from(&keys->live, range.from);
        struct key_row *row = order_next(&place);

        if (!row || !in_range(range, row_key(row))) break;
        row_push(keys, row, STR_EMPTY, 0, true);
    }
    return count;
}

/* Counts the paused step's changes before `key`; the changes are in key order. */
static uint64_t step_rank(const struct keys *keys, struct str key)
{
    uint64_t low = keys->step_first, high = keys->end;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (str_compare(row_key(change_slot(keys, middle)->row), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low - keys->step_first;
}

/* Counts the current keys and undoes later changes: a key's first later change shows its earlier
 * state. */
static uint64_t count_back(const struct keys *keys, struct key_range range, uint64_t revision,
                           uint64_t first)
{
    uint64_t count = keys_count_range(keys, range, 0);

    for (uint64_t number = first; number < keys->end; number++) {
        const struct change *change = change_slot(keys, number);
        const struct version *older = change->version->older;

        if ((older && older->mod > revision) || !in_range(range, row_key(change->row)) ||
            str_compare(row_key(change->row), range.from) < 0)
            continue;
        count += older && older->version > 0;
        count -= change->row->newest->version > 0;
    }
    return count;
}

/* true if undoing the `since` newest changes is shorter than a walk over the range */
static bool counts_back(const struct keys *keys, struct key_range range, uint64_t since)
{
    uint64_t from, end;

    if (keys->paused || key_range_is_one(range)) return false;
    from = order_rank(&keys->all, order_key(range.from));
    end = key_range_is_open(range) ? keys->all.count : order_rank(&keys->all, order_key(range.end));
    return end > from && since < end - from;
}

uint64_t keys_walk_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                        uint64_t found_max, uint64_t max)
{
    struct order_place place = place_from(&keys->all, range.from);
    uint64_t cost = 0, found = 0;

    for (const struct key_row *row; found <= found_max && (row = order_next(&place));) {
        const struct version *version = row->newest;

        if (!in_range(range, row_key(row))) break;
        for (; cost < max && version && version->mod > revision; version = version->older) cost++;
        if (cost >= max) return max;
        cost++;
        found += version && version->version > 0;
    }
    return cost;
}

uint64_t keys_count_cost(const struct keys *keys, struct key_range range, uint64_t revision,
                         uint64_t max)
{
    uint64_t since = keys->end - keys_change_seek(keys, revision + 1);

    if (counts_back(keys, range, since)) return min_u64(since, max);
    return keys_walk_cost(keys, range, revision, UINT64_MAX, max);
}

uint64_t keys_count_range(const struct keys *keys, struct key_range range, uint64_t revision)
{
    struct keys_cursor cursor;
    struct key_value value;
    uint64_t count = 0, first;

    if (!revision && !key_range_is_one(range)) {
        uint64_t from = order_rank(&keys->live, order_key(range.from));
        uint64_t end = key_range_is_open(range) ? keys->live.count
                                                : order_rank(&keys->live, order_key(range.end));
        if (keys->paused) {
            from += step_rank(keys, range.from);
            end += key_range_is_open(range) ? keys->sub : step_rank(keys, range.end);
        }
        return end > from ? end - from : 0;
    }
    first = keys_change_seek(keys, revision + 1);
    if (revision && counts_back(keys, range, keys->end - first))
        return count_back(keys, range, revision, first);
    keys_seek(keys, range, revision, &cursor);
    while (keys_next(&cursor, &value)) count++;
    return count;
}

/* -- compaction -- */
static bool view_needs(const struct keys *keys, const struct key_row *row)
{
    const struct keys_view *view = keys->view;

    return view && !view->all_read &&
           (!view->last || str_compare(row_key(row), row_key(view->last)) >= 0);
}

void keys_compact(struct keys *keys, uint64_t revision)
{
    assert(revision > keys->compacted && revision <= keys->revision);
    keys->compacted = revision;
}

static void count_out(struct keys *keys, const struct key_row *row, struct version *version)
{
    for (; version && !version->counted_out; version = version->older) {
        version->counted_out = keys->stamp;
        version_toggle(keys, row, version);
        keys->bytes -= VERSION_COST + version->value_len;
    }
}

static void row_count_out(struct keys *keys, struct key_row *row)
{
    count_out(keys, row, row->newest);
    row->counted_out = true;
    keys->bytes -= KEY_COST + row->key_len;
}

static void row_wait(struct keys *keys, struct key_row *row)
{
    if (row->waits) return;
    if (keys->waiting_count == keys->waiting_cap)
        keys->waiting = grow(keys->waiting, &keys->waiting_cap, sizeof(void *));
    keys->waiting[keys->waiting_count++] = row;
    row->waits = true;
}

static void row_drop(struct keys *keys, struct key_row *row)
{
    order_remove(&keys->all, row);
    row_free(row);
}

/* Frees the versions before a compacted change. Also frees the change's own version if it deletes
 * the key and no later version exists. */
static void change_prune(struct keys *keys, const struct change *change)
{
    struct key_row *row = change->row;
    bool gone = change->version->version == 0 && row->newest == change->version;

    count_out(keys, row, change->version->older);
    if (gone) row_count_out(keys, row);
    if (row->waits || view_needs(keys, row)) {
        row_wait(keys, row);
    } else if (gone) {
        row_drop(keys, row);
    } else {
        versions_free(change->version->older);
        change->version->older = NULL;
    }
}

bool keys_prune_left(const struct keys *keys)
{
    return keys->first < keys->end &&
           change_slot(keys, keys->first)->version->mod < keys->compacted;
}

static bool older_free(struct version *version, uint32_t *max)
{
    for (; *max > 0 && version->older; --*max) {
        struct version *older = version->older;
        version->older = older->older;
        free(older);
    }
    return !version->older;
}

/* `pruned` is the row's newest pruned version. Compaction may have pruned only a part of the step
 * keys.pruned, up to pruned_sub. */
static bool waiting_finish(struct keys *keys, struct key_row *row, uint32_t *max)
{
    struct version *pruned = row->counted_out ? row->newest : version_at(row, keys->pruned);

    if (!row->counted_out && pruned && pruned->mod == keys->pruned &&
        pruned->sub >= keys->pruned_sub)
        pruned = pruned->older;
    if (pruned && !older_free(pruned, max)) return false;
    row->waits = false;
    if (row->counted_out) row_drop(keys, row);
    return true;
}

/* Frees memory only: `bytes` was reduced when the changes were pruned. */
static void waiting_prune(struct keys *keys, uint32_t max)
{
    if (keys->view) return;
    while (max > 0 && keys->waiting_count > 0) {
        keys->work++;
        if (!waiting_finish(keys, keys->waiting[keys->waiting_count - 1], &max)) return;
        keys->waiting_count--;
        if (max > 0) max--;
    }
    if (keys->waiting_count > 0 || keys->waiting_cap == 0) return;
    free(keys->waiting);
    keys->waiting = NULL;
    keys->waiting_cap = 0;
}

bool keys_prune(struct keys *keys, uint32_t changes_max)
{
    for (uint32_t left = changes_max; left > 0 && keys_prune_left(keys); left--) {
        struct change change = *change_slot(keys, keys->first);
        keys->pruned = change.version->mod;
        keys->pruned_sub = change.version->sub + 1;
        change_prune(keys, &change);
        keys->first++;
        keys->work++;
    }
    change_drop_blocks(keys);
    waiting_prune(keys, changes_max);
    return keys_prune_left(keys);
}

void keys_jump(struct keys *keys, uint64_t by)
{
    assert(!keys->in_step);
    keys->revision += by;
    /* A watch that began before the copy must not resume. */
    keys->compacted = keys->revision;
}

/* -- views -- */
struct keys_view *keys_view_open(struct keys *keys)
{
    struct keys_view *view = calloc(1, sizeof *view);

    assert(!keys->in_step && !keys->view);
    if (!view) return NULL;
    view->keys = keys;
    view->marks =
        (struct keys_marks){keys->revision, keys->compacted, keys->pruned, keys->pruned_sub};
    view->stamp = ++keys->stamp;
    keys->view = view;
    return view;
}

void keys_view_close(struct keys_view *view)
{
    if (view) view->keys->view = NULL;
    free(view);
}

struct keys_marks keys_view_marks(const struct keys_view *view)
{
    return view->marks;
}

static const struct version *view_first(const struct keys_view *view, const struct key_row *row)
{
    const struct version *at = version_at(row, view->marks.revision), *first = NULL;

    for (; at && (!at->counted_out || at->counted_out >= view->stamp); at = at->older) first = at;
    return first;
}

bool keys_view_next(struct keys_view *view, size_t budget, keys_view_fn *each, void *context)
{
    const struct keys *keys = view->keys;
    struct order_place place = view->last ? order_behind(&keys->all, order_key(row_key(view->last)))
                                          : order_begin(&keys->all);
    struct key_value value;
    size_t bytes_read = 0;

    while (!view->all_read && bytes_read <= budget) {
        if (!view->next) {
            struct key_row *row = order_next(&place);
            if (!row) {
                view->all_read = true;
                break;
            }
            view->last = row;
            view->next = view_first(view, row);
        }
        for (; view->next && bytes_read <= budget; view->next = view->next->newer) {
            if (view->next->mod > view->marks.revision) {
                view->next = NULL;
                break;
            }
            assert(view->last);
            value = view_of(view->last, view->next);
            each(context, &value);
            bytes_read += VERSION_COST + value.key.len + value.value.len;
        }
    }
    return !view->all_read;
}

/* -- restore -- */
static bool numbers_fit(const struct key_row *row, const struct key_value *value)
{
    const struct version *before = row ? row->newest : NULL;

    if (value->mod < 2 || (before && before->mod >= value->mod)) return false;
    if (value->version == 0)
        return value->create == 0 && value->lease == 0 && value->value.len == 0;
    return value->create >= 2 && value->create <= value->mod &&
           (value->version > 1) == (value->create < value->mod);
}

enum err keys_restore(struct keys *keys, const struct key_value *value)
{
    struct key_row *row = row_find(keys, value->key);
    const struct version as = {.create = value->create,
                               .mod = value->mod,
                               .version = value->version,
                               .lease = value->lease,
                               .sub = value->sub};

    if (value->key.len == 0 || value->value.len > UINT32_MAX || !numbers_fit(row, value))
        return ERR_CORRUPT;
    row_add(keys, row ? row : row_make(keys, value->key), &as, value->value);
    return ERR_OK;
}

static int by_revision(const void *a, const void *b)
{
    const struct version *left = ((const struct change *)a)->version;
    const struct version *right = ((const struct change *)b)->version;

    if (left->mod != right->mod) return left->mod < right->mod ? -1 : 1;
    return (left->sub > right->sub) - (left->sub < right->sub);
}

static bool is_behind(const struct version *version, struct keys_marks marks)
{
    return version->mod > marks.pruned ||
           (version->mod == marks.pruned && version->sub >= marks.pruned_sub);
}

enum err keys_restore_done(struct keys *keys, struct keys_marks marks)
{
    size_t count = (size_t)keys->end, kept = 0;
    struct change *changes = store_must(malloc((count + 1) * sizeof *changes));
    enum err err = ERR_OK;

    for (size_t i = 0; i < count; i++) {
        changes[kept] = *change_slot(keys, i);
        if (changes[kept].version->mod > marks.revision) err = ERR_CORRUPT;
        if (is_behind(changes[kept].version, marks)) kept++;
    }
    qsort(changes, kept, sizeof *changes, by_revision);
    for (size_t i = 1; i < kept; i++)
        if (by_revision(&changes[i - 1], &changes[i]) == 0) err = ERR_CORRUPT;
    keys->first = keys->end = 0;
    for (size_t i = 0; i < kept; i++) change_append(keys, changes[i].row, changes[i].version);
    free(changes);
    if (marks.compacted > marks.revision || (marks.pruned > 0 && marks.pruned >= marks.compacted) ||
        marks.revision == 0 || (marks.pruned == 0) != (marks.pruned_sub == 0))
        err = ERR_CORRUPT;
    keys->revision = marks.revision;
    keys->compacted = marks.compacted;
    keys->pruned = marks.pruned;
    keys->pruned_sub = marks.pruned_sub;
    return err;
}
