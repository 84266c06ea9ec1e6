/* SPDX-License-Identifier: Apache-2.0 */
/* A store from the bytes of a view (view.c), in any portions. Every number is checked against what
 * it must fit: bytes from outside build nothing that a command could not have built. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/recovery.h"
#include "store/core/internal.h"

enum { FORMAT = 2, RECORD_HEAD = 5, RECORD_MAX = 4 << 20 };
static const char stages[] = "HVLGWCE";

struct store_restore {
    struct store *store;
    struct buf rest; /* the record that is not whole yet */
    struct keys_marks marks;
    uint64_t at, hash; /* at: bytes taken so far */
    char stage;
    bool keys_done, ended;
};
struct cursor {
    struct str left;
    bool good;
};

/* -- reading a record -- */
static uint32_t take_u32(struct cursor *at)
{
    uint32_t value = 0;

    at->good = at->good && at->left.len >= 4;
    if (!at->good) return 0;
    value = load_le32(at->left.at);
    at->left = str_tail(at->left, 4);
    return value;
}

static uint64_t take_u64(struct cursor *at)
{
    uint64_t value = 0;

    at->good = at->good && at->left.len >= 8;
    if (!at->good) return 0;
    value = load_le64(at->left.at);
    at->left = str_tail(at->left, 8);
    return value;
}

static struct str take_text(struct cursor *at, size_t max)
{
    uint32_t len = take_u32(at);
    struct str text;

    at->good = at->good && len <= max && at->left.len >= len;
    if (!at->good) return STR_EMPTY;
    text = str_of(at->left.at, len);
    at->left = str_tail(at->left, len);
    return text;
}

static struct store_id take_id(struct cursor *at)
{
    struct store_id id = {{0}};

    at->good = at->good && at->left.len >= sizeof id.b;
    if (!at->good) return id;
    memcpy(id.b, at->left.at, sizeof id.b);
    at->left = str_tail(at->left, sizeof id.b);
    return id;
}

static bool whole(const struct cursor *at)
{
    return at->good && at->left.len == 0;
}

/* -- records; ERR_OK, ERR_CORRUPT, ERR_VERSION -- */
static enum err header(struct store_restore *restore, struct cursor *at)
{
    struct store *store = restore->store;

    if (take_u32(at) != FORMAT) return at->good ? ERR_VERSION : ERR_CORRUPT;
    store->clock_ns = take_u64(at);
    store->identity = take_id(at);
    restore->marks.revision = take_u64(at);
    restore->marks.compacted = take_u64(at);
    restore->marks.pruned = take_u64(at);
    restore->marks.pruned_sub = take_u32(at);
    store->uses = take_u64(at);
    return whole(at) ? ERR_OK : ERR_CORRUPT;
}

static enum err version(struct store_restore *restore, struct cursor *at)
{
    struct key_value value = {.key = take_text(at, (size_t)STORE_KEY_MAX * 4)};

    value.create = take_u64(at);
    value.mod = take_u64(at);
    value.version = take_u64(at);
    value.lease = take_u64(at);
    value.sub = take_u32(at);
    value.value = take_text(at, RECORD_MAX);
    return whole(at) ? keys_restore(restore->store->keys, &value) : ERR_CORRUPT;
}

/* A claim is on a live key that names this lease. */
static bool claim_fits(const struct store *store, const struct lease *lease, struct str key,
                       uint64_t token)
{
    struct key_value value;

    return keys_get(store->keys, key, 0, &value) && value.lease == lease->number &&
           token <= value.mod && token > 0 && !lease_claim_of(lease, key);
}

static enum err lease(struct store_restore *restore, struct cursor *at)
{
    struct store *store = restore->store;
    struct store_id id = take_id(at);
    uint64_t ttl = take_u64(at), deadline = take_u64(at);
    uint32_t lost = take_u32(at), claims;
    uint64_t lost_token = take_u64(at);
    struct str owner = take_text(at, STORE_OWNER_MAX);
    struct lease *made;

    claims = take_u32(at);
    if (!at->good || claims > STORE_KEYS_PER_LEASE_MAX) return ERR_CORRUPT;
    made = lease_restore(store, &id, owner, ttl, deadline, (int)lost, lost_token);
    if (!made) return ERR_CORRUPT;
    for (uint32_t i = 0; i < claims; i++) {
        struct str key = take_text(at, STORE_KEY_MAX);
        uint64_t token = take_u64(at);
        uint32_t slot = take_u32(at);
        if (!at->good || (slot != STORE_NO_SLOT && slot >= STORE_SLOTS_MAX) ||
            !claim_fits(store, made, key, token))
            return ERR_CORRUPT;
        (void)lease_claim_add(store, made, key, token, NULL, slot);
    }
    if (lease_is_plain(made) ? claims != 0
                             : keys_of_lease_count(store->keys, made->number) != claims)
        return ERR_CORRUPT;
    return whole(at) ? ERR_OK : ERR_CORRUPT;
}

static enum err slot_of(struct store_restore *restore, struct cursor *at, struct group *group,
                        uint32_t slot)
{
    struct store *store = restore->store;
    char kind = at->left.len > 0 ? at->left.at[0] : '\0', key[STORE_KEY_MAX + 1];

    at->left = str_tail(at->left, 1);
    if (kind == 'f') return ERR_OK;
    if (kind == 'r') {
        uint64_t until = take_u64(at);
        if (!at->good || until == 0) return ERR_CORRUPT;
        group_restore_rest(store, group, slot, until);
        return ERR_OK;
    }
    struct store_id id = take_id(at);
    struct lease *holder = kind == 'l' && at->good ? lease_find(store, &id) : NULL;
    int len = snprintf(key, sizeof key, "%.*s/slot-%04u", (int)group->key_len, group->key,
                       (unsigned)slot);
    struct claim *claim =
        holder && len < (int)sizeof key ? lease_claim_of(holder, str_of(key, (size_t)len)) : NULL;
    if (!claim || claim->slot != slot || claim->group) return ERR_CORRUPT;
    claim->group = group;
    group->slots[slot].lease = holder;
    group->live++;
    return ERR_OK;
}

static enum err group(struct store_restore *restore, struct cursor *at)
{
    struct str key = take_text(at, STORE_KEY_MAX - 16);
    uint32_t slot_count = take_u32(at), slot_cap = take_u32(at);
    uint64_t cooldown = take_u64(at), revision = take_u64(at);
    struct group *made;
    enum err err = ERR_OK;

    if (!at->good || key.len == 0 || slot_count == 0 || slot_count > STORE_SLOTS_MAX ||
        slot_cap < slot_count || slot_cap > STORE_SLOTS_MAX || cooldown > 60ull * 1000000000)
        return ERR_CORRUPT;
    made = group_restore(restore->store, key, slot_count, slot_cap, cooldown, revision);
    if (!made) return ERR_CORRUPT;
    for (uint32_t i = 0; !err && i < slot_cap; i++) err = slot_of(restore, at, made, i);
    return err ? err : (whole(at) ? ERR_OK : ERR_CORRUPT);
}

static enum err waiter(struct store_restore *restore, struct cursor *at)
{
    struct store *store = restore->store;
    struct group *of = group_find(store, take_text(at, STORE_KEY_MAX));
    struct store_id id = take_id(at);
    struct store_command as = {.client = take_id(at)};
    struct lease *holder;
    uint64_t place;

    as.sequence = take_u64(at);
    place = take_u64(at);
    as.prefer_slot = take_u32(at);
    as.value = take_text(at, STORE_VALUE_MAX);
    holder = lease_find(store, &id);
    if (!whole(at) || !of || of->waiter_count == STORE_WAITERS_MAX || !holder || holder->waiter ||
        holder->claim_count > 0 || place == 0 || place > store->uses)
        return ERR_CORRUPT;
    group_restore_waiter(store, of, holder, &as, place);
    return ERR_OK;
}

static bool take_result(struct cursor *at, struct store_result *ret_result)
{
    struct str owner;

    *ret_result = (struct store_result){.code = (int)take_u32(at)};
    ret_result->reason = (int)take_u32(at);
    ret_result->revision = take_u64(at);
    ret_result->token = take_u64(at);
    ret_result->create_revision = take_u64(at);
    ret_result->granted_ttl_ms = (int64_t)take_u64(at);
    ret_result->hint_ms = (int64_t)take_u64(at);
    ret_result->slot = take_u32(at);
    ret_result->live = take_u32(at);
    ret_result->slot_count = take_u32(at);
    ret_result->waiting = take_u32(at) != 0;
    ret_result->lease = take_id(at);
    owner = take_text(at, STORE_OWNER_MAX);
    if (at->good && owner.len > 0) memcpy(ret_result->owner, owner.at, owner.len);
    return at->good;
}

static enum err client(struct store_restore *restore, struct cursor *at)
{
    struct store *store = restore->store;
    struct store_id id = take_id(at);
    uint64_t seen = take_u64(at), use = take_u64(at), floor = take_u64(at);
    uint32_t answers = take_u32(at);
    struct client *known;

    if (!at->good || answers > STORE_RESULTS_MAX || seen > store->clock_ns) return ERR_CORRUPT;
    known = request_restore_client(store, &id, seen, use, floor);
    if (!known) return ERR_CORRUPT;
    for (uint32_t i = 0; i < answers; i++) {
        uint64_t sequence = take_u64(at);
        uint32_t fingerprint = take_u32(at);
        struct store_result result;
        if (!take_result(at, &result)) return ERR_CORRUPT;
        request_restore_answer(store, known, sequence, fingerprint, &result);
    }
    return whole(at) ? ERR_OK : ERR_CORRUPT;
}

/* Keys must be whole before a lease is compared with them. */
static enum err finish_keys(struct store_restore *restore)
{
    if (restore->keys_done) return ERR_OK;
    restore->keys_done = true;
    return keys_restore_done(restore->store->keys, restore->marks);
}

static enum err take_record(struct store_restore *restore, char kind, struct str content)
{
    struct cursor at = {content, true};
    const char *now = strchr(stages, restore->stage);
    const char *then = kind ? strchr(stages, kind) : NULL;
    enum err err = ERR_OK;

    if (!then || then < now || restore->ended || (kind == 'H') != (restore->at == 0))
        return ERR_CORRUPT;
    if (*then > 0 && then > strchr(stages, 'V')) err = finish_keys(restore);
    if (err) return err;
    restore->stage = *then;
    switch (kind) {
    case 'H': return header(restore, &at);
    case 'V': return version(restore, &at);
    case 'L': return lease(restore, &at);
    case 'G': return group(restore, &at);
    case 'W': return waiter(restore, &at);
    case 'C': return client(restore, &at);
    default:
        restore->hash = take_u64(&at);
        restore->ended = true;
        return whole(&at) ? ERR_OK : ERR_CORRUPT;
    }
}

struct store_restore *store_restore_open(const struct store_options *options)
{
    struct store_restore *restore = calloc(1, sizeof *restore);

    if (!restore || !(restore->store = store_open(options))) {
        free(restore);
        return NULL;
    }
    restore->stage = 'H';
    buf_init(&restore->rest, RECORD_MAX + RECORD_HEAD);
    return restore;
}

void store_restore_close(struct store_restore *restore)
{
    if (!restore) return;
    store_close(restore->store);
    buf_deinit(&restore->rest);
    free(restore);
}

static enum err say(const struct store_restore *restore, enum err err, struct note *note)
{
    if (err)
        note_set(note, "store section: record '%c' at byte %llu: %s", restore->stage,
                 (unsigned long long)restore->at, err_text(err));
    return err;
}

enum err store_restore_feed(struct store_restore *restore, struct str bytes, struct note *note)
{
    struct str left = bytes;
    enum err err = ERR_OK;

    while (!err && left.len > 0) {
        struct str have = buf_peek(&restore->rest);
        size_t want =
            have.len < RECORD_HEAD ? RECORD_HEAD : RECORD_HEAD + (size_t)load_le32(have.at + 1);
        size_t part;
        if (want > RECORD_MAX + RECORD_HEAD) return say(restore, ERR_CORRUPT, note);
        part = min_size(left.len, want - have.len);
        err = buf_append(&restore->rest, str_of(left.at, part));
        left = str_tail(left, part);
        have = buf_peek(&restore->rest);
        if (err || have.len < RECORD_HEAD ||
            have.len < RECORD_HEAD + (size_t)load_le32(have.at + 1))
            continue;
        err = take_record(restore, have.at[0], str_tail(have, RECORD_HEAD));
        if (err) return say(restore, err, note);
        restore->at += have.len;
        buf_clear(&restore->rest);
    }
    return err ? say(restore, err, note) : ERR_OK;
}

static int by_use(const void *a, const void *b)
{
    uint64_t left = (*(struct client *const *)a)->use, right = (*(struct client *const *)b)->use;

    return (left > right) - (left < right);
}

/* Clients come in any order; who was silent for longest must be first again. */
static void sort_clients(struct store *store)
{
    size_t count = map_count(&store->clients), cursor = 0, at = 0;
    struct client **all = store_must(malloc((count + 1) * sizeof(void *)));
    struct map_entry *entry;

    while ((entry = map_next(&store->clients, &cursor))) all[at++] = entry->value;
    qsort(all, count, sizeof(void *), by_use);
    for (size_t i = 0; i < count; i++) {
        list_remove(&all[i]->by_use);
        list_append(&store->clients_by_use, &all[i]->by_use);
    }
    free(all);
}

static int by_place(const void *a, const void *b)
{
    uint64_t left = (*(struct waiter *const *)a)->place,
             right = (*(struct waiter *const *)b)->place;

    return (left > right) - (left < right);
}

/* Those that were put aside come after the others; no two have one place. */
static enum err sort_waiters(struct store *store)
{
    struct waiter **all = store_must(malloc((store->waiters + 1) * sizeof(void *)));
    enum err err = ERR_OK;
    size_t count = 0;

    LIST_EACH(&store->waiters_told, node)
    all[count++] = CONTAINER_OF(node, struct waiter, told.link);
    qsort(all, count, sizeof(void *), by_place);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && all[i]->place == all[i - 1]->place) err = ERR_CORRUPT;
        list_remove(&all[i]->in_group);
        list_append(&all[i]->group->waiters, &all[i]->in_group);
    }
    free(all);
    return err;
}

enum err store_restore_done(struct store_restore *restore, struct store **ret_store,
                            struct note *note)
{
    enum err err = restore->ended && restore->rest.len == 0 ? finish_keys(restore) : ERR_CORRUPT;

    if (!err && store_hash(restore->store) != restore->hash) err = ERR_CORRUPT;
    if (!err) err = sort_waiters(restore->store);
    if (err) return say(restore, err, note);
    sort_clients(restore->store);
    *ret_store = restore->store;
    restore->store = NULL;
    return ERR_OK;
}

void store_become_other(struct store *store, uint64_t clock_ns, const struct store_id *identity,
                        uint64_t floor)
{
    uint64_t revision = keys_revision(store->keys);
    struct map_entry *entry;
    size_t cursor = 0;

    assert(!store->part.on);
    store->identity = *identity;
    store->clock_ns = max_u64(store->clock_ns, clock_ns);
    keys_jump(store->keys, recovery_above(revision, floor) - revision);
    while ((entry = map_next(&store->leases, &cursor))) {
        struct lease *lease = entry->value;
        if (lease->deadline_ns > store->clock_ns && !lease->lost_reason) lease_extend(store, lease);
    }
}
