/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl replica: commands for the coordinator's own replicas. One thread. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/help.h"
#include "common/tables.h"
#include "ctl/inspect.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

static const char look[] = "musterctl replica list";

static void replica_role_cell(struct text_table *table, const ProtobufCMessage *row)
{
    const Muster__V1__Replica *replica = (const void *)row;

    table_text(table, replica->leader ? "leader" : replica->voter ? "voter" : "learner");
}

static void replica_silence_cell(struct text_table *table, const ProtobufCMessage *row)
{
    const Muster__V1__Replica *replica = (const void *)row;

    if (replica->leader || replica->silent_ms < 0)
        table_text(table, replica->leader ? TABLE_DASH : "never heard");
    else
        table_format(table, "%" PRId64 "ms", replica->silent_ms);
}

static enum err replica_add_read_id(struct ctl *ctl, ProtobufCMessage *message)
{
    Muster__V1__JoinReplicaRequest *request = (void *)message;
    const char *text = conf_text(ctl->conf, "id");

    if (strlen(text) == 16 && strspn(text, "0123456789abcdefABCDEF") == 16)
        request->replica_id = strtoull(text, NULL, 16);
    return request->replica_id ? ERR_OK
                               : ctl_fail(ctl, ERR_INVALID,
                                          "--id: needs the identity as 16 hexadecimal digits; "
                                          "`muster check DIR` shows that of a data directory");
}

static enum err replica_bootstrap_check(struct ctl *ctl, ProtobufCMessage *)
{
    if (conf_list(ctl->conf, "coordinator").item_count <= 1) return ERR_OK;
    return ctl_fail(ctl, ERR_INVALID,
                    "--coordinator: name the one replica that waits to bootstrap");
}

const struct command replica_command = COMMAND_GROUP(
    HELP_MUSTERCTL_REPLICA,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_REPLICA_LIST, list, "[NAME]", 0, 1),
            CTL_RPC(0, CTL_READ(FLEET_PATH "ListReplicas", muster__v1__list_replicas),
                    CTL_COLUMNS(CTL_COLUMN("NAME", "name", .cell = CTL_OR_DASH),
                                CTL_COLUMN("ID", "replica_id"),
                                CTL_COLUMN("ROLE", NULL, .put = replica_role_cell),
                                CTL_COLUMN("RAFT_ADDRESS", "raft_address", .cell = CTL_OR_DASH),
                                CTL_COLUMN("GRPC_ADDRESS", "grpc_address", .cell = CTL_OR_DASH),
                                CTL_COLUMN("HTTP_ADDRESS", "http_address", .cell = CTL_OR_DASH),
                                CTL_COLUMN("MATCH", "match"),
                                CTL_COLUMN("SILENT", NULL, .put = replica_silence_cell),
                                CTL_COLUMN("LEVEL", "level")))),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_REPLICA_ADD, replica_add),
            /* A repeat is safe: the server knows the replica and changes nothing. */
            CTL_RPC(BIT(4), CTL_WRITE(FLEET_PATH "JoinReplica", muster__v1__join_replica, look),
                    CTL_FILL({"name", "name"}, {"raft_address", "raft-address"},
                             {"grpc_address", "grpc-address"}, {"http_address", "http-address"}),
                    .prepare = replica_add_read_id, .done_if = "voter", .done = "{name} is a voter",
                    .done_else = "{name} waits: {waiting}")),
    COMMAND(
        COMMAND_ROW_WITH(HELP_MUSTERCTL_REPLICA_REMOVE, removal, "REPLICA", 1, 1),
        CTL_RPC(
            BIT(4) | BIT(5), CTL_ONCE(FLEET_PATH "RemoveReplica", muster__v1__remove_replica, look),
            CTL_FILL({"replica", NULL}),
            .asks =
                "Replica {replica} leaves the cluster for good, and its data is of no use again.",
            .done = "removed replica {replica}")),
    COMMAND(
        COMMAND_ROW_WITH(HELP_MUSTERCTL_REPLICA_TRANSFER, ctl, "[REPLICA]", 0, 1),
        CTL_RPC(BIT(4) | BIT(5),
                CTL_ONCE(FLEET_PATH "TransferLeadership", muster__v1__transfer_leadership, look),
                CTL_FILL({"replica", NULL}), .done_if = "replica",
                .done = "leadership handed to {replica}",
                .done_else = "leadership handed to another replica")),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_REPLICA_BOOTSTRAP, removal),
            CTL_RPC(BIT(4),
                    CTL_ONCE(FLEET_PATH "BootstrapReplica", muster__v1__bootstrap_replica, look),
                    .prepare = replica_bootstrap_check,
                    .asks = "Data of a replica that is silent now would be a second cluster.",
                    .done = "replica {replica_id} bootstraps cluster {cluster_id}")),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_STATE_HASH, ctl), CTL_ACT(BIT(4), state_hash_act)));
