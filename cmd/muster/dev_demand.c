/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/dev_demand.h"

#include <stdio.h>

enum {
    STEPS = 8,
    TEXT_CAP = 2048,
    FILE_MAX = 1 << 20,
    FILE_MODE = 0644,
    EDIT_POLL_MS = 1000, /* how often the files are compared with what was written */
};

#define MOVES                                                                                      \
    "# `muster dev` moves the first count up and down, until you edit this file. Save, and its\n"  \
    "# operator sees it within a second.\n"

/* One count of each moves; all eight differ: the file alone says where its wave is. */
static const struct wave {
    const char *name, *before, *after; /* of the count */
    unsigned counts[STEPS];
} waves[DEV_OPERATORS] = {
    {"web",
     "# What cluster-a wants.\n" MOVES "[[requests]]\n"
     "name = \"web\"\n"
     "count = ",
     "\n"
     "resources = {cpu = \"1500m\", memory = \"6Gi\"}\n"
     "priority = 1000\n"
     "spread = [{key = \"topology.kubernetes.io/zone\", max-skew = 1, when = "
     "\"DoNotSchedule\"}]\n"
     "\n"
     "[[requests]]\n"
     "name = \"database\"\n"
     "count = 3\n"
     "resources = {cpu = \"12\", memory = \"48Gi\"}\n"
     "priority = 2000\n"
     "interruption-penalty = 500\n"
     "reclamation-penalty = 100\n",
     {12, 16, 20, 24, 22, 18, 14, 10}},
    {"batch",
     "# What cluster-b wants: batch work that takes what is cheap, and eight cards in one "
     "rack.\n" MOVES "[[requests]]\n"
     "name = \"batch\"\n"
     "count = ",
     "\n"
     "resources = {cpu = \"8\", memory = \"24Gi\"}\n"
     "\n"
     "[[requests]]\n"
     "name = \"training\"\n"
     "count = 2\n"
     "resources = {cpu = \"96\", memory = \"384Gi\", \"nvidia.com/gpu\" = 8}\n"
     "priority = 500\n"
     "co-locate = {key = \"topology.bigfleet/rack\", group = \"training\"}\n",
     {20, 26, 32, 28, 22, 16, 8, 12}},
    {"api",
     "# What cluster-c wants; it lives in the zone of the second shard.\n" MOVES "[[requests]]\n"
     "name = \"api\"\n"
     "count = ",
     "\n"
     "resources = {cpu = \"4\", memory = \"16Gi\"}\n"
     "priority = 800\n"
     "\n"
     "[[requests]]\n"
     "name = \"encode\"\n"
     "count = 2\n"
     "resources = {cpu = \"32\", memory = \"64Gi\"}\n"
     "instance-types = [\"c5.9xlarge\"]\n"
     "\n"
     "[[requests]]\n"
     "name = \"index\"\n"
     "count = 1\n"
     "resources = {cpu = \"60\", memory = \"240Gi\"}\n"
     "instance-types = [\"metal-64\"]\n"
     "reclamation-penalty = 50\n",
     {8, 10, 13, 16, 14, 11, 7, 6}},
};

static struct str text_of(size_t cluster, size_t step, char text[TEXT_CAP])
{
    const struct wave *wave = &waves[cluster];
    int len = snprintf(text, TEXT_CAP, "%s%u%s", wave->before, wave->counts[step], wave->after);

    return str_of(text, (size_t)len);
}

static void path_of(const struct dev_demand *demand, size_t cluster, char path[DEV_PATH_CAP + 64])
{
    snprintf(path, DEV_PATH_CAP + 64, "%s/%s.toml", demand->options.dir, dev_cluster(cluster));
}

/* -- moving -- */

/* STEPS: it is no text of ours. */
static size_t step_of(size_t cluster, struct str content)
{
    char text[TEXT_CAP];
    size_t step = 0;

    while (step < STEPS && !str_equal(content, text_of(cluster, step, text))) step++;
    return step;
}

static void say_moved(const struct dev_demand *demand, size_t cluster, size_t from, size_t to)
{
    const struct wave *wave = &waves[cluster];
    char text[160];

    snprintf(text, sizeof text, "%s wants %u of %s, after %u", dev_cluster(cluster),
             wave->counts[to], wave->name, wave->counts[from]);
    demand->options.say(demand->options.owner, text, false);
}

static void say_yours(struct dev_demand *demand, size_t cluster)
{
    char text[160];

    if (demand->yours[cluster]) return;
    demand->yours[cluster] = true;
    snprintf(text, sizeof text, "%s.toml was edited: it is yours, and moves no more",
             dev_cluster(cluster));
    demand->options.say(demand->options.owner, text, true);
}

static size_t step_in(const struct dev_demand *demand, size_t cluster, const char *path)
{
    struct buf content;
    size_t step = STEPS;

    buf_init(&content, FILE_MAX);
    if (!fs_read_whole(demand->options.io->fs, path, FILE_MAX, &content))
        step = step_of(cluster, buf_peek(&content));
    buf_deinit(&content);
    return step;
}

static void move_one(struct dev_demand *demand, size_t cluster)
{
    struct io *io = demand->options.io;
    char path[DEV_PATH_CAP + 64], made[DEV_PATH_CAP + 72], text[TEXT_CAP];
    size_t step, next;
    enum err err;

    path_of(demand, cluster, path);
    step = step_in(demand, cluster, path);
    next = (step + 1) % STEPS;
    snprintf(made, sizeof made, "%s.next", path);
    err = step == STEPS ? ERR_OK
                        : fs_publish(io->fs, made, text_of(cluster, next, text), FILE_MODE,
                                     entropy_u64(io->entropy));
    /* A disk takes its time: who edited it meanwhile has it. */
    if (!err && step != STEPS && step_in(demand, cluster, path) != step) {
        (void)fs_remove(io->fs, made);
        step = STEPS;
    }
    if (step == STEPS) {
        say_yours(demand, cluster); /* also one that was taken away */
        return;
    }
    if (!err) err = fs_rename(io->fs, made, path);
    if (err)
        LOG_WARN(demand->options.log, "demand could not be moved",
                 log_text("cluster", dev_cluster(cluster)), log_err("err", err));
    else
        say_moved(demand, cluster, step, next);
}

static void on_poll(struct timer *timer)
{
    struct dev_demand *demand = CONTAINER_OF(timer, struct dev_demand, poll);
    char path[DEV_PATH_CAP + 64];

    for (size_t i = 0; i < DEV_OPERATORS; i++) {
        if (demand->yours[i]) continue;
        path_of(demand, i, path);
        if (step_in(demand, i, path) == STEPS) say_yours(demand, i);
    }
    timer_start_in(timer, EDIT_POLL_MS);
}

static void on_due(struct timer *timer)
{
    struct dev_demand *demand = CONTAINER_OF(timer, struct dev_demand, timer);

    move_one(demand, demand->turn++ % DEV_OPERATORS);
    timer_start_in(timer, demand->options.every_ms);
}

/* -- life -- */

enum err dev_demand_open(struct dev_demand *demand, const struct dev_demand_options *options,
                         struct note *note)
{
    struct io *io = options->io;
    char path[DEV_PATH_CAP + 64], text[TEXT_CAP];
    enum err err;

    *demand = (struct dev_demand){.options = *options};
    err = timer_init(&demand->timer, io->loop, on_due);
    if (!err) err = timer_init(&demand->poll, io->loop, on_poll);
    for (size_t i = 0; !err && i < DEV_OPERATORS; i++) {
        path_of(demand, i, path);
        err = dev_write_once(io->fs, path, text_of(i, 0, text), entropy_u64(io->entropy), note);
    }
    if (err || options->every_ms == 0) return err;
    timer_start_in(&demand->timer, options->every_ms);
    timer_start_in(&demand->poll, EDIT_POLL_MS);
    return ERR_OK;
}

void dev_demand_stop(struct dev_demand *demand)
{
    timer_stop(&demand->timer);
    timer_stop(&demand->poll);
}

void dev_demand_close(struct dev_demand *demand)
{
    timer_deinit(&demand->timer);
    timer_deinit(&demand->poll);
}
