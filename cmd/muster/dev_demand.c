/* SPDX-License-Identifier: Apache-2.0 */
/* The demand files (demand/cluster-a.toml and two more) are compiled in. Each is written with one
 * of eight values for its first count. Any other text means that a user has edited the file. Runs
 * on the loop's thread. */
#include "muster/dev_demand.h"

#include <stdio.h>
#include <string.h>

enum {
    STEPS = 8,
    DEV_DEMAND_TEXT_CAP = 2048,
    DEV_DEMAND_FILE_MAX = 1 << 20,
    DEV_DEMAND_FILE_MODE = 0644,
    EDIT_POLL_MS = 1000, /* how often the files are checked for user edits */
};

#define ASSET(cluster)                                                                             \
    extern const unsigned char demand_##cluster[];                                                 \
    extern const size_t demand_##cluster##_len;
ASSET(cluster_a)
ASSET(cluster_b)
ASSET(cluster_c)

static const struct wave {
    const char *name;
    const unsigned char *toml;
    const size_t *len;
    unsigned counts[STEPS];
} waves[DEV_OPERATORS] = {
    {"web", demand_cluster_a, &demand_cluster_a_len, {12, 16, 20, 24, 22, 18, 14, 10}},
    {"batch", demand_cluster_b, &demand_cluster_b_len, {20, 26, 32, 28, 22, 16, 8, 12}},
    {"api", demand_cluster_c, &demand_cluster_c_len, {8, 10, 13, 16, 14, 11, 7, 6}},
};

static struct str demand_text(size_t cluster, size_t step, char text[DEV_DEMAND_TEXT_CAP])
{
    const struct wave *wave = &waves[cluster];
    struct str toml = str_of(wave->toml, *wave->len), count = STR("\ncount = "), after;
    const char *at = memmem(toml.at, toml.len, count.at, count.len);
    int len;

    assert(at);
    after = str_tail(toml, (size_t)(at - toml.at) + count.len);
    after = str_tail(after, str_find(after, '\n'));
    len = snprintf(text, DEV_DEMAND_TEXT_CAP, "%.*s%.*s%u%.*s", (int)(at - toml.at), toml.at,
                   STR_ARG(count), wave->counts[step], STR_ARG(after));
    return str_of(text, (size_t)len);
}

static void demand_path(const struct dev_demand *demand, size_t cluster,
                        char path[DEV_PATH_CAP + 64])
{
    snprintf(path, DEV_PATH_CAP + 64, "%s/%s.toml", demand->options.dir, dev_cluster(cluster));
}

/* -- moving -- */

/* The number of the value in the file; STEPS: a user has edited the file. */
static size_t demand_step_of(size_t cluster, struct str content)
{
    char text[DEV_DEMAND_TEXT_CAP];
    size_t step = 0;

    while (step < STEPS && !str_equal(content, demand_text(cluster, step, text))) step++;
    return step;
}

static void demand_report_move(const struct dev_demand *demand, size_t cluster, size_t from,
                               size_t to)
{
    const struct wave *wave = &waves[cluster];
    char text[160];

    snprintf(text, sizeof text, "%s wants %u of %s, after %u", dev_cluster(cluster),
             wave->counts[to], wave->name, wave->counts[from]);
    demand->options.say(demand->options.owner, text, false);
}

static void demand_report_edit(struct dev_demand *demand, size_t cluster)
{
    char text[160];

    if (demand->yours[cluster]) return;
    demand->yours[cluster] = true;
    snprintf(text, sizeof text, "%s.toml was edited: it is yours, and moves no more",
             dev_cluster(cluster));
    demand->options.say(demand->options.owner, text, true);
}

static size_t demand_step_in(const struct dev_demand *demand, size_t cluster, const char *path)
{
    struct buf content;
    size_t step = STEPS;

    buf_init(&content, DEV_DEMAND_FILE_MAX);
    if (!fs_read_whole(demand->options.io->fs, path, DEV_DEMAND_FILE_MAX, &content))
        step = demand_step_of(cluster, buf_peek(&content));
    buf_deinit(&content);
    return step;
}

static void demand_move(struct dev_demand *demand, size_t cluster)
{
    struct io *io = demand->options.io;
    char path[DEV_PATH_CAP + 64], made[DEV_PATH_CAP + 72], text[DEV_DEMAND_TEXT_CAP];
    size_t step, next;
    enum err err;

    demand_path(demand, cluster, path);
    step = demand_step_in(demand, cluster, path);
    next = (step + 1) % STEPS;
    snprintf(made, sizeof made, "%s.next", path);
    err = step == STEPS ? ERR_OK
                        : fs_publish(io->fs, made, demand_text(cluster, next, text),
                                     DEV_DEMAND_FILE_MODE, entropy_u64(io->entropy));
    /* The user may have edited the file while the new one was written. */
    if (!err && step != STEPS && demand_step_in(demand, cluster, path) != step) {
        (void)fs_remove(io->fs, made);
        step = STEPS;
    }
    if (step == STEPS) {
        demand_report_edit(demand, cluster); /* a removed file counts as edited */
        return;
    }
    if (!err) err = fs_rename(io->fs, made, path);
    if (err)
        LOG_WARN(demand->options.log, "demand file could not be replaced",
                 log_text("cluster", dev_cluster(cluster)), log_err("err", err));
    else
        demand_report_move(demand, cluster, step, next);
}

static void demand_on_poll(struct timer *timer)
{
    struct dev_demand *demand = CONTAINER_OF(timer, struct dev_demand, poll);
    char path[DEV_PATH_CAP + 64];

    for (size_t i = 0; i < DEV_OPERATORS; i++) {
        if (demand->yours[i]) continue;
        demand_path(demand, i, path);
        if (demand_step_in(demand, i, path) == STEPS) demand_report_edit(demand, i);
    }
    timer_start_in(timer, EDIT_POLL_MS);
}

static void demand_on_due(struct timer *timer)
{
    struct dev_demand *demand = CONTAINER_OF(timer, struct dev_demand, timer);

    demand_move(demand, demand->turn++ % DEV_OPERATORS);
    timer_start_in(timer, demand->options.every_ms);
}

/* -- life -- */

enum err dev_demand_open(struct dev_demand *demand, const struct dev_demand_options *options,
                         struct note *note)
{
    struct io *io = options->io;
    char path[DEV_PATH_CAP + 64], text[DEV_DEMAND_TEXT_CAP];
    enum err err;

    *demand = (struct dev_demand){.options = *options};
    err = timer_init(&demand->timer, io->loop, demand_on_due);
    if (!err) err = timer_init(&demand->poll, io->loop, demand_on_poll);
    for (size_t i = 0; !err && i < DEV_OPERATORS; i++) {
        demand_path(demand, i, path);
        err = dev_write_once(io->fs, path, demand_text(i, 0, text), entropy_u64(io->entropy), note);
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
