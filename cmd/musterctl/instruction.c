/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl instruction: lists pending instructions for shards, and queues one. One thread. */
#include <stdio.h>

#include "common/help.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

/* -- list -- */

static void instruction_kind_cell(struct text_table *table, const ProtobufCMessage *row)
{
    const Muster__V1__PendingInstruction *pending = (const void *)row;
    const Bigfleet__V1alpha1__CoordinatorInstruction *sent = pending->instruction;
    const ProtobufCFieldDescriptor *payload =
        sent ? protobuf_c_message_descriptor_get_field(sent->base.descriptor, sent->payload_case)
             : NULL;
    char name[32];

    snprintf(name, sizeof name, "%s", payload ? payload->name : "unknown");
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    table_format(table, "%s", name);
}

/* -- queue -- */

enum { PARTS_MAX = 4 };
static const char *const part_names[] = {"key", "value", "machines", "priority", "from", "to"};
/* Options that a kind of instruction requires. All other options are refused. */
static const struct ctl_fill kind_parts[][PARTS_MAX] = {
    [INSTRUCTION_ASSIGN] = {{"instruction.assign_domain.topology_key", "key"},
                            {"instruction.assign_domain.topology_value", "value"}},
    [INSTRUCTION_UNASSIGN] = {{"instruction.unassign_domain.topology_key", "key"},
                              {"instruction.unassign_domain.topology_value", "value"}},
    [INSTRUCTION_REASSIGN] = {{"instruction.reassign_speculative.machine_ids", "machines"}},
    [INSTRUCTION_DRAIN] = {{"instruction.cross_shard_drain.preemptor_priority", "priority"},
                           {"instruction.cross_shard_drain.machine_ids", "machines"}},
    [INSTRUCTION_TRANSFER] = {{"instruction.transfer_ownership.from_shard_id", "from"},
                              {"instruction.transfer_ownership.to_shard_id", "to"},
                              {"instruction.transfer_ownership.machine_ids", "machines"}},
};

static bool instruction_part_needed(const struct ctl_fill *parts, const char *name)
{
    for (; parts->field; parts++)
        if (strcmp(parts->option, name) == 0) return true;
    return false;
}

static enum err instruction_queue_prepare(struct ctl *ctl, ProtobufCMessage *message)
{
    static const struct ctl_fill shards[] = {{"shard_ids", "shards"}, {NULL, NULL}};
    Muster__V1__QueueInstructionRequest *request = (void *)message;
    const struct ctl_fill *parts = kind_parts[conf_choice(ctl->conf, "kind")];
    enum err err;

    for (size_t i = 0; i < ARRAY_LEN(part_names); i++) {
        bool given = conf_is_set(ctl->conf, part_names[i]);
        if (given != instruction_part_needed(parts, part_names[i]))
            return ctl_fail(ctl, ERR_INVALID, "--kind %s %s --%s", conf_text(ctl->conf, "kind"),
                            given ? "takes no" : "needs", part_names[i]);
    }
    err = ctl_rpc_fill(ctl, message, parts);
    if (!err) err = ctl_rpc_fill(ctl, message, shards);
    if (err) return err;
    /* The leader and the shards recognize a repeated instruction by its id. */
    request->instruction->instruction_id = ctl_text(
        conf_is_set(ctl->conf, "id") ? conf_text(ctl->conf, "id") : remote_request_id(ctl->remote));
    return ERR_OK;
}

const struct command instruction_command = COMMAND_TREE(
    HELP_MUSTERCTL_INSTRUCTION,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_INSTRUCTION_LIST, instruction_list, "[SHARD]", 0, 1),
            .argument_sets = "shard",
            CTL_RPC(0, CTL_READ(FLEET_PATH "ListInstructions", muster__v1__list_instructions),
                    CTL_FILL({"shard_id", "shard"}),
                    CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"),
                                CTL_COLUMN("TERM", "instruction.coordinator_term"),
                                CTL_COLUMN("SEQUENCE", "instruction.sequence_number"),
                                CTL_COLUMN("ID", "instruction.instruction_id"),
                                CTL_COLUMN("KIND", NULL, .put = instruction_kind_cell),
                                CTL_COLUMN("DELIVERIES", "deliveries")))),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_INSTRUCTION_QUEUE, instruction_queue),
            CTL_RPC(BIT(4) | BIT(5),
                    CTL_WRITE(FLEET_PATH "QueueInstruction", muster__v1__queue_instruction,
                              "musterctl instruction list"),
                    .prepare = instruction_queue_prepare,
                    .done = "queued {instruction_id} for {shard_ids} shards")));
