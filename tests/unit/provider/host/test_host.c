/* SPDX-License-Identifier: Apache-2.0 */
/* The host, killed or without power before any of its disk calls. Every answered operation is kept,
 * and no operation that the backend got is forgotten. The world outside the process (struct world)
 * records the reports; the test starts a process on the simulated host repeatedly, lets it work and
 * kills it. */
#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "provider/host/book_internal.h"
#include "provider/host/host.h"
#include "sim/sim.h"

enum { MACHINES = 12, ASK_EVERY_MS = 3 };

struct world {
    struct sim *sim;
    struct sim_host *machine;
    struct prng prng;
    uint64_t compact_bytes;
    int64_t epoch, sequence;
    uint64_t reported[MACHINES][OPERATION_KINDS]; /* acknowledged operations */
    uint64_t started[MACHINES][OPERATION_KINDS];  /* operations given to the backend */
    int64_t marks[MACHINES][2];                   /* answered tokens */
    uint64_t revision;                            /* the newest that was reported */
    uint64_t acknowledged, deaths, opened;
    bool torn_once;
};

struct waiting { /* an answer that is being sent */
    struct host_wait wait;
    struct process *process;
    unsigned machine;
    enum operation_kind kind;
    struct book_answer answer;
    int64_t epoch, sequence;
    uint64_t revision;
};
struct ending {
    struct timer timer;
    struct process *process;
    struct operation_ticket ticket;
    struct list link;
};
struct process {
    struct backend backend;
    struct world *world;
    struct host *host;
    struct timer timer;
    struct list endings, waitings;
    bool ready;
};

static unsigned machine_of(struct str id)
{
    uint64_t number = 0;

    CHECK_OK("one of ours", str_to_u64(str_tail(id, 2), &number));
    return (unsigned)number;
}

/* --- a slow backend --- */

static void on_end(struct timer *timer)
{
    struct ending *e = CONTAINER_OF(timer, struct ending, timer);
    struct process *p = e->process;
    struct operation_end end = {.host = STR_EMPTY, .error = STR_EMPTY};

    end.failed = prng_chance(&p->world->prng, 50000);
    if (end.failed) end.error = STR("bad luck");
    p->backend.host->done(p->backend.host, e->ticket, &end);
    list_remove(&e->link);
    timer_deinit(&e->timer);
    free(e);
}

static enum err trial_start(struct backend *backend, const struct backend_operation *operation,
                            struct note *note)
{
    struct process *p = CONTAINER_OF(backend, struct process, backend);
    struct ending *e = calloc(1, sizeof *e);
    unsigned machine = machine_of(operation->machine.id);
    uint64_t *started = &p->world->started[machine][operation->kind];

    CHECK("memory", e != NULL);
    CHECK("never an older one", operation->ticket.number >= *started);
    CHECK("twice only after a death", operation->again || operation->ticket.number > *started);
    *started = operation->ticket.number;
    list_init(&e->link);
    list_append(&p->endings, &e->link);
    e->process = p;
    e->ticket = operation->ticket;
    CHECK_OK("timer", timer_init(&e->timer, host_io(p->host)->loop, on_end));
    timer_start_in(&e->timer, prng_below(&p->world->prng, 20));
    (void)note;
    return ERR_OK;
}

static void trial_ready(struct backend *backend)
{
    struct process *p = CONTAINER_OF(backend, struct process, backend);

    for (unsigned i = 0; i < MACHINES; i++) {
        char id[16];
        struct note note;
        snprintf(id, sizeof id, "m-%u", i);
        CHECK_OK("offer", backend->host->seen(backend->host, SEEN_OFFERED, str_from(id),
                                              &plain_offer, STR_EMPTY, &note));
    }
    p->ready = true;
}

static void trial_close(struct backend *backend)
{
    struct process *p = CONTAINER_OF(backend, struct process, backend);

    while (!list_empty(&p->endings)) {
        struct ending *e = CONTAINER_OF(list_pop(&p->endings), struct ending, link);
        timer_deinit(&e->timer);
        free(e);
    }
}

/* --- callers --- */

static void on_answered(struct host_wait *wait)
{
    struct waiting *w = CONTAINER_OF(wait, struct waiting, wait);
    struct world *world = w->process->world;

    if (w->answer.status == GRPC_OK) {
        uint64_t *reported = &world->reported[w->machine][w->kind];
        CHECK("numbers grow", w->answer.operation.number >= *reported);
        *reported = w->answer.operation.number;
    }
    world->marks[w->machine][0] = w->epoch;
    world->marks[w->machine][1] = w->sequence;
    world->revision = max_u64(world->revision, w->revision);
    world->acknowledged++;
    free(w);
}

static void ask_one(struct process *p)
{
    struct world *world = p->world;
    struct waiting *w = calloc(1, sizeof *w);
    struct book_request request;
    struct note note;
    struct buf bytes;
    char id[16];

    CHECK("memory", w != NULL);
    w->process = p;
    w->machine = (unsigned)prng_below(&world->prng, MACHINES);
    w->kind = (enum operation_kind)prng_below(&world->prng, OPERATION_KINDS);
    w->epoch = world->epoch;
    w->sequence = ++world->sequence;
    snprintf(id, sizeof id, "m-%u", w->machine);
    request = (struct book_request){.kind = w->kind,
                                    .machine_id = str_from(id),
                                    .shard = STR("s"),
                                    .epoch = w->epoch,
                                    .sequence = w->sequence,
                                    .cluster = STR("c1"),
                                    .blob = STR("join")};
    buf_init(&bytes, 1 << 20);
    w->answer = host_ask(p->host, &request, &bytes, &note);
    buf_deinit(&bytes);
    CHECK("never fenced by itself", w->answer.outcome != BOOK_FENCED);
    w->revision = book_stats(host_book(p->host)).revision;
    list_init(&w->wait.link);
    if (!host_wait(p->host, &w->wait, on_answered)) on_answered(&w->wait);
}

static void on_ask(struct timer *timer)
{
    struct process *p = CONTAINER_OF(timer, struct process, timer);

    for (uint64_t i = prng_below(&p->world->prng, 4); i > 0; i--) ask_one(p);
    timer_start_in(timer, ASK_EVERY_MS);
}

/* --- the process --- */

/* Everything reported before the last death is in the book that was just read. */
static void check_memory(struct process *p)
{
    const struct world *world = p->world;
    const struct book *book = host_book(p->host);

    CHECK("no revision goes back", book_stats(book).revision >= world->revision);
    for (unsigned i = 0; i < MACHINES; i++) {
        const struct book_entry *e;
        const struct fence *mark;
        char id[16];

        snprintf(id, sizeof id, "m-%u", i);
        e = book_find(book, str_from(id));
        if (!e) {
            CHECK_I64("only unanswered operations are missing", world->marks[i][1], 0);
            continue;
        }
        for (int kind = 0; kind < OPERATION_KINDS; kind++) {
            CHECK("no acknowledged operation is lost",
                  e->operations[kind] >= world->reported[i][kind]);
            CHECK("none the backend was given", e->operations[kind] >= world->started[i][kind]);
        }
        mark = fences_find(&e->fences, STR("s"));
        if (world->marks[i][1] == 0) continue;
        CHECK("a mark", mark != NULL);
        CHECK("not older than the answered token",
              mark->epoch > world->marks[i][0] ||
                  (mark->epoch == world->marks[i][0] && mark->sequence >= world->marks[i][1]));
    }
}

static void close_process(void *state);

static enum err start_process(struct io *io, void *context, void **ret_state)
{
    static const struct backend_ops ops = {.name = "trial",
                                           .keeps_blobs = true,
                                           .start = trial_start,
                                           .ready = trial_ready,
                                           .close = trial_close};
    struct process *p = calloc(1, sizeof *p);
    struct host_options options = {.io = io,
                                   .state = "/data/state",
                                   .name = "test",
                                   .compact_bytes = ((struct world *)context)->compact_bytes,
                                   .own_backend = &p->backend};
    struct note note = {.text = ""};
    enum err err;

    CHECK("memory", p != NULL);
    p->backend.ops = &ops;
    p->world = context;
    list_init(&p->endings);
    list_init(&p->waitings);
    err = fs_make_dirs(io->fs, "/data", 0755);
    if (!err) err = host_open(&options, &p->host, &note);
    if (!err) err = host_start(p->host, &note);
    if (!err) err = timer_init(&p->timer, io->loop, on_ask);
    if (err) { /* the process may die while it starts */
        close_process(p);
        return err;
    }
    p->world->opened++;
    p->world->epoch++;
    p->world->torn_once |= host_loaded(p->host)->torn_bytes > 0;
    check_memory(p);
    timer_start_in(&p->timer, 1);
    *ret_state = p;
    return ERR_OK;
}

/* Unsent answers are lost with their process. */
static void drop_answers(struct process *p)
{
    struct host_wait wait;
    struct list *at, *following;

    list_init(&wait.link);
    if (!host_wait(p->host, &wait, on_answered)) return;
    for (at = wait.link.next; at != &wait.link; at = following) {
        struct host_wait *other = CONTAINER_OF(at, struct host_wait, link);

        following = at->next;
        if (at == NULL || other->fn != on_answered) continue;
        list_remove(&other->link);
        free(CONTAINER_OF(other, struct waiting, wait));
    }
    list_remove(&wait.link);
}

static void close_process(void *state)
{
    struct process *p = state;

    timer_deinit(&p->timer);
    if (p->host) {
        drop_answers(p);
        host_close(p->host);
    }
    free(p);
}

static const struct sim_process_ops process_ops = {start_process, NULL, close_process};

static void live_and_die(struct world *world, uint64_t seed, uint64_t call, enum sim_death death)
{
    enum err err;

    (void)seed;
    sim_host_die_at_disk_call(world->machine, call, death);
    err = sim_host_running(world->machine) ? ERR_OK
                                           : sim_host_start(world->machine, &process_ops, world);
    if (!err) (void)sim_run_for(world->sim, 120);
    sim_host_die_at_disk_call(world->machine, 0, death);
    if (sim_host_running(world->machine)) return;
    world->deaths++;
}

static void run_world(uint64_t seed, enum sim_death death, uint64_t compact_bytes)
{
    const struct sim_fs_options disk = {.write_lost_per_million = 300000,
                                        .write_torn_per_million = 300000,
                                        .name_lost_per_million = 300000};
    struct world world = {.compact_bytes = compact_bytes};

    prng_seed(&world.prng, seed);
    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = seed}, &world.sim));
    CHECK_OK("host",
             sim_host_add(world.sim, &(struct sim_host_options){.name = "provider", .disk = disk},
                          &world.machine));
    for (uint64_t i = 1; i < 40; i++) live_and_die(&world, seed, i * 3 % 71 + 1, death);
    /* Now the process stays alive, and every operation continues. */
    if (!sim_host_running(world.machine))
        CHECK_OK("starts", sim_host_start(world.machine, &process_ops, &world));
    (void)sim_run_for(world.sim, 500);
    CHECK("it was killed a lot", world.deaths > 10);
    CHECK("and did something", world.acknowledged > 50);
    sim_host_die(world.machine, SIM_KILLED);
    sim_close(world.sim);
}

TEST(killed_before_any_disk_call_nothing_answered_is_lost)
{
    uint64_t seed = test_seed();

    for (uint64_t i = 0; i < 4; i++) run_world(seed + i, SIM_KILLED, i % 2 ? 4096 : 1);
}

TEST(without_power_before_any_disk_call_nothing_answered_is_lost)
{
    uint64_t seed = test_seed();

    for (uint64_t i = 0; i < 4; i++) run_world(seed + i, SIM_POWER_CUT, i % 2 ? 4096 : 1);
}

/* --- a disk that fails --- */

struct failing {
    struct process process; /* only its backend is used */
    struct host *host;
    enum err failed;
    struct note why;
    bool reported;
    struct host_wait wait;
};

static void on_failed(void *owner, enum err err, const struct note *note)
{
    struct failing *f = owner;

    f->failed = err;
    f->why = *note;
}

static void on_answered_in_vain(struct host_wait *wait)
{
    CONTAINER_OF(wait, struct failing, wait)->reported = true;
}

static void nothing(struct task *task)
{
    (void)task;
}

TEST(a_failing_disk_stops_the_provider_without_an_answer)
{
    static const struct backend_ops ops = {
        .name = "trial", .start = trial_start, .close = trial_close};
    struct world world = {.compact_bytes = 1 << 20};
    struct failing f = {.failed = ERR_OK};
    struct host_options options = {.state = "/state", .name = "test", .owner = &f};
    struct note note = {.text = ""};
    struct sim_host *machine;
    struct task task;

    prng_seed(&world.prng, 1);
    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 1}, &world.sim));
    CHECK_OK("host", sim_host_add(world.sim, &(struct sim_host_options){.name = "p"}, &machine));
    f.process.backend.ops = &ops;
    f.process.world = &world;
    list_init(&f.process.endings);
    options.io = sim_host_io(machine);
    options.own_backend = &f.process.backend;
    options.on_failed = on_failed;
    CHECK_OK("open", host_open(&options, &f.host, &note));
    f.process.host = f.host;
    CHECK_OK("start", host_start(f.host, &note));
    CHECK_OK("offer",
             book_see(host_book(f.host), SEEN_OFFERED, STR("m-0"), &plain_offer, STR_EMPTY, &note));
    sim_fs_fail_once(sim_host_disk(machine), SIM_FS_SYNC, 1, ERR_IO);
    list_init(&f.wait.link);
    CHECK("it waits for the disk", host_wait(f.host, &f.wait, on_answered_in_vain));
    task_init(&task, nothing);
    loop_defer(sim_host_io(machine)->loop, &task);
    (void)sim_run_for(world.sim, 5000);
    CHECK_ERR("it ends", f.failed, ERR_IO);
    CHECK_HAS("and names the file", f.why.text, "/state");
    CHECK("no answer went out", !f.reported);
    list_remove(&f.wait.link);
    host_close(f.host);
    sim_close(world.sim);
}

static enum err refusing_start(struct backend *backend, const struct backend_operation *operation,
                               struct note *note)
{
    (void)backend, (void)operation;
    note_set(note, "not with this one");
    return ERR_INVALID;
}

TEST(an_operation_that_its_backend_cannot_begin_fails)
{
    static const struct backend_ops ops = {.start = refusing_start, .close = trial_close};
    const struct book_request create = {.kind = OPERATION_CREATE, .machine_id = STR("m-0")};
    static const char *const states[] = {NULL, "/state"};

    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        struct world world = {.compact_bytes = 1 << 20};
        struct failing f = {.failed = ERR_OK};
        struct host_options options = {.state = states[i], .name = "test", .owner = &f};
        struct note note = {.text = ""};
        struct sim_host *machine;
        const struct book_entry *e;
        struct buf bytes;
        struct task task;

        CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 1}, &world.sim));
        CHECK_OK("host",
                 sim_host_add(world.sim, &(struct sim_host_options){.name = "p"}, &machine));
        f.process.backend.ops = &ops;
        list_init(&f.process.endings);
        options.io = sim_host_io(machine);
        options.own_backend = &f.process.backend;
        options.on_failed = on_failed;
        CHECK_OK("open", host_open(&options, &f.host, &note));
        CHECK_OK("start", host_start(f.host, &note));
        CHECK_OK("offer", book_see(host_book(f.host), SEEN_OFFERED, STR("m-0"), &plain_offer,
                                   STR_EMPTY, &note));
        buf_init(&bytes, 1 << 20);
        CHECK_U32("accepted", host_ask(f.host, &create, &bytes, &note).outcome, BOOK_ACCEPTED);
        buf_deinit(&bytes);
        task_init(&task, nothing);
        loop_defer(sim_host_io(machine)->loop, &task);
        (void)sim_run_for(world.sim, 5000);
        e = book_find(host_book(f.host), STR("m-0"));
        CHECK_U32("failed", e->state, MACHINE_FAILED);
        CHECK_STR("the reason", entry_error(e), STR("not with this one"));
        CHECK_SIZE("and all of it is written", book_changes(host_book(f.host))->len, 0);
        host_close(f.host);
        sim_close(world.sim);
    }
}
