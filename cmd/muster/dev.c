/* SPDX-License-Identifier: Apache-2.0 */
/* muster dev: a whole fleet with every role, on one machine. */
#include "muster/dev.h"

#include <string.h>

#include "common/help.h"
#include "common/tables.h"
#include "muster/commands.h"
#include "obs/events.h"
#include "text/rfc3339.h"

enum { SAY_AGAIN_MS = 3000 };

/* -- what is shown -- */

static void print_row(FILE *out, const struct dev_child *child, const char *role, uint16_t grpc,
                      uint16_t http)
{
    char address[32] = "";

    if (grpc) dev_address(address, grpc);
    fprintf(out, "  %-10s  %-11s  %-15s  http://127.0.0.1:%-5u  %d\n", dev_child_name(child), role,
            address, http, dev_child_pid(child));
}

static void print_dashboard(const struct dev *dev, FILE *out)
{
    fprintf(out, "  dashboard    http://127.0.0.1:%u/   admin token: %s\n",
            dev->parts.ports.replicas[0].http, dev->token);
}

static void print_logs(const struct dev *dev, FILE *out)
{
    static const char *const titles[DEV_PARTS] = {"coordinators", "provider", "shards", "operators",
                                                  "workers"};
    const char *title = "logs";

    for (size_t part = 0; part < DEV_PARTS; part++) {
        size_t count = dev->count[part];
        struct dev_child *const *child = &dev->children[dev->first[part]];

        if (count == 0) continue;
        fprintf(out, "  %-11s  %-12s  %s/%s.log", title, titles[part], dev->parts.dir,
                dev_child_name(child[0]));
        if (count > 1) fprintf(out, " to %s.log", dev_child_name(child[count - 1]));
        fputc('\n', out);
        title = "";
    }
}

static void print_table(const struct dev *dev, FILE *out)
{
    const struct dev_ports *ports = &dev->parts.ports;
    struct dev_child *const *child = dev->children;

    fprintf(out, "  NAME        ROLE         GRPC             HTTP                    PID\n");
    for (size_t i = 0; i < dev->parts.replicas; i++)
        print_row(out, *child++, i == dev->leader ? "leader" : "follower", ports->replicas[i].grpc,
                  ports->replicas[i].http);
    if (dev->parts.workers)
        fprintf(out, "  %zu workers  musterctl worker list --coordinator 127.0.0.1:%u\n",
                dev->parts.workers, ports->replicas[0].grpc);
    if (!dev->parts.shards) return;
    child += dev->parts.workers;
    print_row(out, *child++, "provider", ports->provider_grpc, ports->provider_http);
    for (size_t i = 0; i < dev->parts.shards; i++)
        print_row(out, *child++, "shard", ports->shards[i].grpc, ports->shards[i].http);
    for (size_t i = 0; i < DEV_OPERATORS; i++)
        print_row(out, *child++, dev_cluster(i), 0, ports->operator_http[i]);
}

static void print_tour(const struct dev *dev, FILE *out)
{
    const struct dev_parts *parts = &dev->parts;
    const struct dev_ports *ports = &parts->ports;
    char grpc[32];

    dev_address(grpc, ports->replicas[0].grpc);
    fprintf(out, "\n  1  watch     open the dashboard; every view is an address: /fleet /needs "
                 "/raft ...\n");
    fprintf(out,
            "  2  claim     musterctl coord exec --group jobs --slots 3 --store muster://%s "
            "-- sleep 60   and look at /store\n",
            grpc);
    fprintf(out, "  3  write     musterctl store put hello world --coordinator %s\n", grpc);
    fprintf(out, "  4  fail over kill -9 %d   and see /raft elect another leader\n",
            dev->leader < parts->replicas ? dev_child_pid(dev->children[dev->leader]) : 0);
    if (parts->workers)
        fprintf(
            out,
            "     workers   kill -9 any of them, and see musterctl partition list --watch; their "
            "input is in %s/input\n",
            parts->dir);
    if (!parts->shards) return;
    fprintf(out, "  5  demand    edit %s/cluster-a.toml   and see /fleet follow\n", parts->dir);
    fprintf(out, "  6  why       musterctl need list --shard 127.0.0.1:%u   or /needs\n",
            ports->shards[0].grpc);
}

static FILE *dev_out(const struct dev *dev)
{
    const struct conf *conf = dev->role.conf;
    return conf_choice(conf, "events.sink") == EVENTS_STDOUT ? stderr : stdout;
}

/* Prints what the fleet is still waiting for, when that changes and otherwise every few seconds. */
static void say_forming(struct dev *dev, const char *reason)
{
    mono_time now = loop_now(dev->role.io->loop);

    if (strcmp(reason, dev->last) == 0 && !mono_due(dev->again, now)) return;
    snprintf(dev->last, sizeof dev->last, "%s", reason);
    dev->again = mono_after(now, SAY_AGAIN_MS);
    fprintf(dev_out(dev), "  forming      %s\n", reason);
}

void dev_on_ready(struct dev *dev, bool ready, const char *reason)
{
    FILE *out = dev_out(dev);

    health_check_set(dev->check, ready, reason);
    if (ready && !dev->announced) {
        fputc('\n', out); /* prints the first lines again, which may have scrolled away */
        print_dashboard(dev, out);
        print_table(dev, out);
        print_tour(dev, out);
        fputs("ready\n", out);
        dev->announced = true;
    } else if (!ready && !dev->announced) {
        say_forming(dev, reason);
    }
    fflush(out);
}

void dev_say(struct dev *dev, const char *about, const char *text)
{
    FILE *out = dev_out(dev);
    char now[RFC3339_CAP];

    wall_text(clock_wall(dev->role.io->clock), now);
    fprintf(out, "  %-11s  %.8s  %s\n", about, now + sizeof "2026-11-16T" - 1, text);
    fflush(out);
}

/* -- the hooks -- */

static void say_first(void *state, FILE *out)
{
    const struct dev *dev = state;

    if (!dev->parts.replicas) return;
    print_dashboard(dev, out);
    print_logs(dev, out);
}

static void drain_fleet(void *state)
{
    struct dev *dev = state;

    if (dev->parts.replicas)
        dev_fleet_stop(dev);
    else
        chassis_drained(dev->role.chassis);
}

static const struct chassis_hooks dev_hooks = {
    .role = &dev_role,
    CHASSIS_STATE(struct dev),
    .steps = CHASSIS_STEPS(dev_fleet_open),
    .drains = CHASSIS_DRAINS(drain_fleet),
    .say_first = say_first,
    .close = dev_fleet_close,
};

const struct command dev_command = {
    COMMAND_ROW(HELP_MUSTER_DEV, dev),
    CHASSIS_RUN(dev_hooks),
};
