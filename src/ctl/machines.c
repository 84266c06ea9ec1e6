/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl machine list, cordons, cordon, uncordon, drain, replace. Asks one shard or all. One
 * thread. */
#include "ctl/machines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/explain.h"
#include "ctl/survey.h"
#include "model/requirement.h"

enum { CHUNK_MAX = 32 << 20 };
#define LABEL_RACK "topology.kubernetes.io/rack"

/* In the order of the choices of --sort (tables_ctl.c). */
enum sort { SORT_ID, SORT_STATE, SORT_CLUSTER, SORT_TYPE, SORT_ZONE, SORT_PRICE, SORT_AGE };

/* -- which machines -- */

static Muster__V1__ShardLabel *label_new(struct ctl *ctl, const char *key, const char *value)
{
    Muster__V1__ShardLabel *label = ARENA_NEW(&ctl->memory, Muster__V1__ShardLabel);

    if (!label) return NULL;
    muster__v1__shard_label__init(label);
    label->key = ctl_text(key);
    label->value = ctl_text(value);
    return label;
}

enum { LABEL_OPTIONS = 4 };
/* Makes a label of each option that is set. */
static enum err labels_of_options(struct ctl *ctl, Muster__V1__ShardLabel *labels[LABEL_OPTIONS],
                                  size_t *ret_count)
{
    static const struct {
        const char *option, *key;
    } rows[] = {{"type", "node.kubernetes.io/instance-type"},
                {"zone", "topology.kubernetes.io/zone"},
                {"rack", LABEL_RACK}};
    const char *label = conf_text(ctl->conf, "label");
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = conf_text(ctl->conf, rows[i].option);
        if (value && !(labels[count++] = label_new(ctl, rows[i].key, value))) return ERR_NOMEM;
    }
    if (label) {
        size_t equals = str_find(str_from(label), '=');
        char *key = arena_dup(&ctl->memory, str_of(label, equals));
        if (!label[equals] || !equals || !label[equals + 1])
            return ctl_fail(ctl, ERR_INVALID, "--label: expected KEY=VALUE, got '%s'", label);
        labels[count] = key ? label_new(ctl, key, label + equals + 1) : NULL;
        if (!labels[count++]) return ERR_NOMEM;
    }
    *ret_count = count;
    return ERR_OK;
}

/* -- every shard that answers -- */

typedef enum err shard_fn(void *context, struct survey_shard *shard);

/* Calls `each` for every shard, even after an error. Returns the first error, with its shard. */
static enum err shards_each(struct ctl *ctl, struct ctl_survey *survey, shard_fn *each,
                            void *context)
{
    enum err first = ERR_OK;

    for (size_t i = 0; i < survey->shard_count; i++) {
        struct survey_shard *shard = &survey->shards[i];
        enum err err = shard->err;

        if (ctl_survey_answers(shard)) err = each(context, shard);
        if (err && !first) first = ctl_fail(ctl, err, "shard %s: %s", shard->id, shard->why.text);
    }
    if (!first && survey->shards_left_out)
        first = ctl_fail(ctl, ERR_TOO_LARGE, "%zu more shards are not asked here; --shard asks one",
                         survey->shards_left_out);
    return first;
}

static enum err with_shards(struct ctl *ctl, enum err (*act)(struct ctl *, struct ctl_survey *))
{
    static struct ctl_survey survey; /* it is large */
    enum err err = ctl_survey_open(&survey, ctl->conf, &ctl->note);

    if (!err) err = ctl_survey_ask_shards(&survey, &ctl->note);
    if (!err) err = act(ctl, &survey);
    ctl_survey_close(&survey);
    return err;
}

/* -- list -- */

struct machine_rows {
    struct ctl *ctl;
    const char *shard;
    Muster__V1__ShardListMachinesRequest request;
    Muster__V1__ShardListMachinesResponse all;
    size_t cap;
    struct buf copy;
};

static void machine_age_cell(struct text_table *table, const ProtobufCMessage *message)
{
    const Muster__V1__ShardMachineRow *row = (const void *)message;
    char age[EXPLAIN_AGE_CAP];

    table_format(table, "%s", row->since_ms ? explain_age(row->since_ms, age) : "-");
}

static void machine_state_cell(struct text_table *table, const ProtobufCMessage *message)
{
    const Muster__V1__ShardMachineRow *row = (const void *)message;

    if (row->planned_state[0])
        table_format(table, "%s -> %s", row->state, row->planned_state);
    else
        table_text(table, row->state);
}

static const struct ctl_rpc machine_rows_shown = {CTL_COLUMNS(
    CTL_COLUMN("MACHINE", "machine_id"), CTL_COLUMN("STATE", "state", .put = machine_state_cell),
    CTL_COLUMN("CLUSTER", "cluster", .cell = CTL_OR_MINUS),
    CTL_COLUMN("TYPE", "instance_type", .cell = CTL_OR_MINUS),
    CTL_COLUMN("ZONE", "zone", .cell = CTL_OR_MINUS),
    CTL_COLUMN("CAPACITY", "capacity_type", .cell = CTL_OR_MINUS),
    CTL_COLUMN("PRICE", "price_per_hour"), CTL_COLUMN("AGE", "since_ms", .put = machine_age_cell),
    CTL_COLUMN("CORDON", "cordon", .cell = CTL_OR_MINUS), CTL_COLUMN("SHARD", "shard_id"))};

static bool rows_reserve(struct machine_rows *rows, size_t more)
{
    Muster__V1__ShardMachineRow **larger;

    if (rows->all.n_machines + more <= rows->cap) return true;
    rows->cap = 2 * (rows->all.n_machines + more);
    larger = arena_calloc(&rows->ctl->memory, rows->cap, sizeof *larger);
    if (!larger) return false;
    if (rows->all.n_machines)
        memcpy(larger, rows->all.machines, rows->all.n_machines * sizeof *larger);
    rows->all.machines = larger;
    return true;
}

/* Keeps a copy, because the stream frees its messages. */
static enum err rows_on_chunk(void *owner, const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__ShardListMachinesResponse *chunk;
    struct machine_rows *rows = owner;
    ProtobufCMessage *copy;
    enum err err;

    buf_clear(&rows->copy);
    err = message_write(message, &rows->copy, note);
    if (!err)
        err = message_read(message->descriptor, buf_peek(&rows->copy), NULL, &rows->ctl->memory,
                           &copy, note);
    if (err) return err;
    chunk = (const void *)copy;
    if (!rows_reserve(rows, chunk->n_machines)) return ERR_NOMEM;
    for (size_t i = 0; i < chunk->n_machines; i++) {
        chunk->machines[i]->shard_id = ctl_text(rows->shard);
        rows->all.machines[rows->all.n_machines++] = chunk->machines[i];
    }
    return ERR_OK;
}

static enum err rows_of_shard(void *context, struct survey_shard *shard)
{
    struct machine_rows *rows = context;

    rows->shard = shard->id;
    shard->why = (struct note){""};
    shard->err = remote_stream(
        shard->remote,
        REMOTE_READ_OF("/muster.v1.ShardView/ListMachines", muster__v1__shard_list_machines),
        &rows->request.base, rows_on_chunk, rows, &shard->why);
    return shard->err;
}

static int compare_numbers(double a, double b)
{
    return a < b ? -1 : a > b;
}

/* Equal rows are in the order of shards and ids. */
static int rows_compare(const void *left, const void *right, void *sort)
{
    const Muster__V1__ShardMachineRow *a = *(Muster__V1__ShardMachineRow *const *)left;
    const Muster__V1__ShardMachineRow *b = *(Muster__V1__ShardMachineRow *const *)right;
    int order = 0;

    switch (*(const enum sort *)sort) {
    case SORT_ID: break;
    case SORT_STATE: order = strcmp(a->state, b->state); break;
    case SORT_CLUSTER: order = strcmp(a->cluster, b->cluster); break;
    case SORT_TYPE: order = strcmp(a->instance_type, b->instance_type); break;
    case SORT_ZONE: order = strcmp(a->zone, b->zone); break;
    case SORT_PRICE: order = compare_numbers(b->price_per_hour, a->price_per_hour); break;
    case SORT_AGE: order = compare_numbers((double)b->since_ms, (double)a->since_ms); break;
    }
    if (!order) order = strcmp(a->machine_id, b->machine_id);
    return order ? order : strcmp(a->shard_id, b->shard_id);
}

static enum err machine_list(struct ctl *ctl, struct ctl_survey *survey)
{
    enum sort sort = (enum sort)conf_choice(ctl->conf, "sort");
    const char *state = conf_text(ctl->conf, "state");
    size_t limit = conf_number(ctl->conf, "limit");
    struct machine_rows rows = {.ctl = ctl};
    Muster__V1__ShardLabel *labels[LABEL_OPTIONS];
    enum err err;

    muster__v1__shard_list_machines_request__init(&rows.request);
    muster__v1__shard_list_machines_response__init(&rows.all);
    if (strcmp(state, "any") != 0) rows.request.state = ctl_text(state);
    rows.request.cluster = ctl_text(conf_text(ctl->conf, "cluster"));
    rows.request.cordoned = conf_bool(ctl->conf, "cordoned");
    rows.request.labels = labels;
    err = labels_of_options(ctl, labels, &rows.request.n_labels);
    if (err) return err;
    buf_init(&rows.copy, CHUNK_MAX);
    err = shards_each(ctl, survey, rows_of_shard, &rows);
    buf_deinit(&rows.copy);
    if (rows.all.n_machines)
        qsort_r(rows.all.machines, rows.all.n_machines, sizeof *rows.all.machines, rows_compare,
                &sort);
    if (limit && limit < rows.all.n_machines) rows.all.n_machines = limit;
    /* The machines of the other shards are shown although one shard does not answer. */
    ctl_rpc_print(ctl, &machine_rows_shown, &rows.all.base);
    return err;
}

enum err machine_list_act(struct ctl *ctl)
{
    return with_shards(ctl, machine_list);
}

/* -- cordons -- */

struct cordon_rows {
    struct ctl *ctl;
    Muster__V1__ShardListCordonsResponse all;
};

static void cordon_whom_cell(struct text_table *table, const ProtobufCMessage *message)
{
    const Muster__V1__ShardCordon *row = (const void *)message;

    if (row->label)
        table_format(table, "%s=%s", row->label->key, row->label->value);
    else
        table_text(table, row->machine_id);
}

static const struct ctl_rpc cordon_rows_shown = {CTL_COLUMNS(
    CTL_COLUMN("MACHINES", "machine_id", .put = cordon_whom_cell), CTL_COLUMN("ORDER", "cordon"),
    CTL_COLUMN("AT", "at_ms", .cell = CTL_TIME), CTL_COLUMN("BY", "by", .cell = CTL_OR_MINUS),
    CTL_COLUMN("REASON", "reason", .cell = CTL_OR_MINUS), CTL_COLUMN("SHARD", "shard_id"))};

static enum err cordons_of_shard(void *context, struct survey_shard *shard)
{
    static const Muster__V1__ShardListCordonsRequest request =
        MUSTER__V1__SHARD_LIST_CORDONS_REQUEST__INIT;
    const Muster__V1__ShardListCordonsResponse *said;
    struct cordon_rows *rows = context;
    Muster__V1__ShardCordon **all;
    ProtobufCMessage *answer;

    shard->err = remote_call(
        shard->remote,
        REMOTE_READ_OF("/muster.v1.ShardView/ListCordons", muster__v1__shard_list_cordons),
        &request.base, &rows->ctl->memory, &answer, &shard->why);
    if (shard->err) return shard->err;
    said = (const void *)answer;
    all = arena_calloc(&rows->ctl->memory, rows->all.n_cordons + said->n_cordons, sizeof *all);
    if (!all) return ERR_NOMEM;
    if (rows->all.n_cordons) memcpy(all, rows->all.cordons, rows->all.n_cordons * sizeof *all);
    for (size_t i = 0; i < said->n_cordons; i++) {
        said->cordons[i]->shard_id = shard->id;
        all[rows->all.n_cordons++] = said->cordons[i];
    }
    rows->all.cordons = all;
    return ERR_OK;
}

static enum err machine_cordons(struct ctl *ctl, struct ctl_survey *survey)
{
    struct cordon_rows rows = {.ctl = ctl};
    enum err err;

    muster__v1__shard_list_cordons_response__init(&rows.all);
    err = shards_each(ctl, survey, cordons_of_shard, &rows);
    ctl_rpc_print(ctl, &cordon_rows_shown, &rows.all.base);
    return err;
}

enum err machine_cordons_act(struct ctl *ctl)
{
    return with_shards(ctl, machine_cordons);
}

/* -- orders -- */

struct machine_order {
    struct ctl *ctl;
    Muster__V1__ShardCordonRequest request;
    const char *what; /* "machine m-1", "machines with zone=z" */
    size_t done;      /* shards that executed the order */
    struct note why;  /* of a shard that knows no such machine */
};

static const char *order_text(const struct machine_order *order)
{
    switch (order->request.order) {
    case MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_CORDON: return "cordoned";
    case MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_DRAIN: return "drained and kept out of use";
    default: return "in use again";
    }
}

static void order_say(struct machine_order *order, const char *shard,
                      const Muster__V1__ShardCordonResponse *said)
{
    ctl_line(order->ctl, "shard %s: %" PRIu32 " machine%s %s", shard, said->machines,
             said->machines == 1 ? " is" : "s are", order_text(order));
    if (said->hold[0])
        ctl_line(order->ctl, "shard %s acts on no machine now (%s): the order waits", shard,
                 said->hold);
}

static enum err order_to_shard(void *context, struct survey_shard *shard)
{
    static const struct remote_method method = {"/muster.v1.ShardControl/Cordon",
                                                &muster__v1__shard_cordon_response__descriptor,
                                                REMOTE_ONCE, "musterctl machine cordons"};
    struct machine_order *order = context;
    ProtobufCMessage *said;

    if (order->done && !order->request.label) return ERR_OK; /* an id is in one shard */
    shard->err = remote_call(shard->remote, &method, &order->request.base, &order->ctl->memory,
                             &said, &shard->why);
    if (shard->err == ERR_NOT_FOUND) {
        order->why = shard->why;
        return ERR_OK;
    }
    if (shard->err) return shard->err;
    order->done++;
    order_say(order, shard->id, (const void *)said);
    return ERR_OK;
}

static enum err order_whom(struct ctl *ctl, Muster__V1__ShardCordonRequest *request)
{
    Muster__V1__ShardLabel *labels[LABEL_OPTIONS];
    const char *id = conf_argument_count(ctl->conf) ? conf_argument(ctl->conf, 0) : NULL;
    size_t count;
    enum err err = labels_of_options(ctl, labels, &count);

    if (err) return err;
    if (count + (id != NULL) != 1)
        return ctl_fail(ctl, ERR_INVALID,
                        "name either one machine, or one of --rack, --zone, --type and --label");
    request->machine_id = ctl_text(id);
    if (count) request->label = labels[0];
    request->reason = ctl_text(conf_text(ctl->conf, "reason"));
    return ERR_OK;
}

static enum err machine_order(struct ctl *ctl, struct ctl_survey *survey, uint32_t which)
{
    struct machine_order order = {.ctl = ctl};
    enum err err;

    muster__v1__shard_cordon_request__init(&order.request);
    order.request.order = (Muster__V1__ShardCordonRequest__Order)which;
    err = order_whom(ctl, &order.request);
    if (!err && which == MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_DRAIN && ctl->confirm &&
        !ctl->confirm("The machines are emptied: their pods are evicted, and end when the grace "
                      "period ends."))
        err = ctl_fail(ctl, ERR_INVALID, "not confirmed: nothing was changed");
    if (!err) err = shards_each(ctl, survey, order_to_shard, &order);
    if (err || order.done) return err;
    return ctl_fail(ctl, ERR_NOT_FOUND, "%s", order.why.text);
}

#define ORDER(name, order)                                                                         \
    static enum err name(struct ctl *ctl, struct ctl_survey *survey)                               \
    {                                                                                              \
        return machine_order(ctl, survey, MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_##order); \
    }                                                                                              \
    enum err machine_##name##_act(struct ctl *ctl)                                                 \
    {                                                                                              \
        return with_shards(ctl, name);                                                             \
    }
ORDER(cordon, CORDON)
ORDER(uncordon, UNCORDON)
ORDER(drain, DRAIN)
