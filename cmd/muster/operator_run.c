/* SPDX-License-Identifier: Apache-2.0 */
/* muster operator run: one cluster's operator. Joins the parts; decides nothing.
 *
 * Up:   source (made) -> operator (state directory, template, stream) -> source started
 * Down: operator, which closes its source */
#include <stdio.h>
#include <stdlib.h>

#include "common/chassis.h"
#include "common/tables.h"
#include "io/fs.h"
#include "muster/commands.h"
#include "operator/demand_file.h"
#include "operator/file.h"
#include "operator/kube/kube.h"
#include "operator/operator.h"
#include "operator/template.h"

enum { LOOK_EVERY_MS = 200 };

struct operator_role_state {
    struct chassis *chassis;
    struct io *io;
    const struct conf *conf;
    struct log_source log; /* with the cluster's id on every line */
    struct tls_context *tls;
    struct rpc_client_metrics *client_metrics;
    struct source *source; /* until the operator has it */
    struct operator_host *host;
    struct health_check *ready;
    struct timer look;
    bool closed;
};

/* -- readiness: what the operator says of itself, copied for the probes -- */

static void on_look(struct timer *timer)
{
    struct operator_role_state *s = CONTAINER_OF(timer, struct operator_role_state, look);
    struct note reason = {""};
    bool ready = operator_ready(s->host, &reason);

    health_check_set(s->ready, ready, reason.text);
    timer_start_in(&s->look, LOOK_EVERY_MS);
}

/* -- the parts -- */

static bool is_kube(const struct conf *conf)
{
    return conf_bool(conf, "kubernetes") || conf_is_set(conf, "kubeconfig");
}

static enum err make_kube_source(struct operator_role_state *s, struct note *note)
{
    struct kube_config_options find = {.fs = s->io->fs,
                                       .kubeconfig = conf_text(s->conf, "kubeconfig")};
    struct kube_config config = {0};
    struct kube_source_options options = {.config = &config,
                                          .namespace_ = conf_text(s->conf, "kube-namespace"),
                                          .no_pods = conf_bool(s->conf, "kube-no-pods")};
    enum err err = kube_config_find(&find, &config, note);

    if (!err) err = kube_source_open(&options, &s->source, note);
    kube_config_deinit(&config);
    return err;
}

static enum err make_source(struct operator_role_state *s, struct note *note)
{
    struct file_source_options options = {
        .demand = conf_text(s->conf, "demand"),
        .drain_command = conf_text(s->conf, "drain-command"),
    };
    if (is_kube(s->conf)) return make_kube_source(s, note);
    return file_source_make(&options, &s->source);
}

static enum err open_operator(struct operator_role_state *s, struct note *note)
{
    struct option_value list = conf_list(s->conf, "shard-addr");
    const char *addresses[OPTION_LIST_MAX + 1] = {NULL};
    struct operator_options options = {
        .io = s->io,
        .log = &s->log,
        .metrics = instruments_metrics(chassis_instruments(s->chassis)),
        .rpc_metrics = s->client_metrics,
        .cluster_id = conf_text(s->conf, "cluster-id"),
        .shard_addresses = addresses,
        .tls = s->tls,
        .state_dir = conf_text(s->conf, "data-dir"),
        .template_file = conf_text(s->conf, "bootstrap-template"),
        .rollup_ms = conf_number(s->conf, "rollup-interval"),
        .stale_ms = conf_number(s->conf, "stale-after"),
        .source = s->source,
    };
    enum err err;

    for (size_t i = 0; i < list.item_count; i++) addresses[i] = list.items[i].at;
    err = operator_open(&options, &s->host, note);
    if (err) return err;
    s->source = NULL;
    return operator_start(s->host, note);
}

/* -- the hooks -- */

static enum err open_role(struct chassis *chassis, void **ret_state, struct note *note)
{
    struct operator_role_state *s = calloc(1, sizeof *s);
    struct instruments *instruments = chassis_instruments(chassis);
    enum err err;

    if (!s) return ERR_NOMEM;
    *ret_state = s;
    s->chassis = chassis;
    s->io = chassis_io(chassis);
    s->conf = chassis_conf(chassis);
    log_source_init(
        &s->log, instruments_log(instruments)->logger, "operator",
        (const struct log_field[]){log_text("cluster", conf_text(s->conf, "cluster-id")), LOG_END});
    err = instruments_check(instruments, "shard", "not connected to the shard yet", &s->ready);
    if (!err) err = fs_sweep_temps(s->io->fs, conf_text(s->conf, "data-dir"));
    if (!err && conf_is_set(s->conf, "tls.cert-file"))
        err = chassis_tls(chassis, TLS_CLIENT, "h2", &s->tls, note);
    if (!err)
        err = rpc_client_metrics_open(instruments_metrics(instruments), &s->client_metrics, note);
    if (!err) err = timer_init(&s->look, s->io->loop, on_look);
    if (!err) err = make_source(s, note);
    if (!err) err = open_operator(s, note);
    if (!err) timer_start_in(&s->look, 0);
    return err;
}

static void say_started(void *state, FILE *out)
{
    const struct operator_role_state *s = state;

    fprintf(out, "  cluster      %s\n", conf_text(s->conf, "cluster-id"));
    fprintf(out, "  shard        %s\n", conf_list(s->conf, "shard-addr").items[0].at);
    if (is_kube(s->conf)) {
        fprintf(out, "  demand       pods of the Kubernetes cluster\n");
        fprintf(out, "  machines     kubectl get upcomingnodes\n");
        return;
    }
    fprintf(out, "  demand       %s\n", conf_text(s->conf, "demand"));
    fprintf(out, "  machines     %s/nodes.json\n", conf_text(s->conf, "data-dir"));
}

static void stop(void *state)
{
    struct operator_role_state *s = state;

    health_check_set(s->ready, false, "stopping");
    chassis_stop(s->chassis);
}

/* From any half-built state. */
static void close_role(void *state)
{
    struct operator_role_state *s = state;

    timer_deinit(&s->look);
    if (s->host)
        operator_close(s->host, chassis_set_true, &s->closed);
    else if (s->source)
        s->source->ops->close(s->source, chassis_set_true, &s->closed);
    while ((s->host || s->source) && !s->closed) chassis_turn(s->chassis);
    rpc_client_metrics_close(s->client_metrics);
    tls_context_unref(s->tls);
    free(s);
}

static enum err check_text(struct fs *fs, const char *path, size_t max, struct buf *text,
                           struct note *note)
{
    enum err err = fs_read_whole(fs, path, max, text);

    if (err) note_set(note, "%s", err_text(err));
    return err;
}

static enum err check_demand(struct fs *fs, const char *path, struct note *note)
{
    struct demand_file file;
    struct arena arena;
    struct buf text;
    enum err err;

    buf_init(&text, DEMAND_FILE_BYTES_MAX + 1);
    arena_init(&arena, DEMAND_FILE_MEMORY_MAX);
    err = check_text(fs, path, DEMAND_FILE_BYTES_MAX, &text, note);
    if (!err) err = demand_file_read(buf_peek(&text), &arena, &file, note);
    if (err) note_prefix(note, "%s", path);
    arena_deinit(&arena);
    buf_deinit(&text);
    return err;
}

static enum err check_template(struct fs *fs, const char *path, struct note *note)
{
    struct template *template = NULL;
    struct buf text;
    enum err err;

    buf_init(&text, TEMPLATE_BYTES_MAX + 1);
    err = check_text(fs, path, TEMPLATE_BYTES_MAX, &text, note);
    if (!err) err = template_open(buf_peek(&text), &template, note);
    if (err) note_prefix(note, "bootstrap-template: %s", path);
    template_close(template);
    buf_deinit(&text);
    return err;
}

static enum err check_operator_files(const struct conf *conf, struct fs *fs, struct note *note)
{
    const char *demand = conf_text(conf, "demand");
    const char *template = conf_text(conf, "bootstrap-template");
    struct fs_info info;
    enum err err = demand ? check_demand(fs, demand, note) : ERR_OK;

    /* With a data directory the demand may be bad: the last good one is kept there. */
    if (err && !fs_stat(fs, conf_text(conf, "data-dir"), &info)) {
        *note = (struct note){""};
        err = ERR_OK;
    }
    return err || !template ? err : check_template(fs, template, note);
}

static int run_operator(void *context, const struct command_call *call)
{
    static const struct chassis_hooks hooks = {.check = check_operator_files,
                                               .open = open_role,
                                               .say_started = say_started,
                                               .stop = stop,
                                               .close = close_role};

    return chassis_run(context, call, &operator_role, &hooks);
}

static const struct command_example examples[] = {
    {"muster operator run --cluster-id a --shard-addr 127.0.0.1:7780 --demand a.toml",
     "a cluster whose demand stands in a file"},
    {"muster operator run --config a.toml --bootstrap-template a.tmpl --drain-command ./drain",
     "with what new machines are started with, and who empties them"},
    {"muster operator run --cluster-id cluster-k --shard-addr 127.0.0.1:7780 --kubeconfig "
     "~/.kube/config",
     "a Kubernetes cluster, once deploy/kubernetes/crds.yaml is applied there"},
    {"curl -s 127.0.0.1:8770/metrics | grep muster_operator_", "what it does"},
    {NULL, NULL},
};
static const struct command operator_run_command = {
    .name = "run",
    .summary = "run one cluster's operator",
    .about =
        "Runs the operator of one cluster: it tells the cluster's shard all demand, when it "
        "connects, when it changes and every ten seconds; gives new machines what they are started "
        "with; shows the state of machines; and empties those the shard takes back.\n"
        "Demand is a list of requests, each with a name, the resources of one unit and how many "
        "units there are:\n"
        "    [[requests]]\n"
        "    name = \"web\"\n"
        "    count = 12\n"
        "    resources = {cpu = \"4\", memory = \"16Gi\"}\n"
        "A request stands there for the whole life of its workload, not only until it has its "
        "machines: one that is taken out when it is met gives its machines back. The other keys "
        "are in docs/operators.md.\n"
        "It may be killed at any time: demand is read again, machines are told again, and reclaims "
        "that were begun are taken up.",
    .options = &operator_run_table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_operator,
};

static const struct command *const children[] = {&operator_run_command, NULL};
const struct command operator_command = {
    .name = "operator",
    .summary = "a cluster's operator: turns workloads into demand",
    .about = "Runs the operator of a cluster.",
    .children = children,
};
