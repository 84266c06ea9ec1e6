/* SPDX-License-Identifier: Apache-2.0 */
/* The core of membership in a small world from one seed: workers, a changing leader, and a network
 * that loses, delays and repeats. At every moment: no partition is processed by two workers; each
 * incarnation fails once; an undisturbed worker never fails; tokens of a partition grow; an item is
 * completed once; replicas agree. After the last disturbance every partition is owned again, by
 * workers that know they own it. The workers keep their duties: they fence by their own clock, ask
 * again, and never take back what they released (`released`). */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"
#include "member/core/local.h"
#include "section/section.h"

#define MS 1000000ull
enum {
    STEP_MS = 10,
    WORKERS = 6,
    PARTITIONS = 24,
    REPLICAS = 3,
    ITEMS = 40,
    MESSAGES = 4096,
    ENTRIES = 1 << 16,
    STORM_MS = 60000,
    CALM_MS = 75000, /* long enough for hold, fence and hand-over */
    FENCE_MS = 4000,
};

enum kind { BEAT, BEAT_REPLY, REGISTER, REGISTER_REPLY, ASK, ASK_REPLY, ACK_REVOKE };
struct grant {
    uint64_t epoch; /* 0: none */
    bool revoking;
};
struct message {
    bool used;
    enum kind kind;
    uint64_t at_ms;
    int worker;
    struct member_instance instance;
    enum member_phase phase;
    int64_t due_wall_ms;
    uint64_t sent_ms, incarnation, version, coord_epoch, question, epoch, term;
    uint32_t partition;
    bool ok, reset;
    struct grant grants[PARTITIONS];
};
struct worker {
    char id[8];
    bool alive, disturbed; /* disturbed: since its process began, so it may fail */
    uint64_t paused_until_ms, cut_until_ms, lossy_until_ms, next_beat_ms;
    int drift_ppm;
    int64_t wall_off_ms;
    struct member_instance instance;
    enum member_phase phase;
    uint64_t incarnation, last_ok_ms, coord_epoch, version, question;
    bool registered, registering;
    uint64_t register_ms, ask_ms;
    struct grant grants[PARTITIONS];
    uint64_t released[PARTITIONS];
    bool mine[256];        /* incarnations this process was sent */
    uint64_t suspected_ms; /* since when the present leader suspects it; 0: it does not */
};
struct proposal { /* being written to the disks of a majority */
    bool used;
    uint64_t at_ms, proposed_ms, clock_ns;
    struct buf bytes;
    struct message answer; /* when it is applied */
    bool answers;
    size_t context; /* number of operations before the one that is answered */
};
struct entry {
    char *bytes;
    size_t len;
    uint64_t clock_ns;
};
struct replica {
    struct membership *m;
    uint64_t applied, lag_until_ms;
    void *view; /* a snapshot being read while commands go on */
    struct buf snapshot;
    uint64_t snapshot_at, snapshot_hash;
};
struct world {
    struct prng prng;
    uint64_t seed, now_ms, term, instances, questions;
    struct worker workers[WORKERS];
    struct message messages[MESSAGES];
    size_t message_end; /* one past the last used message */
    struct proposal proposals[256], repeats[8];
    struct entry *log;
    uint64_t log_count;
    struct replica replicas[REPLICAS];
    int leader;           /* -1: none */
    uint64_t proposed_ms; /* of the command being applied */
    uint64_t leads_from_ms, no_leader_until_ms, leader_paused_until_ms, next_scan_ms;
    uint64_t clock_base_ns, monotonic_off_ns;
    int64_t leader_wall_off_ms;
    struct member_local *local;
    struct arena arena;
    struct member_result results[MEMBER_OPS_MAX];
    bool calm, repeating;
    /* counts of events */
    uint64_t read, failed[WORKERS][256], token[PARTITIONS], completed[ITEMS];
    struct {
        int worker;
        uint64_t incarnation; /* 0: no incarnation */
    } runs[ITEMS];
    uint64_t failures, restarts, moves, suspicions, takeovers, restores;
};

static void broken(const struct world *w, const char *what, const char *who, uint64_t number)
{
    fprintf(stderr, "seed %llu at %llu ms: %s %s %llu\n", (unsigned long long)w->seed,
            (unsigned long long)w->now_ms, what, who, (unsigned long long)number);
    CHECK(what, false);
}

static uint64_t now_ns(const struct world *w)
{
    return w->now_ms * MS + w->monotonic_off_ns;
}

static int64_t leader_wall(const struct world *w)
{
    return 1794727480000 + (int64_t)w->now_ms + w->leader_wall_off_ms;
}

static uint64_t clock_now(const struct world *w)
{
    return w->clock_base_ns + (w->now_ms - w->leads_from_ms) * MS;
}

/* -- the log -- */
/* When an incarnation ends, nobody owns what it ran. */
static void forget_runs(struct world *w, int worker)
{
    for (int i = 0; i < ITEMS; i++)
        if (w->runs[i].worker == worker) w->runs[i].incarnation = 0;
}

static bool is_suspected(const struct world *w, int worker)
{
    struct member_heartbeat heartbeat = {0};

    return member_local_heartbeat(w->local, str_from(w->workers[worker].id), &heartbeat) &&
           heartbeat.suspected;
}

static void watch_events(struct world *w, const struct membership *m)
{
    struct member_event event;

    while (member_next_event(m, &w->read, &event)) {
        int worker = event.worker.len > 1 ? event.worker.at[1] - '0' : 0;

        switch (event.topic) {
        case MEMBER_EV_FAILED:
            w->failures++;
            forget_runs(w, worker);
            if (w->failed[worker][event.incarnation % 256]++)
                broken(w, "failed twice", w->workers[worker].id, event.incarnation);
            /* More than three restarts in ten seconds look like two processes under one name. */
            if (w->workers[worker].alive && !w->workers[worker].disturbed &&
                w->workers[worker].mine[event.incarnation % 256] &&
                !str_equal(event.text, STR("identity_conflict")))
                broken(w, "failed although nothing was wrong", w->workers[worker].id,
                       event.incarnation);
            break;
        case MEMBER_EV_PARTITION_GRANTED:
            w->moves++;
            if (w->local && !w->repeating && is_suspected(w, worker) &&
                w->workers[worker].suspected_ms && w->workers[worker].suspected_ms < w->proposed_ms)
                broken(w, "given to a suspect", w->workers[worker].id, event.partition);
            if (event.epoch <= w->token[event.partition])
                broken(w, "a token that does not grow", "", event.partition);
            w->token[event.partition] = event.epoch;
            break;
        case MEMBER_EV_WORK_DISPATCHED:
        case MEMBER_EV_WORK_STOLEN:
            w->runs[event.item.b[0]].worker = worker;
            w->runs[event.item.b[0]].incarnation = event.incarnation;
            break;
        case MEMBER_EV_DEREGISTERED: forget_runs(w, worker); break;
        case MEMBER_EV_REGISTERED: /* its tombstone is gone: incarnations restart at 1 */
            if (event.incarnation == 1) memset(w->failed[worker], 0, sizeof w->failed[worker]);
            break;
        case MEMBER_EV_WORK_COMPLETED:
            if (w->runs[event.item.b[0]].worker != worker ||
                w->runs[event.item.b[0]].incarnation != event.incarnation)
                broken(w, "done by who does not run it", w->workers[worker].id, event.item.b[0]);
            if (w->completed[event.item.b[0]]++) broken(w, "done twice", "", event.item.b[0]);
            break;
        case MEMBER_EV_RESTARTED:
            w->restarts++;
            forget_runs(w, worker);
            break;
        default: break;
        }
    }
}

static void apply(struct world *w, struct replica *r)
{
    const struct entry *entry = &w->log[r->applied];
    struct member_command command;
    struct note note = {""};

    arena_reset(&w->arena);
    CHECK_OK(note.text,
             member_command_read(str_of(entry->bytes, entry->len), &w->arena, &command, &note));
    r->applied++;
    member_apply(r->m, r->applied, entry->clock_ns, &command, w->results);
}

static void append(struct world *w, struct str bytes, uint64_t clock_ns)
{
    struct entry *entry = &w->log[w->log_count];

    CHECK("the log has room", w->log_count < ENTRIES);
    entry->bytes = malloc(bytes.len);
    assert(entry->bytes);
    memcpy(entry->bytes, bytes.at, bytes.len);
    entry->len = bytes.len;
    entry->clock_ns = clock_ns;
    w->log_count++;
}

static void post(struct world *w, struct message message);

static void repeat(struct world *w, struct str bytes)
{
    struct proposal *p = &w->repeats[prng_below(&w->prng, ARRAY_LEN(w->repeats))];

    buf_clear(&p->bytes);
    CHECK_OK("kept", buf_append(&p->bytes, bytes));
    p->at_ms = w->now_ms + prng_below(&w->prng, 15000);
    p->used = true;
}

static void commit(struct world *w, struct proposal *p)
{
    struct replica *leader = w->leader < 0 ? NULL : &w->replicas[w->leader];

    p->used = false;
    append(w, buf_peek(&p->bytes), p->clock_ns);
    /* A proposal whose answer was lost is proposed again, perhaps much later. */
    if (!w->calm && prng_chance(&w->prng, 20000)) repeat(w, buf_peek(&p->bytes));
    if (!leader || !w->local) return;
    CHECK("a leader has everything", leader->applied + 1 == w->log_count);
    apply(w, leader);
    member_local_sync(w->local, now_ns(w));
    w->proposed_ms = p->proposed_ms;
    w->repeating =
        p->context == SIZE_MAX; /* lists workers that were suspected when it was first proposed */
    watch_events(w, leader->m);
    w->repeating = false;
    if (!p->answers) return;
    p->answer.incarnation = w->results[p->context].incarnation;
    p->answer.ok = w->results[p->context].status <= MEMBER_S_SAME;
    /* A beat that admits the worker resets what the worker had. */
    p->answer.reset = p->answer.kind == BEAT_REPLY && w->results[p->context].admitted;
    p->answer.version = member_local_version(w->local, str_from(w->workers[p->answer.worker].id));
    p->answer.coord_epoch = member_counts(leader->m).coord_epoch;
    if (p->answer.kind == BEAT_REPLY)
        member_local_admitted(w->local, str_from(w->workers[p->answer.worker].id), p->answer.phase,
                              now_ns(w));
    post(w, p->answer);
}

/* Proposes the operations in `batch`, with the answer to send after their commit. */
static void propose(struct world *w, struct str batch, size_t context, const struct message *answer)
{
    for (size_t i = 0; i < ARRAY_LEN(w->proposals); i++) {
        struct proposal *p = &w->proposals[i];

        if (p->used) continue;
        p->used = true;
        p->at_ms = w->now_ms + prng_below(&w->prng, 3) * STEP_MS;
        p->proposed_ms = w->now_ms;
        p->clock_ns = clock_now(w);
        p->context = context;
        p->answers = answer != NULL;
        if (answer) p->answer = *answer;
        buf_clear(&p->bytes);
        CHECK_OK("kept", buf_append(&p->bytes, batch));
        return;
    }
}

static void propose_op(struct world *w, const struct member_op *op, const struct message *answer)
{
    struct buf batch;

    buf_init(&batch, 1 << 20);
    CHECK_OK("begun", member_batch_begin(&batch, leader_wall(w)));
    CHECK_OK("suspects", member_local_context(w->local, &batch));
    CHECK_OK("added", member_batch_add(&batch, op));
    propose(w, buf_peek(&batch), member_batch_ops(buf_peek(&batch)) - 1, answer);
    buf_deinit(&batch);
}

/* In the order of proposal, because a log never reorders. */
static void run_proposals(struct world *w)
{
    for (size_t i = 0; i < ARRAY_LEN(w->repeats); i++)
        if (w->repeats[i].used && w->repeats[i].at_ms <= w->now_ms) {
            w->repeats[i].used = false;
            propose(w, buf_peek(&w->repeats[i].bytes), SIZE_MAX, NULL);
        }
    for (;;) {
        struct proposal *first = NULL;

        for (size_t i = 0; i < ARRAY_LEN(w->proposals); i++) {
            struct proposal *p = &w->proposals[i];
            if (p->used && (!first || p->clock_ns < first->clock_ns ||
                            (p->clock_ns == first->clock_ns && p->at_ms < first->at_ms)))
                first = p;
        }
        if (!first || first->at_ms > w->now_ms) return;
        commit(w, first);
    }
}

/* -- leaders -- */
static void depose(struct world *w)
{
    uint64_t kept = prng_below(&w->prng, 5); /* how many of the pending proposals survive */

    member_local_close(w->local);
    w->local = NULL;
    for (size_t i = 0; i < ARRAY_LEN(w->proposals); i++) {
        struct proposal *first = NULL;

        for (size_t j = 0; j < ARRAY_LEN(w->proposals); j++)
            if (w->proposals[j].used && (!first || w->proposals[j].clock_ns < first->clock_ns))
                first = &w->proposals[j];
        if (!first) break;
        first->used = false;
        if (i < kept) append(w, buf_peek(&first->bytes), first->clock_ns);
    }
    w->leader = -1;
    w->no_leader_until_ms = w->now_ms + prng_between(&w->prng, 20, w->calm ? 500 : 3000);
}

static void lead(struct world *w)
{
    struct member_local_options options;
    struct member_op op = {.kind = MEMBER_OP_LEAD, .worker = STR("c"), .number = ++w->term};
    struct replica *r;

    w->leader = (int)prng_below(&w->prng, REPLICAS);
    r = &w->replicas[w->leader];
    while (r->applied < w->log_count) apply(w, r);
    watch_events(w, r->m);
    w->leads_from_ms = w->now_ms;
    for (int i = 0; i < WORKERS; i++) w->workers[i].suspected_ms = 0;
    w->clock_base_ns = member_clock_ns(r->m);
    w->monotonic_off_ns = prng_below(&w->prng, 1000000) * MS;
    w->next_scan_ms = w->now_ms;
    w->leader_paused_until_ms = 0;
    member_local_defaults(&options);
    CHECK_OK("leads", member_local_open(r->m, &options, now_ns(w), &w->local));
    propose_op(w, &op, NULL);
    w->takeovers++;
}

static void scan(struct world *w)
{
    struct member_event event;
    struct buf batch;
    size_t context, ops;
    bool more;

    buf_init(&batch, 1 << 20);
    CHECK_OK("begun", member_batch_begin(&batch, leader_wall(w)));
    CHECK_OK("suspects", member_local_context(w->local, &batch));
    context = member_batch_ops(buf_peek(&batch));
    CHECK_OK("scanned", member_local_scan(w->local, now_ns(w), clock_now(w), leader_wall(w), &batch,
                                          &ops, &more));
    CHECK("the added item", member_batch_ops(buf_peek(&batch)) == context + ops && !more);
    if (ops) propose(w, buf_peek(&batch), 0, NULL);
    buf_deinit(&batch);
    while (member_local_next_event(w->local, &event)) {
        int worker = event.worker.len > 1 ? event.worker.at[1] - '0' : 0;

        w->suspicions += event.topic == MEMBER_EV_SUSPECTED;
        if (event.topic == MEMBER_EV_SUSPECTED) w->workers[worker].suspected_ms = w->now_ms;
    }
    for (int i = 0; i < WORKERS; i++)
        if (!is_suspected(w, i)) w->workers[i].suspected_ms = 0;
}

/* -- the network -- */
static void put(struct world *w, struct message message, uint64_t delay_ms)
{
    for (size_t i = 0; i < MESSAGES; i++)
        if (i >= w->message_end || !w->messages[i].used) {
            w->messages[i] = message;
            w->messages[i].used = true;
            w->messages[i].at_ms = w->now_ms + delay_ms;
            w->message_end = max_size(w->message_end, i + 1);
            return;
        }
}

static void post(struct world *w, struct message message)
{
    const struct worker *worker = &w->workers[message.worker];
    bool lossy = w->now_ms < worker->lossy_until_ms;

    message.term = w->term;
    if (w->now_ms < worker->cut_until_ms) return;
    if (!lossy) {
        put(w, message, prng_between(&w->prng, 1, 40));
        return;
    }
    if (prng_chance(&w->prng, 400000)) return;
    put(w, message, prng_between(&w->prng, 1, 40));
    if (prng_chance(&w->prng, 200000)) put(w, message, prng_between(&w->prng, 1, 8000));
}

/* -- workers -- */
static uint64_t own_ms(const struct worker *worker, uint64_t now_ms)
{
    return (uint64_t)((int64_t)now_ms + (int64_t)now_ms * worker->drift_ppm / 1000000);
}

static bool is_fenced(const struct world *w, const struct worker *worker)
{
    return own_ms(worker, w->now_ms) - own_ms(worker, worker->last_ok_ms) > FENCE_MS;
}

static void new_instance(struct world *w, struct worker *worker)
{
    uint64_t number = ++w->instances;

    memset(&worker->instance, 0, sizeof worker->instance);
    memcpy(worker->instance.b, &number, sizeof number);
    memset(worker->grants, 0, sizeof worker->grants);
    memset(worker->released, 0, sizeof worker->released);
    worker->registered = worker->registering = false;
    worker->phase = MEMBER_INIT;
    worker->incarnation = worker->version = 0;
    worker->question = 0;
}

static void start(struct world *w, struct worker *worker)
{
    new_instance(w, worker);
    memset(worker->mine, 0, sizeof worker->mine);
    worker->alive = true;
    worker->disturbed = worker->cut_until_ms > w->now_ms || worker->lossy_until_ms > w->now_ms;
    worker->coord_epoch = 0;
    worker->last_ok_ms = w->now_ms;
    worker->next_beat_ms = w->now_ms;
    worker->paused_until_ms = 0;
}

static void beat(struct world *w, struct worker *worker)
{
    post(w, (struct message){.kind = BEAT,
                             .worker = (int)(worker - w->workers),
                             .instance = worker->instance,
                             .phase = worker->phase,
                             .incarnation = worker->incarnation,
                             .sent_ms = w->now_ms,
                             .due_wall_ms =
                                 1794727480000 + (int64_t)w->now_ms + worker->wall_off_ms + 1000});
    worker->next_beat_ms = w->now_ms + prng_between(&w->prng, 450, 500);
}

static void step_worker(struct world *w, struct worker *worker)
{
    int number = (int)(worker - w->workers);

    if (!worker->alive || w->now_ms < worker->paused_until_ms) return;
    if (is_fenced(w, worker)) { /* drops everything and becomes another instance */
        new_instance(w, worker);
        worker->last_ok_ms = w->now_ms;
    }
    if (w->now_ms >= worker->next_beat_ms) {
        beat(w, worker);
        for (uint32_t p = 0; p < PARTITIONS; p++)
            if (worker->grants[p].revoking) /* until the leader receives it */
                post(w, (struct message){.kind = ACK_REVOKE,
                                         .worker = number,
                                         .instance = worker->instance,
                                         .incarnation = worker->incarnation,
                                         .partition = p,
                                         .epoch = worker->grants[p].epoch});
    }
    if (!worker->registered && worker->registering && w->now_ms >= worker->register_ms) {
        post(w, (struct message){.kind = REGISTER, .worker = number, .instance = worker->instance});
        worker->register_ms = w->now_ms + 700;
    }
    if (worker->registered && worker->question && w->now_ms >= worker->ask_ms) {
        post(w, (struct message){.kind = ASK,
                                 .worker = number,
                                 .instance = worker->instance,
                                 .incarnation = worker->incarnation,
                                 .question = worker->question});
        worker->ask_ms = w->now_ms + 700;
    }
}

/* The record lists what is granted; the worker does not take back what it released. */
static void take_grants(struct world *w, struct worker *worker, const struct message *reply)
{
    (void)w;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        struct grant granted = reply->grants[p];

        if (granted.epoch <= worker->released[p] && !granted.revoking) granted.epoch = 0;
        if (granted.revoking) worker->released[p] = max_u64(worker->released[p], granted.epoch);
        worker->grants[p] = granted;
        if (granted.revoking)
            post(w, (struct message){.kind = ACK_REVOKE,
                                     .worker = (int)(worker - w->workers),
                                     .instance = worker->instance,
                                     .incarnation = worker->incarnation,
                                     .partition = p,
                                     .epoch = granted.epoch});
    }
}

static void ask(struct world *w, struct worker *worker)
{
    worker->question = ++w->questions;
    worker->ask_ms = w->now_ms;
}

static void receive_reply(struct world *w, struct worker *worker, const struct message *m)
{
    if (memcmp(&m->instance, &worker->instance, sizeof m->instance) != 0) return;
    if (m->coord_epoch < worker->coord_epoch) return;
    worker->coord_epoch = m->coord_epoch;
    if (m->ok) worker->mine[m->incarnation % 256] = true;
    switch (m->kind) {
    case BEAT_REPLY:
        if (m->reset || (worker->registered && m->incarnation != worker->incarnation)) {
            bool other = worker->registered;

            if (other) new_instance(w, worker);
            worker->registering = true;
            worker->register_ms = w->now_ms;
            return;
        }
        if (!m->ok) return;
        if (m->sent_ms > worker->last_ok_ms) worker->last_ok_ms = m->sent_ms;
        if (!worker->registered && !worker->registering) {
            worker->registering = true;
            worker->register_ms = w->now_ms;
        }
        if (worker->registered && m->version != worker->version && !worker->question)
            ask(w, worker);
        return;
    case REGISTER_REPLY:
        if (!m->ok || worker->registered) return;
        worker->registered = true;
        worker->registering = false;
        worker->incarnation = m->incarnation;
        worker->phase = MEMBER_READY;
        ask(w, worker);
        return;
    case ASK_REPLY:
        if (m->question != worker->question || m->incarnation != worker->incarnation) return;
        worker->question = 0;
        worker->version = m->version;
        take_grants(w, worker, m);
        return;
    default: return;
    }
}

/* -- messages to the leader -- */
static void receive_beat(struct world *w, const struct message *m)
{
    const struct worker *worker = &w->workers[m->worker];
    struct member_beat beat = {.worker = str_from(worker->id),
                               .phase = m->phase,
                               .due = {true, m->due_wall_ms},
                               .instance = m->instance,
                               .incarnation = m->incarnation};
    struct message reply = *m;
    struct member_op op;
    struct member_heard heard = member_local_beat(w->local, &beat, now_ns(w), leader_wall(w), &op);

    reply.kind = BEAT_REPLY;
    reply.incarnation = heard.incarnation;
    reply.version = heard.assignment_version;
    reply.coord_epoch = heard.coord_epoch;
    switch (heard.verdict) {
    case MEMBER_BEAT_PROPOSE: propose_op(w, &op, &reply); return;
    case MEMBER_BEAT_RESET:
        reply.reset = true;
        reply.ok = false;
        break;
    case MEMBER_BEAT_ACK: reply.ok = true; break;
    default: reply.ok = false; break;
    }
    post(w, reply);
}

static void receive_register(struct world *w, const struct message *m)
{
    struct member_op op = {.worker = str_from(w->workers[m->worker].id),
                           .instance = m->instance,
                           .lease_ms = 1000,
                           .weight = 1,
                           .capable = true};
    struct message reply = *m;
    struct member_in_use in_use;

    reply.kind = REGISTER_REPLY;
    reply.ok = false;
    if (member_local_register(w->local, &op, now_ns(w), &in_use))
        propose_op(w, &op, &reply);
    else
        post(w, reply); /* refused */
}

static void receive_ask(struct world *w, const struct message *m)
{
    const struct membership *state = w->replicas[w->leader].m;
    struct message reply = *m;
    struct member_worker row = {0};
    uint32_t held[PARTITIONS];
    size_t count;

    (void)member_find_worker(state, str_from(w->workers[m->worker].id), &row);
    if (row.incarnation != m->incarnation || row.standing != MEMBER_ACTIVE) return;
    reply.kind = ASK_REPLY;
    reply.version = member_local_version(w->local, row.id);
    reply.coord_epoch = member_counts(state).coord_epoch;
    memset(reply.grants, 0, sizeof reply.grants);
    count = member_grants(state, row.id, held, PARTITIONS);
    for (size_t i = 0; i < count; i++) {
        struct member_partition p = {0};
        (void)member_find_partition(state, held[i], &p);
        reply.grants[held[i]] = (struct grant){p.grant_epoch, p.state == MEMBER_REVOKING};
    }
    post(w, reply);
}

static void receive(struct world *w, const struct message *m)
{
    switch (m->kind) {
    case BEAT: receive_beat(w, m); return;
    case REGISTER: receive_register(w, m); return;
    case ASK: receive_ask(w, m); return;
    default:
        propose_op(w,
                   &(struct member_op){.kind = MEMBER_OP_ACK_REVOKE,
                                       .worker = str_from(w->workers[m->worker].id),
                                       .incarnation = m->incarnation,
                                       .partition = m->partition,
                                       .epoch = m->epoch},
                   NULL);
        return;
    }
}

static bool is_reply(enum kind kind)
{
    return kind == BEAT_REPLY || kind == REGISTER_REPLY || kind == ASK_REPLY;
}

/* A reply promised by a leader that was since deposed was never confirmed. */
static void deliver(struct world *w)
{
    while (w->message_end && !w->messages[w->message_end - 1].used) w->message_end--;
    for (size_t i = 0; i < w->message_end; i++) {
        struct worker *worker = &w->workers[w->messages[i].worker];
        struct message m;

        if (!w->messages[i].used || w->messages[i].at_ms > w->now_ms) continue;
        m = w->messages[i];
        if (is_reply(m.kind)) {
            if (worker->alive && w->now_ms < worker->paused_until_ms) continue;
            w->messages[i].used = false;
            if (worker->alive) receive_reply(w, worker, &m);
            continue;
        }
        if (w->leader >= 0 && w->now_ms < w->leader_paused_until_ms) continue;
        w->messages[i].used = false;
        if (w->leader >= 0) receive(w, &m);
    }
}

/* -- invariants -- */
static void check_owners(struct world *w)
{
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        const struct worker *owner = NULL;

        for (int i = 0; i < WORKERS; i++) {
            const struct worker *worker = &w->workers[i];

            if (!worker->alive || !worker->grants[p].epoch || worker->grants[p].revoking ||
                is_fenced(w, worker))
                continue;
            if (owner) {
                fprintf(stderr, "%s under %llu and %s under %llu\n", owner->id,
                        (unsigned long long)owner->grants[p].epoch, worker->id,
                        (unsigned long long)worker->grants[p].epoch);
                broken(w, "two owners of partition", "", p);
            }
            owner = worker;
        }
    }
}

/* Prints the placement, for the reader of a failure. */
static void show(const struct world *w, const struct membership *m)
{
    for (int i = 0; i < WORKERS; i++) {
        const struct worker *worker = &w->workers[i];
        struct member_heartbeat heartbeat = {0};
        struct member_worker row = {0};

        (void)member_find_worker(m, str_from(worker->id), &row);
        (void)member_local_heartbeat(w->local, row.id, &heartbeat);
        fprintf(stderr,
                "%s standing %d incarnation %llu capable %d ready %d draining %d on ring %d "
                "suspected %d holds %u; itself: incarnation %llu phase %d registered %d\n",
                worker->id, row.standing, (unsigned long long)row.incarnation, row.capable,
                row.ready, row.draining, row.on_ring, heartbeat.suspected, row.partitions,
                (unsigned long long)worker->incarnation, worker->phase, worker->registered);
    }
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        struct member_partition p = {0};

        (void)member_find_partition(m, i, &p);
        fprintf(stderr, "%u: state %d owner %.*s %llu target %.*s token %llu\n", i, p.state,
                STR_ARG(p.owner), (unsigned long long)p.owner_incarnation, STR_ARG(p.target),
                (unsigned long long)p.grant_epoch);
    }
}

static void check_settled(struct world *w)
{
    const struct membership *m = w->replicas[w->leader].m;

    for (uint32_t i = 0; i < PARTITIONS; i++) {
        struct member_partition p = {0};
        const struct worker *owner = NULL;

        CHECK("there", member_find_partition(m, i, &p));
        for (int j = 0; j < WORKERS; j++)
            if (str_equal(p.owner, str_from(w->workers[j].id))) owner = &w->workers[j];
        if (p.state != MEMBER_OWNED || !str_equal(p.owner, p.target) || !owner) {
            show(w, m);
            broken(w, "not owned after the calm", "", i);
        }
        if (owner->grants[i].epoch != p.grant_epoch || owner->grants[i].revoking)
            broken(w, "owned by who does not know", owner->id, i);
    }
    for (int i = 0; i < ITEMS; i++)
        if (w->completed[i] != 1) broken(w, "an item that is not done", "", (uint64_t)i);
}

/* -- work: proposed at the leader, straight into the log -- */
static void do_work(struct world *w)
{
    const struct membership *m = w->replicas[w->leader].m;
    const struct worker *worker = &w->workers[prng_below(&w->prng, WORKERS)];
    struct member_item item;
    struct member_op op = {.worker = str_from(worker->id), .incarnation = worker->incarnation};

    if (!worker->alive || !worker->registered) return;
    switch (prng_below(&w->prng, 4)) {
    case 0:
        op = (struct member_op){.kind = MEMBER_OP_ENQUEUE, .bytes = STR("work")};
        op.item.b[0] = (uint8_t)prng_below(&w->prng, ITEMS);
        break;
    case 1:
        op.kind = MEMBER_OP_PULL;
        op.number = prng_between(&w->prng, 1, 4);
        break;
    case 2: op.kind = MEMBER_OP_STEAL; break;
    default:
        op.kind =
            prng_chance(&w->prng, w->calm ? 0 : 200000) ? MEMBER_OP_RELEASE : MEMBER_OP_SUBMIT;
        op.item.b[0] = (uint8_t)prng_below(&w->prng, ITEMS);
        if (member_find_item(m, &op.item, &item) && item.worker.len &&
            prng_chance(&w->prng, 800000)) {
            op.worker = item.worker; /* usually by the worker that runs it */
            op.incarnation = item.incarnation;
        }
        break;
    }
    propose_op(w, &op, NULL);
}

/* -- disturbances -- */
static void disturb(struct world *w)
{
    struct worker *worker = &w->workers[prng_below(&w->prng, WORKERS)];
    uint64_t for_ms = prng_between(&w->prng, 100, 12000);

    if (worker - w->workers == 0 && prng_below(&w->prng, 12) < 6) return; /* w0 is left alone */
    switch (prng_below(&w->prng, 12)) {
    case 0: worker->paused_until_ms = w->now_ms + for_ms; break;
    case 1: worker->cut_until_ms = w->now_ms + for_ms; break;
    case 2:
    case 3: worker->lossy_until_ms = w->now_ms + 2 * for_ms; break;
    case 4: worker->alive = false; break; /* kill -9 */
    case 5: start(w, worker); return;     /* a restart, at once or after a while */
    case 6:
        if (w->leader >= 0) depose(w);
        return;
    case 7: w->leader_paused_until_ms = w->now_ms + for_ms; return;
    case 8: w->leader_wall_off_ms = (int64_t)prng_below(&w->prng, 7200000) - 3600000; return;
    case 9: worker->wall_off_ms = (int64_t)prng_below(&w->prng, 40000) - 20000; return;
    case 10: {
        struct member_op op;
        if (w->leader >= 0 && w->local &&
            member_local_evict(w->local, str_from(worker->id), now_ns(w), &op))
            propose_op(w, &op, NULL);
        break;
    }
    default: worker->phase = worker->registered ? MEMBER_DRAINING : worker->phase; break;
    }
    if (worker->phase == MEMBER_DRAINING && prng_chance(&w->prng, 500000))
        worker->phase = MEMBER_RUNNING;
    worker->disturbed = true;
}

static void calm_down(struct world *w)
{
    w->calm = true;
    w->leader_paused_until_ms = 0;
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &w->workers[i];

        worker->paused_until_ms = worker->cut_until_ms = worker->lossy_until_ms = 0;
        if (!worker->alive) start(w, worker);
        if (worker->phase == MEMBER_DRAINING) worker->phase = MEMBER_RUNNING;
    }
}

/* -- replicas that lag, restored from snapshots taken while the log grows -- */
static void step_replica(struct world *w, struct replica *r)
{
    bool done = false;

    if (w->leader >= 0 && r == &w->replicas[w->leader] && r->view == NULL &&
        prng_chance(&w->prng, 2000)) {
        CHECK_OK("a view", member_view_open(r->m, &r->view));
        r->snapshot_at = r->applied;
        r->snapshot_hash = member_hash(r->m);
        buf_clear(&r->snapshot);
    }
    if (r->view && prng_chance(&w->prng, 500000))
        CHECK_OK("written",
                 section_view_next(r->view, prng_between(&w->prng, 1, 400), &r->snapshot, &done));
    if (done) {
        struct replica *to = &w->replicas[prng_below(&w->prng, REPLICAS)];
        struct member_options options = {0};
        struct member_restore *restore;
        struct membership *fresh = NULL;
        struct note note = {""};

        section_view_close(r->view);
        r->view = NULL;
        if (to == r || to->view || (w->leader >= 0 && to == &w->replicas[w->leader]) ||
            to->applied > r->snapshot_at)
            return;
        restore = member_restore_open(&options);
        CHECK_OK("fed", member_restore_feed(restore, buf_peek(&r->snapshot), &note));
        CHECK_OK(note.text, member_restore_done(restore, &fresh, &note));
        member_restore_close(restore);
        if (member_hash(fresh) != r->snapshot_hash) broken(w, "a snapshot that differs", "", 0);
        member_close(to->m);
        to->m = fresh;
        to->applied = r->snapshot_at;
        w->restores++;
    }
    if (w->now_ms < r->lag_until_ms) return;
    if (prng_chance(&w->prng, 1000)) r->lag_until_ms = w->now_ms + 5000;
    while (r->applied < w->log_count &&
           !(w->leader >= 0 && r == &w->replicas[w->leader] && w->local))
        apply(w, r);
}

static void compare_replicas(struct world *w)
{
    uint64_t hash = 0, bytes = 0;

    for (int i = 0; i < REPLICAS; i++) {
        struct replica *r = &w->replicas[i];

        while (r->applied < w->log_count) apply(w, r);
        if (i && member_hash(r->m) != hash) broken(w, "replicas that differ", "", (uint64_t)i);
        if (i && member_bytes(r->m) != bytes) broken(w, "replicas of two sizes", "", (uint64_t)i);
        hash = member_hash(r->m);
        bytes = member_bytes(r->m);
    }
}

static void step(struct world *w, uint64_t harsh)
{
    w->now_ms += STEP_MS;
    if (!w->calm && prng_below(&w->prng, 1000000) < harsh) disturb(w);
    if (w->leader < 0 && w->now_ms >= w->no_leader_until_ms) lead(w);
    for (int i = 0; i < WORKERS; i++) step_worker(w, &w->workers[i]);
    if (w->leader >= 0 && w->now_ms >= w->leader_paused_until_ms) {
        /* A leader that wakes up may read the clock before the queued messages. */
        bool late = prng_chance(&w->prng, 500000);

        if (late) deliver(w);
        if (w->now_ms >= w->next_scan_ms || member_local_wants(w->local, clock_now(w))) {
            scan(w);
            w->next_scan_ms = w->now_ms + 250;
        }
        run_proposals(w);
        if (prng_chance(&w->prng, 30000)) do_work(w);
    }
    deliver(w);
    for (int i = 0; i < REPLICAS; i++) step_replica(w, &w->replicas[i]);
    check_owners(w);
}

static void open_world(struct world *w, uint64_t seed)
{
    struct member_options options = {0};
    struct member_rules rules;
    struct buf batch;

    w->seed = seed;
    prng_seed(&w->prng, seed);
    w->now_ms = 1000000;
    w->leader = -1;
    w->log = calloc(ENTRIES, sizeof *w->log);
    assert(w->log);
    arena_init(&w->arena, 64 << 20);
    for (size_t i = 0; i < ARRAY_LEN(w->proposals); i++) buf_init(&w->proposals[i].bytes, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(w->repeats); i++) buf_init(&w->repeats[i].bytes, 1 << 20);
    for (int i = 0; i < REPLICAS; i++) {
        w->replicas[i].m = member_open(&options);
        assert(w->replicas[i].m);
        buf_init(&w->replicas[i].snapshot, 64 << 20);
    }
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &w->workers[i];

        (void)snprintf(worker->id, sizeof worker->id, "w%d", i);
        worker->drift_ppm = (int)prng_below(&w->prng, 401) - 200;
        worker->wall_off_ms = (int64_t)prng_below(&w->prng, 1000) - 500;
        start(w, worker);
    }
    member_rules_defaults(&rules);
    rules.total_partitions = PARTITIONS;
    rules.virtual_nodes = 16;
    rules.dead_retention_ms = 20000;
    rules.tombstone_retention_ms = 30000;
    rules.revoke_timeout_ms = 5000;
    rules.rebalance_window_ms = prng_below(&w->prng, 2) * 500;
    rules.evict_on_revoke_timeout = prng_below(&w->prng, 2);
    rules.move_limit_ppm = (uint32_t)prng_between(&w->prng, 1, 1000000);
    rules.work_max_attempts = 1000;
    buf_init(&batch, 65536);
    CHECK_OK("begun", member_batch_begin(&batch, 0));
    CHECK_OK("rules", member_batch_add(&batch, &(struct member_op){.kind = MEMBER_OP_CONFIGURE,
                                                                   .rules = &rules}));
    append(w, buf_peek(&batch), 0);
    buf_deinit(&batch);
}

static void close_world(struct world *w)
{
    member_local_close(w->local);
    for (int i = 0; i < REPLICAS; i++) {
        section_view_close(w->replicas[i].view);
        member_close(w->replicas[i].m);
        buf_deinit(&w->replicas[i].snapshot);
    }
    for (size_t i = 0; i < ARRAY_LEN(w->proposals); i++) buf_deinit(&w->proposals[i].bytes);
    for (size_t i = 0; i < ARRAY_LEN(w->repeats); i++) buf_deinit(&w->repeats[i].bytes);
    for (uint64_t i = 0; i < w->log_count; i++) free(w->log[i].bytes);
    free(w->log);
    arena_deinit(&w->arena);
    free(w);
}

/* Requests every item, so that each is completed at the end. */
static void want_all_items(struct world *w)
{
    for (int i = 0; i < ITEMS; i++) {
        struct member_op op = {.kind = MEMBER_OP_ENQUEUE, .bytes = STR("work")};

        op.item.b[0] = (uint8_t)i;
        propose_op(w, &op, NULL);
    }
}

struct sums {
    uint64_t failures, restarts, moves, suspicions, takeovers, restores, entries;
};

static void run(uint64_t seed, struct sums *sums)
{
    struct world *w = calloc(1, sizeof *w);
    uint64_t harsh, end;

    assert(w);
    open_world(w, seed);
    harsh = seed % 2 ? 4000 : 15000; /* a disturbance every 2.5 s, or every 0.7 s */
    end = w->now_ms + STORM_MS;
    while (w->now_ms < end) step(w, harsh);
    calm_down(w);
    end = w->now_ms + CALM_MS;
    for (bool wanted = false; w->now_ms < end;) {
        step(w, 0);
        if (!wanted && w->leader >= 0 && w->local) {
            want_all_items(w);
            wanted = true;
        }
        if (wanted && w->leader >= 0) do_work(w);
    }
    check_settled(w);
    compare_replicas(w);
    sums->failures += w->failures;
    sums->restarts += w->restarts;
    sums->moves += w->moves;
    sums->suspicions += w->suspicions;
    sums->takeovers += w->takeovers;
    sums->restores += w->restores;
    sums->entries += w->log_count;
    close_world(w);
}

TEST(no_two_owners_and_progress_after_healing)
{
    const char *count = getenv("MUSTER_MEMBER_SEEDS");
    uint64_t first = test_seed(), seeds = 0;
    struct sums sums = {0};

    if (!count || str_to_u64(str_from(count), &seeds)) seeds = 12;
    for (uint64_t i = 0; i < seeds; i++) run(first + i, &sums);
    fprintf(stderr,
            "%llu worlds: %llu failures, %llu restarts, %llu grants, %llu suspicions, "
            "%llu takeovers, %llu restores, %llu entries\n",
            (unsigned long long)seeds, (unsigned long long)sums.failures,
            (unsigned long long)sums.restarts, (unsigned long long)sums.moves,
            (unsigned long long)sums.suspicions, (unsigned long long)sums.takeovers,
            (unsigned long long)sums.restores, (unsigned long long)sums.entries);
    CHECK("something happened", seeds < 12 || (sums.failures && sums.restarts && sums.restores));
}
