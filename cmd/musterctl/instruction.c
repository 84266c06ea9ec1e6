/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl instruction: what waits to be told to shards, and telling it by hand. */
#include <string.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

/* -- list -- */

static const char *kind_of(const Bigfleet__V1alpha1__CoordinatorInstruction *instruction)
{
    switch (instruction->payload_case) {
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN: return "assign-domain";
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_UNASSIGN_DOMAIN:
        return "unassign-domain";
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_REASSIGN_SPECULATIVE:
        return "reassign-speculative";
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_CROSS_SHARD_DRAIN:
        return "cross-shard-drain";
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_TRANSFER_OWNERSHIP:
        return "transfer-ownership";
    default: return "unknown";
    }
}

static void instruction_list_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListInstructionsResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_instructions; i++) {
        const Bigfleet__V1alpha1__CoordinatorInstruction *told = list->instructions[i]->instruction;
        table_text(table, list->instructions[i]->shard_id);
        table_number(table, told ? told->coordinator_term : 0);
        table_number(table, told ? told->sequence_number : 0);
        table_text(table, told ? told->instruction_id : "");
        table_text(table, told ? kind_of(told) : "unknown");
        table_number(table, list->instructions[i]->deliveries);
    }
}

static enum err instruction_list(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/ListInstructions",
                                                &muster__v1__list_instructions_response__descriptor,
                                                REMOTE_READ, NULL};
    static const char *const columns[] = {"SHARD", "TERM",       "SEQUENCE", "ID",
                                          "KIND",  "DELIVERIES", NULL};
    Muster__V1__ListInstructionsRequest request = MUSTER__V1__LIST_INSTRUCTIONS_REQUEST__INIT;

    request.shard_id = ctl_text(conf_text(ctl->conf, "shard"));
    return ctl_list(ctl, &method, &request.base, columns, instruction_list_rows);
}

static int run_instruction_list(void *context, const struct command_call *call)
{
    return ctl_run(context, call, instruction_list);
}

static const struct command_example list_examples[] = {
    {"musterctl instruction list", "what no shard has confirmed yet"},
    {"musterctl instruction list --shard shard-0 -o json", "with what each one says"},
    {NULL, NULL},
};
static const struct command list_command = {
    .name = "list",
    .summary = "instructions no shard has confirmed yet",
    .about = "Lists the instructions the present leader holds for the shards. Each is sent with "
             "every report of its shard until that confirms it; a new leader begins with none.",
    .options = &instruction_list_table,
    .examples = list_examples,
    .exits = CTL_EXITS,
    .run = run_instruction_list,
};

/* -- queue -- */

struct parts { /* of whichever kind it is; the caller's storage */
    Bigfleet__V1alpha1__AssignDomain assign;
    Bigfleet__V1alpha1__UnassignDomain unassign;
    Bigfleet__V1alpha1__ReassignSpeculative reassign;
    Bigfleet__V1alpha1__CrossShardDrain drain;
    Bigfleet__V1alpha1__TransferOwnership transfer;
};

/* Which options each kind must have; the others must be absent. */
static const char *const part_names[] = {"key", "value", "machines", "priority", "from", "to"};
static const bool part_needed[][ARRAY_LEN(part_names)] = {
    [INSTRUCTION_ASSIGN] = {true, true},
    [INSTRUCTION_UNASSIGN] = {true, true},
    [INSTRUCTION_REASSIGN] = {false, false, true},
    [INSTRUCTION_DRAIN] = {false, false, true, true},
    [INSTRUCTION_TRANSFER] = {false, false, true, false, true, true},
};

static enum err check_parts(struct ctl *ctl, size_t kind)
{
    for (size_t i = 0; i < ARRAY_LEN(part_names); i++) {
        bool given = conf_is_set(ctl->conf, part_names[i]);
        if (given == part_needed[kind][i]) continue;
        note_set(&ctl->note, "--kind %s %s --%s", conf_text(ctl->conf, "kind"),
                 given ? "takes no" : "needs", part_names[i]);
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err list_of(struct ctl *ctl, const char *name, char ***ret_list, size_t *ret_count)
{
    struct option_value value = conf_list(ctl->conf, name);
    char **list = arena_calloc(&ctl->memory, value.item_count + 1, sizeof *list);

    if (!list) return ERR_NOMEM;
    for (size_t i = 0; i < value.item_count; i++) list[i] = ctl_text(value.items[i].at);
    *ret_list = list;
    *ret_count = value.item_count;
    return ERR_OK;
}

static enum err read_priority(struct ctl *ctl, int32_t *ret_priority)
{
    const char *text = conf_text(ctl->conf, "priority");
    int64_t number;

    if (str_to_i64(str_from(text), &number) || number < INT32_MIN || number > INT32_MAX) {
        note_set(&ctl->note, "--priority: needs a whole number of 32 bits, got '%s'", text);
        return ERR_INVALID;
    }
    *ret_priority = (int32_t)number;
    return ERR_OK;
}

static enum err fill(struct ctl *ctl, struct parts *parts,
                     Bigfleet__V1alpha1__CoordinatorInstruction *into)
{
    char *key = ctl_text(conf_text(ctl->conf, "key"));
    char *value = ctl_text(conf_text(ctl->conf, "value"));

    switch (conf_choice(ctl->conf, "kind")) {
    case INSTRUCTION_ASSIGN:
        bigfleet__v1alpha1__assign_domain__init(&parts->assign);
        parts->assign.topology_key = key;
        parts->assign.topology_value = value;
        into->payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN;
        into->assign_domain = &parts->assign;
        return ERR_OK;
    case INSTRUCTION_UNASSIGN:
        bigfleet__v1alpha1__unassign_domain__init(&parts->unassign);
        parts->unassign.topology_key = key;
        parts->unassign.topology_value = value;
        into->payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_UNASSIGN_DOMAIN;
        into->unassign_domain = &parts->unassign;
        return ERR_OK;
    case INSTRUCTION_REASSIGN:
        bigfleet__v1alpha1__reassign_speculative__init(&parts->reassign);
        into->payload_case =
            BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_REASSIGN_SPECULATIVE;
        into->reassign_speculative = &parts->reassign;
        return list_of(ctl, "machines", &parts->reassign.machine_ids,
                       &parts->reassign.n_machine_ids);
    case INSTRUCTION_DRAIN: {
        bigfleet__v1alpha1__cross_shard_drain__init(&parts->drain);
        into->payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_CROSS_SHARD_DRAIN;
        into->cross_shard_drain = &parts->drain;
        enum err err = read_priority(ctl, &parts->drain.preemptor_priority);
        if (err) return err;
        return list_of(ctl, "machines", &parts->drain.machine_ids, &parts->drain.n_machine_ids);
    }
    default:
        bigfleet__v1alpha1__transfer_ownership__init(&parts->transfer);
        parts->transfer.from_shard_id = ctl_text(conf_text(ctl->conf, "from"));
        parts->transfer.to_shard_id = ctl_text(conf_text(ctl->conf, "to"));
        into->payload_case =
            BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_TRANSFER_OWNERSHIP;
        into->transfer_ownership = &parts->transfer;
        return list_of(ctl, "machines", &parts->transfer.machine_ids,
                       &parts->transfer.n_machine_ids);
    }
}

static enum err instruction_queue(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/QueueInstruction",
                                                &muster__v1__queue_instruction_response__descriptor,
                                                REMOTE_WRITE, "musterctl instruction list"};
    Bigfleet__V1alpha1__CoordinatorInstruction instruction =
        BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__INIT;
    Muster__V1__QueueInstructionRequest request = MUSTER__V1__QUEUE_INSTRUCTION_REQUEST__INIT;
    ProtobufCMessage *answer;
    struct parts parts;
    enum err err = check_parts(ctl, conf_choice(ctl->conf, "kind"));

    if (!err) err = fill(ctl, &parts, &instruction);
    if (!err) err = list_of(ctl, "shards", &request.shard_ids, &request.n_shard_ids);
    if (err) return err;
    /* The leader and the shards know a repeat by the instruction's own id. */
    instruction.instruction_id = ctl_text(
        conf_is_set(ctl->conf, "id") ? conf_text(ctl->conf, "id") : remote_request_id(ctl->remote));
    request.instruction = &instruction;
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    return ctl_done(ctl, &method, &request.base, answer, "queued %s for %zu shards",
                    ((const Muster__V1__QueueInstructionResponse *)answer)->instruction_id,
                    request.n_shard_ids);
}

static int run_instruction_queue(void *context, const struct command_call *call)
{
    return ctl_run(context, call, instruction_queue);
}

static const struct command_example queue_examples[] = {
    {"musterctl instruction queue --shards s0 --kind cross-shard-drain --machines m1 --priority "
     "900",
     "s0 drains a machine for a need of priority 900"},
    {"musterctl instruction queue --shards s0 --kind assign-domain --key zone --value eu-1a",
     "tell it again what it owns"},
    {NULL, NULL},
};
static const struct command queue_command = {
    .name = "queue",
    .summary = "tell shards something by hand",
    .about = "Queues an instruction at the leader for one or several shards. It carries the "
             "leader's term and a sequence number, is sent with every report of its shard until "
             "that confirms it, and is lost when another replica becomes leader before that.",
    .options = &instruction_queue_table,
    .examples = queue_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_instruction_queue,
};

static const struct command *const children[] = {&list_command, &queue_command, NULL};
const struct command instruction_command = {
    .name = "instruction",
    .summary = "instructions to shards: list, queue",
    .about = "Looks at the instructions that wait for shards, and queues one by hand. Assigning "
             "and unassigning a domain queue theirs themselves.",
    .children = children,
};
