/* SPDX-License-Identifier: Apache-2.0 */
/* muster shard run: one shard. Connects the parts and makes no decision. `hooks` has the order of
 * start and drain. Loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/help.h"
#include "common/tables.h"
#include "coordclient/coordclient.h"
#include "muster/commands.h"
#include "muster/role.h"
#include "provider/client.h"
#include "shard/domains.h"
#include "shard/epoch.h"
#include "shard/pools_file.h"
#include "shard/shard.h"

enum {
    AUDIT_MODE = 0644,
    AUDIT_ROTATE_NEVER = 0,
    CALLS_SPARE = 4096, /* limit of calls for Get, in addition to actions */
    NUMBER_CAP = 24,
    REMEDY_CAP = 256,
    DRAIN_REPORTS_MAX = 64,
};

struct shard_role_state {
    struct role_base role; /* its log adds the shard's id and epoch to every line */
    uint64_t epoch;
    struct domains *domains;
    struct cordon_file *cordons;
    bool operators_reported;
    struct events *audit;
    struct provider *provider;
    struct shard *shard;
    struct coordclient *coordinator;
    bool paused;                    /* the log says that the shard is paused */
    char remark[HEALTH_REASON_MAX]; /* remark in /readyz; empty: none */
};

/* -- its files -- */

/* Uses the domains in the settings, unless a coordinator has ever changed the shard's domains. */
static enum err first_domains(struct shard_role_state *s, struct note *note)
{
    struct option_value list = conf_list(s->role.conf, "domains");
    enum err err = ERR_OK;

    if (domains_given(s->domains)) return ERR_OK;
    for (size_t i = 0; !err && i < list.item_count; i++) {
        struct str key = list.items[i];
        size_t equals = str_find(key, '=');
        if (equals == key.len)
            return note_fail(note, ERR_INVALID, "domains: %.*s: expected KEY=VALUE", STR_ARG(key));
        err = domains_set(s->domains, str_of(key.at, equals), str_tail(key, equals + 1), true,
                          entropy_u64(s->role.io->entropy), note);
    }
    return err;
}

/* <data-dir>/drain-reports exists once an operator has reported its drains. Then a restarted shard
 * waits for the operators. */
static enum err drain_reports_path(const struct shard_role_state *s, char path[FS_PATH_CAP],
                                   struct note *note)
{
    return files_below_data_dir(s->role.conf, "data-dir", "drain-reports", path, note);
}

/* A file that cannot be read counts as present, because waiting is safe. */
static enum err read_drain_reports(struct shard_role_state *s, struct note *note)
{
    char path[FS_PATH_CAP];
    struct buf text;
    enum err err = drain_reports_path(s, path, note);

    if (err) return err;
    buf_init(&text, DRAIN_REPORTS_MAX);
    s->operators_reported =
        fs_read_whole(s->role.io->fs, path, DRAIN_REPORTS_MAX, &text) != ERR_NOT_FOUND;
    buf_deinit(&text);
    return ERR_OK;
}

static void on_reports_drains(void *owner)
{
    struct shard_role_state *s = owner;
    char path[FS_PATH_CAP];
    struct note note = {""};
    enum err err = drain_reports_path(s, path, &note);

    if (!err)
        err = fs_publish(s->role.io->fs, path, STR("1\n"), 0600, entropy_u64(s->role.io->entropy));
    if (err)
        LOG_WARN(&s->role.log,
                 "could not record that operators report drains: after a restart the shard does "
                 "not wait for their reports",
                 log_err("err", err));
}

/* <data-dir>/sold-out: a hint for the next process (pools_file.h). */
static enum err pools_path(const struct shard_role_state *s, char path[FS_PATH_CAP],
                           struct note *note)
{
    return files_below_data_dir(s->role.conf, "data-dir", "sold-out", path, note);
}

static void on_pools(void *owner, struct str text)
{
    struct shard_role_state *s = owner;
    char path[FS_PATH_CAP];
    struct note note = {""};
    enum err err = pools_path(s, path, &note);

    if (!err) err = fs_publish(s->role.io->fs, path, text, 0600, entropy_u64(s->role.io->entropy));
    if (err)
        LOG_WARN(&s->role.log,
                 "could not record what the provider has no stock of: after a restart the shard "
                 "tries it again",
                 log_err("err", err));
}

static enum err open_files(void *state, struct note *note)
{
    struct shard_role_state *s = state;
    const char *dir = conf_text(s->role.conf, "data-dir");
    enum err err =
        epoch_next(s->role.io->fs, dir, entropy_u64(s->role.io->entropy), &s->epoch, note);

    if (!err) err = domains_open(s->role.io->fs, dir, &s->domains, note);
    if (!err) err = cordon_file_open(s->role.io->fs, dir, &s->cordons, note);
    if (!err) err = read_drain_reports(s, note);
    if (!err) err = first_domains(s, note);
    if (err) return err;
    role_log(&s->role, "shard",
             (const struct log_field[]){log_text("shard", conf_text(s->role.conf, "id")),
                                        log_u64("epoch", s->epoch), LOG_END});
    return ERR_OK;
}

static enum err open_audit(void *state, struct note *note)
{
    struct shard_role_state *s = state;
    const char *name = conf_text(s->role.conf, "audit-log");
    char path[FS_PATH_CAP];
    struct events_options options = {
        .kind = EVENTS_FILE,
        .fs = s->role.io->fs,
        .clock = s->role.io->clock,
        .path = path,
        .mode = AUDIT_MODE,
        .rotate_bytes = AUDIT_ROTATE_NEVER,
        .log = &s->role.log,
        .name = "audit log",
    };
    enum err err;

    if (!name) return ERR_OK;
    err = files_below_data_dir(s->role.conf, "audit-log", name, path, note);
    if (err) return err;
    err = events_open(&options, &s->audit, note);
    if (err) note_prefix(note, "audit-log");
    return err;
}

/* -- the parts -- */

static enum err open_provider(void *state, struct note *note)
{
    struct shard_role_state *s = state;
    struct provider_options options = {
        .io = s->role.io,
        .address = conf_text(s->role.conf, "provider-addr"),
        .tls = s->role.client_tls,
        .shard_id = conf_text(s->role.conf, "id"),
        .epoch = (int64_t)s->epoch,
        .calls_max = (uint32_t)conf_number(s->role.conf, "execute-concurrency") + CALLS_SPARE,
        .timeout_ms = conf_number(s->role.conf, "execute-timeout"),
        .list_timeout_ms = conf_number(s->role.conf, "list-timeout"),
        .metrics = s->role.client_metrics,
    };
    return provider_open(&options, &s->provider, note);
}

static void on_first_list(void *owner)
{
    struct shard_role_state *s = owner;

    LOG_INFO(&s->role.log, "ready: the provider's first list of machines is complete");
    health_check_set(s->role.ready, true, "");
    health_check_remark(s->role.ready, s->remark);
}

/* Logs both possible causes with their remedies in one line. */
static void shard_run_on_fenced(void *owner, const struct shard_fence *fence)
{
    struct shard_role_state *s = owner;
    char newest[NUMBER_CAP] = "unknown", remedy[FS_PATH_CAP + REMEDY_CAP];

    if (fence->newest) snprintf(newest, sizeof newest, "%" PRId64, fence->newest);
    snprintf(remedy, sizeof remedy,
             "a newer process: stop this one. A lost data directory: stop this one, run `muster "
             "shard set-epoch --data-dir %s %s`, start it again",
             conf_text(s->role.conf, "data-dir"), fence->newest ? newest : "$(date +%s)");
    LOG_ERROR(
        &s->role.log,
        "this shard is fenced and has stopped acting: a newer process of this shard runs, or its "
        "data directory was lost",
        log_text("newest_epoch", newest), log_text("remedy", remedy),
        log_str("provider", fence->text));
    snprintf(s->remark, sizeof s->remark,
             "fenced: epoch %" PRIu64 " is not newer than %s, so nothing is begun; a newer process "
             "runs, or the data directory was lost: see the log",
             s->epoch, newest);
    health_check_remark(s->role.ready, s->remark);
}

/* If publishing fails, the old page stays and the next cycle publishes again. */
static void on_rests(void *owner, struct str json)
{
    struct shard_role_state *s = owner;

    chassis_publish(s->role.chassis, "/rests", CHASSIS_HTTP_OK, "application/json", json);
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
        .concurrency_first = (uint32_t)conf_number(conf, "execute-concurrency-start"),
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

static enum err open_shard(void *state, struct note *note)
{
    struct shard_role_state *s = state;
    struct shard_options options = {
        .io = s->role.io,
        .log = &s->role.log,
        .metrics = s->role.metrics,
        .audit = s->audit,
        .id = conf_text(s->role.conf, "id"),
        .epoch = s->epoch,
        .provider = s->provider,
        .provider_address = conf_text(s->role.conf, "provider-addr"),
        .domains = s->domains,
        .cordons = s->cordons,
        .blob_bytes_max = (size_t)conf_number(s->role.conf, "blob-budget"),
        .core = core_of(s->role.conf),
        .cycle_ms = conf_number(s->role.conf, "cycle-interval"),
        .incremental = conf_bool(s->role.conf, "incremental-reconcile"),
        .warmup_cycles = (uint32_t)conf_number(s->role.conf, "metrics-warmup-cycles"),
        .on_ready = on_first_list,
        .on_rests = on_rests,
        .on_pools = on_pools,
        .on_reports_drains = on_reports_drains,
        .on_fenced = shard_run_on_fenced,
        .owner = s,
    };
    char path[FS_PATH_CAP];
    struct buf pools;
    enum err err;

    buf_init(&pools, POOLS_FILE_MAX);
    if (!pools_path(s, path, note) && !fs_read_whole(s->role.io->fs, path, POOLS_FILE_MAX, &pools))
        options.pools = buf_peek(&pools);
    options.core.seed = entropy_u64(s->role.io->entropy);
    options.core.operators_reported = s->operators_reported;
    set_holds(s->role.conf, &options.core);
    err = shard_open(&options, &s->shard, note);
    buf_deinit(&pools);
    return err;
}

static enum err shard_run_open_server(void *state, struct note *note)
{
    struct shard_role_state *s = state;
    struct rpc_server_options options = {.log = &s->role.log};
    enum err err;

    shard_server_limits(s->shard, &options.limits);
    err = role_open_server(&s->role, &options, note);
    if (!err) err = shard_serve(s->shard, s->role.server, note);
    return err ? err : role_listen(&s->role, note);
}

static enum err open_coordinator_client(void *state, struct note *note)
{
    struct shard_role_state *s = state;
    struct option_value list = conf_list(s->role.conf, "coordinator-addr");
    const char *addresses[OPTION_LIST_MAX + 1] = {NULL};
    const char *given = conf_text(s->role.conf, "advertise-addr");
    struct coordclient_options options = {
        .io = s->role.io,
        .log = &s->role.log,
        .metrics = s->role.metrics,
        .rpc_metrics = s->role.client_metrics,
        .addresses = addresses,
        .tls = s->role.client_tls,
        .shard_id = conf_text(s->role.conf, "id"),
        .advertise = given ? given : rpc_server_address(s->role.server, 0),
        .epoch = s->epoch,
        .interval_ms = conf_number(s->role.conf, "coordinator-heartbeat-interval"),
        .view = shard_view(s->shard),
    };

    for (size_t i = 0; i < list.item_count; i++) addresses[i] = list.items[i].at;
    return list.item_count ? coordclient_open(&options, &s->coordinator, note) : ERR_OK;
}

/* -- the hooks -- */

static void say_paused(struct shard_role_state *s)
{
    s->paused = true;
    LOG_WARN(&s->role.log, "actuation is paused: the shard still decides, but executes no action");
}

static enum err shard_begin(void *state, struct note *)
{
    struct shard_role_state *s = state;

    if (conf_bool(s->role.conf, "actuation-paused"))
        say_paused(s);
    else if (conf_bool(s->role.conf, "dry-run"))
        LOG_WARN(&s->role.log, "dry-run: the shard logs every action and executes none");
    role_warn_of_listener(&s->role);
    shard_start(s->shard);
    return ERR_OK;
}

/* Applies the kill switch in this turn of the loop. Only a restart turns the switch off. */
static void shard_run_reload(void *state)
{
    struct shard_role_state *s = state;
    const struct conf *now = s->role.conf_now;

    if (!conf_bool(now, "actuation-paused")) return;
    shard_pause(s->shard);
    if (!s->paused)
        say_paused(s);
    else if (conf_waits(now, "actuation-paused"))
        LOG_WARN(&s->role.log, "actuation stays paused until a restart");
}

static void shard_run_say_started(void *state, FILE *out)
{
    const struct shard_role_state *s = state;

    fprintf(out, "  gRPC         %s\n", rpc_server_address(s->role.server, 0));
    fprintf(out, "  provider     %s\n", conf_text(s->role.conf, "provider-addr"));
    fprintf(out, "  shard        %s, start number %" PRIu64 "\n", conf_text(s->role.conf, "id"),
            s->epoch);
}

static void drain_shard(void *state)
{
    struct shard_role_state *s = state;

    shard_stop(s->shard);
    chassis_drained(s->role.chassis);
}

/* Accepts any half-built state. */
static void close_shard(void *state)
{
    struct shard_role_state *s = state;

    if (s->shard) shard_stop(s->shard);
    CHASSIS_AWAIT(s->role.chassis, coordclient_close, s->coordinator);
    role_close_server(&s->role);
    CHASSIS_AWAIT(s->role.chassis, provider_close, s->provider);
    shard_close(s->shard);
    events_close(s->audit);
    domains_close(s->domains);
    cordon_file_close(s->cordons);
    role_close(&s->role);
}

static const struct chassis_hooks shard_run_hooks = {
    .role = &shard_role,
    CHASSIS_STATE(struct shard_role_state),
    .ready_check = "reconcile",
    .ready_reason = "first provider reconcile not yet complete",
    .tls = ROLE_TLS_SERVER | ROLE_TLS_CLIENT,
    .steps = CHASSIS_STEPS(role_open_ready, open_files, role_open_tls, open_audit,
                           role_open_client_metrics, open_provider, open_shard,
                           shard_run_open_server, open_coordinator_client, shard_begin),
    .drains = CHASSIS_DRAINS(role_drain_ready, drain_shard, role_drain_server),
    .say_started = shard_run_say_started,
    .reload = shard_run_reload,
    .close = close_shard,
};

/* -- set-epoch -- */

static enum err lift_epoch(struct program_run *run, const char *dir, uint64_t epoch)
{
    struct fs *fs = fs_real();
    struct fs_lock *lock = NULL;
    enum err err = fs_lock_dir(fs, dir, &lock, &run->note);

    if (err) {
        note_prefix(&run->note,
                    err == ERR_BUSY ? "data-dir %s is in use; stop its shard first" : "data-dir %s",
                    dir);
        return err;
    }
    err = epoch_set(fs, dir, epoch, entropy_u64(entropy_real()), &run->note);
    fs_unlock(fs, lock);
    if (err) return err;
    return buf_appendf(&run->out, "The next start of the shard in %s uses epoch %" PRIu64 ".\n",
                       dir, epoch + 1);
}

static enum err set_epoch(struct program_run *run)
{
    const char *dir = conf_text(run->conf, "data-dir"), *number = conf_argument(run->conf, 0);
    uint64_t epoch;
    enum err err;

    if (str_to_u64(str_from(number), &epoch))
        return note_fail(&run->note, ERR_INVALID, "%s: the epoch must be a number, such as 41",
                         number);
    err = lift_epoch(run, dir, epoch);
    program_give_to_owner(dir);
    return err;
}

const struct command shard_command = COMMAND_TREE(
    HELP_MUSTER_SHARD,
    COMMAND(COMMAND_ROW(HELP_MUSTER_SHARD_RUN, shard_run), CHASSIS_RUN(shard_run_hooks)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTER_SHARD_SET_EPOCH, set_epoch, "EPOCH", 1, 1),
            PROGRAM_ACT(BIT(4) | BIT(5), set_epoch)));
