/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/change.h"

#include "base/bytes.h"
#include "model/ids.h"
#include "wire/field.h"
#include "wire/pack.h"

enum {
    F_ID = 1,
    F_REVISION = 2,
    F_NUMBER = 3,
    F_BYTES = 4,
    F_STATE = 5,
    F_OFFER = 6,
    F_BINDING = 7,
    F_HOST = 8,
    F_ERROR = 9,
    F_BLOB = 10,
    F_GRACE = 11,
    F_SHARD = 12,
    F_EPOCH = 13,
    F_SEQUENCE = 14,
    F_IDENTITY = 15,
    F_OPERATION = 16,
    F_ITEM = 17,
    F_FORGOTTEN = 18,
    F_OPERATIONS = 20, /* and three more */
    LENGTH_BYTES = 4,  /* before each change, little-endian */
    TEXT_BYTES_MAX = 1 << 20,
};
#define NUMBER_MAX (UINT64_MAX >> 2)

enum err change_write(const struct change *change, struct buf *into)
{
    struct pack pack = {into, ERR_OK};
    size_t before = into->len, len;

    pack.err = buf_append(into, str_of("\0\0\0\0", LENGTH_BYTES));
    if (!pack.err) pack.err = buf_append_byte(into, (char)change->kind);
    pack_text(&pack, F_ID, change->id);
    pack_u64(&pack, F_REVISION, change->revision);
    pack_u64(&pack, F_NUMBER, change->number);
    pack_text(&pack, F_BYTES, change->bytes);
    pack_u64(&pack, F_STATE, change->state);
    pack_u64(&pack, F_OFFER, change->offer);
    pack_u64(&pack, F_BINDING, change->binding);
    pack_text(&pack, F_HOST, change->host);
    pack_text(&pack, F_ERROR, change->error);
    pack_text(&pack, F_BLOB, change->blob);
    pack_u64(&pack, F_GRACE, change->grace_ms);
    pack_u64(&pack, F_SHARD, change->shard);
    pack_i64(&pack, F_EPOCH, change->epoch);
    pack_i64(&pack, F_SEQUENCE, change->sequence);
    pack_u64(&pack, F_IDENTITY, change->identity);
    pack_u64(&pack, F_OPERATION, change->operation);
    pack_u64(&pack, F_ITEM, change->item);
    pack_u64(&pack, F_FORGOTTEN, change->forgotten);
    for (uint32_t i = 0; i < OPERATION_KINDS; i++)
        pack_u64(&pack, F_OPERATIONS + i, change->operations[i]);
    if (pack.err) {
        into->len = before;
        return pack.err;
    }
    len = into->len - before - LENGTH_BYTES;
    store_le32(into->data + before, (uint32_t)len);
    return ERR_OK;
}

static struct str *text_of(struct change *change, uint32_t number)
{
    switch (number) {
    case F_ID: return &change->id;
    case F_BYTES: return &change->bytes;
    case F_HOST: return &change->host;
    case F_ERROR: return &change->error;
    case F_BLOB: return &change->blob;
    default: return NULL;
    }
}

static uint64_t *number_of(struct change *change, uint32_t number)
{
    switch (number) {
    case F_REVISION: return &change->revision;
    case F_NUMBER: return &change->number;
    case F_OFFER: return &change->offer;
    case F_BINDING: return &change->binding;
    case F_GRACE: return &change->grace_ms;
    case F_SHARD: return &change->shard;
    case F_IDENTITY: return &change->identity;
    case F_OPERATION: return &change->operation;
    case F_ITEM: return &change->item;
    case F_FORGOTTEN: return &change->forgotten;
    default:
        return number >= F_OPERATIONS && number < F_OPERATIONS + OPERATION_KINDS
                   ? &change->operations[number - F_OPERATIONS]
                   : NULL;
    }
}

static bool take_number(struct change *change, const struct field *field)
{
    uint64_t *number = number_of(change, field->number);

    if (number) {
        *number = field->value;
        return true;
    }
    switch (field->number) {
    case F_STATE:
        change->state = (enum machine_state)field->value;
        return field->value < MACHINE_STATE_COUNT;
    case F_EPOCH: change->epoch = (int64_t)field->value; return true;
    case F_SEQUENCE: change->sequence = (int64_t)field->value; return true;
    default: return false;
    }
}

/* What a state cannot have is no change of ours, and numbers have room to grow. */
static bool fits_state(const struct change *change)
{
    enum machine_state state = change->state;

    if (state == MACHINE_UNSPECIFIED) return false;
    if (change->error.len > 0 && state != MACHINE_FAILED) return false;
    if (change->blob.len > 0 && state != MACHINE_CONFIGURING) return false;
    if (change->grace_ms > 0 && state != MACHINE_DRAINING) return false;
    if (change->host.len > 0 && (state == MACHINE_SPECULATIVE || state == MACHINE_CREATING))
        return false;
    for (int i = 0; i < OPERATION_KINDS; i++)
        if (change->operations[i] > NUMBER_MAX) return false;
    return change->host.len <= ID_MAX && change->error.len <= ERROR_TEXT_MAX &&
           change->blob.len <= TEXT_BYTES_MAX;
}

static bool is_sound(const struct change *change)
{
    bool named = change->id.len > 0 && change->id.len <= ID_MAX;
    bool dated = change->revision > 0 && change->revision <= NUMBER_MAX;

    switch (change->kind) {
    case CHANGE_ITEM:
        return change->number > 0 && change->number <= NUMBER_MAX &&
               change->bytes.len <= TEXT_BYTES_MAX;
    case CHANGE_MACHINE: return named && dated && fits_state(change);
    case CHANGE_FENCE: return named && change->shard > 0;
    case CHANGE_REMOVED: return named && dated;
    case CHANGE_MARKS:
        return change->revision <= NUMBER_MAX && change->operation <= NUMBER_MAX &&
               change->item <= NUMBER_MAX && change->forgotten <= NUMBER_MAX;
    }
    return false;
}

enum err change_read(struct str bytes, struct change *ret_change, size_t *ret_size)
{
    struct change change = {.id = STR_EMPTY,
                            .bytes = STR_EMPTY,
                            .host = STR_EMPTY,
                            .error = STR_EMPTY,
                            .blob = STR_EMPTY};
    struct fields fields;
    struct field field;
    size_t len;

    if (bytes.len <= LENGTH_BYTES) return ERR_PARSE;
    len = load_le32(bytes.at);
    if (len == 0 || len > bytes.len - LENGTH_BYTES) return ERR_PARSE;
    change.kind = (enum change_kind)(uint8_t)bytes.at[LENGTH_BYTES];
    fields = fields_of(str_of(bytes.at + LENGTH_BYTES + 1, len - 1));
    while (fields_next(&fields, &field)) {
        struct str *text = text_of(&change, field.number);

        if (text ? field.wire != WIRE_LEN : field.wire != WIRE_VARINT) return ERR_PARSE;
        if (text)
            *text = field.bytes;
        else if (!take_number(&change, &field))
            return ERR_PARSE;
    }
    if (fields.problem || !is_sound(&change)) return ERR_PARSE;
    *ret_change = change;
    *ret_size = LENGTH_BYTES + len;
    return ERR_OK;
}
