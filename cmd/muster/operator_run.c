/* SPDX-License-Identifier: Apache-2.0 */
/* muster operator run: the operator of one cluster. Connects the parts and makes no decision.
 * `hooks` has the order of the start. Loop's thread. */
#include <stdio.h>

#include "common/help.h"
#include "common/tables.h"
#include "io/fs.h"
#include "muster/commands.h"
#include "muster/role.h"
#include "operator/demand_file.h"
#include "operator/file.h"
#include "operator/kube/kube.h"
#include "operator/operator.h"
#include "operator/template.h"

enum { LOOK_EVERY_MS = 200 };

struct operator_role_state {
    struct role_base role;        /* its log adds the cluster's id to every line */
    struct demand_source *source; /* owned until the operator takes the source */
    struct operator_host *host;
    struct timer look;
};

/* -- readiness: the operator's own status, copied for the probes -- */

static void operator_run_on_look(struct timer *timer)
{
    struct operator_role_state *s = CONTAINER_OF(timer, struct operator_role_state, look);
    struct note reason = {""};
    bool ready = operator_ready(s->host, &reason);

    health_check_set(s->role.ready, ready, reason.text);
    timer_start_in(&s->look, LOOK_EVERY_MS);
}

/* -- the parts -- */

static bool is_kube(const struct conf *conf)
{
    return conf_bool(conf, "kubernetes") || conf_is_set(conf, "kubeconfig");
}

static enum err make_kube_source(struct operator_role_state *s, struct note *note)
{
    struct kube_config_options find = {.fs = s->role.io->fs,
                                       .kubeconfig = conf_text(s->role.conf, "kubeconfig")};
    struct kube_config config = {0};
    struct kube_source_options options = {.config = &config,
                                          .namespace_ = conf_text(s->role.conf, "kube-namespace"),
                                          .no_pods = conf_bool(s->role.conf, "kube-no-pods")};
    enum err err = kube_config_find(&find, &config, note);

    if (!err) err = kube_source_open(&options, &s->source, note);
    kube_config_deinit(&config);
    return err;
}

static enum err make_source(void *state, struct note *note)
{
    struct operator_role_state *s = state;
    struct file_source_options options = {
        .demand = conf_text(s->role.conf, "demand"),
        .drain_command = conf_text(s->role.conf, "drain-command"),
    };
    if (is_kube(s->role.conf)) return make_kube_source(s, note);
    return file_source_open(&options, &s->source);
}

static enum err open_operator(void *state, struct note *note)
{
    struct operator_role_state *s = state;
    struct option_value list = conf_list(s->role.conf, "shard-addr");
    const char *addresses[OPTION_LIST_MAX + 1] = {NULL};
    struct operator_options options = {
        .io = s->role.io,
        .log = &s->role.log,
        .metrics = s->role.metrics,
        .rpc_metrics = s->role.client_metrics,
        .cluster_id = conf_text(s->role.conf, "cluster-id"),
        .shard_addresses = addresses,
        .tls = s->role.client_tls,
        .state_dir = conf_text(s->role.conf, "data-dir"),
        .template_file = conf_text(s->role.conf, "bootstrap-template"),
        .rollup_ms = conf_number(s->role.conf, "rollup-interval"),
        .stale_ms = conf_number(s->role.conf, "stale-after"),
        .source = s->source,
    };
    enum err err;

    for (size_t i = 0; i < list.item_count; i++) addresses[i] = list.items[i].at;
    err = operator_open(&options, &s->host, note);
    if (err) return err;
    s->source = NULL;
    err = operator_start(s->host, note);
    if (!err) timer_start_in(&s->look, 0);
    return err;
}

/* -- the hooks -- */

static enum err operator_begin(void *state, struct note *note)
{
    struct operator_role_state *s = state;
    const struct conf *conf = s->role.conf;
    enum err err = role_open_ready(state, note);

    role_log(
        &s->role, "operator",
        (const struct log_field[]){log_text("cluster", conf_text(conf, "cluster-id")), LOG_END});
    if (!err) err = fs_sweep_temps(s->role.io->fs, conf_text(conf, "data-dir"));
    return err ? err : timer_init(&s->look, s->role.io->loop, operator_run_on_look);
}

static void operator_run_say_started(void *state, FILE *out)
{
    const struct operator_role_state *s = state;

    fprintf(out, "  cluster      %s\n", conf_text(s->role.conf, "cluster-id"));
    fprintf(out, "  shard        %s\n", conf_list(s->role.conf, "shard-addr").items[0].at);
    if (is_kube(s->role.conf)) {
        fprintf(out, "  demand       pods of the Kubernetes cluster\n");
        fprintf(out, "  machines     kubectl get upcomingnodes\n");
        return;
    }
    fprintf(out, "  demand       %s\n", conf_text(s->role.conf, "demand"));
    fprintf(out, "  machines     %s/nodes.json\n", conf_text(s->role.conf, "data-dir"));
}

/* Accepts any half-built state. */
static void close_operator(void *state)
{
    struct operator_role_state *s = state;

    timer_deinit(&s->look);
    CHASSIS_AWAIT(s->role.chassis, operator_close, s->host);
    if (s->source) s->source->ops->close(s->source);
    role_close(&s->role);
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

    /* A wrong demand file is accepted if a data directory may have the last valid demand. */
    if (err && !fs_stat(fs, conf_text(conf, "data-dir"), &info)) {
        *note = (struct note){""};
        err = ERR_OK;
    }
    return err || !template ? err : check_template(fs, template, note);
}

static const struct chassis_hooks operator_run_hooks = {
    .role = &operator_role,
    CHASSIS_STATE(struct operator_role_state),
    .ready_check = "shard",
    .ready_reason = "not connected to the shard yet",
    .tls = ROLE_TLS_CLIENT,
    .steps = CHASSIS_STEPS(operator_begin, role_open_tls, role_open_client_metrics, make_source,
                           open_operator),
    .drains = CHASSIS_DRAINS(role_drain_ready),
    .check = check_operator_files,
    .say_started = operator_run_say_started,
    .close = close_operator,
};

const struct command operator_command =
    COMMAND_TREE(HELP_MUSTER_OPERATOR, COMMAND(COMMAND_ROW(HELP_MUSTER_OPERATOR_RUN, operator_run),
                                               CHASSIS_RUN(operator_run_hooks)));
