/* SPDX-License-Identifier: Apache-2.0 */
/* cmd/muster/dev_demand.h, in virtual time: an edit is reported within two seconds, independent of
 * the time until the next move. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "muster/dev_demand.h"
#include "sim/sim.h"

enum { MOVE_EVERY_MS = 3600 * 1000, NOTICED_WITHIN_MS = 2000, LONG_MS = 60 * 1000 };

static const char dir[] = "/demo";
static struct dev_demand demand;
static struct sim *sim;
static struct sim_host *host;
static uint64_t every_ms;
static size_t edits;
static char last[160];

static void on_say(void *owner, const char *text, bool yours)
{
    (void)owner;
    edits += yours;
    snprintf(last, sizeof last, "%s", text);
}

static enum err demand_start(struct io *io, void *context, void **ret_state)
{
    struct note note = {""};
    const struct dev_demand_options options = {
        .io = io, .dir = dir, .every_ms = every_ms, .say = on_say};
    enum err err = fs_make_dirs(io->fs, dir, 0755);

    (void)context;
    *ret_state = &demand;
    return err ? err : dev_demand_open(&demand, &options, &note);
}

static void demand_destroy(void *state)
{
    dev_demand_close(state);
}

static void begin(uint64_t move_every_ms)
{
    static const struct sim_process_ops ops = {.start = demand_start, .destroy = demand_destroy};
    const struct sim_options options = {.seed = 1};
    const struct sim_host_options machine = {.name = "demo"};

    every_ms = move_every_ms;
    edits = 0;
    last[0] = '\0';
    CHECK_OK("a world", sim_open(&options, &sim));
    CHECK_OK("a machine", sim_host_add(sim, &machine, &host));
    CHECK_OK("demand", sim_host_start(host, &ops, NULL));
}

static void end(void)
{
    sim_host_die(host, SIM_KILLED);
    sim_close(sim);
}

static void edit(const char *path)
{
    CHECK_OK("an edit", fs_publish(sim_host_io(host)->fs, path, STR("# mine\n"), 0644, 7));
}

TEST(an_edit_is_reported_within_two_seconds_and_once)
{
    begin(MOVE_EVERY_MS);
    (void)sim_run_for(sim, LONG_MS);
    CHECK_SIZE("nothing was edited", edits, 0);
    edit("/demo/cluster-b.toml");
    (void)sim_run_for(sim, NOTICED_WITHIN_MS);
    CHECK_SIZE("reported", edits, 1);
    CHECK_HAS("which", last, "cluster-b.toml was edited");
    (void)sim_run_for(sim, LONG_MS);
    CHECK_SIZE("once", edits, 1);
    CHECK_OK("removed", fs_remove(sim_host_io(host)->fs, "/demo/cluster-a.toml"));
    (void)sim_run_for(sim, NOTICED_WITHIN_MS);
    CHECK_SIZE("a file that was removed too", edits, 2);
    end();
}

/* A move replaces the file. At every step of the wave the comparison must recognize the file as our
 * own. */
TEST(a_move_is_no_edit)
{
    begin(700);
    (void)sim_run_for(sim, LONG_MS);
    CHECK_SIZE("every move is ours", edits, 0);
    CHECK_HAS("and there were moves", last, " wants ");
    end();
}

TEST(demand_that_never_moves_is_not_watched)
{
    begin(0);
    edit("/demo/cluster-a.toml");
    (void)sim_run_for(sim, LONG_MS);
    CHECK_SIZE("nothing to report", edits, 0);
    end();
}
