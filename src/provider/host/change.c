/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/change.h"

#include "base/bytes.h"
#include "model/ids.h"
#include "provider/host/operation.h"
#include "wire/field.h"
#include "wire/pack.h"

enum {
    FIELD_STATE = 5,
    LENGTH_BYTES = 4, /* before each change, little-endian */
    TEXT_BYTES_MAX = 1 << 20,
};
#define NUMBER_MAX (UINT64_MAX >> 2)

static const struct member { /* of struct book_change, but for the state */
    uint32_t field;
    bool text; /* struct str; else 64 bits */
    size_t offset;
} members[] = {
    {1, true, offsetof(struct book_change, id)},
    {2, false, offsetof(struct book_change, revision)},
    {3, false, offsetof(struct book_change, number)},
    {4, true, offsetof(struct book_change, bytes)},
    {6, false, offsetof(struct book_change, offer)},
    {7, false, offsetof(struct book_change, binding)},
    {8, true, offsetof(struct book_change, host)},
    {9, true, offsetof(struct book_change, error)},
    {10, true, offsetof(struct book_change, blob)},
    {11, false, offsetof(struct book_change, grace_ms)},
    {12, false, offsetof(struct book_change, shard)},
    {13, false, offsetof(struct book_change, epoch)},
    {14, false, offsetof(struct book_change, sequence)},
    {15, false, offsetof(struct book_change, identity)},
    {16, false, offsetof(struct book_change, operation)},
    {17, false, offsetof(struct book_change, item)},
    {18, false, offsetof(struct book_change, forgotten)},
    {20, false, offsetof(struct book_change, operations[OPERATION_CREATE])},
    {21, false, offsetof(struct book_change, operations[OPERATION_CONFIGURE])},
    {22, false, offsetof(struct book_change, operations[OPERATION_DRAIN])},
    {23, false, offsetof(struct book_change, operations[OPERATION_DELETE])},
};

enum err change_write(const struct book_change *change, struct buf *into)
{
    struct pack pack = {into, ERR_OK};
    size_t before = into->len;

    pack.err = buf_append(into, str_of("\0\0\0\0", LENGTH_BYTES));
    if (!pack.err) pack.err = buf_append_byte(into, (char)change->kind);
    pack_u64(&pack, FIELD_STATE, change->state);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const void *at = (const char *)change + members[i].offset;

        if (members[i].text)
            pack_text(&pack, members[i].field, *(const struct str *)at);
        else
            pack_u64(&pack, members[i].field, *(const uint64_t *)at);
    }
    if (pack.err)
        into->len = before;
    else
        store_le32(into->data + before, (uint32_t)(into->len - before - LENGTH_BYTES));
    return pack.err;
}

static bool take_field(struct book_change *change, const struct field *field)
{
    const struct member *member = members;
    char *at;

    if (field->number == FIELD_STATE) {
        change->state = (enum machine_state)field->value;
        return field->wire == WIRE_VARINT && field->value < MACHINE_STATE_COUNT;
    }
    while (member < members + ARRAY_LEN(members) && member->field != field->number) member++;
    if (member == members + ARRAY_LEN(members)) return false;
    at = (char *)change + member->offset;
    if (member->text)
        *(struct str *)at = field->bytes;
    else
        *(uint64_t *)at = field->value;
    return field->wire == (member->text ? WIRE_LEN : WIRE_VARINT);
}

/* What a state cannot have is no change of ours, and numbers have room to grow. */
static bool fits_state(const struct book_change *change)
{
    enum machine_state state = change->state;

    if (state == MACHINE_UNSPECIFIED || change->offer == 0) return false;
    if ((change->error.len > 0) != (state == MACHINE_FAILED)) return false;
    if (change->binding ? !state_keeps_binding(state) : state_needs_binding(state)) return false;
    if (change->blob.len > 0 && state != MACHINE_CONFIGURING) return false;
    if (change->grace_ms > 0 && state != MACHINE_DRAINING) return false;
    if (change->host.len > 0 && !state_has_host(state)) return false;
    for (enum operation_kind i = 0; i < OPERATION_KINDS; i++)
        if (change->operations[i] > NUMBER_MAX ||
            (operation_passing(state) == i && change->operations[i] == 0))
            return false;
    return change->host.len <= ID_MAX && change->error.len <= ERROR_TEXT_MAX &&
           change->blob.len <= TEXT_BYTES_MAX;
}

static bool is_sound(const struct book_change *change)
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

enum err change_read(struct str bytes, struct book_change *ret_change, size_t *ret_size)
{
    struct book_change change = {.id = STR_EMPTY,
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
    change.kind = (enum book_change_kind)(uint8_t)bytes.at[LENGTH_BYTES];
    fields = fields_of(str_of(bytes.at + LENGTH_BYTES + 1, len - 1));
    while (fields_next(&fields, &field))
        if (!take_field(&change, &field)) return ERR_PARSE;
    if (fields.problem || !is_sound(&change)) return ERR_PARSE;
    *ret_change = change;
    *ret_size = LENGTH_BYTES + len;
    return ERR_OK;
}
