/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl worker: status, workers, partitions, assignment, checkpoints and work; drain, evict,
 * release-hold and checkpoint. One thread. */
#include <inttypes.h>

#include "common/help.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/muster_v1_member.pb-c.h"

/* -- workers -- */

static const char *const standings[] = {"?", "ACTIVE", "SUSPECTED", "DEAD", "REMOVED", NULL};

static void worker_phase_cell(struct text_table *table, const ProtobufCMessage *row)
{
    static const char *const phases[] = {TABLE_DASH, "INIT", "READY", "RUNNING", "DRAINING"};
    const Muster__V1__Worker *worker = (const void *)row;

    table_text(table, worker->draining                    ? "DRAINING"
                      : worker->phase < ARRAY_LEN(phases) ? phases[worker->phase]
                                                          : "?");
}

static void worker_silent_cell(struct text_table *table, const ProtobufCMessage *row)
{
    const Muster__V1__Worker *worker = (const void *)row;

    if (worker->received_at_ms)
        table_format(table, "%" PRIu64 "ms", worker->silent_ms);
    else
        table_text(table, TABLE_DASH);
}

static const struct ctl_action workers_action = {
    .rpc = {CTL_READ(MEMBERSHIP_PATH "ListWorkers", muster__v1__list_workers),
            CTL_FILL({"standing", "standing"}), .page_request = "after", .page_row = "worker_id",
            CTL_COLUMNS(CTL_COLUMN("WORKER", "worker_id"), CTL_COLUMN("INCARNATION", "incarnation"),
                        CTL_COLUMN("STANDING", "standing", .words = standings),
                        CTL_COLUMN("PHASE", NULL, .put = worker_phase_cell),
                        CTL_COLUMN("PARTITIONS", "partitions"), CTL_COLUMN("LOAD", "load"),
                        CTL_COLUMN("SILENT", NULL, .put = worker_silent_cell),
                        CTL_COLUMN("REGISTERED", "registered_at_ms", .cell = CTL_TIME),
                        CTL_COLUMN("REASON", "reason", .cell = CTL_OR_DASH))}};

/* -- status -- */

static enum err status_print(struct ctl *ctl, const Muster__V1__ClusterStatusResponse *status)
{
    const struct ctl_rpc *rpc = &workers_action.rpc;
    Muster__V1__ListWorkersRequest request = MUSTER__V1__LIST_WORKERS_REQUEST__INIT;
    ProtobufCMessage *workers;
    enum err err;

    if (ctl->json) {
        struct ndjson *json = ctl_json_begin(ctl);
        ndjson_u64(json, STR("active"), status->active);
        ndjson_u64(json, STR("known"), status->known);
        ndjson_u64(json, STR("total_partitions"), status->total_partitions);
        ndjson_u64(json, STR("assignment_epoch"), status->assignment_epoch);
        ctl_json_end(ctl);
        return ERR_OK;
    }
    err = ctl_rpc_fetch(ctl, rpc, &request.base, &workers);
    if (err) return err;
    if (!(ctl->table_flags & (TABLE_NAMES | TABLE_NO_HEADERS))) {
        ctl_line(ctl, "active workers    %" PRIu64, status->active);
        ctl_line(ctl, "known workers     %" PRIu64, status->known);
        ctl_line(ctl, "total partitions  %" PRIu32, status->total_partitions);
        ctl_line(ctl, "assignment epoch  %" PRIu64, status->assignment_epoch);
        ctl_append(ctl, STR("\n"));
    }
    ctl_rpc_print(ctl, rpc, workers);
    return ERR_OK;
}

static enum err member_status_show(struct ctl *ctl)
{
    enum err err;
    const Muster__V1__ClusterStatusResponse *status =
        ctl_ask(ctl, REMOTE_READ_OF(MEMBERSHIP_PATH "ClusterStatus", muster__v1__cluster_status),
                NULL, &err);

    if (status) err = status_print(ctl, status);
    if (err || strcmp(status->status, "ok") == 0 || conf_bool(ctl->conf, "watch")) return err;
    /* the command exits with 1, after its output */
    return ctl_fail(ctl, ERR_INTERNAL, "the cluster is %s%s", status->status,
                    status->hold ? ": failures are held back, many at once" : "");
}

/* Under its flat name the command has the specification's exit code 2 if nobody answered. */
static int run_status(void *context, const struct command_call *call)
{
    int code = ctl_run(context, call);
    return call->flat && (code == 3 || code == 6) ? 2 : code;
}

/* -- partitions -- */

static const char *const partition_states[] = {"FREE", "OWNED", "REVOKING", "FENCING", NULL};

/* `worker`: the option with the worker's name; NULL: the first argument. */
#define PARTITIONS_RPC(worker)                                                                     \
    {                                                                                              \
        CTL_READ(MEMBERSHIP_PATH "ListPartitions", muster__v1__list_partitions),                   \
            CTL_FILL({"worker_id", (worker)}),                                                     \
            .page_request = "from", .page_row = "partition",                                       \
            CTL_COLUMNS(CTL_COLUMN("PARTITION", "partition"),                                      \
                        CTL_COLUMN("STATE", "state", .words = partition_states),                   \
                        CTL_COLUMN("OWNER", "owner", .cell = CTL_OR_DASH),                         \
                        CTL_COLUMN("INCARNATION", "owner_incarnation"),                            \
                        CTL_COLUMN("GRANT_EPOCH", "grant_epoch"),                                  \
                        CTL_COLUMN("NEXT_OWNER", "next_owner", .cell = CTL_OR_DASH),               \
                        CTL_COLUMN("CHECKPOINT", "checkpoint", .cell = CTL_OR_DASH))               \
    }

/* -- checkpoints -- */

static void checkpoints_head(struct ctl *ctl, const ProtobufCMessage *answer)
{
    const Muster__V1__ListCheckpointsResponse *list = (const void *)answer;

    ctl_line(ctl, "round %" PRIu64 ", %" PRIu64 " workers have not answered", list->round,
             list->outstanding);
    ctl_append(ctl, STR("\n"));
}

/* -- work -- */

static const char *const work_states[] = {"PENDING", "RUNNING", "DONE", "FAILED", NULL};

const struct command checkpoint_command = COMMAND_GROUP(
    HELP_MUSTERCTL_CHECKPOINT,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_CHECKPOINTS, list, "[NAME]", 0, 1),
            CTL_RPC(0, CTL_READ(MEMBERSHIP_PATH "ListCheckpoints", muster__v1__list_checkpoints),
                    .head = checkpoints_head, .page_request = "from", .page_row = "partition",
                    CTL_COLUMNS(CTL_COLUMN("PARTITION", "partition"),
                                CTL_COLUMN("CHECKPOINT", "checkpoint", .cell = CTL_OR_DASH),
                                CTL_COLUMN("GRANT_EPOCH", "grant_epoch"),
                                CTL_COLUMN("AT", "at_ms", .cell = CTL_TIME),
                                CTL_COLUMN("WORKER", "worker_id", .cell = CTL_OR_DASH)))),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_CHECKPOINT_NOW, ctl),
            CTL_RPC(0,
                    CTL_ONCE(MEMBERSHIP_PATH "CheckpointNow", muster__v1__checkpoint_now,
                             "musterctl checkpoint list"),
                    .done = "round {round} asks {workers} workers")));

const struct command worker_command = COMMAND_GROUP(
    HELP_MUSTERCTL_WORKER,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_WORKERS, workers, "[NAME]", 0, 1), .exits = CTL_EXITS,
            .run = ctl_run, .data = &workers_action),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_STATUS, status), .exits = CTL_EXITS, .run = run_status,
            .data = &(const struct ctl_action){.act = member_status_show}),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_ASSIGNMENT, list, "WORKER", 1, 1),
            CTL_RUN(0, .rpc = PARTITIONS_RPC(NULL))),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_DRAIN, drain, "WORKER", 1, 1),
            CTL_RPC(BIT(4) | BIT(5),
                    CTL_ONCE(MEMBERSHIP_PATH "Drain", muster__v1__drain_worker,
                             "musterctl worker list"),
                    CTL_FILL({"worker_id", NULL}, {"deadline_ms", "deadline"}),
                    .asks = "Worker {worker_id} gives back its partitions and leaves.",
                    .done_if = "delivered", .done = "{worker_id} has been ordered to drain",
                    .done_else = "{worker_id} will be ordered to drain with its next beat")),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_EVICT, removal, "WORKER", 1, 1),
            CTL_RPC(BIT(4) | BIT(5),
                    CTL_ONCE(MEMBERSHIP_PATH "Evict", muster__v1__evict, "musterctl worker list"),
                    CTL_FILL({"worker_id", NULL}),
                    .asks = "Worker {worker_id} counts as failed, and others get its partitions.",
                    .done = "evicted {worker_id}, incarnation {incarnation}")),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_RELEASE_HOLD, removal),
            CTL_RPC(0,
                    CTL_ONCE(MEMBERSHIP_PATH "ReleaseHold", muster__v1__release_hold,
                             "musterctl worker status"),
                    .asks = "All silent workers count as failed.", .done_if = "held",
                    .done = "failures are declared again", .done_else = "nothing was held back")));

const struct command partition_command =
    COMMAND_GROUP(HELP_MUSTERCTL_PARTITION,
                  COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_PARTITIONS, partitions, "[WORKER]", 0, 1),
                          .argument_sets = "worker", CTL_RUN(0, .rpc = PARTITIONS_RPC("worker"))));

const struct command queue_command = COMMAND_GROUP(
    HELP_MUSTERCTL_QUEUE,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_WORK, work, "[NAME]", 0, 1),
            CTL_RPC(0, CTL_READ(MEMBERSHIP_PATH "ListWork", muster__v1__list_work),
                    CTL_FILL({"unfinished", "unfinished"}), .page_request = "after",
                    .page_row = "id",
                    CTL_COLUMNS(CTL_COLUMN("ITEM", "id"),
                                CTL_COLUMN("STATE", "state", .words = work_states),
                                CTL_COLUMN("WORKER", "worker_id", .cell = CTL_OR_DASH),
                                CTL_COLUMN("STARTED", "started_at_ms", .cell = CTL_TIME),
                                CTL_COLUMN("ATTEMPTS", "attempts"), CTL_COLUMN("BYTES", "bytes"),
                                CTL_COLUMN("REASON", "reason", .cell = CTL_OR_DASH)))));
