/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in a small world with one object of each kind: every
 * failure is reported or looks like a lost packet, and nothing leaks. */
#include <stdio.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "sim/sim.h"
#include "sim/sim_link.h"

enum { SENT = 5000 };

struct story {
    struct sim *sim;
    struct sim_host *a, *b;
    struct listener *listener;
    struct stream *client, *server;
    struct loop_worker *worker;
    struct job job;
    size_t got;
    bool bad, done;
};
static char sent[SENT];

static void on_bytes(void *owner, struct str bytes)
{
    struct story *s = owner;
    if (s->got + bytes.len > SENT || memcmp(sent + s->got, bytes.at, bytes.len) != 0) s->bad = true;
    s->got += bytes.len;
}

static void client_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct story *)owner)->client = NULL;
}

static void server_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct story *)owner)->server = NULL;
}

static const struct stream_events client_events = {.on_bytes = on_bytes,
                                                   .on_closed = client_closed};
static const struct stream_events server_events = {.on_bytes = on_bytes,
                                                   .on_closed = server_closed};

static void on_accept(void *owner, struct stream *stream)
{
    struct story *s = owner;
    s->server = stream;
    stream_start(stream, &server_events, s);
}

static void run(struct job *job)
{
    struct story *s = CONTAINER_OF(job, struct story, job);
    (void)fs_publish(sim_host_io(s->b)->fs, "file", STR("content"), 0600, 1);
}

static void done(struct job *job, enum err err)
{
    struct story *s = CONTAINER_OF(job, struct story, job);
    s->done = !err;
}

static enum err open_world(struct story *s)
{
    enum err err = sim_open(&(struct sim_options){.seed = 3}, &s->sim);

    if (!err) err = sim_host_add(s->sim, &(struct sim_host_options){.name = "a"}, &s->a);
    if (!err) err = sim_host_add(s->sim, &(struct sim_host_options){.name = "b"}, &s->b);
    return err;
}

static enum err open_service(struct story *s)
{
    struct io *io = sim_host_io(s->b);
    const struct listen_options listen = {.address = "b:1", .on_accept = on_accept, .owner = s};
    const struct dial_options dial = {.address = "b:1"};
    enum err err = net_listen(io->net, &listen, &s->listener, NULL);

    if (!err) {
        err =
            worker_open(io->loop, &(struct worker_options){.name = "w", .jobs_max = 1}, &s->worker);
    }
    if (!err) {
        job_init(&s->job, run, done);
        err = worker_submit(s->worker, &s->job);
    }
    if (!err) {
        err = net_dial(sim_host_io(s->a)->net, &dial, &client_events, s, &s->client, NULL);
    }
    return err;
}

/* False when a call reported a failure. */
static bool play(struct story *s)
{
    struct str part = {sent, SENT};
    bool failed = open_world(s) || open_service(s);

    if (!failed) {
        sim_run_for(s->sim, 3000);
        failed = !s->client || stream_write(s->client, &part, 1);
        sim_run_for(s->sim, 10000);
        CHECK("the received bytes are a prefix of the sent ones", !s->bad);
        CHECK("all of it, unless a call failed", failed || s->got == SENT);
        CHECK("the job was handed back", s->done);
        sim_host_die(s->b, SIM_POWER_CUT);
    }
    sim_close(s->sim);
    return !failed;
}

TEST(nothing_is_left_behind_whichever_allocation_fails)
{
    uint64_t turns = 0, healed = 0;

    for (size_t i = 0; i < SENT; i++) sent[i] = (char)(i * 7);
    FAULT_SWEEP_ALLOC(k)
    {
        struct story s = {0};
        healed += play(&s) && fault_alloc_fired();
        turns = k;
    }
    fprintf(stderr, "%llu allocations, %llu failures healed by a resend\n",
            (unsigned long long)turns, (unsigned long long)healed);
    CHECK("the sweep went through the whole story", turns > 30);
    CHECK("some failures were no more than a lost packet", healed > 0);
}
