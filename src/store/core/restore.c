/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a store from the bytes of a view (view.c), in portions of any size. Every number is
 * checked: a snapshot must not produce a state that no commands could produce. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/recovery.h"
#include "store/core/internal.h"

struct store_restore {
    struct store *store;
    struct section_reader reader;
    struct keys_marks marks;
    bool keys_done;
};

static struct store_id decode_id(struct decoder *in)
{
    struct store_id id = {{0}};

    decode_copy(in, id.b, sizeof id.b);
    return id;
}

/* -- reading records; each returns ERR_OK, ERR_CORRUPT or ERR_VERSION -- */
static enum err read_header(struct store_restore *restore, struct decoder *in)
{
    struct store *store = restore->store;

    if (decode_u32(in) != STORE_FORMAT) return in->good ? ERR_VERSION : ERR_CORRUPT;
    store->clock_ns = decode_u64(in);
    store->identity = decode_id(in);
    restore->marks.revision = decode_u64(in);
    restore->marks.compacted = decode_u64(in);
    restore->marks.pruned = decode_u64(in);
    restore->marks.pruned_sub = decode_u32(in);
    store->uses = decode_u64(in);
    return decode_done(in) ? ERR_OK : ERR_CORRUPT;
}

static enum err read_version(struct store_restore *restore, struct decoder *in)
{
    struct key_value value = {.key = decode_text(in, (size_t)STORE_KEY_MAX * 4)};

    value.create = decode_u64(in);
    value.mod = decode_u64(in);
    value.version = decode_u64(in);
    value.lease = decode_u64(in);
    value.sub = decode_u32(in);
    value.value = decode_text(in, SECTION_RECORD_MAX);
    return decode_done(in) ? keys_restore(restore->store->keys, &value) : ERR_CORRUPT;
}

static bool claim_fits(const struct store *store, const struct lease *lease, struct str key,
                       uint64_t token)
{
    struct key_value value;

    return keys_get(store->keys, key, 0, &value) && value.lease == lease->number &&
           token <= value.mod && token > 0 && !lease_claim_of(lease, key);
}

static enum err read_lease(struct store_restore *restore, struct decoder *in)
{
    struct store *store = restore->store;
    struct store_id id = decode_id(in);
    uint64_t ttl = decode_u64(in), deadline = decode_u64(in);
    uint32_t lost = decode_u32(in), claims;
    uint64_t lost_token = decode_u64(in);
    struct str owner = decode_text(in, STORE_OWNER_MAX);
    struct lease *made;

    claims = decode_u32(in);
    if (!in->good || claims > STORE_KEYS_PER_LEASE_MAX) return ERR_CORRUPT;
    made = lease_restore(store, &id, owner, ttl, deadline, (int)lost, lost_token);
    if (!made) return ERR_CORRUPT;
    for (uint32_t i = 0; i < claims; i++) {
        struct str key = decode_text(in, STORE_KEY_MAX);
        uint64_t token = decode_u64(in);
        uint32_t slot = decode_u32(in);
        if (!in->good || (slot != STORE_NO_SLOT && slot >= STORE_SLOTS_MAX) ||
            !claim_fits(store, made, key, token))
            return ERR_CORRUPT;
        (void)lease_claim_add(store, made, key, token, NULL, slot);
    }
    if (lease_is_plain(made) ? claims != 0
                             : keys_of_lease_count(store->keys, made->number) != claims)
        return ERR_CORRUPT;
    return decode_done(in) ? ERR_OK : ERR_CORRUPT;
}

static enum err read_slot(struct store_restore *restore, struct decoder *in, struct group *group,
                          uint32_t slot)
{
    struct store *store = restore->store;
    enum slot_state state = (enum slot_state)decode_u8(in);
    char key[STORE_KEY_MAX + 1];

    if (state == SLOT_FREE) return ERR_OK;
    if (state == SLOT_RESTING) {
        uint64_t until = decode_u64(in);
        if (!in->good || until == 0) return ERR_CORRUPT;
        group_rest_begin(store, group, slot, until);
        return ERR_OK;
    }
    struct store_id id = decode_id(in);
    struct lease *holder = state == SLOT_LEASED && in->good ? lease_find(store, &id) : NULL;
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

static enum err read_group(struct store_restore *restore, struct decoder *in)
{
    struct str key = decode_text(in, STORE_KEY_MAX - 16);
    uint32_t slot_count = decode_u32(in), slot_cap = decode_u32(in);
    uint64_t cooldown = decode_u64(in), revision = decode_u64(in);
    struct group *made;
    enum err err = ERR_OK;

    if (!in->good || key.len == 0 || slot_count == 0 || slot_count > STORE_SLOTS_MAX ||
        slot_cap < slot_count || slot_cap > STORE_SLOTS_MAX || cooldown > 60ull * 1000000000)
        return ERR_CORRUPT;
    if (group_find(restore->store, key)) return ERR_CORRUPT;
    made = group_make(restore->store, key, slot_count, slot_cap, cooldown, revision);
    for (uint32_t i = 0; !err && i < slot_cap; i++) err = read_slot(restore, in, made, i);
    return err ? err : (decode_done(in) ? ERR_OK : ERR_CORRUPT);
}

static enum err read_waiter(struct store_restore *restore, struct decoder *in)
{
    struct store *store = restore->store;
    struct group *of = group_find(store, decode_text(in, STORE_KEY_MAX));
    struct store_id id = decode_id(in);
    struct store_command as = {.client = decode_id(in)};
    struct lease *holder;
    uint64_t place;

    as.sequence = decode_u64(in);
    place = decode_u64(in);
    as.prefer_slot = decode_u32(in);
    as.value = decode_text(in, STORE_VALUE_MAX);
    holder = lease_find(store, &id);
    if (!decode_done(in) || !of || of->waiter_count == STORE_WAITERS_MAX || !holder ||
        holder->waiter || holder->claim_count > 0 || place == 0 || place > store->uses)
        return ERR_CORRUPT;
    group_waiter_add(store, of, holder, &as, place);
    return ERR_OK;
}

static bool decode_result(struct decoder *in, struct store_result *ret_result)
{
    struct str owner;

    *ret_result = (struct store_result){.code = (int)decode_u32(in)};
    ret_result->reason = (int)decode_u32(in);
    ret_result->revision = decode_u64(in);
    ret_result->token = decode_u64(in);
    ret_result->create_revision = decode_u64(in);
    ret_result->granted_ttl_ms = (int64_t)decode_u64(in);
    ret_result->hint_ms = (int64_t)decode_u64(in);
    ret_result->slot = decode_u32(in);
    ret_result->live = decode_u32(in);
    ret_result->slot_count = decode_u32(in);
    ret_result->waiting = decode_u32(in) != 0;
    ret_result->lease = decode_id(in);
    owner = decode_text(in, STORE_OWNER_MAX);
    if (in->good && owner.len > 0) memcpy(ret_result->owner, owner.at, owner.len);
    return in->good;
}

static enum err read_client(struct store_restore *restore, struct decoder *in)
{
    struct store *store = restore->store;
    struct store_id id = decode_id(in);
    uint64_t seen = decode_u64(in), use = decode_u64(in), floor = decode_u64(in);
    uint32_t answers = decode_u32(in);
    struct store_client *known;

    if (!in->good || answers > STORE_RESULTS_MAX || seen > store->clock_ns) return ERR_CORRUPT;
    known = request_client_make(store, &id, seen, use, floor);
    if (!known) return ERR_CORRUPT;
    for (uint32_t i = 0; i < answers; i++) {
        uint64_t sequence = decode_u64(in);
        uint32_t fingerprint = decode_u32(in);
        struct store_result result;
        if (!decode_result(in, &result)) return ERR_CORRUPT;
        request_answer_add(store, known, sequence, fingerprint, &result);
    }
    return decode_done(in) ? ERR_OK : ERR_CORRUPT;
}

/* All keys must exist before a lease is checked against them. */
static enum err finish_keys(struct store_restore *restore)
{
    if (restore->keys_done) return ERR_OK;
    restore->keys_done = true;
    return keys_restore_done(restore->store->keys, restore->marks);
}

static enum err take_record(void *owner, char kind, struct decoder *in)
{
    struct store_restore *restore = owner;
    enum err err = kind == RECORD_HEAD || kind == RECORD_VERSION ? ERR_OK : finish_keys(restore);

    if (err) return err;
    switch ((enum store_record)kind) {
    case RECORD_HEAD: return read_header(restore, in);
    case RECORD_VERSION: return read_version(restore, in);
    case RECORD_LEASE: return read_lease(restore, in);
    case RECORD_GROUP: return read_group(restore, in);
    case RECORD_WAITER: return read_waiter(restore, in);
    case RECORD_CLIENT: return read_client(restore, in);
    case RECORD_HASH: break; /* the section reader checks the hash */
    }
    return ERR_CORRUPT;
}

struct store_restore *store_restore_open(const struct store_options *options)
{
    struct store_restore *restore = calloc(1, sizeof *restore);

    if (!restore || !(restore->store = store_open(options))) {
        free(restore);
        return NULL;
    }
    section_read_begin(&restore->reader, "store", store_records, take_record, restore);
    return restore;
}

void store_restore_close(struct store_restore *restore)
{
    if (!restore) return;
    store_close(restore->store);
    section_read_close(&restore->reader);
    free(restore);
}

enum err store_restore_feed(struct store_restore *restore, struct str bytes, struct note *note)
{
    return section_read(&restore->reader, bytes, note);
}

static int by_use(const void *a, const void *b)
{
    uint64_t left = (*(struct store_client *const *)a)->use,
             right = (*(struct store_client *const *)b)->use;

    return (left > right) - (left < right);
}

/* A snapshot has clients in any order; the store needs the least recently used first. */
static void sort_clients(struct store *store)
{
    size_t count = map_count(&store->clients), cursor = 0, at = 0;
    struct store_client **all = store_must(malloc((count + 1) * sizeof(void *)));
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
    uint64_t left = (*(struct slot_waiter *const *)a)->place,
             right = (*(struct slot_waiter *const *)b)->place;

    return (left > right) - (left < right);
}

/* Two waiters of a queue must not have the same place. */
static enum err sort_waiters(struct store *store)
{
    struct slot_waiter **all = store_must(malloc((store->waiters + 1) * sizeof(void *)));
    enum err err = ERR_OK;
    size_t count = 0;

    LIST_EACH(&store->section.rows[ROW_WAITER], node)
    all[count++] = CONTAINER_OF(node, struct slot_waiter, row.link);
    qsort(all, count, sizeof(void *), by_place);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && all[i]->place == all[i - 1]->place) err = ERR_CORRUPT;
        list_remove(&all[i]->in_group);
        list_append(&all[i]->group->waiters, &all[i]->in_group);
    }
    free(all);
    return err;
}

static enum err restore_whole(struct store_restore *restore)
{
    enum err err = section_read_end(&restore->reader);

    if (!err) err = finish_keys(restore);
    if (!err && store_hash(restore->store) != restore->reader.hash) err = ERR_CORRUPT;
    if (!err) err = sort_waiters(restore->store);
    if (!err) sort_clients(restore->store);
    return err;
}

enum err store_restore_done(struct store_restore *restore, struct store **ret_store,
                            struct note *note)
{
    enum err err = section_read_any(&restore->reader) ? restore_whole(restore) : ERR_OK;

    if (err) return section_read_failed(&restore->reader, err, note);
    *ret_store = restore->store;
    restore->store = NULL;
    return ERR_OK;
}

void store_replace_identity(struct store *store, uint64_t clock_ns, const struct store_id *identity,
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
