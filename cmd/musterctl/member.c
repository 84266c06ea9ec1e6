/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl status, workers, partitions, assignment, checkpoints, work: worker membership, as
 * ripple-cli's status was, and in full. */
#include "musterctl/member.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "text/ndjson.h"
#include "wire/pb/muster_v1_member.pb-c.h"

static const char dash[] = "\xe2\x80\x94";
enum { NS_PER_MS_SIGNED = 1000000, WORK_ID_CAP = 2 * 32 + 1 };

static const char *or_dash(const char *text)
{
    return text[0] ? text : dash;
}

static void time_cell(struct table *table, uint64_t ms)
{
    table_time(table, ms < INT64_MAX / NS_PER_MS_SIGNED ? (int64_t)ms * NS_PER_MS_SIGNED : 0);
}

/* -- workers -- */

static const char *standing_of(const Muster__V1__Worker *worker)
{
    static const char *const names[] = {"?", "ACTIVE", "SUSPECTED", "DEAD", "REMOVED"};
    return worker->standing < ARRAY_LEN(names) ? names[worker->standing] : "?";
}

static const char *phase_of(const Muster__V1__Worker *worker)
{
    static const char *const names[] = {dash, "INIT", "READY", "RUNNING", "DRAINING"};
    return worker->phase < ARRAY_LEN(names) ? names[worker->phase] : "?";
}

static void worker_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListWorkersResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_workers; i++) {
        const Muster__V1__Worker *worker = list->workers[i];
        table_text(table, worker->worker_id);
        table_number(table, (int64_t)worker->incarnation);
        table_text(table, standing_of(worker));
        table_text(table, worker->draining ? "DRAINING" : phase_of(worker));
        table_number(table, worker->partitions);
        table_format(table, "%.2f", worker->load);
        if (worker->received_at_ms)
            table_format(table, "%" PRIu64 "ms", worker->silent_ms);
        else
            table_text(table, dash);
        time_cell(table, worker->registered_at_ms);
        table_text(table, or_dash(worker->reason));
    }
}

static void after_worker(ProtobufCMessage *request, const ProtobufCMessage *last)
{
    ((Muster__V1__ListWorkersRequest *)request)->after =
        ((const Muster__V1__Worker *)(const void *)last)->worker_id;
}

static const char *const worker_columns[] = {"WORKER",     "INCARNATION", "STANDING", "PHASE",
                                             "PARTITIONS", "LOAD",        "SILENT",   "REGISTERED",
                                             "REASON",     NULL};
static const struct listing worker_listing = {
    .method = {"/muster.v1.Membership/ListWorkers", &muster__v1__list_workers_response__descriptor,
               REMOTE_READ, NULL},
    .columns = worker_columns,
    .rows = worker_rows,
    .advance = after_worker,
};

static enum err show_workers(struct ctl *ctl)
{
    Muster__V1__ListWorkersRequest request = MUSTER__V1__LIST_WORKERS_REQUEST__INIT;
    ProtobufCMessage *answer;
    enum err err;

    request.standing = (Muster__V1__Standing)conf_choice(ctl->conf, "standing");
    err = listing_fetch(ctl, &worker_listing, &request.base, &answer);
    return err ? err : listing_print(ctl, &worker_listing, answer);
}

static enum err workers(struct ctl *ctl)
{
    return member_show(ctl, show_workers);
}

static int run_workers(void *context, const struct command_call *call)
{
    return ctl_run(context, call, workers);
}

static const struct command_example workers_examples[] = {
    {"musterctl workers", "who there is, how each stands, how long each has been silent"},
    {"musterctl workers --standing dead", "who has failed of late"},
    {"musterctl workers --watch", "the same, anew with every change"},
    {"musterctl workers -o json | jq -r '.workers[].worker_id'", "their ids, for a script"},
    {NULL, NULL},
};
const struct command workers_command = {
    .name = "workers",
    .summary = "the workers, and how each stands",
    .about = "Lists the workers in order of their ids. STANDING is what the coordinator decided, "
             "PHASE what the worker says, SILENT how long ago its last beat came; a new leader "
             "knows no beats yet.",
    .options = &workers_table,
    .examples = workers_examples,
    .exits = CTL_EXITS,
    .run = run_workers,
};

/* -- status -- */

static enum err status_json(struct ctl *ctl, const Muster__V1__ClusterStatusResponse *status)
{
    struct ndjson json;

    ndjson_begin(&json, &ctl->out, NDJSON_LINE);
    ndjson_u64(&json, STR("active"), status->active);
    ndjson_u64(&json, STR("known"), status->known);
    ndjson_u64(&json, STR("total_partitions"), status->total_partitions);
    ndjson_u64(&json, STR("assignment_epoch"), status->assignment_epoch);
    return ndjson_end(&json);
}

static enum err status_lines(struct ctl *ctl, const Muster__V1__ClusterStatusResponse *status)
{
    Muster__V1__ListWorkersRequest request = MUSTER__V1__LIST_WORKERS_REQUEST__INIT;
    ProtobufCMessage *answer;
    enum err err = listing_fetch(ctl, &worker_listing, &request.base, &answer);

    if (!err) err = ctl_line(ctl, "active workers    %" PRIu64, status->active);
    if (!err) err = ctl_line(ctl, "known workers     %" PRIu64, status->known);
    if (!err) err = ctl_line(ctl, "total partitions  %" PRIu32, status->total_partitions);
    if (!err) err = ctl_line(ctl, "assignment epoch  %" PRIu64, status->assignment_epoch);
    if (!err) err = buf_append_byte(&ctl->out, '\n');
    return err ? err : listing_print(ctl, &worker_listing, answer);
}

static enum err show_status(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Membership/ClusterStatus",
                                                &muster__v1__cluster_status_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__ClusterStatusRequest request = MUSTER__V1__CLUSTER_STATUS_REQUEST__INIT;
    const Muster__V1__ClusterStatusResponse *status;
    ProtobufCMessage *answer;
    enum err err = ctl_call(ctl, &method, &request.base, &answer);

    if (err) return err;
    status = (const void *)answer;
    err = ctl->json ? status_json(ctl, status) : status_lines(ctl, status);
    if (err || strcmp(status->status, "ok") == 0 || conf_bool(ctl->conf, "watch")) return err;
    note_set(&ctl->note, "the cluster is %s%s", status->status,
             status->hold ? ": failures are held back, many at once" : "");
    return ERR_INTERNAL; /* exit code 1; the numbers are printed */
}

static enum err status(struct ctl *ctl)
{
    return member_show(ctl, show_status);
}

/* The specification's codes: 1 answered and not well, 2 nobody answered. */
static int run_status(void *context, const struct command_call *call)
{
    int code = ctl_run(context, call, status);
    return code == 3 || code == 6 ? 2 : code;
}

static const struct command_example status_examples[] = {
    {"musterctl status", "four numbers, then the workers"},
    {"musterctl status --json", "the four numbers, as GET /status gives them"},
    {NULL, NULL},
};
const struct command member_status_command = {
    .name = "status",
    .summary = "workers and partitions in four numbers",
    .about = "Prints how many workers are active, how many are known (active, suspected and dead), "
             "how many partitions there are and the assignment epoch, then the workers. The exit "
             "code is 1 when the cluster is not well, 2 when nobody answered.",
    .options = &status_table,
    .examples = status_examples,
    .exits = BIT(1) | BIT(2),
    .run = run_status,
};

/* -- partitions -- */

static const char *state_of(const Muster__V1__Partition *partition)
{
    static const char *const names[] = {"FREE", "OWNED", "REVOKING", "FENCING"};
    return partition->state < ARRAY_LEN(names) ? names[partition->state] : "?";
}

static void partition_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListPartitionsResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_partitions; i++) {
        const Muster__V1__Partition *partition = list->partitions[i];
        table_number(table, partition->partition);
        table_text(table, state_of(partition));
        table_text(table, or_dash(partition->owner));
        table_number(table, (int64_t)partition->owner_incarnation);
        table_number(table, (int64_t)partition->grant_epoch);
        table_text(table, or_dash(partition->next_owner));
        table_text(table, or_dash(partition->checkpoint));
    }
}

static void after_partition(ProtobufCMessage *request, const ProtobufCMessage *last)
{
    ((Muster__V1__ListPartitionsRequest *)request)->from =
        ((const Muster__V1__Partition *)(const void *)last)->partition + 1;
}

static enum err show_partitions_of(struct ctl *ctl, const char *worker)
{
    static const char *const columns[] = {"PARTITION",   "STATE",      "OWNER",      "INCARNATION",
                                          "GRANT_EPOCH", "NEXT_OWNER", "CHECKPOINT", NULL};
    static const struct listing listing = {
        .method = {"/muster.v1.Membership/ListPartitions",
                   &muster__v1__list_partitions_response__descriptor, REMOTE_READ, NULL},
        .columns = columns,
        .rows = partition_rows,
        .advance = after_partition,
    };
    Muster__V1__ListPartitionsRequest request = MUSTER__V1__LIST_PARTITIONS_REQUEST__INIT;
    ProtobufCMessage *answer;
    enum err err;

    request.worker_id = ctl_text(worker);
    err = listing_fetch(ctl, &listing, &request.base, &answer);
    return err ? err : listing_print(ctl, &listing, answer);
}

static enum err show_partitions(struct ctl *ctl)
{
    return show_partitions_of(ctl, conf_text(ctl->conf, "worker"));
}

static enum err partitions(struct ctl *ctl)
{
    return member_show(ctl, show_partitions);
}

static int run_partitions(void *context, const struct command_call *call)
{
    return ctl_run(context, call, partitions);
}

static const struct command_example partitions_examples[] = {
    {"musterctl partitions", "who owns each, and under which grant"},
    {"musterctl partitions --worker 01JFEAVS7C5DE5XEAEAB91EBT6 --watch", "one worker's, live"},
    {NULL, NULL},
};
const struct command partitions_command = {
    .name = "partitions",
    .summary = "the partitions, and who owns each",
    .about = "Lists the partitions in order. REVOKING is on its way from its owner to the next, "
             "FENCING waits until a dead owner must have stopped.",
    .options = &partitions_table,
    .examples = partitions_examples,
    .exits = CTL_EXITS,
    .run = run_partitions,
};

static enum err show_assignment(struct ctl *ctl)
{
    return show_partitions_of(ctl, conf_argument(ctl->conf, 0));
}

static enum err assignment(struct ctl *ctl)
{
    return member_show(ctl, show_assignment);
}

static int run_assignment(void *context, const struct command_call *call)
{
    return ctl_run(context, call, assignment);
}

static const struct command_example assignment_examples[] = {
    {"musterctl assignment 01JFEAVS7C5DE5XEAEAB91EBT6", "what it may process now"},
    {NULL, NULL},
};
const struct command assignment_command = {
    .name = "assignment",
    .summary = "the partitions of one worker",
    .about = "Lists the partitions of one worker; none for a worker that nobody knows.",
    .options = &member_list_table,
    .arguments = "WORKER",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = assignment_examples,
    .exits = CTL_EXITS,
    .run = run_assignment,
};

/* -- checkpoints -- */

static void checkpoint_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListCheckpointsResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_checkpoints; i++) {
        const Muster__V1__Checkpoint *checkpoint = list->checkpoints[i];
        table_number(table, checkpoint->partition);
        table_text(table, or_dash(checkpoint->checkpoint));
        table_number(table, (int64_t)checkpoint->grant_epoch);
        time_cell(table, checkpoint->at_ms);
        table_text(table, or_dash(checkpoint->worker_id));
    }
}

static void after_checkpoint(ProtobufCMessage *request, const ProtobufCMessage *last)
{
    ((Muster__V1__ListCheckpointsRequest *)request)->from =
        ((const Muster__V1__Checkpoint *)(const void *)last)->partition + 1;
}

static enum err show_checkpoints(struct ctl *ctl)
{
    static const char *const columns[] = {"PARTITION", "CHECKPOINT", "GRANT_EPOCH",
                                          "AT",        "WORKER",     NULL};
    static const struct listing listing = {
        .method = {"/muster.v1.Membership/ListCheckpoints",
                   &muster__v1__list_checkpoints_response__descriptor, REMOTE_READ, NULL},
        .columns = columns,
        .rows = checkpoint_rows,
        .advance = after_checkpoint,
    };
    Muster__V1__ListCheckpointsRequest request = MUSTER__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    const Muster__V1__ListCheckpointsResponse *list;
    ProtobufCMessage *answer;
    enum err err = listing_fetch(ctl, &listing, &request.base, &answer);

    if (err) return err;
    list = (const void *)answer;
    if (!ctl->json)
        err = ctl_line(ctl, "round %" PRIu64 ", %" PRIu64 " workers have not answered", list->round,
                       list->outstanding);
    if (!err && !ctl->json) err = buf_append_byte(&ctl->out, '\n');
    return err ? err : listing_print(ctl, &listing, answer);
}

static enum err checkpoints(struct ctl *ctl)
{
    return member_show(ctl, show_checkpoints);
}

static int run_checkpoints(void *context, const struct command_call *call)
{
    return ctl_run(context, call, checkpoints);
}

static const struct command_example checkpoints_examples[] = {
    {"musterctl checkpoints", "the newest one of each partition"},
    {NULL, NULL},
};
const struct command checkpoints_command = {
    .name = "checkpoints",
    .summary = "the newest checkpoint of each partition",
    .about = "Prints the round that is under way, then the newest acknowledged checkpoint of each "
             "partition that has one.",
    .options = &member_list_table,
    .examples = checkpoints_examples,
    .exits = CTL_EXITS,
    .run = run_checkpoints,
};

/* -- work -- */

static void id_cell(struct table *table, ProtobufCBinaryData id)
{
    char text[WORK_ID_CAP] = "";

    for (size_t i = 0; i < id.len && 2 * i + 2 < sizeof text; i++)
        snprintf(text + 2 * i, 3, "%02x", id.data[i]);
    table_format(table, "%s", or_dash(text));
}

static const char *work_state_of(const Muster__V1__WorkRow *row)
{
    static const char *const names[] = {"PENDING", "RUNNING", "DONE", "FAILED"};
    return row->state < ARRAY_LEN(names) ? names[row->state] : "?";
}

static void work_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListWorkResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_rows; i++) {
        const Muster__V1__WorkRow *row = list->rows[i];
        id_cell(table, row->id);
        table_text(table, work_state_of(row));
        table_text(table, or_dash(row->worker_id));
        time_cell(table, row->started_at_ms);
        table_number(table, row->attempts);
        table_number(table, (int64_t)row->bytes);
        table_text(table, or_dash(row->reason));
    }
}

static void after_work(ProtobufCMessage *request, const ProtobufCMessage *last)
{
    ((Muster__V1__ListWorkRequest *)request)->after =
        ((const Muster__V1__WorkRow *)(const void *)last)->id;
}

static enum err show_work(struct ctl *ctl)
{
    static const char *const columns[] = {"ITEM",     "STATE", "WORKER", "STARTED",
                                          "ATTEMPTS", "BYTES", "REASON", NULL};
    static const struct listing listing = {
        .method = {"/muster.v1.Membership/ListWork", &muster__v1__list_work_response__descriptor,
                   REMOTE_READ, NULL},
        .columns = columns,
        .rows = work_rows,
        .advance = after_work,
    };
    Muster__V1__ListWorkRequest request = MUSTER__V1__LIST_WORK_REQUEST__INIT;
    ProtobufCMessage *answer;
    enum err err;

    request.unfinished = conf_bool(ctl->conf, "unfinished");
    err = listing_fetch(ctl, &listing, &request.base, &answer);
    return err ? err : listing_print(ctl, &listing, answer);
}

static enum err work(struct ctl *ctl)
{
    return member_show(ctl, show_work);
}

static int run_work(void *context, const struct command_call *call)
{
    return ctl_run(context, call, work);
}

static const struct command_example work_examples[] = {
    {"musterctl work --unfinished", "what waits and what runs, and where"},
    {NULL, NULL},
};
const struct command work_command = {
    .name = "work",
    .summary = "the items of the work queue",
    .about = "Lists the items in order of their ids, which are the hash of their content.",
    .options = &work_table,
    .examples = work_examples,
    .exits = CTL_EXITS,
    .run = run_work,
};
