/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

enum { JOBS = 64 };
struct numbered {
    struct job job;
    int number;
    enum err err;
    bool ran, done;
    pthread_t thread;
};
static struct rig rig;
static struct loop_worker *worker;
static struct numbered jobs[JOBS];
static int ran_order[JOBS], ran_count, done_order[JOBS], done_count;

/* A gate that the test closes while it fills the queue. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void run_numbered(struct job *job)
{
    struct numbered *n = CONTAINER_OF(job, struct numbered, job);
    pthread_mutex_lock(&gate);
    n->ran = true;
    n->thread = pthread_self();
    ran_order[ran_count++] = n->number;
    pthread_mutex_unlock(&gate);
}
static void done_numbered(struct job *job, enum err err)
{
    struct numbered *n = CONTAINER_OF(job, struct numbered, job);
    CHECK("done comes once", !n->done);
    n->done = true;
    n->err = err;
    done_order[done_count++] = n->number;
}

static void open_worker(size_t jobs_max)
{
    rig_open(&rig);
    memset(jobs, 0, sizeof jobs);
    ran_count = done_count = 0;
    for (int i = 0; i < JOBS; i++) {
        jobs[i].number = i;
        job_init(&jobs[i].job, run_numbered, done_numbered);
    }
    struct worker_options options = {.name = "a-name-that-is-too-long", .jobs_max = jobs_max};
    CHECK_OK("worker", worker_open(rig.loop, &options, &worker));
}

TEST(jobs_run_in_order_on_another_thread_and_are_handed_back_in_order)
{
    open_worker(JOBS);
    for (int i = 0; i < JOBS; i++) CHECK_OK("submit", worker_submit(worker, &jobs[i].job));
    RIG_UNTIL("all done", &rig, done_count == JOBS);
    for (int i = 0; i < JOBS; i++) {
        CHECK_I64("ran in order", ran_order[i], i);
        CHECK_I64("back in order", done_order[i], i);
        CHECK_OK("it ran", jobs[i].err);
        CHECK("elsewhere", !pthread_equal(jobs[i].thread, pthread_self()));
    }
    worker_close(worker);
    worker_close(NULL);
    rig_close(&rig);
}

TEST(a_full_worker_refuses_jobs_until_one_is_handed_back)
{
    open_worker(3);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 3; i++) CHECK_OK("room", worker_submit(worker, &jobs[i].job));
    CHECK_ERR("full", worker_submit(worker, &jobs[3].job), ERR_FULL);
    pthread_mutex_unlock(&gate);
    RIG_UNTIL("done", &rig, done_count == 3);
    CHECK_OK("room again", worker_submit(worker, &jobs[3].job));
    RIG_UNTIL("done", &rig, done_count == 4);
    worker_close(worker);
    rig_close(&rig);
}

static sem_t entered;
static void run_entered(struct job *job)
{
    sem_post(&entered);
    run_numbered(job);
}

TEST(closing_waits_for_the_running_job_and_cancels_the_rest)
{
    open_worker(JOBS);
    sem_init(&entered, 0, 0);
    jobs[0].job.run = run_entered;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 10; i++) CHECK_OK("submit", worker_submit(worker, &jobs[i].job));
    sem_wait(&entered); /* one job runs now; its completion will be posted */
    pthread_mutex_unlock(&gate);
    worker_close(worker);
    CHECK("the one that ran is waited for", jobs[0].ran);
    CHECK_I64("each is notified, once, before close returns", done_count, 10);
    for (int i = 0; i < 10; i++) {
        CHECK_ERR("ran or was cancelled, and reported that", jobs[i].err,
                  jobs[i].ran ? ERR_OK : ERR_CANCELLED);
        CHECK_I64("in order", done_order[i], i);
    }
    rig_close(&rig);
}

static struct numbered *refused;
static void done_submits(struct job *job, enum err err)
{
    done_numbered(job, err);
    CHECK_ERR("nothing new while closing", worker_submit(worker, &refused->job), ERR_CLOSED);
}

TEST(a_done_called_by_close_cannot_submit)
{
    open_worker(JOBS);
    refused = &jobs[1];
    jobs[0].job.done = done_submits;
    CHECK_OK("submit", worker_submit(worker, &jobs[0].job));
    worker_close(worker);
    CHECK("reported", jobs[0].done);
    rig_close(&rig);
}

static void done_closes(struct job *job, enum err err)
{
    done_numbered(job, err);
    worker_close(worker);
    worker = NULL;
}

TEST(a_done_may_close_its_worker)
{
    open_worker(JOBS);
    jobs[2].job.done = done_closes;
    for (int i = 0; i < 20; i++) CHECK_OK("submit", worker_submit(worker, &jobs[i].job));
    RIG_UNTIL("all reported", &rig, done_count == 20);
    CHECK("closed", !worker);
    rig_close(&rig);
}

static int chain_left;
static void run_nothing(struct job *job)
{
    (void)job;
}
static void done_resubmits(struct job *job, enum err err)
{
    CHECK_OK("it ran", err);
    if (chain_left-- > 0)
        CHECK_OK("its place is free", worker_submit(worker, job));
    else
        done_count = 1;
}

TEST(a_done_may_submit_its_job_again)
{
    open_worker(1);
    chain_left = 500;
    job_init(&jobs[0].job, run_nothing, done_resubmits);
    CHECK_OK("submit", worker_submit(worker, &jobs[0].job));
    RIG_UNTIL("to the end", &rig, done_count == 1);
    worker_close(worker);
    rig_close(&rig);
}

static char thread_name[16];
static void run_name(struct job *job)
{
    (void)job;
    pthread_getname_np(pthread_self(), thread_name, sizeof thread_name);
}

TEST(the_thread_shows_the_first_15_characters_of_its_name)
{
    open_worker(1);
    job_init(&jobs[0].job, run_name, done_numbered);
    CHECK_OK("submit", worker_submit(worker, &jobs[0].job));
    RIG_UNTIL("done", &rig, jobs[0].done);
    CHECK_TEXT("name", thread_name, "a-name-that-is-");
    worker_close(worker);
    rig_close(&rig);
}

TEST(options_without_a_name_or_a_bound_are_refused)
{
    struct loop_worker *untouched = (struct loop_worker *)&rig;

    rig_open(&rig);
    CHECK_ERR("no bound", worker_open(rig.loop, &(struct worker_options){.name = "x"}, &untouched),
              ERR_INVALID);
    CHECK_ERR("no name", worker_open(rig.loop, &(struct worker_options){.jobs_max = 1}, &untouched),
              ERR_INVALID);
    CHECK("output untouched", untouched == (struct loop_worker *)&rig);
    rig_close(&rig);
}

enum { WORKERS = 4, EACH = 2000 };
struct slot {
    struct job job;
    uint64_t value, sum;
};
static struct slot slots[WORKERS][16];
static unsigned left;

static void run_sum(struct job *job)
{
    struct slot *slot = CONTAINER_OF(job, struct slot, job);
    slot->sum += slot->value;
}
static void done_sum(struct job *job, enum err err)
{
    struct slot *slot = CONTAINER_OF(job, struct slot, job);
    (void)err;
    slot->value = 0; /* free */
    left--;
}

TEST(several_workers_beside_one_loop_share_nothing)
{
    struct loop_worker *workers[WORKERS];
    uint64_t want = 0, got = 0;
    unsigned given[WORKERS] = {0};

    rig_open(&rig);
    memset(slots, 0, sizeof slots);
    left = WORKERS * EACH;
    for (int w = 0; w < WORKERS; w++) {
        struct worker_options options = {.name = "sum", .jobs_max = ARRAY_LEN(slots[0])};
        CHECK_OK("open", worker_open(rig.loop, &options, &workers[w]));
        for (size_t i = 0; i < ARRAY_LEN(slots[w]); i++)
            job_init(&slots[w][i].job, run_sum, done_sum);
    }
    while (left > 0) {
        for (int w = 0; w < WORKERS; w++)
            for (size_t i = 0; i < ARRAY_LEN(slots[w]) && given[w] < EACH; i++) {
                if (slots[w][i].value) continue;
                slots[w][i].value = ++given[w];
                want += given[w];
                CHECK_OK("submit", worker_submit(workers[w], &slots[w][i].job));
            }
        real_io_turn(rig.real, true);
    }
    for (int w = 0; w < WORKERS; w++) {
        worker_close(workers[w]);
        for (size_t i = 0; i < ARRAY_LEN(slots[w]); i++) got += slots[w][i].sum;
    }
    CHECK_U64("every job ran exactly once", got, want);
    rig_close(&rig);
}
