/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/shard_check.h"
#include "lib/test.h"

#define NEVER UINT64_MAX

mono_time fleet_now(const struct fleet *f)
{
    return (mono_time){f->now_ms};
}

static wall_time wall(const struct fleet *f)
{
    return (wall_time){1700000000000 + f->now_ms};
}

void fleet_open(struct fleet *f, const struct core_options *options, size_t machines_max)
{
    struct core_options o = options ? *options : (struct core_options){0};
    struct note note = {""};

    memset(f, 0, sizeof *f);
    o.machines_max = (uint32_t)machines_max;
    if (!o.seed) o.seed = 1;
    /* Most tests are not about the limit of calls at once. */
    if (!o.concurrency_first) o.concurrency_first = o.concurrency ? o.concurrency : 64;
    f->machines = calloc(machines_max, sizeof *f->machines);
    f->call_cap = 256; /* so that the test itself needs no more memory while that is scarce */
    f->calls = calloc(f->call_cap, sizeof *f->calls);
    CHECK("memory", f->machines && f->calls);
    arena_init(&f->arena, (size_t)1 << 30);
    CHECK("memory", arena_alloc(&f->arena, 1 << 14) != NULL);
    f->options = o;
    CHECK_OK(note.text, core_open(&o, &f->core));
    f->now_ms = 1000 * 1000;
    f->async_ms = 25 * 1000;
}

void fleet_close(struct fleet *f)
{
    core_close(f->core);
    arena_deinit(&f->arena);
    free(f->machines);
    free(f->calls);
}

void fleet_restart(struct fleet *f)
{
    struct note note = {""};

    core_close(f->core);
    f->options.restarted = f->options.operators_reported = true;
    CHECK_OK(note.text, core_open(&f->options, &f->core));
    for (size_t i = 0; i < f->machine_count; i++) f->machines[i].order |= FLEET_EARLIER_ORDER;
    memset(f->links, 0, sizeof f->links);
    for (size_t i = 0; i < f->call_count;) {
        uint64_t most_ms = f->now_ms + f->core->options.execute_timeout_ms;
        f->calls[i].answered = true;
        /* Its caller is gone: what it still does, it does within one timeout. */
        if (f->calls[i].apply_ms != NEVER && f->calls[i].apply_ms > most_ms)
            f->calls[i].apply_ms = most_ms;
        if (f->calls[i].applied || f->calls[i].apply_ms == NEVER)
            f->calls[i] = f->calls[--f->call_count];
        else
            i++;
    }
}

void fleet_add(struct fleet *f, const char *prefix, size_t count, enum machine_state state,
               const char *cluster)
{
    for (size_t i = 0; i < count; i++) {
        struct fleet_machine *m = &f->machines[f->machine_count++];

        snprintf(m->id, sizeof m->id, "%s-%03zu", prefix, i);
        snprintf(m->cluster, sizeof m->cluster, "%s", cluster ? cluster : "");
        m->state = state;
        m->capacity_type = CAPACITY_ON_DEMAND;
        m->price = 1;
        m->cpu = 4;
        m->end_ms = NEVER;
        if (state == MACHINE_FAILED) snprintf(m->error, sizeof m->error, "broken");
    }
}

struct fleet_machine *fleet_machine(struct fleet *f, const char *id)
{
    for (size_t i = 0; i < f->machine_count; i++)
        if (!strcmp(f->machines[i].id, id)) return &f->machines[i];
    return NULL;
}

/* ---- as the wire would say it ---- */

struct said {
    struct machine machine;
    struct label labels[METADATA_MAX];
    struct call_answer answer;
};

static void say(struct fleet *f, const struct fleet_machine *m, struct said *s)
{
    uint32_t index;

    memset(s, 0, sizeof *s);
    s->machine = (struct machine){.id = str_from(m->id),
                                  .state = m->state,
                                  .cluster = str_from(m->cluster),
                                  .capacity_type = m->capacity_type,
                                  .price_per_hour = m->price,
                                  .last_error = str_from(m->error)};
    s->machine.attributes.instance_type = STR("m5");
    s->machine.attributes.zone = str_from(m->zone);
    if (m->state != MACHINE_SPECULATIVE && m->state != MACHINE_CREATING) {
        s->machine.host_provider = STR("p");
        s->machine.host_ref = str_from(m->id);
    }
    CHECK_OK("cpu", dimensions_index(core_dimensions(f->core), STR("cpu"), &index, NULL));
    CHECK_OK("cpu",
             resources_set(&s->machine.resources, index, m->cpu * 1000, QUANTITY_DECIMAL_SI));
    for (size_t i = 0; i < m->label_count; i++)
        s->labels[i] = (struct label){str_from(m->keys[i]), str_from(m->values[i])};
    s->answer = (struct call_answer){.end = CALL_DONE,
                                     .machine = &s->machine,
                                     .metadata = s->labels,
                                     .metadata_count = m->label_count};
}

/* ---- what comes out of the core ---- */

static const char *const effect_names[FLEET_EFFECTS] = {
    "CREATE",     "CONFIGURE", "DRAIN", "DELETE", "GET",     "ASK_BLOB",  "RECLAIM",
    "NODE_STATE", "CAPACITY",  "AUDIT", "LOG",    "OBSERVE", "CYCLE_SOON"};

static void draw(struct fleet *f, struct fleet_call *call, uint64_t timeout_ms)
{
    static const enum fate mutations[] = {
        FATE_ASYNC,     FATE_REFUSED,       FATE_LOST_BEFORE, FATE_LOST_AFTER, FATE_LATE,
        FATE_NOT_FOUND, FATE_NOT_SUPPORTED, FATE_GARBAGE,     FATE_UNSENT,     FATE_NEVER};
    static const enum fate blobs[] = {FATE_NO_SESSION, FATE_BLOB_TIMEOUT, FATE_BLOB_ERROR,
                                      FATE_BLOB_NO_ROOM, FATE_NEVER};
    static const enum fate gets[] = {FATE_LOST_BEFORE, FATE_REFUSED, FATE_GARBAGE, FATE_UNSENT,
                                     FATE_NEVER};
    uint64_t latency = f->latency_ms[call->kind];

    call->fate = f->fate[call->kind];
    if (f->random) {
        latency = prng_below(f->random, 15 * 1000);
        if (prng_chance(f->random, f->faults_per_million)) {
            if (call->kind == EFFECT_ASK_BLOB)
                call->fate = blobs[prng_below(f->random, ARRAY_LEN(blobs))];
            else if (call->kind == EFFECT_GET)
                call->fate = gets[prng_below(f->random, ARRAY_LEN(gets))];
            else
                call->fate = mutations[prng_below(f->random, ARRAY_LEN(mutations))];
        }
    }
    call->due_ms = f->now_ms + latency;
    call->apply_ms = NEVER;
    switch (call->fate) {
    case FATE_DONE:
    case FATE_ASYNC:
    case FATE_GARBAGE: call->apply_ms = call->due_ms; break;
    case FATE_LOST_AFTER:
        call->apply_ms = call->due_ms;
        call->due_ms = f->now_ms + timeout_ms;
        break;
    case FATE_LATE:
        call->due_ms = f->now_ms + timeout_ms;
        call->apply_ms = call->due_ms + 1 + latency;
        break;
    case FATE_LOST_BEFORE:
    case FATE_BLOB_TIMEOUT: call->due_ms = f->now_ms + timeout_ms; break;
    case FATE_NEVER: call->due_ms = NEVER; break;
    default: break;
    }
    if (!f->serial_ms || call->kind == EFFECT_ASK_BLOB) return;
    if (f->busy_until_ms < f->now_ms) f->busy_until_ms = f->now_ms;
    f->busy_until_ms += f->serial_ms;
    call->due_ms = call->apply_ms = f->busy_until_ms;
    if (call->due_ms <= f->now_ms + timeout_ms) return;
    call->due_ms = f->now_ms + timeout_ms;
    call->fate = FATE_LATE;
    f->late++;
}

static void call_make(struct fleet *f, const struct effect *e)
{
    struct fleet_call *call;

    if (f->call_count == f->call_cap) {
        f->call_cap *= 2;
        f->calls = realloc(f->calls, f->call_cap * sizeof *f->calls);
        CHECK("memory", f->calls != NULL);
    }
    call = &f->calls[f->call_count++];
    memset(call, 0, sizeof *call);
    call->kind = e->kind;
    call->action = e->action;
    call->token = e->kind == EFFECT_GET || e->kind == EFFECT_ASK_BLOB ? 0 : ++f->token;
    snprintf(call->id, sizeof call->id, "%.*s", STR_ARG(e->machine));
    snprintf(call->cluster, sizeof call->cluster, "%.*s", STR_ARG(e->cluster));
    call->machine = fleet_machine(f, call->id);
    if (call->machine && f->old_gets) call->was = *call->machine;
    if (e->kind == EFFECT_CONFIGURE) {
        call->label_count = e->configure.metadata_count;
        for (size_t i = 0; i < call->label_count; i++) {
            snprintf(call->keys[i], sizeof call->keys[i], "%.*s",
                     STR_ARG(e->configure.metadata[i].key));
            snprintf(call->values[i], sizeof call->values[i], "%.*s",
                     STR_ARG(e->configure.metadata[i].value));
        }
    }
    CHECK("a deadline", e->timeout_ms > 0);
    for (size_t i = 0; i + 1 < f->call_count && call->token; i++) {
        const struct fleet_call *other = &f->calls[i];
        if (other->token && !other->answered && other->fate != FATE_NEVER &&
            !strcmp(other->id, call->id))
            f->abuses++;
        if (other->token && other->apply_ms != NEVER && !other->applied && !f->unsure &&
            !strcmp(other->id, call->id))
            f->overtakes++;
    }
    draw(f, call, e->timeout_ms);
}

static void note_line(struct fleet *f, const struct effect *e)
{
    static const char *const levels[] = {"INFO", "WARN", "ERROR"};
    size_t used = strlen(f->logs);

    snprintf(f->log, sizeof f->log, "%s %s %.*s", levels[e->log.level], e->log.text,
             STR_ARG(e->log.details));
    if (used + strlen(f->log) + 2 < sizeof f->logs)
        snprintf(f->logs + used, sizeof f->logs - used, "%s\n", f->log);
}

/* ---- operators ---- */

static struct fleet_link *link_find(struct fleet *f, struct str cluster)
{
    size_t i = 0;

    while (f->links[i].cluster[0] && !str_equal(cluster, str_from(f->links[i].cluster))) i++;
    CHECK("room for clusters", i < FLEET_LINKS - 1);
    snprintf(f->links[i].cluster, sizeof f->links[i].cluster, "%.*s", STR_ARG(cluster));
    return &f->links[i];
}

static struct fleet_machine *machine_of(struct fleet *f, const struct effect *e)
{
    char id[24];

    snprintf(id, sizeof id, "%.*s", STR_ARG(e->machine));
    return fleet_machine(f, id);
}

static void order_taken(struct fleet *f, const struct effect *e)
{
    struct fleet_machine *m = machine_of(f, e);

    if (!m) return;
    m->order = e->action;
    m->order_end_ms = f->now_ms + e->drain.grace_ms;
    m->order_session = link_find(f, e->cluster)->session;
    m->order_drained = false;
}

/* Of an order that the operator knows and may still report. */
static void drain_seen(struct fleet *f, const struct effect *e)
{
    const struct fleet_machine *m = machine_of(f, e);
    const struct fleet_link *link = link_find(f, e->cluster);

    if (m && m->order == e->action && link->open && link->reports &&
        link->session == m->order_session && !m->order_drained && f->now_ms < m->order_end_ms)
        f->early_drains++;
}

/* A decided action that begins now. */
static void use_seen(struct fleet *f, const struct effect *e)
{
    const struct machine_task *task = task_numbered(f->core, e->action);
    struct inventory_entry entry;

    if (!task || task->cause != CAUSE_DECIDED || task->since.ms != f->now_ms) return;
    if (core_get(f->core, e->machine, &entry)) return;
    if (cordon_of(f->core, e->machine, &entry.machine.attributes)) f->cordoned_uses++;
}

static void carry_out(struct fleet *f, struct effects *out)
{
    size_t used = 0;

    f->trace_text[0] = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct effect *e = &out->items[i];

        f->seen[e->kind]++;
        f->digest = str_hash(e->machine, f->digest + (uint64_t)e->kind);
        f->digest = str_hash(e->cluster, f->digest + e->action);
        f->last[e->kind] = *e;
        if (used + 16 < sizeof f->trace_text)
            used += (size_t)snprintf(f->trace_text + used, sizeof f->trace_text - used, "%s ",
                                     effect_names[e->kind]);
        if (e->kind == EFFECT_DRAIN) drain_seen(f, e);
        if (e->kind == EFFECT_CREATE || e->kind == EFFECT_ASK_BLOB) use_seen(f, e);
        switch (e->kind) {
        case EFFECT_CREATE:
        case EFFECT_CONFIGURE:
        case EFFECT_DRAIN:
        case EFFECT_DELETE:
        case EFFECT_GET:
        case EFFECT_ASK_BLOB: call_make(f, e); break;
        case EFFECT_RECLAIM: order_taken(f, e); break;
        case EFFECT_AUDIT:
            snprintf(f->audit, sizeof f->audit, "%s %.*s %.*s %s %s %llu %.*s",
                     action_kind_name(e->audit.kind), STR_ARG(e->machine), STR_ARG(e->cluster),
                     action_outcome_name(e->audit.outcome), e->audit.reason,
                     (unsigned long long)e->audit.grace_ms, STR_ARG(e->audit.error));
            break;
        case EFFECT_LOG: note_line(f, e); break;
        case EFFECT_OBSERVE:
            f->observed[e->observe.histogram]++;
            f->last_seconds[e->observe.histogram] = e->observe.seconds;
            break;
        case EFFECT_CYCLE_SOON: f->soon = true; break;
        default: break;
        }
    }
    f->trace = f->trace_text;
    effects_deinit(out);
}

/* ---- the provider ---- */

static void refused(struct call_answer *answer, enum call_end end, const char *text)
{
    *answer = (struct call_answer){.end = end, .text = str_from(text)};
}

/* Ends what is under way. */
static void machine_finish(struct fleet_machine *m)
{
    m->end_ms = NEVER;
    m->changed = true;
    if (m->will_fail) {
        m->will_fail = false;
        m->state = MACHINE_FAILED;
        snprintf(m->error, sizeof m->error, "it broke");
        return;
    }
    switch (m->state) {
    case MACHINE_CREATING: m->state = MACHINE_IDLE; break;
    case MACHINE_CONFIGURING: m->state = MACHINE_CONFIGURED; break;
    case MACHINE_DRAINING:
        m->state = MACHINE_IDLE;
        m->cluster[0] = 0;
        m->label_count = 0;
        break;
    case MACHINE_DELETING: m->state = MACHINE_SPECULATIVE; break;
    default: break;
    }
}

/* Does what the call asks, if the machine's state lets it. What is done already is done. */
static bool apply(struct fleet *f, struct fleet_call *call, const char **ret_why)
{
    static const struct {
        enum machine_state from, passing, to;
    } moves[] = {
        [EFFECT_CREATE] = {MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_IDLE},
        [EFFECT_CONFIGURE] = {MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED},
        [EFFECT_DRAIN] = {MACHINE_CONFIGURED, MACHINE_DRAINING, MACHINE_IDLE},
        [EFFECT_DELETE] = {MACHINE_IDLE, MACHINE_DELETING, MACHINE_SPECULATIVE},
    };
    struct fleet_machine *m = call->machine;

    if (call->token <= m->token) {
        *ret_why = "fenced";
        return false;
    }
    m->token = call->token;
    if (m->state == moves[call->kind].passing || m->state == moves[call->kind].to) {
        bool other = call->kind == EFFECT_CONFIGURE && strcmp(m->cluster, call->cluster);
        if (!other) return true; /* the same again */
        *ret_why = "configured for another cluster";
        return false;
    }
    if (m->state != moves[call->kind].from &&
        !(call->kind == EFFECT_DELETE && m->state == MACHINE_FAILED)) {
        *ret_why = "the state does not allow it";
        return false;
    }
    f->executed[call->kind]++;
    m->changed = true;
    if (call->kind == EFFECT_CONFIGURE) {
        memcpy(m->cluster, call->cluster, sizeof m->cluster);
        m->label_count = call->label_count;
        memcpy(m->keys, call->keys, sizeof m->keys);
        memcpy(m->values, call->values, sizeof m->values);
    }
    if (call->kind == EFFECT_DELETE) {
        m->cluster[0] = m->error[0] = 0;
        m->label_count = 0;
    }
    m->state = moves[call->kind].passing;
    m->end_ms = f->now_ms + f->async_ms;
    if (call->fate != FATE_ASYNC) machine_finish(m);
    return true;
}

static void answer_provider(struct fleet *f, struct fleet_call *call, struct effects *out)
{
    const char *why = NULL;
    struct said s;
    bool may_apply = call->apply_ms <= f->now_ms && !call->applied;

    if (!call->machine) {
        memset(&s, 0, sizeof s);
        refused(&s.answer, CALL_NOT_FOUND, "not found");
    } else {
        bool unsold = call->kind == EFFECT_CREATE && f->no_stock[0] &&
                      !strcmp(call->machine->zone, f->no_stock);
        if (unsold && call->fate == FATE_DONE) why = "no stock";
        if (call->kind != EFFECT_GET && may_apply && !unsold) {
            call->applied = true;
            (void)apply(f, call, &why);
        }
        say(f, call->kind == EFFECT_GET && call->was.id[0] ? &call->was : call->machine, &s);
    }
    switch (call->fate) {
    case FATE_REFUSED: refused(&s.answer, CALL_REFUSED, "the provider says no"); break;
    case FATE_FENCED: refused(&s.answer, CALL_FENCED, "stale token"); break;
    case FATE_NOT_SUPPORTED: refused(&s.answer, CALL_NOT_SUPPORTED, ""); break;
    case FATE_NOT_FOUND: refused(&s.answer, CALL_NOT_FOUND, ""); break;
    case FATE_UNSENT: refused(&s.answer, CALL_UNSENT, "no connection"); break;
    case FATE_LOST_BEFORE:
    case FATE_LOST_AFTER:
    case FATE_LATE: refused(&s.answer, CALL_UNKNOWN, "deadline exceeded"); break;
    case FATE_GARBAGE: s.machine.price_per_hour = NAN; break;
    default: break;
    }
    if (why && s.answer.end == CALL_DONE)
        refused(&s.answer, strcmp(why, "fenced") ? CALL_REFUSED : CALL_FENCED, why);
    s.answer.exhausted = why && !strcmp(why, "no stock");
    if (f->random && call->fate == FATE_REFUSED) s.answer.exhausted = call->action % 2;
    if (call->kind == EFFECT_GET)
        core_got(f->core, str_from(call->id), &s.answer, fleet_now(f), out);
    else
        core_answered(f->core, call->action, &s.answer, fleet_now(f), wall(f), out);
}

static void answer_blob(struct fleet *f, struct fleet_call *call, struct effects *out)
{
    enum blob_end end = BLOB_READY;

    if (call->fate == FATE_NO_SESSION) end = BLOB_NO_SESSION;
    if (call->fate == FATE_BLOB_TIMEOUT) end = BLOB_TIMEOUT;
    if (call->fate == FATE_BLOB_ERROR) end = BLOB_ERROR;
    if (call->fate == FATE_BLOB_NO_ROOM) end = BLOB_NO_ROOM;
    core_blob(f->core, call->action, end, end == BLOB_ERROR ? STR("no template") : STR_EMPTY,
              fleet_now(f), wall(f), out);
}

/* The earliest event that is due by `limit_ms`, done. False: there is none. */
static bool next_event(struct fleet *f, uint64_t limit_ms)
{
    struct fleet_machine *ends = NULL;
    uint64_t at = NEVER;
    size_t which = SIZE_MAX;

    for (size_t i = 0; i < f->machine_count; i++)
        if (f->machines[i].end_ms < at) {
            ends = &f->machines[i];
            at = ends->end_ms;
        }
    for (size_t i = 0; i < f->call_count; i++) {
        const struct fleet_call *call = &f->calls[i];
        uint64_t due = call->answered || call->apply_ms < call->due_ms
                           ? (call->applied ? call->due_ms : call->apply_ms)
                           : call->due_ms;
        if (call->answered && call->applied) due = NEVER;
        if (due < at) {
            at = due;
            which = i;
        }
    }
    if (at > limit_ms) return false;
    if (at > f->now_ms) f->now_ms = at;
    if (which == SIZE_MAX) {
        machine_finish(ends);
        return true;
    }
    struct fleet_call call = f->calls[which];
    const char *why;
    if (call.answered || (call.apply_ms < call.due_ms && !call.applied)) { /* without an answer */
        if (call.machine && call.kind != EFFECT_GET && call.kind != EFFECT_ASK_BLOB)
            (void)apply(f, &call, &why);
        f->calls[which].applied = true;
    } else {
        struct effects out;
        f->calls[which].answered = true;
        if (call.apply_ms == NEVER || call.apply_ms <= f->now_ms) f->calls[which].applied = true;
        effects_init(&out);
        if (call.kind == EFFECT_ASK_BLOB)
            answer_blob(f, &call, &out);
        else
            answer_provider(f, &call, &out);
        carry_out(f, &out);
    }
    if (f->calls[which].answered && f->calls[which].applied) {
        memmove(&f->calls[which], &f->calls[which + 1],
                (--f->call_count - which) * sizeof *f->calls);
    }
    return true;
}

void fleet_run(struct fleet *f, uint64_t ms)
{
    uint64_t until = f->now_ms + ms;

    while (next_event(f, until)) {}
    f->now_ms = until;
}

/* ---- events ---- */

static void happened(const struct fleet *f, const char *what, enum err err)
{
    if (!f->faulty || err != ERR_NOMEM) CHECK_OK(what, err);
}

static enum operator_link link_of(const struct fleet *f, bool open)
{
    if (!open) return OPERATOR_AWAY;
    return f->reports_drains ? OPERATOR_TAKES_STATUS : OPERATOR_CONNECTED;
}

void fleet_session(struct fleet *f, const char *cluster, bool open)
{
    struct fleet_link *link = link_find(f, str_from(cluster));
    struct effects out;
    enum err err;

    effects_init(&out);
    err = core_session(f->core, str_from(cluster), link_of(f, open), fleet_now(f), &out);
    happened(f, "session", err);
    if (!err) {
        link->open = open;
        link->reports = open ? f->reports_drains : link->reports;
        link->session += open;
    }
    carry_out(f, &out);
}

void fleet_drained(struct fleet *f, struct fleet_machine *m)
{
    if (!m->order) return;
    fleet_report(f, m->cluster, m->id, m->order, true, 0);
}

void fleet_report(struct fleet *f, const char *cluster, const char *machine, uint64_t action,
                  bool drained, uint64_t left_ms)
{
    struct drain_report report = {str_from(cluster), str_from(machine), action,
                                  drained,           left_ms,           STR_EMPTY};
    struct fleet_machine *m = fleet_machine(f, machine);
    struct effects out;

    if (m && m->order == action && !strcmp(m->cluster, cluster)) m->order_drained |= drained;

    effects_init(&out);
    core_drain_report(f->core, &report, fleet_now(f), wall(f), &out);
    carry_out(f, &out);
}

void fleet_hold(struct fleet *f, enum core_hold why)
{
    struct effects out;

    effects_init(&out);
    core_hold(f->core, why, fleet_now(f), wall(f), &out);
    carry_out(f, &out);
}

void fleet_scope(struct fleet *f, const char *type)
{
    struct label ours = {LABEL_INSTANCE_TYPE, str_from(type)};
    struct effects out;

    effects_init(&out);
    happened(f, "scope", core_scope(f->core, type, &ours, type ? 1 : 0, fleet_now(f), &out));
    carry_out(f, &out);
}

void fleet_cordon(struct fleet *f, const struct cordon_rule *rules, size_t count)
{
    struct effects out;

    effects_init(&out);
    f->options.cordons = rules;
    f->options.cordon_count = count;
    happened(f, "cordon", core_cordon(f->core, rules, count, fleet_now(f), &out));
    carry_out(f, &out);
}

static void rollup(struct fleet *f, const char *cluster, struct profile given, uint32_t units)
{
    struct need need = {.cluster = str_from(cluster)};
    enum rollup_verdict verdict;
    struct effects out;
    uint32_t index;

    given.interruption_bucket = 10;
    given.reclamation_bucket = 12;
    arena_reset(&f->arena);
    CHECK_OK("profile", profile_build(&f->arena, &given, &need.profile, NULL));
    CHECK_OK("cpu", dimensions_index(core_dimensions(f->core), STR("cpu"), &index, NULL));
    CHECK_OK("unit", resources_set(&need.min_unit, index, 4000, QUANTITY_DECIMAL_SI));
    resource_sum_clear(&need.aggregate);
    resource_sum_scale(&need.aggregate, &need.min_unit, units);
    need.arrival_unix_ns = (int64_t)f->now_ms * 1000000;
    effects_init(&out);
    happened(f, "rollup",
             core_rollup(f->core, need.cluster, &need, units ? 1 : 0, fleet_now(f), &verdict, &out,
                         NULL));
    carry_out(f, &out);
}

void fleet_demand(struct fleet *f, const char *cluster, int32_t priority, uint32_t units)
{
    rollup(f, cluster, (struct profile){.priority = priority}, units);
}

void fleet_gang(struct fleet *f, const char *cluster, const char *key, uint32_t units)
{
    struct requirement same = {str_from(key), OPERATOR_SAME, NULL, 0};

    rollup(f, cluster, (struct profile){.requirements = &same, .requirement_count = 1}, units);
}

void fleet_list_kind(struct fleet *f, enum list_kind kind)
{
    struct effects out;
    enum err err = ERR_OK;

    effects_init(&out);
    core_list_begin(f->core, kind);
    for (size_t i = 0; i < f->machine_count && !err; i++) {
        struct fleet_machine *m = &f->machines[i];
        struct said s;
        if (kind == LIST_DELTA && m->said == m->state && !m->changed) continue;
        say(f, m, &s);
        err = core_list_machine(f->core, &s.machine, s.labels, s.answer.metadata_count,
                                fleet_now(f), &out);
        happened(f, "list", err);
    }
    core_list_end(f->core, !err, fleet_now(f), &out);
    for (size_t i = 0; i < f->machine_count && !err; i++) { /* a cursor moves when all was taken */
        f->machines[i].said = f->machines[i].state;
        f->machines[i].changed = false;
    }
    carry_out(f, &out);
}

void fleet_list(struct fleet *f)
{
    bool delta = f->deltas && core_listed(f->core) && !core_wants_full_list(f->core);

    fleet_list_kind(f, delta ? LIST_DELTA : LIST_FULL);
}

void fleet_say(struct fleet *f, const struct machine *machine)
{
    struct effects out;

    effects_init(&out);
    CHECK_OK("said", core_list_machine(f->core, machine, NULL, 0, fleet_now(f), &out));
    carry_out(f, &out);
}

void fleet_list_end(struct fleet *f)
{
    struct effects out;

    effects_init(&out);
    core_list_end(f->core, true, fleet_now(f), &out);
    carry_out(f, &out);
}

void fleet_decide(struct fleet *f)
{
    struct effects out;
    enum err err;

    effects_init(&out);
    f->soon = false;
    err = core_cycle(f->core, fleet_now(f), wall(f), NULL, NULL, &out);
    happened(f, "cycle", err);
    carry_out(f, &out);
}

void fleet_cycle(struct fleet *f)
{
    fleet_list(f);
    fleet_decide(f);
    fleet_run(f, 0);
}

void fleet_cycles(struct fleet *f, size_t count)
{
    while (count-- > 0) {
        fleet_cycle(f);
        fleet_run(f, 10 * 1000);
    }
}

/* ---- reading ---- */

struct machine fleet_record(struct fleet *f, const char *id)
{
    struct inventory_entry entry;

    CHECK_OK("known", core_get(f->core, str_from(id), &entry));
    return entry.machine;
}

enum machine_state fleet_state(struct fleet *f, const char *id)
{
    return fleet_record(f, id).state;
}

size_t fleet_count(struct fleet *f, enum machine_state state)
{
    struct inventory_counts counts = inventory_counts(f->core->inventory);
    size_t sum = 0;

    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++) sum += counts.by_state[state][type];
    return sum;
}

void fleet_check(struct fleet *f)
{
    struct note note = {""};

    CHECK(note.text, inventory_check(f->core->inventory, &note));
    CHECK(note.text, needs_check(f->core->needs, &note));
    if (!running_check(f->core, &note)) fprintf(stderr, "%s\n", note.text);
    CHECK("running actions", running_check(f->core, &note));
    CHECK_U64("one mutation per machine", f->abuses, 0);
    CHECK_U64("no cordoned machine is taken", f->cordoned_uses, 0);
    CHECK_U64("no drain before its time", f->early_drains, 0);
    CHECK_U64("no call overtakes another", f->overtakes, 0);
}
