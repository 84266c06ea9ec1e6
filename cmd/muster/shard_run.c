/* SPDX-License-Identifier: Apache-2.0 */
/* muster shard run: one shard. Joins the parts; decides nothing.
 *
 * Up:   epoch and domains (data directory) -> provider client -> shard -> gRPC server -> the
 *       coordinator's client, if there is one to report to
 * Down: the client -> the shard stops -> server drained -> provider client -> shard
 *
 * Shard and client of the coordinator meet here and nowhere else. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/chassis.h"
#include "common/tables.h"
#include "coordclient/coordclient.h"
#include "io/tls.h"
#include "muster/commands.h"
#include "provider/client.h"
#include "rpc/meter.h"
#include "shard/domains.h"
#include "shard/epoch.h"
#include "shard/shard.h"

enum {
    DRAIN_WITHIN_MS = 5000,
    AUDIT_MODE = 0644,
    AUDIT_ROTATE_NEVER = 0,
    CALLS_SPARE = 4096, /* beside those of actions: Get */
    NUMBER_CAP = 24,
    REMEDY_CAP = 256,
    DRAIN_REPORTS_MAX = 64,
};

struct shard_role_state {
    struct chassis *chassis;
    struct io *io;
    const struct conf *conf;
    struct log_source log; /* with the shard's id and epoch on every line */
    struct tls_context *server_tls, *client_tls;
    uint64_t epoch;
    struct domains *domains;
    bool operators_reported;
    struct events *audit;
    struct rpc_client_metrics *client_metrics;
    struct provider *provider;
    struct shard *shard;
    struct rpc_meter *meter;
    struct rpc_server *server;
    struct coordclient *coordinator;
    struct health_check *ready;
    bool paused;                    /* said in the log */
    char remark[HEALTH_REASON_MAX]; /* of /readyz; empty: nothing */
    bool coordinator_closed, server_closed, provider_closed;
};

/* -- what it stands on -- */

static enum err open_tls(struct shard_role_state *s, struct note *note)
{
    enum err err;

    if (!conf_is_set(s->conf, "tls.cert-file")) return ERR_OK;
    err = chassis_tls(s->chassis, TLS_SERVER, "h2", &s->server_tls, note);
    return err ? err : chassis_tls(s->chassis, TLS_CLIENT, "h2", &s->client_tls, note);
}

/* What it is told to begin with, unless it ever was told otherwise. */
static enum err first_domains(struct shard_role_state *s, struct note *note)
{
    struct option_value list = conf_list(s->conf, "domains");
    enum err err = ERR_OK;

    if (domains_given(s->domains)) return ERR_OK;
    for (size_t i = 0; !err && i < list.item_count; i++) {
        struct str key = list.items[i];
        size_t equals = str_find(key, '=');
        if (equals == key.len) {
            note_set(note, "domains: %.*s: expected KEY=VALUE", STR_ARG(key));
            return ERR_INVALID;
        }
        err = domains_set(s->domains, str_of(key.at, equals), str_tail(key, equals + 1), true,
                          entropy_u64(s->io->entropy), note);
    }
    return err;
}

/* <data-dir>/drain-reports is there once an operator has reported its drains: the next process
 * waits for operators to return. */
static enum err drain_reports_path(const struct shard_role_state *s, char path[FS_PATH_CAP],
                                   struct note *note)
{
    const char *dir = conf_text(s->conf, "data-dir");

    if (snprintf(path, FS_PATH_CAP, "%s/drain-reports", dir) < FS_PATH_CAP) return ERR_OK;
    note_set(note, "data-dir: too long a path");
    return ERR_INVALID;
}

/* One that cannot be read is there: to wait is the safer side. */
static enum err read_drain_reports(struct shard_role_state *s, struct note *note)
{
    char path[FS_PATH_CAP];
    struct buf text;
    enum err err = drain_reports_path(s, path, note);

    if (err) return err;
    buf_init(&text, DRAIN_REPORTS_MAX);
    s->operators_reported =
        fs_read_whole(s->io->fs, path, DRAIN_REPORTS_MAX, &text) != ERR_NOT_FOUND;
    buf_deinit(&text);
    return ERR_OK;
}

static void on_reports_drains(void *owner)
{
    struct shard_role_state *s = owner;
    char path[FS_PATH_CAP];
    struct note note = {""};
    enum err err = drain_reports_path(s, path, &note);

    if (!err) err = fs_publish(s->io->fs, path, STR("1\n"), 0600, entropy_u64(s->io->entropy));
    if (err)
        LOG_WARN(&s->log,
                 "cannot note that operators report drains; after a restart the shard "
                 "does not wait for them",
                 log_err("err", err));
}

static enum err open_files(struct shard_role_state *s, struct note *note)
{
    const char *dir = conf_text(s->conf, "data-dir");
    enum err err = epoch_next(s->io->fs, dir, entropy_u64(s->io->entropy), &s->epoch, note);

    if (!err) err = domains_open(s->io->fs, dir, &s->domains, note);
    if (!err) err = read_drain_reports(s, note);
    return err ? err : first_domains(s, note);
}

static void on_audit_trouble(void *context, enum err trouble, const char *note, uint64_t lost)
{
    struct shard_role_state *s = context;

    if (trouble)
        LOG_ERROR(&s->log, "audit log is not being written", log_err("err", trouble),
                  log_text("why", note));
    else
        LOG_WARN(&s->log, "audit log is written again", log_u64("lost", lost));
}

static enum err open_audit(struct shard_role_state *s, struct note *note)
{
    const char *name = conf_text(s->conf, "audit-log");
    char path[FS_PATH_CAP];
    struct events_options options = {
        .kind = EVENTS_FILE,
        .fs = s->io->fs,
        .clock = s->io->clock,
        .path = path,
        .mode = AUDIT_MODE,
        .rotate_bytes = AUDIT_ROTATE_NEVER,
        .on_trouble = on_audit_trouble,
        .context = s,
    };
    enum err err;

    if (!name) return ERR_OK;
    if (snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : conf_text(s->conf, "data-dir"),
                 name[0] == '/' ? "" : "/", name) >= (int)sizeof path) {
        note_set(note, "audit-log: too long a path");
        return ERR_INVALID;
    }
    err = events_open(&options, &s->audit, note);
    if (err) note_prefix(note, "audit-log");
    return err;
}

/* -- the parts -- */

static enum err open_provider(struct shard_role_state *s, struct note *note)
{
    struct provider_options options = {
        .io = s->io,
        .address = conf_text(s->conf, "provider-addr"),
        .tls = s->client_tls,
        .shard_id = conf_text(s->conf, "id"),
        .epoch = (int64_t)s->epoch,
        .calls_max = (uint32_t)conf_number(s->conf, "execute-concurrency") + CALLS_SPARE,
        .timeout_ms = conf_number(s->conf, "execute-timeout"),
        .list_timeout_ms = conf_number(s->conf, "list-timeout"),
        .metrics = s->client_metrics,
    };
    return provider_open(&options, &s->provider, note);
}

static void on_first_list(void *owner)
{
    struct shard_role_state *s = owner;

    LOG_INFO(&s->log, "ready: the provider's machines are known");
    health_check_set(s->ready, true, "");
    health_check_remark(s->ready, s->remark);
}

/* One line for a person who is called at night: both causes, and what to do about each. */
static void on_fenced(void *owner, const struct shard_fence *fence)
{
    struct shard_role_state *s = owner;
    char newest[NUMBER_CAP] = "unknown", remedy[FS_PATH_CAP + REMEDY_CAP];

    if (fence->newest) snprintf(newest, sizeof newest, "%" PRId64, fence->newest);
    snprintf(remedy, sizeof remedy,
             "a newer process: stop this one. A lost data directory: stop this one, run `muster "
             "shard set-epoch --data-dir %s %s`, start it again",
             conf_text(s->conf, "data-dir"), fence->newest ? newest : "$(date +%s)");
    LOG_ERROR(&s->log,
              "this shard is fenced and has stopped acting: a newer process of it runs, or it has "
              "lost its data directory",
              log_text("newest_epoch", newest), log_text("remedy", remedy),
              log_str("provider", fence->text));
    snprintf(s->remark, sizeof s->remark,
             "fenced: epoch %" PRIu64 " is not newer than %s, so nothing is begun; a newer process "
             "runs, or the data directory was lost: see the log",
             s->epoch, newest);
    health_check_remark(s->ready, s->remark);
}

/* Without it the old page stays: the next cycle tries again. */
static void on_rests(void *owner, struct str json)
{
    struct shard_role_state *s = owner;

    (void)chassis_publish(s->chassis, "/rests", "application/json", json);
}

static struct core_options core_of(const struct conf *conf)
{
    return (struct core_options){
        .paused = conf_bool(conf, "actuation-paused"),
        .dry_run = conf_bool(conf, "dry-run"),
        .rollup_guard = conf_bool(conf, "empty-rollup-guard"),
        .rails = {.reclaim_fraction = conf_decimal(conf, "reclaim-cap-fraction"),
                  .actions_max = conf_number(conf, "max-actions-per-cycle")},
        .concurrency = (uint32_t)conf_number(conf, "execute-concurrency"),
        .queue_max = (uint32_t)conf_number(conf, "action-queue"),
        .execute_timeout_ms = conf_number(conf, "execute-timeout"),
        .bootstrap_timeout_ms = conf_number(conf, "bootstrap-timeout"),
        .operator_return_ms = conf_number(conf, "operator-return-timeout"),
        .capacity_interval_ms = conf_number(conf, "available-capacity-interval"),
        .rest_first_ms = conf_number(conf, "rest-first"),
        .rest_most_ms = conf_number(conf, "rest-most"),
        .stuck_ms = conf_number(conf, "stuck-after"),
        .removal_fraction = conf_decimal(conf, "removal-fraction"),
        .attribution = conf_bool(conf, "phase-attribution-log"),
        .weights = {.priority = conf_decimal(conf, "victim.priority-weight"),
                    .drain = conf_decimal(conf, "victim.drain-weight"),
                    .interruption = conf_decimal(conf, "victim.interruption-weight"),
                    .reclamation = conf_decimal(conf, "victim.reclamation-weight"),
                    .drain_ms = conf_number(conf, "victim.drain-estimate")},
    };
}

static void set_holds(const struct conf *conf, struct core_options *core)
{
    static const struct {
        enum capacity_type type;
        const char *name;
    } holds[] = {
        {CAPACITY_ON_DEMAND, "idle-hold.on-demand"},
        {CAPACITY_SPOT, "idle-hold.spot"},
        {CAPACITY_RESERVED, "idle-hold.reserved"},
        {CAPACITY_BARE_METAL, "idle-hold.bare-metal"},
    };

    for (size_t i = 0; i < ARRAY_LEN(holds); i++) {
        uint64_t ms = conf_number(conf, holds[i].name);
        core->idle_hold_ms[holds[i].type] = ms ? ms : IDLE_HOLD_FOREVER;
    }
}

static enum err open_shard(struct shard_role_state *s, struct note *note)
{
    struct shard_options options = {
        .io = s->io,
        .log = &s->log,
        .metrics = instruments_metrics(chassis_instruments(s->chassis)),
        .audit = s->audit,
        .id = conf_text(s->conf, "id"),
        .epoch = s->epoch,
        .provider = s->provider,
        .provider_address = conf_text(s->conf, "provider-addr"),
        .domains = s->domains,
        .blob_bytes_max = (size_t)conf_number(s->conf, "blob-budget"),
        .core = core_of(s->conf),
        .cycle_ms = conf_number(s->conf, "cycle-interval"),
        .incremental = conf_bool(s->conf, "incremental-reconcile"),
        .warmup_cycles = (uint32_t)conf_number(s->conf, "metrics-warmup-cycles"),
        .on_ready = on_first_list,
        .on_rests = on_rests,
        .on_reports_drains = on_reports_drains,
        .on_fenced = on_fenced,
        .owner = s,
    };

    options.core.seed = entropy_u64(s->io->entropy);
    options.core.operators_reported = s->operators_reported;
    set_holds(s->conf, &options.core);
    return shard_open(&options, &s->shard, note);
}

static enum err open_server(struct shard_role_state *s, struct note *note)
{
    struct metrics *metrics = instruments_metrics(chassis_instruments(s->chassis));
    struct rpc_server_options options = {.io = s->io, .log = &s->log};
    enum err err = rpc_meter_open(metrics, &s->meter, note);

    options.meter = s->meter;
    shard_server_limits(s->shard, &options.limits);
    if (!err) err = rpc_server_open(&options, &s->server, note);
    if (!err) err = shard_serve(s->shard, s->server, note);
    if (err) return err;
    err = rpc_server_listen(s->server, conf_text(s->conf, "listen"), s->server_tls, note);
    if (err) note_prefix(note, "listen");
    return err;
}

static enum err open_coordinator_client(struct shard_role_state *s, struct note *note)
{
    struct option_value list = conf_list(s->conf, "coordinator-addr");
    const char *addresses[OPTION_LIST_MAX + 1] = {NULL};
    const char *told = conf_text(s->conf, "advertise-addr");
    struct coordclient_options options = {
        .io = s->io,
        .log = &s->log,
        .metrics = instruments_metrics(chassis_instruments(s->chassis)),
        .rpc_metrics = s->client_metrics,
        .addresses = addresses,
        .tls = s->client_tls,
        .shard_id = conf_text(s->conf, "id"),
        .advertise = told ? told : rpc_server_address(s->server, 0),
        .epoch = s->epoch,
        .interval_ms = conf_number(s->conf, "coordinator-heartbeat-interval"),
        .view = shard_view(s->shard),
    };

    for (size_t i = 0; i < list.item_count; i++) addresses[i] = list.items[i].at;
    return list.item_count ? coordclient_open(&options, &s->coordinator, note) : ERR_OK;
}

/* -- the hooks -- */

static void say_paused(struct shard_role_state *s)
{
    s->paused = true;
    LOG_WARN(&s->log, "actuation is paused: everything is decided, nothing is done");
}

static void say_what_is_unusual(struct shard_role_state *s)
{
    if (conf_bool(s->conf, "actuation-paused"))
        say_paused(s);
    else if (conf_bool(s->conf, "dry-run"))
        LOG_WARN(&s->log, "dry-run: every action is told, nothing is done");
    if (!s->server_tls && !address_is_loopback(conf_text(s->conf, "listen")))
        LOG_WARN(&s->log, "listener is open to the network without TLS",
                 log_text("at", conf_text(s->conf, "listen")));
}

static enum err open_role(struct chassis *chassis, void **ret_state, struct note *note)
{
    struct shard_role_state *s = calloc(1, sizeof *s);
    struct instruments *instruments = chassis_instruments(chassis);
    enum err err;

    if (!s) return ERR_NOMEM;
    *ret_state = s;
    s->chassis = chassis;
    s->io = chassis_io(chassis);
    s->conf = chassis_conf(chassis);
    err = instruments_check(instruments, "reconcile", "first provider reconcile not yet complete",
                            &s->ready);
    if (!err) err = open_files(s, note);
    if (err) return err;
    log_source_init(&s->log, instruments_log(instruments)->logger, "shard",
                    (const struct log_field[]){log_text("shard", conf_text(s->conf, "id")),
                                               log_u64("epoch", s->epoch), LOG_END});
    err = open_tls(s, note);
    if (!err) err = open_audit(s, note);
    if (!err)
        err = rpc_client_metrics_open(instruments_metrics(instruments), &s->client_metrics, note);
    if (!err) err = open_provider(s, note);
    if (!err) err = open_shard(s, note);
    if (!err) err = open_server(s, note);
    if (!err) err = open_coordinator_client(s, note);
    if (err) return err;
    say_what_is_unusual(s);
    shard_start(s->shard);
    return ERR_OK;
}

/* The kill switch: on at once, in the turn of the loop that says so; off with a restart only. */
static void reload(void *state)
{
    struct shard_role_state *s = state;
    const struct conf *now = chassis_conf_now(s->chassis);

    if (!conf_bool(now, "actuation-paused")) return;
    shard_pause(s->shard);
    if (!s->paused)
        say_paused(s);
    else if (conf_waits(now, "actuation-paused"))
        LOG_WARN(&s->log, "actuation stays paused until restart");
}

static void say_started(void *state, FILE *out)
{
    const struct shard_role_state *s = state;

    fprintf(out, "  gRPC         %s\n", rpc_server_address(s->server, 0));
    fprintf(out, "  provider     %s\n", conf_text(s->conf, "provider-addr"));
    fprintf(out, "  shard        %s, start number %" PRIu64 "\n", conf_text(s->conf, "id"),
            s->epoch);
}

static void on_drained(void *owner)
{
    struct shard_role_state *s = owner;
    chassis_stop(s->chassis);
}

static void stop(void *state)
{
    struct shard_role_state *s = state;

    health_check_set(s->ready, false, "stopping");
    shard_stop(s->shard);
    rpc_server_drain(s->server, DRAIN_WITHIN_MS, on_drained, s);
}

/* From any half-built state. */
static void close_role(void *state)
{
    struct shard_role_state *s = state;

    if (s->shard) shard_stop(s->shard);
    if (s->coordinator) {
        coordclient_close(s->coordinator, chassis_set_true, &s->coordinator_closed);
        while (!s->coordinator_closed) chassis_turn(s->chassis);
    }
    if (s->server) {
        rpc_server_close(s->server, chassis_set_true, &s->server_closed);
        while (!s->server_closed) chassis_turn(s->chassis);
    }
    if (s->provider) {
        provider_close(s->provider, chassis_set_true, &s->provider_closed);
        while (!s->provider_closed) chassis_turn(s->chassis);
    }
    shard_close(s->shard);
    events_close(s->audit);
    domains_close(s->domains);
    rpc_meter_close(s->meter);
    rpc_client_metrics_close(s->client_metrics);
    tls_context_unref(s->server_tls);
    tls_context_unref(s->client_tls);
    free(s);
}

static int run_shard(void *context, const struct command_call *call)
{
    static const struct chassis_hooks hooks = {
        .open = open_role,
        .say_started = say_started,
        .reload = reload,
        .stop = stop,
        .close = close_role,
    };

    return chassis_run(context, call, &shard_role, &hooks);
}

/* -- set-epoch -- */

static enum err set_epoch(struct fs *fs, const char *dir, const char *number, struct note *note)
{
    struct fs_lock *lock = NULL;
    uint64_t epoch;
    enum err err = str_to_u64(str_from(number), &epoch);

    if (err) {
        note_set(note, "%s: the epoch must be a number, such as 41", number);
        return ERR_INVALID;
    }
    err = fs_lock_dir(fs, dir, &lock, note);
    if (err) {
        note_prefix(note,
                    err == ERR_BUSY ? "data-dir %s is in use; stop its shard first" : "data-dir %s",
                    dir);
        return err;
    }
    err = epoch_set(fs, dir, epoch, entropy_u64(entropy_real()), note);
    fs_unlock(fs, lock);
    if (!err) printf("The next start of the shard in %s uses epoch %" PRIu64 ".\n", dir, epoch + 1);
    return err;
}

static int run_set_epoch(void *context, const struct command_call *call)
{
    struct note note = {""};
    struct conf *conf;
    int exit_code = 0;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    err = set_epoch(fs_real(), conf_text(conf, "data-dir"), conf_argument(conf, 0), &note);
    program_give_to_owner(conf_text(conf, "data-dir"));
    if (err) exit_code = program_fail(call, err, &note);
    conf_close(conf);
    return exit_code;
}

static const struct command_example set_epoch_examples[] = {
    {"muster shard set-epoch --data-dir /var/lib/muster/shard-a 41",
     "the provider has seen epoch 41 of this shard"},
    {"muster shard set-epoch --data-dir /var/lib/muster/shard-a $(date +%s)",
     "nobody knows the number: seconds are above any count of starts"},
    {NULL, NULL},
};
static const struct command set_epoch_command = {
    .name = "set-epoch",
    .summary = "let a shard that lost its data directory act again",
    .about =
        "A shard counts its starts in its data directory, and its provider refuses every call that "
        "carries a lower count than it has seen. A shard whose directory was lost counts from 1 "
        "and "
        "is refused (\"fenced\") until its count is above that. This command makes the next start "
        "use an epoch above EPOCH, the number that the shard's log names. It never lowers an "
        "epoch.\n"
        "Only for a shard that lost its directory. When another process of the same shard runs, "
        "stop one of the two instead. The shard must not be running.",
    .options = &set_epoch_table,
    .arguments = "EPOCH",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = set_epoch_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5),
    .run = run_set_epoch,
};

static const struct command_example examples[] = {
    {"muster shard run --provider-addr 127.0.0.1:7770", "a shard on this machine"},
    {"muster shard run --provider-addr 127.0.0.1:7770 --dry-run --audit-log audit.ndjson",
     "the first day beside another system: what would it do?"},
    {"muster shard run --config shard-0.toml --coordinator-addr node-0:7790,node-1:7790",
     "one of many, under TLS"},
    {NULL, NULL},
};
static const struct command shard_run_command = {
    .name = "run",
    .summary = "run one shard",
    .about =
        "Runs one shard: it lists the machines of its provider, hears what the clusters' operators "
        "want, decides which machines to buy, move, preempt and give back, and does so. It keeps "
        "an epoch and its domains on disk and nothing else: after a restart the machines come from "
        "the provider and the demand from the operators.\n"
        "It works without any coordinator; with --coordinator-addr it reports there and takes its "
        "domains from there. SIGTERM or Ctrl-C ends its sessions and stops; calls under way are "
        "not waited for, the next start finds what became of them.",
    .options = &shard_run_table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_shard,
};

static const struct command *const children[] = {&shard_run_command, &set_epoch_command, NULL};
const struct command shard_command = {
    .name = "shard",
    .summary = "a shard: turns demand into machines",
    .about = "Runs a shard controller, or repairs the epoch of one that lost its data directory.",
    .children = children,
};
