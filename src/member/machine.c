/* SPDX-License-Identifier: Apache-2.0 */
/* Connects membership's core with the replicated log. Invariant: every command has a reply, and
 * replicas that applied the same entries have the same state. Runs in apply, on the loop's
 * thread. */
#include "member/machine.h"

#include <stdlib.h>
#include <string.h>

#include "section/section.h"

enum {
    ARENA_MAX = 256 << 20, /* memory for reading one command */
    HEAD = 4,
    ROW = 16,
    DIGEST = sizeof(struct member_digest),
};

struct member_machine {
    struct member_machine_options options;
    struct membership *membership;
    struct arena arena;
    struct member_result results[MEMBER_OPS_MAX];
    struct member_restore *restore;
};

/* -- replies -- */

/* Without memory the reply stays empty, and the outcome is unknown. */
static void reply_write(const struct member_machine *machine, size_t ops, struct buf *reply)
{
    struct member_item item;
    size_t op, bytes = HEAD + ops * ROW;
    char *at;

    if (buf_reserve(reply, bytes, &at)) return;
    store_le32(at, (uint32_t)ops);
    at += HEAD;
    for (size_t i = 0; i < ops; i++, at += ROW) {
        const struct member_result *result = &machine->results[i];

        at[0] = (char)result->status;
        at[1] = (char)result->admitted;
        at[2] = at[3] = 0;
        store_le32(at + 4, result->items);
        store_le64(at + 8, result->incarnation);
    }
    buf_commit(reply, bytes);
    for (size_t i = 0; member_assigned(machine->membership, i, &op, &item); i++)
        if (buf_append(reply, str_of(item.id.b, DIGEST))) {
            buf_clear(reply);
            return;
        }
}

enum err member_reply_parse(struct str reply, struct member_reply *ret_reply)
{
    uint32_t ops;

    if (reply.len < HEAD) return ERR_PARSE;
    ops = load_le32(reply.at);
    if (ops > MEMBER_OPS_MAX || reply.len < HEAD + (size_t)ops * ROW) return ERR_PARSE;
    *ret_reply = (struct member_reply){
        .ops = ops,
        .rows = str_of(reply.at + HEAD, (size_t)ops * ROW),
        .items = str_tail(reply, HEAD + (size_t)ops * ROW),
    };
    return ERR_OK;
}

struct member_result member_reply_result(const struct member_reply *reply, uint32_t op)
{
    const char *at = reply->rows.at + (size_t)op * ROW;

    assert(op < reply->ops);
    return (struct member_result){.status = (enum member_status)at[0],
                                  .admitted = at[1] != 0,
                                  .items = load_le32(at + 4),
                                  .incarnation = load_le64(at + 8)};
}

bool member_reply_item(const struct member_reply *reply, uint32_t op, uint32_t number,
                       struct member_digest *ret_item)
{
    size_t before = 0;

    if (number >= member_reply_result(reply, op).items) return false;
    for (uint32_t i = 0; i < op; i++) before += member_reply_result(reply, i).items;
    if ((before + number + 1) * DIGEST > reply->items.len) return false;
    memcpy(ret_item->b, reply->items.at + (before + number) * DIGEST, DIGEST);
    return true;
}

/* -- open and close -- */

enum err member_machine_open(const struct member_machine_options *options,
                             struct member_machine **ret_machine)
{
    struct member_machine *machine = calloc(1, sizeof *machine);

    if (!machine) return ERR_NOMEM;
    machine->options = *options;
    arena_init(&machine->arena, ARENA_MAX);
    machine->membership = member_open(&options->member);
    if (!machine->membership) {
        member_machine_close(machine);
        return ERR_NOMEM;
    }
    *ret_machine = machine;
    return ERR_OK;
}

void member_machine_close(struct member_machine *machine)
{
    if (!machine) return;
    if (machine->restore) member_restore_close(machine->restore);
    member_close(machine->membership);
    arena_deinit(&machine->arena);
    free(machine);
}

struct membership *member_machine_membership(const struct member_machine *machine)
{
    return machine->membership;
}

bool member_machine_restoring(const struct member_machine *machine)
{
    return machine->restore != NULL;
}

/* -- apply -- */

static enum err machine_apply(void *state, const struct machine_entry *entry, struct buf *reply,
                              struct note *note)
{
    static const struct member_op tick = {.kind = MEMBER_OP_TICK};
    static const struct member_command nothing = {.ops = &tick, .op_count = 1};
    struct member_machine *machine = state;
    struct member_command command;
    enum err err;

    assert(!machine->restore);
    arena_reset(&machine->arena);
    err = member_command_read(entry->command, &machine->arena, &command, note);
    if (err == ERR_VERSION) return err;
    if (err == ERR_NOMEM) abort(); /* going on would make this state differ from other replicas */
    if (err) command = nothing; /* an unreadable command only moves the clock, on every replica */
    member_apply(machine->membership, entry->index, entry->clock_ns, &command, machine->results);
    if (err) machine->results[0].status = MEMBER_S_UNREADABLE;
    reply_write(machine, command.op_count, reply);
    if (machine->options.applied) machine->options.applied(machine->options.owner);
    return ERR_OK;
}

/* -- snapshots -- */

static enum err machine_snapshot_begin(void *state, uint64_t, void **ret_view)
{
    return member_view_open(((struct member_machine *)state)->membership, ret_view);
}

/* -- restore -- */

static enum err machine_restore_begin(void *state, uint64_t, struct note *note)
{
    struct member_machine *machine = state;

    if (machine->restore) member_restore_close(machine->restore);
    machine->restore = member_restore_open(&machine->options.member);
    if (!machine->restore) note_set(note, "member: %s", err_text(ERR_NOMEM));
    return machine->restore ? ERR_OK : ERR_NOMEM;
}

static enum err machine_restore_next(void *state, struct str bytes, struct note *note)
{
    return member_restore_feed(((struct member_machine *)state)->restore, bytes, note);
}

static enum err machine_restore_end(void *state, struct note *note)
{
    struct member_machine *machine = state;
    struct membership *fresh = NULL;
    enum err err = member_restore_done(machine->restore, &fresh, note);

    member_restore_close(machine->restore);
    machine->restore = NULL;
    if (err) return err;
    member_close(machine->membership); /* the reader of an open view gets ERR_CLOSED */
    machine->membership = fresh;
    if (machine->options.restored) machine->options.restored(machine->options.owner);
    return ERR_OK;
}

static void machine_recover(void *state, const struct machine_recovery *recovery)
{
    struct member_machine *machine = state;
    struct member_instance instance;

    static_assert(sizeof instance == sizeof recovery->identity, "one for the other");
    assert(!machine->restore);
    memcpy(&instance, recovery->identity, sizeof instance);
    member_recover(machine->membership, recovery->index, recovery->clock_ns, recovery->floor,
                   &instance);
    if (machine->options.restored) machine->options.restored(machine->options.owner);
}

static uint64_t machine_hash(const void *state)
{
    return member_hash(((const struct member_machine *)state)->membership);
}

static uint64_t machine_size(const void *state)
{
    return member_bytes(((const struct member_machine *)state)->membership);
}

static uint64_t machine_work(const void *state)
{
    return member_work(((const struct member_machine *)state)->membership);
}

static const struct machine_ops member_machine_ops = {
    .apply = machine_apply,
    .snapshot_begin = machine_snapshot_begin,
    .snapshot_next = section_view_next,
    .snapshot_end = section_view_close,
    .restore_begin = machine_restore_begin,
    .restore_next = machine_restore_next,
    .restore_end = machine_restore_end,
    .recover = machine_recover,
    .hash = machine_hash,
    .size = machine_size,
    .work = machine_work,
};

struct state_machine member_machine_registration(struct member_machine *machine)
{
    return (struct state_machine){.id = MEMBER_MACHINE_ID,
                                  .name = "member",
                                  .version = MEMBER_MACHINE_VERSION,
                                  .ops = &member_machine_ops,
                                  .state = machine};
}
