/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads changes by one table of their members. Refuses changes that contradict their
 * state. Pure. */
#include "provider/host/change.h"

#include "base/bytes.h"
#include "model/ids.h"
#include "provider/host/operation.h"
#include "wire/field.h"
#include "wire/pack.h"

enum {
    CHANGE_FIELD_STATE = 5,
    LENGTH_BYTES = 4, /* little-endian length before each change */
    TEXT_BYTES_MAX = 1 << 20,
};
#define NUMBER_MAX (UINT64_MAX >> 2)

enum member_kind { TEXT /* struct str */, NUMBER /* 64 bits */, ITEM };
static const struct member { /* all members but the state */
    uint32_t field;
    enum member_kind kind;
    size_t offset;
} members[] = {
    {1, TEXT, offsetof(struct book_change, id)},
    {2, NUMBER, offsetof(struct book_change, revision)},
    {3, NUMBER, offsetof(struct book_change, number)},
    {4, TEXT, offsetof(struct book_change, bytes)},
    {6, ITEM, offsetof(struct book_change, offer)},
    {7, ITEM, offsetof(struct book_change, binding)},
    {8, TEXT, offsetof(struct book_change, host)},
    {9, TEXT, offsetof(struct book_change, error)},
    {10, TEXT, offsetof(struct book_change, blob)},
    {11, NUMBER, offsetof(struct book_change, grace_ms)},
    {12, ITEM, offsetof(struct book_change, shard)},
    {13, NUMBER, offsetof(struct book_change, epoch)},
    {14, NUMBER, offsetof(struct book_change, sequence)},
    {15, NUMBER, offsetof(struct book_change, identity)},
    {16, NUMBER, offsetof(struct book_change, operation)},
    {17, NUMBER, offsetof(struct book_change, item)},
    {18, NUMBER, offsetof(struct book_change, forgotten)},
    {20, NUMBER, offsetof(struct book_change, operations[OPERATION_CREATE])},
    {21, NUMBER, offsetof(struct book_change, operations[OPERATION_CONFIGURE])},
    {22, NUMBER, offsetof(struct book_change, operations[OPERATION_DRAIN])},
    {23, NUMBER, offsetof(struct book_change, operations[OPERATION_DELETE])},
};

enum err change_write(const struct book_change *change, struct buf *into)
{
    struct pack pack = {into, ERR_OK};
    size_t before = into->len;

    pack.err = buf_append(into, str_of("\0\0\0\0", LENGTH_BYTES));
    if (!pack.err) pack.err = buf_append_byte(into, (char)change->kind);
    pack_u64(&pack, CHANGE_FIELD_STATE, change->state);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const void *at = (const char *)change + members[i].offset;

        const struct pool_item *item;

        switch (members[i].kind) {
        case TEXT: pack_text(&pack, members[i].field, *(const struct str *)at); break;
        case NUMBER: pack_u64(&pack, members[i].field, *(const uint64_t *)at); break;
        case ITEM:
            item = *(struct pool_item *const *)at;
            pack_u64(&pack, members[i].field, item ? item->number : 0);
            break;
        }
    }
    if (pack.err)
        into->len = before;
    else
        store_le32(into->data + before, (uint32_t)(into->len - before - LENGTH_BYTES));
    return pack.err;
}

static enum err change_take_field(struct book_change *change, const struct field *field,
                                  change_find_fn *find, const void *context)
{
    const struct member *member = members;
    char *at;

    if (field->number == CHANGE_FIELD_STATE) {
        change->state = (enum machine_state)field->value;
        return field->wire == WIRE_VARINT && field->value < MACHINE_STATE_COUNT ? ERR_OK
                                                                                : ERR_PARSE;
    }
    while (member < members + ARRAY_LEN(members) && member->field != field->number) member++;
    if (member == members + ARRAY_LEN(members)) return ERR_PARSE;
    if (field->wire != (member->kind == TEXT ? WIRE_LEN : WIRE_VARINT)) return ERR_PARSE;
    at = (char *)change + member->offset;
    switch (member->kind) {
    case TEXT: *(struct str *)at = field->bytes; break;
    case NUMBER: *(uint64_t *)at = field->value; break;
    case ITEM:
        *(struct pool_item **)at = find(context, field->value);
        return *(struct pool_item **)at || field->value == 0 ? ERR_OK : ERR_NOT_FOUND;
    }
    return ERR_OK;
}

/* Also checks that counters cannot overflow. */
static bool change_fits_state(const struct book_change *change)
{
    enum machine_state state = change->state;

    if (state == MACHINE_UNSPECIFIED || !change->offer) return false;
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

static bool change_is_sound(const struct book_change *change)
{
    bool named = change->id.len > 0 && change->id.len <= ID_MAX;
    bool dated = change->revision > 0 && change->revision <= NUMBER_MAX;

    switch (change->kind) {
    case CHANGE_ITEM:
        return change->number > 0 && change->number <= NUMBER_MAX &&
               change->bytes.len <= TEXT_BYTES_MAX;
    case CHANGE_MACHINE: return named && dated && change_fits_state(change);
    case CHANGE_FENCE: return named && change->shard;
    case CHANGE_REMOVED: return named && dated;
    case CHANGE_MARKS:
        return change->revision <= NUMBER_MAX && change->operation <= NUMBER_MAX &&
               change->item <= NUMBER_MAX && change->forgotten <= NUMBER_MAX;
    }
    return false;
}

enum err change_read(struct str bytes, change_find_fn *find, const void *context,
                     struct book_change *ret_change, size_t *ret_size)
{
    struct book_change change = {.id = STR_EMPTY,
                                 .bytes = STR_EMPTY,
                                 .host = STR_EMPTY,
                                 .error = STR_EMPTY,
                                 .blob = STR_EMPTY};
    struct fields fields;
    struct field field;
    size_t len;
    enum err err = ERR_OK;

    if (bytes.len <= LENGTH_BYTES) return ERR_PARSE;
    len = load_le32(bytes.at);
    if (len == 0 || len > bytes.len - LENGTH_BYTES) return ERR_PARSE;
    change.kind = (enum book_change_kind)(uint8_t)bytes.at[LENGTH_BYTES];
    fields = fields_of(str_of(bytes.at + LENGTH_BYTES + 1, len - 1));
    while (!err && fields_next(&fields, &field))
        err = change_take_field(&change, &field, find, context);
    *ret_change = change;
    if (err) return err;
    if (fields.problem || !change_is_sound(&change)) return ERR_PARSE;
    *ret_size = LENGTH_BYTES + len;
    return ERR_OK;
}
