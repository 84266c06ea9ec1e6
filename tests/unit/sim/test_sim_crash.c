/* SPDX-License-Identifier: Apache-2.0 */
/* Crashes: what the peers see, what the disk keeps, and that all memory is freed. */
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "net_pair.h"
#include "sim/world.h"

/* A process with one object of each kind, which frees its state in its last callback, as real
 * services do. */
struct service {
    struct io *io;
    struct listener *listener;
    struct stream *stream;
    struct loop_worker *worker;
    struct job job;
    struct timer timer;
    struct task task;
    struct turn_hook hook;
    struct post post;
    struct fs_file *file;
    bool leaving;
    unsigned *fired; /* counts callbacks that a dead process must not get */
};

static void service_bytes(void *owner, struct str bytes)
{
    struct service *s = owner;
    (*s->fired)++;
    stream_write(s->stream, &bytes, 1); /* an echo */
}

static void service_closed(void *owner, enum err why, const struct note *note)
{
    struct service *s = owner;
    (void)why, (void)note;
    s->stream = NULL;
    if (s->leaving) free(s);
}

static const struct stream_events service_events = {.on_bytes = service_bytes,
                                                    .on_closed = service_closed};

static void service_accept(void *owner, struct stream *stream)
{
    struct service *s = owner;
    if (s->stream) {
        stream_close(stream);
        return;
    }
    s->stream = stream;
    stream_start(stream, &service_events, s);
}

static void service_timer(struct timer *timer)
{
    struct service *s = CONTAINER_OF(timer, struct service, timer);
    (*s->fired)++;
    timer_start_in(timer, 10);
}

static void service_run(struct job *job)
{
    struct service *s = CONTAINER_OF(job, struct service, job);
    fs_write_at(s->io->fs, s->file, 0, STR("written"));
    fs_sync(s->io->fs, s->file);
}

static void service_done(struct job *job, enum err err)
{
    struct service *s = CONTAINER_OF(job, struct service, job);
    if (!s->leaving && !err) worker_submit(s->worker, job);
}

static void service_task(struct task *task)
{
    (void)task;
}

static void service_hook(struct turn_hook *hook)
{
    struct service *s = CONTAINER_OF(hook, struct service, hook);
    if (!s->leaving) return;
    turn_hook_remove(hook);
}

static void service_post(struct post *post)
{
    (void)post;
}

static enum err service_start(struct io *io, void *context, void **ret_state)
{
    struct service *s = calloc(1, sizeof *s);
    enum err err;

    CHECK("memory", s != NULL);
    err = fs_open(io->fs, "data", FS_READ | FS_WRITE | FS_CREATE, 0600, &s->file);
    if (err) {
        free(s);
        return err;
    }
    s->io = io;
    s->fired = context;
    CHECK_OK("timer", timer_init(&s->timer, io->loop, service_timer));
    timer_start_in(&s->timer, 10);
    task_init(&s->task, service_task);
    post_init(&s->post, service_post);
    turn_hook_add(io->loop, &s->hook, service_hook);
    CHECK_OK("listen",
             net_listen(io->net,
                        &(struct listen_options){
                            .address = "0.0.0.0:7100", .on_accept = service_accept, .owner = s},
                        &s->listener, NULL));
    CHECK_OK("worker", worker_open(io->loop, &(struct worker_options){"disk", 4}, &s->worker));
    job_init(&s->job, service_run, service_done);
    CHECK_OK("submit", worker_submit(s->worker, &s->job));
    *ret_state = s;
    return ERR_OK;
}

static void service_destroy(void *state)
{
    struct service *s = state;

    s->leaving = true;
    loop_defer(s->io->loop, &s->task);
    listener_close(s->listener);
    timer_deinit(&s->timer);
    turn_hook_remove(&s->hook);
    task_cancel(&s->task);
    worker_close(s->worker); /* the running job has ended afterwards */
    fs_close(s->io->fs, s->file);
    if (s->stream)
        stream_close(s->stream); /* on_closed frees */
    else
        free(s);
}

/* The lazy kind frees its own memory and closes nothing. */
static void service_drop(void *state)
{
    struct service *s = state;
    fs_close(s->io->fs, s->file);
    free(s);
}

static const struct sim_process_ops tidy_ops = {service_start, NULL, service_destroy};
static const struct sim_process_ops lazy_ops = {service_start, NULL, service_drop};

static void connect_to_service(struct pair *p)
{
    CHECK_OK("dial", end_dial(&p->client, p->a, &(struct dial_options){.address = "b:7100"}));
    sim_run_for(p->sim, 50);
    CHECK("connected", p->client.open);
    CHECK_OK("write", end_write(&p->client, STR("ping")));
    CHECK("echo", pair_wait_bytes(p, &p->client, 4, 1000));
}

static void forget_server(struct pair *p)
{
    p->server.listener = NULL; /* dies with its host */
}

TEST(a_killed_process_ends_its_connections_and_its_port_refuses)
{
    struct pair p;
    unsigned fired = 0, at_death;

    pair_open(&p, 1);
    CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    sim_host_die(p.b, SIM_KILLED);
    forget_server(&p);
    at_death = fired;
    sim_run_for(p.sim, 100);
    CHECK("the peer sees an end", p.client.ended);
    CHECK_U32("no callback reached it", fired, at_death);
    CHECK("no process", !sim_host_running(p.b) && p.b->powered);
    stream_close(p.client.stream);
    sim_run_for(p.sim, 10);
    CHECK_OK("dial", end_dial(&p.client, p.a, &(struct dial_options){.address = "b:7100"}));
    sim_run_for(p.sim, 100);
    CHECK_ERR("the kernel refuses", p.client.why, ERR_UNAVAILABLE);
    CHECK_OK("again", sim_host_restart(p.b));
    connect_to_service(&p);
    pair_close(&p);
}

TEST(a_power_cut_is_silence_and_after_the_boot_a_reset)
{
    struct pair p;
    unsigned fired = 0;

    pair_open(&p, 2);
    CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    sim_host_die(p.b, SIM_POWER_CUT);
    forget_server(&p);
    CHECK_OK("write", end_write(&p.client, STR("hello?")));
    sim_run_for(p.sim, 5000);
    CHECK("silence", p.client.open && !p.client.ended);
    CHECK_OK("boot", sim_host_restart(p.b));
    CHECK("the resend meets a kernel that knows nothing", pair_wait_closed(&p, &p.client, 10000));
    CHECK_ERR("a reset", p.client.why, ERR_IO);
    CHECK_HAS("a reset", p.client.note.text, "reset");
    connect_to_service(&p);
    pair_close(&p);
}

TEST(a_power_cut_while_it_lasts_makes_the_writer_give_up)
{
    struct pair p;
    unsigned fired = 0;

    pair_open(&p, 3);
    CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    sim_host_die(p.b, SIM_POWER_CUT);
    CHECK_OK("write", end_write(&p.client, STR("hello?")));
    CHECK("in the end", pair_wait_closed(&p, &p.client, 60000));
    CHECK_HAS("by time", p.client.note.text, "timed out");
    pair_close(&p);
}

static void stop_service(void *state)
{
    (*((struct service *)state)->fired) += 1000;
}

TEST(stop_is_asked_in_a_turn)
{
    static const struct sim_process_ops ops = {service_start, stop_service, service_destroy};
    struct pair p;
    unsigned fired = 0;

    pair_open(&p, 4);
    CHECK_OK("start", sim_host_start(p.b, &ops, &fired));
    sim_host_stop(p.b);
    CHECK("not from inside the call", fired < 1000);
    sim_run_for(p.sim, 1);
    CHECK("asked", fired >= 1000);
    pair_close(&p);
}

/* A crash at every moment of a short run, tidy and lazy: ASan and LSan find the leaks. */
TEST(memory_comes_back_whenever_death_comes)
{
    const struct sim_process_ops *kinds[] = {&tidy_ops, &lazy_ops};

    for (unsigned i = 0; i < 120; i++) {
        struct pair p;
        unsigned fired = 0;
        pair_open(&p, i);
        CHECK_OK("start", sim_host_start(p.b, kinds[i % 2], &fired));
        CHECK_OK("dial", end_dial(&p.client, p.a, &(struct dial_options){.address = "b:7100"}));
        for (unsigned k = 0; k < i; k++) sim_step(p.sim);
        if (p.client.open) end_write(&p.client, STR("x"));
        for (unsigned k = 0; k < i / 2; k++) sim_step(p.sim);
        sim_host_die(p.b, i % 3 ? SIM_POWER_CUT : SIM_KILLED);
        forget_server(&p);
        sim_run_for(p.sim, 100);
        CHECK_OK("and it starts again", sim_host_restart(p.b));
        sim_run_for(p.sim, 100);
        pair_close(&p);
    }
}

/* The power fails at the nth disk call of the process, inside its job. */
TEST(a_power_cut_between_two_disk_calls_leaves_a_state_on_disk)
{
    for (uint64_t nth = 1; nth < 6; nth++) {
        struct pair p;
        unsigned fired = 0;
        struct buf content;
        pair_open(&p, nth);
        buf_init(&content, 100);
        CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
        sim_host_die_at_disk_call(p.b, nth, SIM_POWER_CUT);
        sim_run_for(p.sim, 100);
        CHECK("dead", !p.b->powered && !sim_host_running(p.b));
        CHECK_OK("boots", sim_host_restart(p.b));
        CHECK_OK("the file is there", fs_read_whole(sim_host_io(p.b)->fs, "data", 100, &content));
        CHECK("all of the write or nothing", content.len == (nth == 1 ? 0 : 7));
        buf_deinit(&content);
        pair_close(&p);
    }
}

static enum err fail_late(struct io *io, void *context, void **ret_state)
{
    void *state;

    CHECK_OK("everything opens", service_start(io, context, &state));
    service_destroy(state); /* closes everything; the callbacks come later */
    (void)ret_state;
    return ERR_IO;
}

TEST(a_process_that_fails_to_start_leaves_nothing)
{
    static const struct sim_process_ops ops = {fail_late, NULL, service_destroy};
    struct pair p;
    unsigned fired = 0;

    pair_open(&p, 6);
    sim_host_die(p.b, SIM_POWER_CUT);
    CHECK_ERR("reported", sim_host_start(p.b, &ops, &fired), ERR_IO);
    CHECK("no process, but power", !sim_host_running(p.b) && p.b->powered);
    CHECK_OK("the next one starts", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    pair_close(&p);
}

static enum err start_with_files(struct io *io, void *context, void **ret_state)
{
    struct buf content;
    enum err err;

    buf_init(&content, 100);
    err = fs_publish(io->fs, "boot", STR("x"), 0600, entropy_u64(io->entropy));
    if (!err) err = fs_read_whole(io->fs, "boot", 100, &content);
    buf_deinit(&content);
    return err ? err : service_start(io, context, ret_state);
}

TEST(a_power_cut_inside_start_is_a_death)
{
    static const struct sim_process_ops ops = {start_with_files, NULL, service_destroy};
    unsigned deaths = 0;

    for (uint64_t nth = 1; nth <= 20; nth++) {
        struct pair p;
        unsigned fired = 0;
        enum err err;
        pair_open(&p, 9);
        sim_host_die_at_disk_call(p.b, nth, SIM_POWER_CUT);
        err = sim_host_start(p.b, &ops, &fired);
        CHECK("started, or dead with an error", !err == sim_host_running(p.b));
        CHECK("started, or without power", !err == p.b->powered);
        deaths += err != ERR_OK;
        if (err) CHECK_OK("the next boot", sim_host_restart(p.b));
        pair_close(&p);
    }
    CHECK("some calls were in start, some after", deaths > 3 && deaths < 20);
}

TEST(a_paused_process_is_silent_but_its_kernel_answers)
{
    struct pair p;
    unsigned fired = 0, at_pause;

    pair_open(&p, 7);
    CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    sim_host_pause(p.b, SIM_PAUSE_PROCESS);
    at_pause = fired;
    CHECK_OK("write", end_write(&p.client, STR("ping")));
    sim_run_for(p.sim, 60000);
    CHECK("the kernel acknowledged, so nobody gave up", p.client.open);
    CHECK_SIZE("no answer", p.client.got.len, 4);
    CHECK_U32("no turn", fired, at_pause);
    sim_host_resume(p.b);
    CHECK("goes on where it was", pair_wait_bytes(&p, &p.client, 8, 10));
    CHECK("its timer fired late, once", fired >= at_pause + 2 && fired <= at_pause + 4);
    pair_close(&p);
}

TEST(a_frozen_machine_does_not_even_acknowledge)
{
    struct pair p;
    unsigned fired = 0;

    pair_open(&p, 8);
    CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    sim_host_pause(p.b, SIM_PAUSE_MACHINE);
    CHECK_OK("write", end_write(&p.client, STR("ping")));
    sim_run_for(p.sim, 5000);
    CHECK_SIZE("no answer", p.client.got.len, 4);
    sim_host_resume(p.b);
    CHECK("a resend reaches it", pair_wait_bytes(&p, &p.client, 8, 10000));
    sim_host_pause(p.b, SIM_PAUSE_MACHINE);
    CHECK_OK("write", end_write(&p.client, STR("ping")));
    CHECK("too long, and the writer gives up", pair_wait_closed(&p, &p.client, 60000));
    pair_close(&p);
}

/* -- determinism -- */

static uint64_t hash_of_a_run(uint64_t seed)
{
    struct pair p;
    unsigned fired = 0;
    uint64_t hash;

    pair_open(&p, seed);
    CHECK_OK("start", sim_host_start(p.b, &tidy_ops, &fired));
    connect_to_service(&p);
    sim_host_die(p.b, SIM_POWER_CUT);
    CHECK_OK("boot", sim_host_restart(p.b));
    sim_run_for(p.sim, 3000);
    hash = sim_hash(p.sim);
    pair_close(&p);
    return hash;
}

TEST(the_same_seed_gives_the_same_run)
{
    CHECK_U64("twice the same", hash_of_a_run(11), hash_of_a_run(11));
    CHECK("another seed, another run", hash_of_a_run(11) != hash_of_a_run(12));
}
