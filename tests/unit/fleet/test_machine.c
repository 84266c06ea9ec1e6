/* SPDX-License-Identifier: Apache-2.0 */
/* The tables as a state machine: commands in, replies out, snapshots and restores through the
 * interface of the log. */
#include <stdio.h>
#include <string.h>

#include "fleet/format/command.h"
#include "fleet/machine.h"
#include "lib/test.h"

struct seen {
    unsigned applied, restored;
    uint64_t index;
    enum fleet_kind kind;
    enum fleet_status status;
    bool had_command;
};

static void on_applied(void *owner, const struct machine_entry *entry,
                       const struct fleet_command *command, const struct fleet_result *result)
{
    struct seen *seen = owner;

    seen->applied++;
    seen->index = entry->index;
    seen->had_command = command != NULL;
    if (command) seen->kind = command->kind;
    seen->status = result->status;
}

static void on_restored(void *owner)
{
    ((struct seen *)owner)->restored++;
}

static uint32_t level = 1; /* the cluster's level at the applied entry */

static struct fleet_machine *open_machine(struct seen *seen)
{
    struct fleet_machine_options options = {on_applied, on_restored, seen};
    struct fleet_machine *machine;

    *seen = (struct seen){0};
    CHECK_OK("open", fleet_machine_open(&options, &machine));
    return machine;
}

static struct fleet_result apply(struct state_machine *m, uint64_t index, const char *text,
                                 struct buf *reply)
{
    struct machine_entry entry = {
        .index = index, .version = 1, .level = level, .command = str_from(text)};
    struct fleet_result result;

    buf_clear(reply);
    CHECK_OK("known", m->ops->apply(m->state, &entry, reply, NULL));
    CHECK_OK("a reply", fleet_reply_parse(buf_peek(reply), &result));
    return result;
}

#define ADD(id) "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"" id "\"}}}"
#define ASSIGN(value, id)                                                                          \
    "{\"kind\":4,\"assign_domain\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"" value               \
    "\"},\"shard\":\"" id "\"}}"

TEST(the_registration_names_the_format)
{
    struct seen seen;
    struct fleet_machine *machine = open_machine(&seen);
    struct state_machine m = fleet_machine_registration(machine);

    CHECK_U32("part of the log's format", m.id, 2);
    CHECK_TEXT("names the snapshot section", m.name, "fleet");
    CHECK_U32("the first cluster level that has all of its commands", m.version, 4);
    fleet_machine_close(machine);
    fleet_machine_close(NULL);
}

TEST(replies_carry_the_result_and_the_service_sees_every_command)
{
    struct seen seen;
    struct fleet_machine *machine = open_machine(&seen);
    struct state_machine m = fleet_machine_registration(machine);
    struct fleet_result result;
    struct buf reply;

    buf_init(&reply, 1 << 16);
    result = apply(&m, 3, ADD("a"), &reply);
    CHECK_U64("done", result.status, FLEET_DONE);
    CHECK("changed", result.changed);
    CHECK_U64("seen", seen.index, 3);
    CHECK_U64("seen", seen.kind, FLEET_ADD_SHARD);
    apply(&m, 4, ADD("b"), &reply);
    apply(&m, 5, ASSIGN("r-1", "a"), &reply);
    result = apply(&m, 6, ASSIGN("r-1", "b"), &reply);
    CHECK_U64("refused", result.status, FLEET_DOMAIN_ASSIGNED);
    CHECK("unchanged", !result.changed);
    CHECK_STR("the current owner", result.holder, STR("a"));
    CHECK_U64("a refused command is seen, too", seen.index, 6);
    result = apply(&m, 7, "nonsense", &reply);
    CHECK_U64("unreadable", result.status, FLEET_UNREADABLE);
    CHECK("without a command", !seen.had_command);
    result = apply(&m, 8, "{\"kind\":2}", &reply);
    CHECK_U64("without its payload", result.status, FLEET_PAYLOAD_MISSING);
    result = apply(&m, 9, "{\"kind\":2,\"remove_shard\":{\"id\":\"a\"}}", &reply);
    CHECK_U32("freed", result.domains_freed, 1);
    CHECK_U32("all seen", seen.applied, 7);
    buf_deinit(&reply);
    fleet_machine_close(machine);
}

TEST(a_command_of_unknown_kind_is_not_applied)
{
    struct seen seen;
    struct fleet_machine *machine = open_machine(&seen);
    struct state_machine m = fleet_machine_registration(machine);
    struct machine_entry entry = {.index = 1, .version = 1, .command = STR("{\"kind\":9}")};
    uint64_t hash = m.ops->hash(m.state);
    struct note note = {""};
    struct buf reply;

    buf_init(&reply, 1 << 16);
    CHECK_ERR("kind 9", m.ops->apply(m.state, &entry, &reply, &note), ERR_VERSION);
    CHECK_HAS("with the number", note.text, "unknown kind 9");
    CHECK_SIZE("without an answer", reply.len, 0);
    CHECK_U32("nobody sees it", seen.applied, 0);
    CHECK_U64("nothing is done", m.ops->hash(m.state), hash);
    buf_deinit(&reply);
    fleet_machine_close(machine);
}

TEST(a_reply_says_which_field_and_which_limit)
{
    char text[400] = "{\"kind\":2", id[300];
    struct seen seen;
    struct fleet_machine *machine = open_machine(&seen);
    struct state_machine m = fleet_machine_registration(machine);
    struct fleet_result result;
    struct buf reply;

    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    snprintf(text, sizeof text, "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"%s\"}}}", id);
    buf_init(&reply, 1 << 16);
    result = apply(&m, 1, text, &reply);
    CHECK_U64("refused", result.status, FLEET_TOO_LONG);
    CHECK_TEXT("which", result.field, "shard id");
    CHECK_U64("limit", result.number, FLEET_ID_MAX);
    for (size_t len = 0; len < reply.len; len++) {
        struct fleet_result cut;
        if (len <= 20 + strlen("shard id"))
            CHECK_ERR("cut", fleet_reply_parse(str_of(reply.data, len), &cut), ERR_PARSE);
    }
    reply.data[0] = (char)FLEET_STATUS_COUNT;
    CHECK_ERR("no such status", fleet_reply_parse(buf_peek(&reply), &result), ERR_PARSE);
    buf_deinit(&reply);
    fleet_machine_close(machine);
}

static void snapshot(struct state_machine *m, uint64_t index, struct buf *bytes)
{
    void *view;
    bool done = false;

    buf_clear(bytes);
    CHECK_OK("begin", m->ops->snapshot_begin(m->state, index, &view));
    while (!done) CHECK_OK("next", m->ops->snapshot_next(view, 10, bytes, &done));
    m->ops->snapshot_end(view);
}

static enum err restore(struct state_machine *m, uint64_t index, struct str bytes,
                        struct note *note)
{
    enum err err = m->ops->restore_begin(m->state, index, note);

    for (size_t at = 0; !err && at < bytes.len; at += 5)
        err = m->ops->restore_next(m->state, str_of(bytes.at + at, min_size(5, bytes.len - at)),
                                   note);
    return err ? err : m->ops->restore_end(m->state, note);
}

TEST(a_snapshot_restores_the_state_and_its_hash)
{
    struct seen seen, other_seen;
    struct fleet_machine *machine = open_machine(&seen), *other = open_machine(&other_seen);
    struct state_machine m = fleet_machine_registration(machine),
                         o = fleet_machine_registration(other);
    struct fleet *fleet = fleet_machine_fleet(other);
    struct note note = {""};
    struct buf reply, bytes, again;

    buf_init(&reply, 1 << 16);
    buf_init(&bytes, 1 << 16);
    buf_init(&again, 1 << 16);
    apply(&m, 1, ADD("a"), &reply);
    apply(&m, 2, ASSIGN("r-1", "a"), &reply);
    fleet_heartbeat(fleet_machine_fleet(machine), STR("a"), (struct fleet_time){9, 9});
    apply(&o, 1, ADD("gone"), &reply);
    snapshot(&m, 2, &bytes);
    CHECK_OK(note.text, restore(&o, 2, buf_peek(&bytes), &note));
    CHECK_U64("hash", o.ops->hash(o.state), m.ops->hash(m.state));
    CHECK("size", o.ops->size(o.state) > 0);
    CHECK_U32("reported", other_seen.restored, 1);
    CHECK("the same tables for its whole life", fleet_machine_fleet(other) == fleet);
    CHECK_U32("replaced", fleet_counts(fleet).of[FLEET_SHARDS], 1);
    snapshot(&o, 2, &again);
    CHECK_STR("the same bytes: a heartbeat is no part of them", buf_peek(&again), buf_peek(&bytes));
    CHECK_OK("was in no snapshot yet", restore(&o, 0, STR_EMPTY, &note));
    CHECK_U32("empty", fleet_counts(fleet).of[FLEET_SHARDS], 0);
    CHECK_ERR("of another index", restore(&o, 3, buf_peek(&bytes), &note), ERR_CORRUPT);
    CHECK_TEXT("the note", note.text, "fleet: snapshot of another index");
    for (size_t len = 1; len < bytes.len; len++)
        CHECK_ERR("cut", restore(&o, 2, str_of(bytes.data, len), &note), ERR_CORRUPT);
    CHECK_OK("good again", restore(&o, 2, buf_peek(&bytes), &note));
    buf_deinit(&reply);
    buf_deinit(&bytes);
    buf_deinit(&again);
    fleet_machine_close(machine);
    fleet_machine_close(other);
}

TEST(an_abandoned_restore_leaks_nothing)
{
    struct seen seen;
    struct fleet_machine *machine = open_machine(&seen);
    struct state_machine m = fleet_machine_registration(machine);
    struct note note;

    CHECK_OK("begin", m.ops->restore_begin(m.state, 1, &note));
    CHECK_OK("some", m.ops->restore_next(m.state, STR("{\"shards\":[{\"ID\":\"a\""), &note));
    CHECK_OK("begin again", m.ops->restore_begin(m.state, 1, &note));
    fleet_machine_close(machine);
}

#define UNASSIGN(value)                                                                            \
    "{\"kind\":5,\"unassign_domain\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"" value "\"}}}"

TEST(the_level_of_the_entry_decides_whether_a_domain_stays_leaving)
{
    struct seen seen, other_seen;
    struct fleet_machine *machine = open_machine(&seen), *other = open_machine(&other_seen);
    struct state_machine m = fleet_machine_registration(machine),
                         o = fleet_machine_registration(other);
    struct fleet_command command = {.kind = FLEET_ASSIGN_DOMAIN};
    struct fleet_leaving leaving;
    struct note note = {""};
    struct buf reply, bytes;

    buf_init(&reply, 1 << 16);
    buf_init(&bytes, 1 << 16);
    apply(&m, 1, ADD("a"), &reply);
    apply(&m, 2, ADD("b"), &reply);
    apply(&m, 3, ASSIGN("1", "a"), &reply);
    level = 3;
    apply(&m, 4, UNASSIGN("1"), &reply);
    CHECK_U64("as in older releases", apply(&m, 5, ASSIGN("1", "b"), &reply).status, FLEET_DONE);
    level = 4;
    apply(&m, 6, UNASSIGN("1"), &reply);
    CHECK_U64("not given up", apply(&m, 7, ASSIGN("1", "a"), &reply).status, FLEET_DOMAIN_LEAVING);
    /* A snapshot and a restart keep it. */
    snapshot(&m, 7, &bytes);
    CHECK_OK(note.text, restore(&o, 7, buf_peek(&bytes), &note));
    CHECK_U64("hash", o.ops->hash(o.state), m.ops->hash(m.state));
    CHECK("there", fleet_find_leaving(fleet_machine_fleet(other), STR("rack"), STR("1"), STR_EMPTY,
                                      &leaving));
    CHECK_STR("the owner", leaving.shard, STR("b"));
    CHECK_U64("the entry that took it", leaving.since, 6);
    CHECK_U64("there, too", apply(&o, 8, ASSIGN("1", "a"), &reply).status, FLEET_DOMAIN_LEAVING);
    apply(&o, 9,
          "{\"kind\":8,\"clear_leaving\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"1\"},\"shard\":"
          "\"b\","
          "\"since\":6}}",
          &reply);
    CHECK_U64("acknowledged", apply(&o, 10, ASSIGN("1", "a"), &reply).status, FLEET_DONE);
    CHECK_U32("older clusters have it", fleet_command_version(&command), 1);
    command.force = true;
    CHECK_U32("no older cluster has force", fleet_command_version(&command), 4);
    command.kind = FLEET_CLEAR_LEAVING;
    CHECK_U32("nor this kind", fleet_command_version(&command), 4);
    level = 1;
    buf_deinit(&reply);
    buf_deinit(&bytes);
    fleet_machine_close(machine);
    fleet_machine_close(other);
}
