/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as JSON. Pure. */
#include "fleet/format/command.h"

#include "fleet/format/shapes.h"

enum {
    FORMAT_COMMAND_TEXT_MAX = 64 << 10
}; /* far above fleet/core's limits, whose errors name the limit */

/* -- writing -- */
enum err fleet_command_encode(const struct fleet_command *command, struct buf *into)
{
    const struct shape_field *field;
    struct fleet_row row;
    size_t start = into->len;
    enum err err;

    if (command->kind < FLEET_ADD_SHARD || command->kind > FLEET_KIND_LAST) return ERR_INVALID;
    field = &fleet_command_shape.fields[command->kind];
    row = (struct fleet_row){.table = fleet_kind_table(command->kind), .content = command->content};
    if (row.table == FLEET_SHARDS) row.shard.last_heartbeat = (struct fleet_time){0};
    err = buf_appendf(into, "{\"kind\":%u", (unsigned)command->kind);
    if (!err) err = json_name_put(into, ',', field->name);
    if (!err) err = shape_put(into, field->shape, &row, command->force);
    if (!err) err = buf_append_byte(into, '}');
    if (err) into->len = start;
    return err;
}

/* -- reading -- */
static enum err command_refuse(enum fleet_status status, uint64_t number,
                               struct fleet_result *ret_result)
{
    *ret_result =
        (struct fleet_result){.status = status, .number = number, .holder = STR_EMPTY, .field = ""};
    return ERR_INVALID;
}

enum err fleet_command_decode(struct str bytes, struct arena *arena,
                              struct fleet_command *ret_command, struct fleet_result *ret_result,
                              struct note *note)
{
    struct format_record record = {.arena = arena, .stable = bytes};
    struct fleet_row row;
    uint64_t kind;
    enum err err;

    record_begin(&record, &fleet_command_shape);
    err = record_parse(&record, bytes, FORMAT_COMMAND_TEXT_MAX, note);
    kind = record.numbers[RECORD_KIND];
    if (err == ERR_NOMEM) return err;
    if (err) return command_refuse(FLEET_UNREADABLE, 0, ret_result);
    if (kind < FLEET_ADD_SHARD || kind > FLEET_KIND_LAST)
        return command_refuse(FLEET_UNKNOWN_KIND, kind, ret_result);
    if (!(record.present & BIT(kind)))
        return command_refuse(FLEET_PAYLOAD_MISSING, kind, ret_result);
    if (record_row(&record, kind, fleet_kind_table((enum fleet_kind)kind), &row, note))
        return command_refuse(FLEET_UNREADABLE, 0, ret_result);
    *ret_command = fleet_row_command(&row);
    ret_command->kind = (enum fleet_kind)kind;
    ret_command->force = kind == FLEET_ASSIGN_DOMAIN && record.numbers[RECORD_FORCE] != 0;
    return ERR_OK;
}
