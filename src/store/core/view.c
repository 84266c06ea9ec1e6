/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the store's section of a snapshot (section/section.h); restore.c reads it. The fields of
 * the records are in docs/formats/store.md. */
#include "store/core/internal.h"

const char store_records[] = {RECORD_HEAD,   RECORD_VERSION, RECORD_LEASE, RECORD_GROUP,
                              RECORD_WAITER, RECORD_CLIENT,  RECORD_HASH,  '\0'};
const char store_kinds[] = {[ROW_LEASE] = RECORD_LEASE,
                            [ROW_GROUP] = RECORD_GROUP,
                            [ROW_WAITER] = RECORD_WAITER,
                            [ROW_CLIENT] = RECORD_CLIENT,
                            '\0'};

static void encode_id(struct encoder *out, const struct store_id *id)
{
    encode_bytes(out, id->b, sizeof id->b);
}

static void write_lease(const struct lease *lease, struct encoder *out)
{
    encode_id(out, &lease->id);
    encode_u64(out, lease->ttl_ns);
    encode_u64(out, lease->deadline_ns);
    encode_u32(out, (uint32_t)lease->lost_reason);
    encode_u64(out, lease->lost_token);
    encode_text(out, str_of(lease->owner, lease->owner_len));
    encode_u32(out, lease->claim_count);
    for (uint32_t i = 0; i < lease->claim_count; i++) {
        encode_text(out, str_of(lease->claims[i].key, lease->claims[i].key_len));
        encode_u64(out, lease->claims[i].token);
        encode_u32(out, lease->claims[i].slot);
    }
}

static void write_group(const struct group *group, struct encoder *out)
{
    encode_text(out, str_of(group->key, group->key_len));
    encode_u32(out, group->slot_count);
    encode_u32(out, group->slot_cap);
    encode_u64(out, group->cooldown_ns);
    encode_u64(out, group->revision);
    for (uint32_t i = 0; i < group->slot_cap; i++) {
        const struct group_slot *slot = &group->slots[i];
        encode_u8(out, slot->lease ? SLOT_LEASED : slot->rest_until_ns ? SLOT_RESTING : SLOT_FREE);
        if (slot->lease) encode_id(out, &slot->lease->id);
        if (slot->rest_until_ns) encode_u64(out, slot->rest_until_ns);
    }
}

static void write_waiter(const struct slot_waiter *waiter, struct encoder *out)
{
    encode_text(out, str_of(waiter->group->key, waiter->group->key_len));
    encode_id(out, &waiter->lease->id);
    encode_id(out, &waiter->client);
    encode_u64(out, waiter->sequence);
    encode_u64(out, waiter->place);
    encode_u32(out, waiter->prefer_slot);
    encode_text(out, str_of(waiter->value, waiter->value_len));
}

static void write_result(const struct store_result *result, struct encoder *out)
{
    encode_u32(out, (uint32_t)result->code);
    encode_u32(out, (uint32_t)result->reason);
    encode_u64(out, result->revision);
    encode_u64(out, result->token);
    encode_u64(out, result->create_revision);
    encode_u64(out, (uint64_t)result->granted_ttl_ms);
    encode_u64(out, (uint64_t)result->hint_ms);
    encode_u32(out, result->slot);
    encode_u32(out, result->live);
    encode_u32(out, result->slot_count);
    encode_u32(out, result->waiting);
    encode_id(out, &result->lease);
    encode_text(out, str_from(result->owner));
}

static void write_client(const struct store_client *client, struct encoder *out)
{
    encode_id(out, &client->id);
    encode_u64(out, client->seen_ns);
    encode_u64(out, client->use);
    encode_u64(out, client->floor);
    encode_u32(out, client->count);
    for (uint32_t i = 0; i < client->count; i++) {
        encode_u64(out, client->answers[i].sequence);
        encode_u32(out, client->answers[i].fingerprint);
        write_result(&client->answers[i].result, out);
    }
}

void store_row_write(const struct section_row *row, struct encoder *out)
{
    switch ((enum store_row)row->kind) {
    case ROW_LEASE: write_lease(CONTAINER_OF(row, const struct lease, row), out); return;
    case ROW_GROUP: write_group(CONTAINER_OF(row, const struct group, row), out); return;
    case ROW_WAITER: write_waiter(CONTAINER_OF(row, const struct slot_waiter, row), out); return;
    case ROW_CLIENT: write_client(CONTAINER_OF(row, const struct store_client, row), out); return;
    }
}

uint64_t store_hash(const struct store *store)
{
    uint64_t identity = str_hash(str_of(store->identity.b, sizeof store->identity.b), 7);

    return store->hash ^ keys_hash(store->keys) ^ identity ^
           store->clock_ns * 0xff51afd7ed558ccdull;
}

static void write_header(const struct store *store, struct keys_marks marks, struct encoder *out)
{
    size_t start = section_record_begin(out, RECORD_HEAD);

    encode_u32(out, STORE_FORMAT);
    encode_u64(out, store->clock_ns);
    encode_id(out, &store->identity);
    encode_u64(out, marks.revision);
    encode_u64(out, marks.compacted);
    encode_u64(out, marks.pruned);
    encode_u32(out, marks.pruned_sub);
    encode_u64(out, store->uses);
    section_record_end(out, start);
}

static void write_version(void *context, const struct key_value *version)
{
    struct encoder *out = context;
    size_t start = section_record_begin(out, RECORD_VERSION);

    encode_text(out, version->key);
    encode_u64(out, version->create);
    encode_u64(out, version->mod);
    encode_u64(out, version->version);
    encode_u64(out, version->lease);
    encode_u32(out, version->sub);
    encode_text(out, version->value);
    section_record_end(out, start);
}

static enum err versions_next(void *keys, size_t budget, struct buf *into, bool *ret_done)
{
    struct encoder out = {into, ERR_OK};

    *ret_done = !keys_view_next(keys, budget, write_version, &out);
    return out.err;
}

static void versions_end(void *keys)
{
    keys_view_close(keys);
}

enum err store_view_open(struct store *store, void **ret_view)
{
    struct section_view *view;
    struct keys_view *keys;
    enum err err = section_view_open(&store->section, &view);

    if (err) return err;
    keys = keys_view_open(store->keys);
    if (!keys) return section_view_ready(view, ERR_NOMEM, ret_view);
    write_header(store, keys_view_marks(keys), section_view_encoder(view));
    section_view_add(view, (struct section_part){versions_next, versions_end, keys});
    section_view_rows(view);
    section_view_hash(view, RECORD_HASH, store_hash(store));
    return section_view_ready(view, ERR_OK, ret_view);
}
