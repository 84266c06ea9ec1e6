/* SPDX-License-Identifier: Apache-2.0 */
/* Workers in virtual time: order, limits, cost, and the effects of a crash. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "sim/sim.h"

struct bench {
    struct sim *sim;
    struct sim_host *host;
    struct io *io;
    struct loop_worker *worker;
    char log[64];
};
struct work {
    struct job job;
    struct bench *bench;
    char name;
    bool sync;
    enum err reported;
    unsigned dones;
};

static void run(struct job *job)
{
    struct work *work = CONTAINER_OF(job, struct work, job);
    struct io *io = work->bench->io;
    struct fs_file *file;

    snprintf(work->bench->log + strlen(work->bench->log), 3, "r%c", work->name);
    if (!work->sync) return;
    CHECK_OK("open", fs_open(io->fs, "f", FS_WRITE | FS_CREATE, 0600, &file));
    CHECK_OK("write", fs_write_at(io->fs, file, 0, STR("x")));
    CHECK_OK("sync", fs_sync(io->fs, file));
    fs_close(io->fs, file);
}

static void done(struct job *job, enum err err)
{
    struct work *work = CONTAINER_OF(job, struct work, job);
    work->reported = err;
    work->dones++;
    snprintf(work->bench->log + strlen(work->bench->log), 3, "%c%c", err ? 'c' : 'd', work->name);
}

static void bench_open(struct bench *b, size_t jobs_max)
{
    const struct sim_host_options options = {
        .name = "h", .disk = {.sync_ns_min = 5 * NS_PER_MS, .sync_ns_max = 5 * NS_PER_MS}};

    *b = (struct bench){0};
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 1}, &b->sim));
    CHECK_OK("a host", sim_host_add(b->sim, &options, &b->host));
    b->io = sim_host_io(b->host);
    CHECK_OK("a worker",
             worker_open(b->io->loop, &(struct worker_options){.name = "w", .jobs_max = jobs_max},
                         &b->worker));
}

static void work_init(struct work *work, struct bench *b, char name)
{
    *work = (struct work){.bench = b, .name = name};
    job_init(&work->job, run, done);
}

TEST(jobs_run_in_order_one_at_a_time)
{
    struct bench b;
    struct work works[3];

    bench_open(&b, 3);
    for (int i = 0; i < 3; i++) {
        work_init(&works[i], &b, (char)('a' + i));
        works[i].sync = true;
        CHECK_OK("submit", worker_submit(b.worker, &works[i].job));
    }
    CHECK_TEXT("nothing from inside the call", b.log, "");
    sim_run_for(b.sim, 4);
    CHECK_TEXT("the first ran, its sync takes time", b.log, "ra");
    sim_run_for(b.sim, 100);
    CHECK_TEXT("in order", b.log, "radarbdbrcdc");
    CHECK_U32("once each", works[0].dones + works[1].dones + works[2].dones, 3);
    worker_close(b.worker);
    sim_close(b.sim);
}

TEST(a_full_worker_refuses_and_leaves_the_job)
{
    struct bench b;
    struct work works[3];

    bench_open(&b, 2);
    for (int i = 0; i < 3; i++) work_init(&works[i], &b, (char)('a' + i));
    CHECK_OK("first", worker_submit(b.worker, &works[0].job));
    CHECK_OK("second", worker_submit(b.worker, &works[1].job));
    CHECK_ERR("full", worker_submit(b.worker, &works[2].job), ERR_FULL);
    sim_run_for(b.sim, 100);
    CHECK_OK("room again", worker_submit(b.worker, &works[2].job));
    worker_close(b.worker);
    CHECK_U32("each reported once", works[0].dones + works[1].dones + works[2].dones, 3);
    sim_close(b.sim);
}

TEST(closing_waits_for_the_running_job_and_cancels_the_rest)
{
    struct bench b;
    struct work works[2];

    bench_open(&b, 2);
    for (int i = 0; i < 2; i++) {
        work_init(&works[i], &b, (char)('a' + i));
        CHECK_OK("submit", worker_submit(b.worker, &works[i].job));
    }
    worker_close(b.worker);
    CHECK_TEXT("the first ran, the second never did", b.log, "radacb");
    CHECK_ERR("and it is notified", works[1].reported, ERR_CANCELLED);
    sim_close(b.sim);
}

TEST(a_paused_process_runs_no_job)
{
    struct bench b;
    struct work work;

    bench_open(&b, 2);
    work_init(&work, &b, 'a');
    CHECK_OK("submit", worker_submit(b.worker, &work.job));
    sim_host_pause(b.host, SIM_PAUSE_PROCESS);
    sim_run_for(b.sim, 1000);
    CHECK_TEXT("stopped", b.log, "");
    sim_host_resume(b.host);
    sim_run_for(b.sim, 1);
    CHECK_TEXT("goes on", b.log, "rada");
    worker_close(b.worker);
    sim_close(b.sim);
}

TEST(a_death_before_or_after_the_run_is_not_reported)
{
    struct bench b;
    struct work works[2];

    bench_open(&b, 2);
    for (int i = 0; i < 2; i++) work_init(&works[i], &b, (char)('a' + i));
    works[0].sync = true;
    CHECK_OK("submit", worker_submit(b.worker, &works[0].job));
    CHECK_OK("submit", worker_submit(b.worker, &works[1].job));
    sim_run_for(b.sim, 2);
    CHECK_TEXT("ran, and its sync is under way", b.log, "ra");
    sim_host_die(b.host, SIM_POWER_CUT); /* the simulator frees the worker */
    sim_run_for(b.sim, 1000);
    CHECK_TEXT("no callback runs", b.log, "ra");
    CHECK_U32("no callback", works[0].dones + works[1].dones, 0);
    sim_close(b.sim);
}

static void submit_again(struct job *job, enum err err)
{
    struct work *work = CONTAINER_OF(job, struct work, job);

    (void)err;
    work->dones++;
    work->reported = worker_submit(work->bench->worker, job);
}

TEST(a_job_that_comes_back_to_a_closing_worker_is_refused)
{
    struct bench b;
    struct work work;

    bench_open(&b, 2);
    work_init(&work, &b, 'a');
    work.job.done = submit_again;
    CHECK_OK("submit", worker_submit(b.worker, &work.job));
    worker_close(b.worker);
    CHECK_ERR("refused", work.reported, ERR_CLOSED);
    CHECK_U32("reported once", work.dones, 1);
    sim_close(b.sim);
}
