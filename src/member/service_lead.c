/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's own duties: proposes the start of its leadership, scans for silent workers, writes
 * events and notifies callers that wait for a change. Loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "member/events/events.h"
#include "member/service_internal.h"

enum {
    NOTE_MS = 100,         /* maximum delay between writing events and proposing EMITTED */
    AGAIN_MS = 250,        /* delay after a refusal: disk full or cluster level too low */
    SCAN_LEAST_MS = 5,     /* minimum time between two scans */
    SCAN_REFUSED_MS = 100, /* delay while the log refuses proposals; due operations stay due */
};

/* -- the clock T moves with log entries; only the leader can estimate T between entries -- */

uint64_t clock_guess(struct member_service *service)
{
    uint64_t clock = replica_status(service->leader.replica).clock_ns;
    mono_time now = loop_now(service->io->loop);

    if (clock != service->clock_ns) {
        service->clock_ns = clock;
        service->clock_at = now;
    }
    return clock + mono_elapsed_ms(service->clock_at, now) * NS_PER_MS;
}

/* -- the common part of every acknowledgement -- */

static void facts_changed(struct member_service *service)
{
    struct member_status_counts counts = member_counts(membership_of(service));
    uint64_t interval = service->options.local.detect.heartbeat_interval_ns / NS_PER_MS;

    beats_set_facts(&service->beats,
                    &(struct beats_facts){
                        .coord_epoch = counts.coord_epoch,
                        .assignment_epoch = counts.assignment_epoch,
                        .next_beat_ms = counts.advised_ms > interval ? counts.advised_ms : 0,
                        .self_fence_ms = service->options.local.self_fence_ns / NS_PER_MS,
                        .leader = "",
                    });
}

/* -- writing events -- */

enum { FIELDS = 4, HEX_CAP = 65 };

/* AT() maps an attribute of an event line to a field of the event. An empty text is omitted. */
enum source { OF_U64, OF_U32, OF_I64, OF_TEXT, OF_ITEM };
#define AT(source, key, member)                                                                    \
    {                                                                                              \
        key, source, offsetof(struct member_event, member)                                         \
    }
/* The topics, and the attributes that workers.md 9 lists for each. */
static const struct {
    enum event_topic topic;
    struct {
        const char *key;
        enum source from;
        size_t at;
    } fields[FIELDS];
} lines[MEMBER_EV_LAST + 1] = {
    [MEMBER_EV_REGISTERED] = {TOPIC_WORKER_REGISTERED,
                              {AT(OF_U64, "incarnation", incarnation),
                               AT(OF_TEXT, "previous", text)}},
    [MEMBER_EV_DEREGISTERED] = {TOPIC_WORKER_DEREGISTERED},
    [MEMBER_EV_FAILED] = {TOPIC_WORKER_FAILED,
                          {AT(OF_I64, "due_at_ms", due_ms), AT(OF_TEXT, "reason", text)}},
    [MEMBER_EV_RESTARTED] = {TOPIC_WORKER_RESTARTED, {AT(OF_U64, "incarnation", incarnation)}},
    [MEMBER_EV_IDENTITY_CONFLICT] = {TOPIC_WORKER_IDENTITY_CONFLICT,
                                     {AT(OF_U64, "incarnation", incarnation)}},
    [MEMBER_EV_ASSIGNMENT_CHANGED] = {TOPIC_ASSIGNMENT_CHANGED,
                                      {AT(OF_U64, "assignment_epoch", epoch),
                                       AT(OF_TEXT, "cause", text), AT(OF_U64, "moved", count)}},
    [MEMBER_EV_PARTITION_REVOKING] = {TOPIC_PARTITION_REVOKING,
                                      {AT(OF_U64, "grant_epoch", epoch),
                                       AT(OF_U32, "partition", partition)}},
    [MEMBER_EV_PARTITION_GRANTED] = {TOPIC_PARTITION_GRANTED,
                                     {AT(OF_U64, "grant_epoch", epoch),
                                      AT(OF_U32, "partition", partition)}},
    [MEMBER_EV_REVOKE_TIMEOUT] = {TOPIC_REVOKE_TIMEOUT,
                                  {AT(OF_U32, "partition", partition),
                                   AT(OF_U64, "waited_ms", extra)}},
    [MEMBER_EV_LEADER_CHANGED] = {TOPIC_LEADER_CHANGED, {AT(OF_U64, "coord_epoch", epoch)}},
    [MEMBER_EV_WORK_DISPATCHED] = {TOPIC_WORK_DISPATCHED, {AT(OF_ITEM, "work_id", item)}},
    [MEMBER_EV_WORK_COMPLETED] = {TOPIC_WORK_COMPLETED, {AT(OF_ITEM, "work_id", item)}},
    [MEMBER_EV_WORK_FAILED] = {TOPIC_WORK_FAILED,
                               {AT(OF_TEXT, "reason", text), AT(OF_ITEM, "work_id", item)}},
    [MEMBER_EV_WORK_STOLEN] = {TOPIC_WORK_STOLEN,
                               {AT(OF_TEXT, "thief", worker), AT(OF_ITEM, "work_id", item)}},
    [MEMBER_EV_SUSPECTED] = {TOPIC_WORKER_SUSPECTED, {AT(OF_I64, "late_ms", due_ms)}},
    [MEMBER_EV_RECOVERED] = {TOPIC_WORKER_RECOVERED, {AT(OF_I64, "late_ms", due_ms)}},
    [MEMBER_EV_CLOCK_SKEW] = {TOPIC_CLOCK_SKEW, {AT(OF_I64, "skew_ms", due_ms)}},
    [MEMBER_EV_MASS_FAILURE_HOLD] = {TOPIC_MASS_FAILURE_HOLD,
                                     {AT(OF_U64, "active", extra),
                                      AT(OF_U64, "would_fail", count)}},
    [MEMBER_EV_CHECKPOINT_TRIGGERED] = {TOPIC_CHECKPOINT_TRIGGERED,
                                        {AT(OF_U64, "round", count), AT(OF_U64, "workers", extra)}},
    [MEMBER_EV_CHECKPOINT_TIMEOUT] = {TOPIC_CHECKPOINT_TIMEOUT,
                                      {AT(OF_U64, "round", count), AT(OF_U64, "waited_ms", extra)}},
};

static struct log_field field_of(const char *key, enum source from, const void *at,
                                 char hex[HEX_CAP])
{
    switch (from) {
    case OF_U64: return log_u64(key, *(const uint64_t *)at);
    case OF_U32: return log_u64(key, *(const uint32_t *)at);
    case OF_I64: return log_i64(key, *(const int64_t *)at);
    case OF_TEXT: return log_str(key, *(const struct str *)at);
    case OF_ITEM: hex_write(at, sizeof(struct member_digest), hex); return log_text(key, hex);
    }
    return LOG_END;
}

static void fields_of(const struct member_event *event, struct log_field fields[FIELDS],
                      char hex[HEX_CAP])
{
    bool registers = event->topic == MEMBER_EV_REGISTERED;
    size_t n = 0;

    for (size_t i = 0; lines[event->topic].fields[i].key; i++) {
        enum source from = lines[event->topic].fields[i].from;
        const void *at = (const char *)event + lines[event->topic].fields[i].at;
        if (registers && event->incarnation <= 1) break;
        if (from == OF_TEXT && !((const struct str *)at)->len) continue;
        fields[n++] = field_of(lines[event->topic].fields[i].key, from, at, hex);
    }
    /* A removed worker registers again; nothing else is known of its past. */
    if (n && registers && !event->text.len) fields[n++] = log_text("previous", "removed");
    fields[n] = LOG_END;
}

static enum err lead_write_event(struct member_service *service, const struct member_event *event)
{
    struct log_field fields[FIELDS];
    char hex[HEX_CAP];
    struct event_line line = {
        .topic = lines[event->topic].topic,
        .at = {(uint64_t)event->wall_ms},
        .worker_id = event->worker,
        .fields = fields,
        .entry_index = event->number ? event->index : 0,
        .entry_place = event->n,
        .incarnation = event->incarnation,
        .replayed = event->number && event->number <= service->events_before,
    };

    fields_of(event, fields, hex);
    return member_events_emit(service->options.events, &line);
}

static bool changes_a_worker(enum member_topic topic)
{
    return topic == MEMBER_EV_REGISTERED || topic == MEMBER_EV_DEREGISTERED ||
           topic == MEMBER_EV_FAILED || topic == MEMBER_EV_RESTARTED ||
           topic == MEMBER_EV_IDENTITY_CONFLICT;
}

/* If the leader crashes before EMITTED is applied, the next leader writes the events again with the
 * same ids. */
static void lead_note_written(struct member_service *service)
{
    struct member_op op = {.kind = MEMBER_OP_EMITTED, .number = service->events_written};

    if (!service->serving || service->events_noted >= service->events_written) return;
    if (batch_one(service, &op, NULL, NULL))
        service->events_noted = service->events_written;
    else
        timer_start_in(&service->events_due, NOTE_MS);
}

static void lead_follow_event(struct member_service *service, const struct member_event *event)
{
    /* A removed or failed worker has no stream and no directives. */
    if (event->topic == MEMBER_EV_DEREGISTERED || event->topic == MEMBER_EV_FAILED)
        control_release(service, event->worker);
    if (changes_a_worker(event->topic)) ledger_worker(service, event->worker);
    member_counted(service, event);
}

/* -- at most once: propose EMITTED first, then write -- */

struct noted {
    struct operation_wait wait;
    struct member_service *service;
    struct list events; /* copies, because the state drops emitted events */
    uint64_t last;
};
struct noted_event {
    struct list link;
    struct member_event event;
    char texts[];
};

static void on_noted(struct operation_wait *wait, enum err err, const struct member_reply *)
{
    struct noted *noted = CONTAINER_OF(wait, struct noted, wait);
    struct member_service *service = noted->service;
    struct list *node;

    service->noting = false;
    while ((node = list_pop(&noted->events))) {
        struct noted_event *one = CONTAINER_OF(node, struct noted_event, link);

        if (!err) (void)lead_write_event(service, &one->event);
        if (!err) lead_follow_event(service, &one->event);
        free(one);
    }
    if (!err || err == ERR_UNKNOWN) service->events_written = noted->last;
    free(noted);
    if (service->serving) timer_start_in(&service->events_due, NOTE_MS);
}

static struct noted_event *copy_event(const struct member_event *event)
{
    struct noted_event *copy = malloc(sizeof *copy + event->worker.len + event->text.len);
    char *at = copy ? copy->texts : NULL;

    if (!copy) return NULL;
    copy->event = *event;
    list_init(&copy->link);
    copy->event.worker = str_put(&at, event->worker);
    copy->event.text = str_put(&at, event->text);
    return copy;
}

static void lead_note_first(struct member_service *service)
{
    struct noted *noted = service->noting ? NULL : calloc(1, sizeof *noted);
    struct member_event event;
    struct noted_event *copy;
    uint64_t number;

    if (!noted) return;
    noted->service = service;
    noted->last = service->events_written;
    list_init(&noted->events);
    for (number = service->events_written;
         member_next_event(membership_of(service), &number, &event);) {
        copy = copy_event(&event);
        if (!copy) break;
        list_append(&noted->events, &copy->link);
        noted->last = number;
    }
    if (noted->last > service->events_written &&
        batch_one(service, &(struct member_op){.kind = MEMBER_OP_EMITTED, .number = noted->last},
                  &noted->wait, on_noted)) {
        service->noting = true;
        return;
    }
    on_noted(&noted->wait, ERR_FULL, NULL);
}

/* -- at least once -- */

void lead_write_events(struct member_service *service)
{
    const struct membership *membership = membership_of(service);
    struct member_event event;
    uint64_t number;

    if (!service->serving) return;
    if (service->options.at_most_once) {
        lead_note_first(service);
        return;
    }
    for (number = service->events_written; member_next_event(membership, &number, &event);) {
        if (lead_write_event(service, &event)) break; /* the sink is full: retried later */
        lead_follow_event(service, &event);
        service->events_written = number;
    }
    if (service->events_noted < service->events_written && !timer_running(&service->events_due))
        timer_start_in(&service->events_due, NOTE_MS);
}

void lead_events_due(struct timer *timer)
{
    struct member_service *service = CONTAINER_OF(timer, struct member_service, events_due);

    lead_write_events(service);
    lead_note_written(service);
}

static void lead_write_own_events(struct member_service *service)
{
    struct member_event event;

    while (member_local_next_event(service->local, &event)) {
        (void)lead_write_event(service, &event); /* may be lost: the state shows the same facts */
        service->changes++;
    }
}

/* -- scanning for silent workers -- */

static void plan_scan(struct member_service *service)
{
    uint64_t cadence = member_local_cadence_ns(service->local) / NS_PER_MS;
    uint64_t due = member_next_due(membership_of(service)), clock = clock_guess(service);
    uint64_t ms = cadence, least = service->refused ? SCAN_REFUSED_MS : SCAN_LEAST_MS;
    mono_time now = loop_now(service->io->loop), next = mono_after(service->scanned_at, cadence);

    if (due != UINT64_MAX) ms = due > clock ? (due - clock) / NS_PER_MS + 1 : least;
    if (member_local_wants(service->local, clock)) ms = least;
    next = mono_min(next, mono_after(now, max_u64(ms, least)));
    timer_start(&service->scan, next);
}

void scan_now(struct member_service *service)
{
    bool more = true;
    uint64_t began = clock_mono_ns(service->io->clock).ns;

    if (!service->serving) return;
    service->scanned_at = loop_now(service->io->loop);
    while (more) {
        struct buf *bytes = batch_bytes(service);
        size_t ops = 0;

        more = false;
        if (!bytes || member_local_scan(service->local, now_ns(service), clock_guess(service),
                                        wall_ms(service), bytes, &ops, &more))
            break;
        batch_added(service, ops);
        if (more) batch_flush(service);
    }
    if (service->metrics.scan)
        histogram_observe(service->metrics.scan,
                          (double)(clock_mono_ns(service->io->clock).ns - began) / 1e9);
    loop_defer(service->io->loop, &service->after);
}

void lead_scan(struct timer *timer)
{
    struct member_service *service = CONTAINER_OF(timer, struct member_service, scan);

    if (!service->leader.ready) return;
    if (!service->serving) {
        lead_begin(service);
        return;
    }
    scan_now(service);
    plan_scan(service);
}

/* -- after each entry, in the turn that applied the entry -- */

/* Asks by assignment watch, else by control stream or next heartbeat. */
static void ask_for_checkpoints(struct member_service *service)
{
    struct str worker;
    uint64_t round;
    char text[64];
    int len;

    while (member_local_next_ask(service->local, &worker, &round)) {
        if (watch_ask(service, worker, round)) continue;
        len = snprintf(text, sizeof text, "partition-checkpoint/%" PRIu64, round);
        (void)control_push(
            service, worker,
            &(struct directive){.kind = ORDER_SNAPSHOT, .text = str_of(text, (size_t)len)});
    }
}

void lead_after(struct task *task)
{
    struct member_service *service = CONTAINER_OF(task, struct member_service, after);
    struct str worker;

    if (!service->serving) return;
    lead_write_events(service);
    lead_write_own_events(service);
    ask_for_checkpoints(service);
    while (member_local_next_changed(service->local, &worker)) watch_changed(service, worker);
    pulls_again(service);
    lookers_notify(service);
    plan_scan(service);
}

void lead_applied(void *owner)
{
    struct member_service *service = owner;

    service->changes++;
    if (!service->local) return;
    member_local_sync(service->local, now_ns(service));
    facts_changed(service);
    loop_defer(service->io->loop, &service->after);
}

/* -- begin and end of leadership -- */

struct lead {
    struct operation_wait wait;
    struct member_service *service;
    uint64_t term;
    uint64_t before;
    bool configures;
};

static void on_led(struct operation_wait *wait, enum err err, const struct member_reply *reply)
{
    struct lead *lead = CONTAINER_OF(wait, struct lead, wait);
    struct member_service *service = lead->service;
    bool ours = service->local && service->leader.ready && service->leader.term == lead->term;

    service->leading = false;
    if (!err && lead->configures) {
        struct member_result result = member_reply_result(reply, wait->first + 1);

        if (result.status != MEMBER_S_DONE && result.status != MEMBER_S_SAME)
            LOG_ERROR(&service->log,
                      "configured placement differs from the cluster's and is ignored, because "
                      "partitions are owned",
                      log_text("why", member_status_text(result.status)));
    }
    if (err && ours) timer_start_in(&service->scan, AGAIN_MS);
    /* Leadership was lost and won again before the first result arrived. */
    if (!ours && service->leader.ready && !service->serving) lead_begin(service);
    if (!err && ours) {
        service->serving = true;
        service->events_written = service->events_noted = member_emitted(membership_of(service));
        service->events_before = lead->before;
        facts_changed(service);
        scan_now(service);
        plan_scan(service);
    }
    free(lead);
}

void lead_begin(struct member_service *service)
{
    const struct membership *membership = membership_of(service);
    struct member_op ops[] = {
        {.kind = MEMBER_OP_LEAD, .worker = str_from(service->name), .number = service->leader.term},
        {.kind = MEMBER_OP_CONFIGURE, .rules = &service->options.rules},
    };
    struct member_event event;
    struct lead *lead;

    if (!service->options.enabled || service->leading) return;
    if (!service->local && member_local_open(membership_of(service), &service->options.local,
                                             now_ns(service), &service->local)) {
        timer_start_in(&service->scan, AGAIN_MS);
        return;
    }
    lead = calloc(1, sizeof *lead);
    if (!lead || !batch_room(service, ARRAY_LEN(ops), sizeof ops)) {
        free(lead);
        timer_start_in(&service->scan, AGAIN_MS);
        return;
    }
    lead->service = service;
    lead->term = service->leader.term;
    /* Skips the events of earlier leaders, which may not have been written. */
    lead->before = member_emitted(membership);
    while (member_next_event(membership, &lead->before, &event)) continue;
    lead->configures = !member_counts(membership).configured ||
                       member_rules_fingerprint(member_rules(membership)) !=
                           member_rules_fingerprint(&service->options.rules);
    batch_op(service, &ops[0]);
    if (lead->configures) batch_op(service, &ops[1]);
    service->leading = true;
    batch_wait(service, &lead->wait, on_led, lead->configures ? 2 : 1);
}

void lead_end(struct member_service *service)
{
    service->serving = false;
    timer_stop(&service->scan);
    timer_stop(&service->events_due);
    batch_drop(service);
    beats_lost(&service->beats, "leadership is changing");
    call_streams_end(service, "leadership is changing");
    pulls_end(service);
    member_local_close(service->local);
    service->local = NULL;
}
