/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet tables as a state machine of the replicated log. Runs inside apply, on the loop thread.
 *
 * Command:  the specification's JSON (fleet/format/command.h)
 * Snapshot: one line with the state's JSON and its seal (fleet/format/state.h). Answers to recent
 *           requests, if there are any, follow on the next line (fleet/answers.h)
 * Reply:    u8 status, u8 changed, u16 length of `field`, u32 clusters freed, u32 domains freed,
 *           u64 number, field and a NUL, holder; little-endian */
#include "fleet/machine.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "fleet/answers.h"
#include "fleet/format/command.h"
#include "fleet/format/state.h"
#include "section/section.h"

enum {
    REPLY_HEAD = 20,
    /* Decoding needs at most twenty times a command's bytes. The limit is higher, so a failed
     * allocation means that the process is out of memory. */
    MACHINE_ARENA_MAX = 32 * REPLICA_COMMAND_MAX,
    PART_MAX = 64 << 10, /* bytes of stored answers that are parsed at a time */
};
struct fleet_machine {
    struct fleet_machine_options options;
    struct fleet *fleet;
    struct fleet_answers *answers;
    struct arena arena; /* memory for the command that is being applied */
    struct fleet_state_reader *reader;
    uint64_t restore_index;
    /* restore_has_state: the line with the state JSON is complete */
    bool restoring, restore_has_bytes, restore_has_state;
    struct buf part;  /* restore: first bytes of an incomplete answer */
    struct buf reply; /* the last encoded reply */
};

enum err fleet_machine_open(const struct fleet_machine_options *options,
                            struct fleet_machine **ret_machine)
{
    struct fleet_machine *machine = calloc(1, sizeof *machine);
    enum err err;

    if (!machine) return ERR_NOMEM;
    machine->options = *options;
    arena_init(&machine->arena, MACHINE_ARENA_MAX);
    buf_init(&machine->part, PART_MAX);
    buf_init(&machine->reply, FLEET_ANSWER_REPLY_MAX);
    err = fleet_open(&machine->fleet);
    if (!err) err = fleet_answers_open(FLEET_ANSWERS_MAX, &machine->answers);
    if (err)
        fleet_machine_close(machine);
    else
        *ret_machine = machine;
    return err;
}

void fleet_machine_close(struct fleet_machine *machine)
{
    if (!machine) return;
    fleet_state_read_close(machine->reader);
    fleet_answers_close(machine->answers);
    buf_deinit(&machine->part);
    buf_deinit(&machine->reply);
    fleet_close(machine->fleet);
    arena_deinit(&machine->arena);
    free(machine);
}

struct fleet *fleet_machine_fleet(struct fleet_machine *machine)
{
    return machine->fleet;
}

/* -- applying -- */
/* Empty if memory runs out. Valid until the next call. */
static struct str reply_make(struct fleet_machine *machine, const struct fleet_result *result)
{
    struct encoder out = {&machine->reply, ERR_OK};
    size_t field = strlen(result->field);

    buf_clear(&machine->reply);
    encode_u8(&out, result->status);
    encode_u8(&out, result->changed);
    encode_u8(&out, (unsigned)field & 0xff);
    encode_u8(&out, (unsigned)field >> 8);
    encode_u32(&out, result->clusters_freed);
    encode_u32(&out, result->domains_freed);
    encode_u64(&out, result->number);
    encode_bytes(&out, result->field, field + 1);
    encode_bytes(&out, result->holder.at, result->holder.len);
    return out.err ? STR_EMPTY : buf_peek(&machine->reply);
}

enum err fleet_reply_parse(struct str reply, struct fleet_result *ret_result)
{
    size_t field;

    if (reply.len <= REPLY_HEAD || (uint8_t)reply.at[0] >= FLEET_STATUS_COUNT) return ERR_PARSE;
    field = load_le16(reply.at + 2);
    if (reply.len < REPLY_HEAD + field + 1 || reply.at[REPLY_HEAD + field] != '\0')
        return ERR_PARSE;
    *ret_result = (struct fleet_result){.status = (enum fleet_status)(uint8_t)reply.at[0],
                                        .changed = reply.at[1] != 0,
                                        .field = reply.at + REPLY_HEAD,
                                        .number = load_le64(reply.at + 12),
                                        .clusters_freed = load_le32(reply.at + 4),
                                        .domains_freed = load_le32(reply.at + 8),
                                        .holder = str_tail(reply, REPLY_HEAD + field + 1)};
    return ERR_OK;
}

/* The fingerprint leaves out the time, which each retry sets anew. */
static uint64_t command_fingerprint(const struct fleet_command *command)
{
    const struct fleet_quota *quota = command->kind == FLEET_SET_QUOTA ? &command->set_quota : NULL;
    size_t texts = fleet_kind_texts(command->kind);
    uint64_t hash = 0;

    if (command->kind == FLEET_CLEAR_LEAVING) hash = command->clear_leaving.since;
    if (command->force) hash = 1; /* without `force` the hash starts with 0, as in older releases */
    for (size_t i = 0; i < FLEET_TEXTS_MAX; i++)
        hash = str_hash(i < texts ? command->texts[i] : STR_EMPTY, hash);
    for (size_t i = 0; quota && i < quota->slice_count; i++)
        hash = str_hash(quota->slices[i].shard, hash) + (uint32_t)quota->slices[i].slice;
    return hash;
}

uint32_t fleet_command_version(const struct fleet_command *command)
{
    return command->kind == FLEET_CLEAR_LEAVING || command->force ? FLEET_LEAVING_LEVEL
                                                                  : FLEET_FIRST_VERSION;
}

/* Several requests of one trace may share a request id, so the key also has a fingerprint of the
 * command. */
static struct str answer_id(const struct machine_entry *entry, const struct fleet_command *command,
                            char id[FLEET_ANSWER_ID_MAX])
{
    static_assert((int)FLEET_ANSWER_ID_MAX == REPLICA_REQUEST_ID_MAX + 8, "both fit");
    memcpy(id, entry->request_id.at, entry->request_id.len);
    store_le64(id + entry->request_id.len, command_fingerprint(command));
    return str_of(id, entry->request_id.len + 8);
}

static enum err machine_apply(void *state, const struct machine_entry *entry, struct buf *reply,
                              struct note *note)
{
    struct fleet_machine *machine = state;
    struct fleet_command command;
    struct fleet_result result;
    struct str key = STR_EMPTY, answer;
    char id[FLEET_ANSWER_ID_MAX];
    enum err err;

    assert(!machine->restoring);
    arena_reset(&machine->arena);
    err = fleet_command_decode(entry->command, &machine->arena, &command, &result, NULL);
    if (err == ERR_NOMEM) abort();
    /* An unknown kind is no refusal, because replicas of a later release may apply the command. */
    if (err && result.status == FLEET_UNKNOWN_KIND)
        return note_fail(note, ERR_VERSION, "a command of unknown kind %llu",
                         (unsigned long long)result.number);
    if (!err && entry->request_id.len) key = answer_id(entry, &command, id);
    /* A repeated command gets the earlier answer, and is not applied again. */
    if (key.len && fleet_answers_find(machine->answers, (uint8_t)command.kind, key, &answer)) {
        (void)buf_append(reply, answer); /* if memory runs out, the reply is empty */
        return ERR_OK;
    }
    if (!err)
        result =
            fleet_apply_entry(machine->fleet, &command,
                              (struct fleet_entry){.index = entry->index, .level = entry->level});
    if (result.status == FLEET_NO_MEMORY) abort();
    if (machine->options.applied)
        machine->options.applied(machine->options.owner, entry, err ? NULL : &command, &result);
    answer = reply_make(machine, &result);
    (void)buf_append(reply, answer); /* if memory runs out, the answer is stored anyway */
    if (key.len &&
        (!answer.len || fleet_answers_put(machine->answers, (uint8_t)command.kind, key, answer)))
        abort(); /* without the answer, a repeated request would be applied again */
    return ERR_OK;
}

/* -- snapshots -- */
static enum err machine_snapshot_begin(void *state, uint64_t index, void **ret_view)
{
    struct fleet_machine *machine = state;
    struct fleet_state_style style = {.sealed = true, .index = index};
    struct fleet_state_writer *writer = NULL;
    struct fleet_answers_view *answers = NULL;
    struct section_view *view;
    enum err err = section_view_open(NULL, &view);

    if (err) return err;
    err = fleet_state_write_open(machine->fleet, style, &writer);
    section_view_add(
        view, (struct section_part){fleet_state_write_next, fleet_state_write_close, writer});
    if (!err && fleet_answers_count(machine->answers) > 0) {
        encode_u8(section_view_encoder(view), '\n');
        err = fleet_answers_view_open(machine->answers, &answers);
        section_view_add(view, (struct section_part){fleet_answers_view_next,
                                                     fleet_answers_view_close, answers});
    }
    return section_view_ready(view, err, ret_view);
}

/* -- restoring -- */
static enum err machine_restore_begin(void *state, uint64_t index, struct note *note)
{
    struct fleet_machine *machine = state;
    struct fleet_state_options options = {.fleet = machine->fleet, .strict = true};
    enum err err;

    fleet_state_read_close(machine->reader);
    machine->reader = NULL;
    fleet_clear(machine->fleet);
    fleet_answers_clear(machine->answers);
    buf_clear(&machine->part);
    machine->restoring = true;
    machine->restore_has_bytes = machine->restore_has_state = false;
    machine->restore_index = index;
    err = fleet_state_read_begin(&options, &machine->reader);
    if (err) note_set(note, "fleet: %s", err_text(err));
    return err;
}

/* A parse error means damage, because muster itself wrote the snapshot. */
static enum err machine_restore_failed(enum err err, struct note *note)
{
    note_prefix(note, "fleet");
    return err == ERR_NOMEM || err == ERR_VERSION ? err : ERR_CORRUPT;
}

static enum err machine_restore_next(void *state, struct str bytes, struct note *note)
{
    struct fleet_machine *machine = state;
    enum err err = ERR_OK;

    assert(machine->restoring && machine->reader);
    if (bytes.len > 0) machine->restore_has_bytes = true;
    if (!machine->restore_has_state) {
        size_t line = str_find(bytes, '\n');

        err = fleet_state_read_next(machine->reader, str_of(bytes.at, line), note);
        machine->restore_has_state = line < bytes.len;
        bytes = str_tail(bytes, line + 1);
    }
    if (!err && machine->restore_has_state)
        err = section_feed(&machine->part, bytes, fleet_answers_take, machine->answers, note);
    return err ? machine_restore_failed(err, note) : ERR_OK;
}

static enum err machine_restore_whole(struct fleet_machine *machine, struct note *note)
{
    struct fleet_state_summary summary;
    enum err err = fleet_state_read_end(machine->reader, &summary, note);

    if (!err && summary.index != machine->restore_index)
        err = note_fail(note, ERR_CORRUPT, "snapshot of another index");
    if (!err && machine->part.len) err = note_fail(note, ERR_CORRUPT, "answers: cut short");
    return err ? machine_restore_failed(err, note) : ERR_OK;
}

static enum err machine_restore_end(void *state, struct note *note)
{
    struct fleet_machine *machine = state;
    enum err err = ERR_OK;

    assert(machine->restoring && machine->reader);
    if (machine->restore_has_bytes) err = machine_restore_whole(machine, note);
    fleet_state_read_close(machine->reader);
    machine->reader = NULL;
    machine->restoring = false;
    if (!err && machine->options.restored) machine->options.restored(machine->options.owner);
    return err;
}

static uint64_t machine_hash(const void *state)
{
    const struct fleet_machine *machine = state;

    return fleet_hash(machine->fleet);
}

static uint64_t machine_size(const void *state)
{
    const struct fleet_machine *machine = state;

    return fleet_bytes(machine->fleet);
}

static const struct machine_ops ops = {
    .apply = machine_apply,
    .snapshot_begin = machine_snapshot_begin,
    .snapshot_next = section_view_next,
    .snapshot_end = section_view_close,
    .restore_begin = machine_restore_begin,
    .restore_next = machine_restore_next,
    .restore_end = machine_restore_end,
    .hash = machine_hash,
    .size = machine_size,
};

struct state_machine fleet_machine_registration(struct fleet_machine *machine)
{
    return (struct state_machine){.id = FLEET_MACHINE_ID,
                                  .name = "fleet",
                                  .version = FLEET_MACHINE_VERSION,
                                  .ops = &ops,
                                  .state = machine};
}
