/* SPDX-License-Identifier: Apache-2.0 */
/* muster dev: everything that exists, on one machine. */
#include <string.h>

#include "common/chassis.h"
#include "common/tables.h"
#include "muster/commands.h"
#include "muster/dev_fleet.h"
#include "obs/events.h"
#include "text/rfc3339.h"

enum { SAY_AGAIN_MS = 3000 };

struct dev {
    struct role_base role;
    struct dev_fleet *fleet; /* NULL: no replicas were asked for */
    struct health_check *check;
    bool told;       /* the table was printed */
    char last[64];   /* the last thing said of its progress, */
    mono_time again; /* and when it is said again */
};

/* Where people look: stdout, unless that belongs to the events. */
static FILE *out_of(const struct dev *dev)
{
    const struct conf *conf = dev->role.conf;
    return conf_choice(conf, "events.sink") == EVENTS_STDOUT ? stderr : stdout;
}

/* Whenever it changes, and every few seconds while it does not. */
static void say_forming(struct dev *dev, const char *reason)
{
    mono_time now = loop_now(dev->role.io->loop);

    if (strcmp(reason, dev->last) == 0 && !mono_due(dev->again, now)) return;
    snprintf(dev->last, sizeof dev->last, "%s", reason);
    dev->again = mono_after(now, SAY_AGAIN_MS);
    fprintf(out_of(dev), "  forming      %s\n", reason);
}

static void on_ready(void *owner, bool ready, const char *reason)
{
    struct dev *dev = owner;
    FILE *out = out_of(dev);

    health_check_set(dev->check, ready, reason);
    if (ready && !dev->told) {
        fputc('\n', out); /* again: the first lines may have left the screen */
        dev_fleet_dashboard(dev->fleet, out);
        dev_fleet_table(dev->fleet, out);
        dev_fleet_tour(dev->fleet, out);
        fputs("ready\n", out);
        dev->told = true;
    } else if (!ready && !dev->told) {
        say_forming(dev, reason);
    }
    fflush(out);
}

static void on_failed(void *owner, enum err err, const struct note *note)
{
    struct dev *dev = owner;
    chassis_fail(dev->role.chassis, err, note);
}

static void on_word(void *owner, const char *about, const char *text)
{
    struct dev *dev = owner;
    FILE *out = out_of(dev);
    char now[RFC3339_CAP];

    wall_text(clock_wall(dev->role.io->clock), now);
    fprintf(out, "  %-11s  %.8s  %s\n", about, now + sizeof "2026-11-16T" - 1, text);
    fflush(out);
}

static void on_stopped(void *owner)
{
    struct dev *dev = owner;
    chassis_stop(dev->role.chassis);
}

static enum err open_dev(void *state, struct note *note)
{
    struct dev *dev = state;
    const struct conf *conf = dev->role.conf;
    struct dev_fleet_options options = {
        .io = dev->role.io,
        .log = instruments_log(dev->role.instruments),
        .dir = conf_text(conf, "data-dir"),
        .log_level = conf_text(conf, "log.level"),
        .replicas = conf_number(conf, "replicas"),
        .shards = conf_number(conf, "shards"),
        .workers = conf_number(conf, "workers"),
        .on_ready = on_ready,
        .chaos = conf_bool(conf, "chaos"),
        .chaos_every_ms = conf_number(conf, "chaos-every"),
        .demand_every_ms = conf_number(conf, "demand-every"),
        .on_failed = on_failed,
        .on_word = on_word,
        .on_stopped = on_stopped,
        .owner = dev,
    };
    enum err err;

    if (options.replicas == 0) return ERR_OK;
    err = instruments_check(dev->role.instruments, "cluster", "starting", &dev->check);
    dev_ports_usual(&options.ports);
    if (!err && conf_bool(conf, "free-ports"))
        err = dev_ports_free(options.io, options.dir, &options.ports, note);
    return err ? err : dev_fleet_open(&options, &dev->fleet, note);
}

static void say_first(void *state, FILE *out)
{
    const struct dev *dev = state;

    if (!dev->fleet) return;
    dev_fleet_dashboard(dev->fleet, out);
    dev_fleet_logs(dev->fleet, out);
}

/* Ends in on_stopped. */
static void drain_fleet(void *state)
{
    struct dev *dev = state;

    if (dev->fleet)
        dev_fleet_stop(dev->fleet);
    else
        chassis_drained(dev->role.chassis);
}

static void close_dev(void *state)
{
    struct dev *dev = state;

    if (!dev->fleet) return;
    dev_fleet_stop(dev->fleet);
    while (dev_fleet_running(dev->fleet)) chassis_turn(dev->role.chassis);
    dev_fleet_close(dev->fleet);
}

static const struct chassis_hooks hooks = {
    .role = &dev_role,
    CHASSIS_STATE(struct dev),
    .steps = CHASSIS_STEPS(open_dev),
    .drains = CHASSIS_DRAINS(drain_fleet),
    .say_first = say_first,
    .close = close_dev,
};

const struct command dev_command = {
    .name = "dev",
    .summary = "run what exists on this machine",
    .about =
        "Runs a fleet as processes of their own on loopback ports, with their data and logs below "
        "--data-dir, where they are found again by the next run: three coordinators, a provider "
        "with a simulated cloud of three zones, two shards that share the zones, three clusters' "
        "operators, whose demand stands in DIR/cluster-a.toml and its like and moves up and down "
        "until such a file is edited, and twenty workers, which count the words in DIR/input. Says "
        "where each is and \"ready\" once the coordinators have a leader, the shards report and "
        "the workers beat; one that dies is started again. Each writes its log to DIR/NAME.log. "
        "This process itself has a status page, probes and metrics too.\n"
        "With --chaos one of them is killed or made to stand still for some seconds, and the next "
        "only when the fleet is whole again: never two replicas at once. What was done is said "
        "here and on the dashboard.\n"
        "SIGTERM or Ctrl-C stops all of it. SIGHUP reads the configuration again, says what "
        "changed and what needs a restart, and opens the log file anew. An event file that was "
        "moved away and TLS files that changed are noticed without it.",
    .options = &dev_table,
    .examples = COMMAND_EXAMPLES(
        {"muster dev", "the whole fleet; its dashboard is at http://127.0.0.1:8790/"},
        {"muster dev --chaos", "the same, while parts of it are killed and paused, one at a time"},
        {"muster dev --shards 0", "coordinators alone"},
        {"muster dev --free-ports --http-listen 127.0.0.1:0 --data-dir /tmp/m",
         "on free ports, with its own directory"},
        {"MUSTER_LOG_LEVEL=debug muster dev", "an option from the environment"},
        {"muster dev --config muster.toml", "options from a file; kill -HUP reads it again"},
        {"muster dev --print-config", "what would be in force, and why"}),
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = chassis_run,
    .data = &hooks,
};
