/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl replica: the replicas of the coordinator itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

static const char dash[] = "\xe2\x80\x94";
static const char look[] = "musterctl replica list";

/* -- list -- */

static const char *role_of(const Muster__V1__Replica *replica)
{
    if (replica->leader) return "leader";
    return replica->voter ? "voter" : "learner";
}

static void silence_cell(struct table *table, const Muster__V1__Replica *replica)
{
    char text[32], *copy;

    if (replica->leader || replica->silent_ms < 0) {
        table_text(table, replica->leader ? dash : "never heard");
        return;
    }
    snprintf(text, sizeof text, "%" PRId64 "ms", replica->silent_ms);
    copy = arena_dup(table->memory, str_from(text));
    if (copy)
        table_text(table, copy);
    else
        table->err = ERR_NOMEM;
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : dash;
}

static void replica_list_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListReplicasResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        table_text(table, or_dash(replica->name));
        table_hex(table, replica->replica_id);
        table_text(table, role_of(replica));
        table_text(table, or_dash(replica->raft_address));
        table_text(table, or_dash(replica->grpc_address));
        table_text(table, or_dash(replica->http_address));
        table_number(table, (int64_t)replica->match);
        silence_cell(table, replica);
        table_number(table, replica->level);
    }
}

static enum err replica_list(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/ListReplicas",
                                                &muster__v1__list_replicas_response__descriptor,
                                                REMOTE_READ, NULL};
    static const char *const columns[] = {
        "NAME",         "ID",    "ROLE",   "RAFT_ADDRESS", "GRPC_ADDRESS",
        "HTTP_ADDRESS", "MATCH", "SILENT", "LEVEL",        NULL};
    Muster__V1__ListReplicasRequest request = MUSTER__V1__LIST_REPLICAS_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, replica_list_rows);
}

static int run_replica_list(void *context, const struct command_call *call)
{
    return ctl_run(context, call, replica_list);
}

static const struct command_example list_examples[] = {
    {"musterctl replica list", "who they are, who leads, who is silent"},
    {NULL, NULL},
};
static const struct command list_command = {
    .name = "list",
    .summary = "the replicas, who leads and how far each is",
    .about = "Lists the replicas in order of their names. MATCH is the index up to which the "
             "leader knows a replica's log to agree with its own, SILENT how long ago it last "
             "answered.",
    .options = &ctl_table,
    .examples = list_examples,
    .exits = CTL_EXITS,
    .run = run_replica_list,
};

/* -- add -- */

static enum err read_id(struct ctl *ctl, uint64_t *ret_id)
{
    const char *text = conf_text(ctl->conf, "id");
    char *stop;

    if (strlen(text) == 16 && strspn(text, "0123456789abcdefABCDEF") == 16) {
        *ret_id = strtoull(text, &stop, 16);
        if (*ret_id != 0) return ERR_OK;
    }
    note_set(&ctl->note, "--id: needs the identity as 16 hexadecimal digits; `muster check DIR` "
                         "shows that of a data directory");
    return ERR_INVALID;
}

static enum err replica_add(struct ctl *ctl)
{
    /* The server knows the identity: said again, it changes nothing. */
    static const struct remote_method method = {"/muster.v1.Fleet/JoinReplica",
                                                &muster__v1__join_replica_response__descriptor,
                                                REMOTE_WRITE, look};
    Muster__V1__JoinReplicaRequest request = MUSTER__V1__JOIN_REPLICA_REQUEST__INIT;
    const Muster__V1__JoinReplicaResponse *joined;
    ProtobufCMessage *answer;
    enum err err = read_id(ctl, &request.replica_id);

    if (err) return err;
    request.name = ctl_text(conf_text(ctl->conf, "name"));
    request.raft_address = ctl_text(conf_text(ctl->conf, "raft-address"));
    request.grpc_address = ctl_text(conf_text(ctl->conf, "grpc-address"));
    request.http_address = ctl_text(conf_text(ctl->conf, "http-address"));
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    joined = (const void *)answer;
    if (joined->voter)
        return ctl_done(ctl, &method, &request.base, answer, "%s is a voter", request.name);
    return ctl_done(ctl, &method, &request.base, answer, "%s waits: %s", request.name,
                    joined->waiting);
}

static int run_replica_add(void *context, const struct command_call *call)
{
    return ctl_run(context, call, replica_add);
}

static const struct command_example add_examples[] = {
    {"musterctl replica add --id 00c0ffee00c0ffee --name node-4 --raft-address n4.example:7791",
     "make it known; repeat until it says that it is a voter"},
    {NULL, NULL},
};
static const struct command add_command = {
    .name = "add",
    .summary = "make a replica known, or give it new addresses",
    .about = "Asks the leader to give a replica its place, as the replica itself does when it was "
             "started with --join-addr: a new one becomes a learner, one that has caught up a "
             "voter, one that moved gets its new addresses. An older identity of the same name is "
             "removed first.",
    .options = &replica_add_table,
    .examples = add_examples,
    .exits = CTL_EXITS | BIT(4),
    .run = run_replica_add,
};

/* -- remove, transfer -- */

static enum err replica_remove(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/RemoveReplica",
                                                &muster__v1__remove_replica_response__descriptor,
                                                REMOTE_ONCE, look};
    Muster__V1__RemoveReplicaRequest request = MUSTER__V1__REMOVE_REPLICA_REQUEST__INIT;

    request.replica = ctl_text(conf_argument(ctl->conf, 0));
    return ctl_write(ctl, &method, &request.base, "removed replica %s", request.replica);
}

static int run_replica_remove(void *context, const struct command_call *call)
{
    return ctl_run(context, call, replica_remove);
}

static const struct command_example remove_examples[] = {
    {"musterctl replica remove node-3", "by its name"},
    {"musterctl replica remove 00c0ffee00c0ffee", "by its identity, when the name is not clear"},
    {NULL, NULL},
};
static const struct command remove_command = {
    .name = "remove",
    .summary = "take a replica out of the cluster",
    .about = "Removes a replica from the cluster for good; its data directory must not be used "
             "again. Refused when the others would not be a majority that answers.",
    .options = &ctl_table,
    .arguments = "REPLICA",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = remove_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_replica_remove,
};

static enum err replica_transfer(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/muster.v1.Fleet/TransferLeadership",
        &muster__v1__transfer_leadership_response__descriptor, REMOTE_ONCE, look};
    Muster__V1__TransferLeadershipRequest request = MUSTER__V1__TRANSFER_LEADERSHIP_REQUEST__INIT;
    const char *to = conf_argument(ctl->conf, 0);

    request.replica = ctl_text(to);
    return ctl_write(ctl, &method, &request.base, "leadership handed to %s",
                     to[0] ? to : "another replica");
}

static int run_replica_transfer(void *context, const struct command_call *call)
{
    return ctl_run(context, call, replica_transfer);
}

static const struct command_example transfer_examples[] = {
    {"musterctl replica transfer", "to whoever is furthest, before this one is restarted"},
    {"musterctl replica transfer node-2", "to this one"},
    {NULL, NULL},
};
static const struct command transfer_command = {
    .name = "transfer",
    .summary = "hand leadership to another replica",
    .about = "Asks the leader to let another replica lead, without an outage: to the one that is "
             "named, or to whoever is furthest.",
    .options = &ctl_table,
    .arguments = "[REPLICA]",
    .arguments_max = 1,
    .examples = transfer_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_replica_transfer,
};

/* -- bootstrap -- */

static enum err replica_bootstrap(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/BootstrapReplica",
                                                &muster__v1__bootstrap_replica_response__descriptor,
                                                REMOTE_ONCE, look};
    Muster__V1__BootstrapReplicaRequest request = MUSTER__V1__BOOTSTRAP_REPLICA_REQUEST__INIT;
    const Muster__V1__BootstrapReplicaResponse *made;
    ProtobufCMessage *answer;
    enum err err;

    if (conf_list(ctl->conf, "coordinator").item_count > 1) {
        note_set(&ctl->note, "--coordinator: name the one replica that waits to bootstrap");
        return ERR_INVALID;
    }
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    made = (const void *)answer;
    return ctl_done(ctl, &method, &request.base, answer,
                    "replica %016" PRIx64 " bootstraps cluster %016" PRIx64, made->replica_id,
                    made->cluster_id);
}

static int run_replica_bootstrap(void *context, const struct command_call *call)
{
    return ctl_run(context, call, replica_bootstrap);
}

static const struct command_example bootstrap_examples[] = {
    {"musterctl replica bootstrap --coordinator c1:7790",
     "c1 waits for replicas that will not come"},
    {NULL, NULL},
};
static const struct command bootstrap_command = {
    .name = "bootstrap",
    .summary = "let the replica that waits bootstrap a cluster now",
    .about =
        "Tells the one replica that waits to bootstrap a cluster (ordinal 0 over an empty data "
        "directory) to do so although not all others answered or promised. Refused when a "
        "replica that answers has a log. Make sure first that no silent replica holds data: "
        "its cluster would exist beside the new one.",
    .options = &ctl_table,
    .examples = bootstrap_examples,
    .exits = CTL_EXITS | BIT(4),
    .run = run_replica_bootstrap,
};

static const struct command *const children[] = {
    &list_command, &add_command, &remove_command, &transfer_command, &bootstrap_command, NULL};
const struct command replica_command = {
    .name = "replica",
    .summary = "the replicas of the coordinator: list, add, remove, transfer, bootstrap",
    .about = "Looks at the replicas of the coordinator and changes who they are.",
    .children = children,
};
