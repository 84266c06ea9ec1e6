/* SPDX-License-Identifier: Apache-2.0 */
/* What the shard reports about a request's supply: the condition Supplied of the request, and
 * Events of its pod while the pod waits. Runs on the loop's thread, except event_run().
 *
 * A request gets the condition when it lacks machines for the first time, so that a request that is
 * served immediately costs no further write. A pod gets at most one Event per reason in
 * EVENT_PAUSE_MS, and all pods together EVENTS_MAX in that time. */
#include <stdio.h>
#include <stdlib.h>

#include "operator/kube/internal.h"

enum {
    EVENT_PAUSE_MS = 5 * 60 * 1000,
    EVENTS_MAX = 1000,
    SUPPLIES_MOST = 20 * 1000, /* places looked at in one call, so that the loop is not blocked */
};

/* SUPPLY_UNKNOWN: the shard has no report. */
static enum supply_kind place_supply(const struct pod_place *p, wall_time *ret_since)
{
    const struct supply *supply =
        p->request.uid ? demand_supply(p->source->around->demand, str_from(p->request.uid)) : NULL;

    if (supply && ret_since) *ret_since = supply->since;
    return supply ? supply_kind_of(supply) : SUPPLY_UNKNOWN;
}

enum supply_kind kube_condition_due(const struct pod_place *p, wall_time *ret_since)
{
    enum supply_kind kind = place_supply(p, ret_since);

    if (!p->acknowledged || p->refusal || kind == p->condition || kind == p->written)
        return SUPPLY_UNKNOWN;
    return kind == SUPPLY_MET && !p->condition && !p->written ? SUPPLY_UNKNOWN : kind;
}

/* -- Events -- */

static mono_time place_now(const struct pod_place *p)
{
    return loop_now(p->source->around->io->loop);
}

static bool event_is_due(const struct pod_place *p, enum supply_kind kind)
{
    if (!p->pod.uid || !p->wants || p->placed || kind <= SUPPLY_MET) return false;
    return !p->events || !p->events[kind].ms ||
           mono_elapsed_ms(p->events[kind], place_now(p)) >= EVENT_PAUSE_MS;
}

static bool events_have_room(struct kube_source *s, mono_time now)
{
    if (!s->events_since.ms || mono_elapsed_ms(s->events_since, now) >= EVENT_PAUSE_MS) {
        s->events_since = now;
        s->events_left = EVENTS_MAX;
    }
    if (!s->events_left) return false;
    s->events_left--;
    return true;
}

static bool event_prepare(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, event);
    struct kube_source *s = p->source;
    struct str key = str_from(p->key);
    size_t slash = str_find(key, '/');
    struct pod_event event = {.namespace_ = str_of(key.at, slash),
                              .name = str_tail(key, slash + 1),
                              .uid = str_from(p->pod.uid),
                              .kind = place_supply(p, NULL),
                              .at = clock_wall(s->around->io->clock)};
    struct buf body;
    bool made;

    if (!event_is_due(p, event.kind)) return false;
    if (!p->events) p->events = calloc(SUPPLY_KINDS, sizeof *p->events);
    if (!p->events) return false;
    p->events[event.kind] = place_now(p);
    if (!events_have_room(s, place_now(p))) {
        if (s->events_dropped) counter_inc(s->events_dropped);
        return false;
    }
    buf_init(&body, KUBE_OBJECT_MAX);
    made = !event_write(&event, &body) && kube_copy(&p->task_event, buf_peek(&body));
    buf_deinit(&body);
    return made;
}

static enum err event_run(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, event);
    char namespace_[KUBE_NAME_CAP];
    struct kube_path at = {"", "v1", namespace_, "events", NULL, NULL};
    struct note note = {0};
    enum err err;

    (void)snprintf(namespace_, sizeof namespace_, "%.*s", (int)str_find(str_from(p->key), '/'),
                   p->key);
    err = kube_create(p->source->kube, &at, str_from(p->task_event), KUBE_CALL_MS, NULL, &note);
    if (err && err != ERR_DENIED)
        kube_chore_failed(p->source, "event", str_from(p->key), err, &note);
    return err;
}

static bool event_ended(struct chore *chore, enum err err)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, event);
    struct kube_source *s = p->source;

    (void)kube_copy(&p->task_event, STR_EMPTY);
    if (!err && s->events_written) counter_inc(s->events_written);
    if (err && s->events_dropped) counter_inc(s->events_dropped);
    if (err == ERR_DENIED && !s->events_denied) {
        s->events_denied = true; /* logged once */
        LOG_WARN(&s->log, "the API server refuses events: pods that wait do not say why");
    }
    (void)kube_place_drop(p);
    return true; /* never repeated immediately */
}

static const struct chore_ops event_ops = {event_prepare, event_run, event_ended};

void kube_waits_init(struct pod_place *p)
{
    chore_init(&p->event, p->source->chores, &event_ops);
}

/* -- changes -- */

void kube_place_supplied(struct pod_place *p)
{
    if (kube_condition_due(p, NULL)) chore_want(&p->report);
    if (!p->placed && event_is_due(p, place_supply(p, NULL))) chore_want(&p->event);
}

bool kube_supplies(struct demand_source *source, bool changed)
{
    struct kube_source *s = kube_source_of(source);
    struct map_entry *entry;

    if (changed) s->supplies_left = map_count(&s->places);
    for (size_t i = 0; i < SUPPLIES_MOST && s->supplies_left; i++, s->supplies_left--) {
        entry = map_next(&s->places, &s->supplies_from);
        if (!entry) { /* continue at the first place */
            s->supplies_from = 0;
            entry = map_next(&s->places, &s->supplies_from);
        }
        if (entry) kube_place_supplied(entry->value);
    }
    return s->supplies_left > 0;
}
