/* SPDX-License-Identifier: Apache-2.0 */
/* The rule watches: see judge.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "changes.h"
#include "prim/names.h"

struct reader { /* one watch, from its first event to its last */
    const struct hist *h;
    const struct changes *c;
    struct judge_result *result;
    const struct hist_event *events;
    size_t count;
    uint32_t scope; /* key of its first event: the bucket */
    /* where it is */
    bool live, in_snapshot;
    uint64_t last;                     /* the revision of the last event */
    uint64_t whole;                    /* every change up to this revision has come */
    size_t next;                       /* of the changes */
    const struct hist_event *snapshot; /* its begin */
};

static bool in_scope(const struct reader *r, uint32_t key)
{
    return prim_in_scope(str_from(r->h->keys[key]), str_from(r->h->keys[r->scope]), true);
}

static size_t place(const struct reader *r, const struct hist_event *event)
{
    return (size_t)(event - r->events);
}

/* All known changes up to `revision` must have come; the next one may be that of `event` itself. */
static void demand(struct reader *r, const struct hist_event *event, uint64_t revision)
{
    for (; r->next < r->c->count && r->c->rows[r->next].revision <= revision; r->next++) {
        const struct change *change = &r->c->rows[r->next];
        if (!in_scope(r, change->key)) continue;
        if (event->type != COORD_PROGRESS && change->revision == event->revision &&
            change->key == event->key)
            return;
        judge_bad(r->result,
                  "watch %" PRIu32 ", event %zu: a gap: %s at revision %" PRIu64
                  " was not reported before %" PRIu64,
                  event->watch, place(r, event), r->h->keys[change->key], change->revision,
                  revision);
    }
}

static void take_change(struct reader *r, const struct hist_event *event)
{
    const struct change *expected;

    if (!r->live || !in_scope(r, event->key)) {
        judge_bad(r->result, "watch %" PRIu32 ", event %zu: %s has no place here", event->watch,
                  place(r, event), r->h->keys[event->key]);
        return;
    }
    if (event->revision < r->last || event->revision <= r->whole) {
        judge_bad(r->result,
                  "watch %" PRIu32 ", event %zu: %s at revision %" PRIu64 " comes after %" PRIu64,
                  event->watch, place(r, event), r->h->keys[event->key], event->revision, r->last);
        return;
    }
    if (event->type == COORD_PUT)
        changes_must_be(r->h, event->key, event->value, event->revision, event->at_ns, "a watch",
                        r->result);
    demand(r, event, event->revision);
    expected = r->next < r->c->count ? &r->c->rows[r->next] : NULL;
    if (!expected || expected->revision != event->revision || expected->key != event->key) {
        judge_bad(r->result, "watch %" PRIu32 ", event %zu: %s at revision %" PRIu64 " is a repeat",
                  event->watch, place(r, event), r->h->keys[event->key], event->revision);
        return;
    }
    r->next++;
    r->last = event->revision;
}

/* -- snapshots -- */

static const struct hist_event *entry_of(const struct reader *r, const struct hist_event *end,
                                         uint32_t key)
{
    for (const struct hist_event *event = r->snapshot; event < end; event++)
        if (event->type == COORD_ENTRY && event->key == key) return event;
    return NULL;
}

static void check_key(const struct reader *r, const struct hist_event *end, uint32_t key)
{
    const struct change *last = changes_last(r->c, key, end->revision);
    const struct hist_event *entry = entry_of(r, end, key);

    if (entry && entry->revision > end->revision)
        judge_bad(r->result, "watch %" PRIu32 ": the snapshot at %" PRIu64 " has %s at %" PRIu64,
                  end->watch, end->revision, r->h->keys[key], entry->revision);
    if (!last) return;
    if (entry ? entry->revision < last->revision
              : !last->gone && !changes_may_be_gone(r->h, last, end->at_ns))
        judge_bad(r->result,
                  "watch %" PRIu32 ": the snapshot at %" PRIu64
                  " lacks the change of %s at %" PRIu64,
                  end->watch, end->revision, r->h->keys[key], last->revision);
}

static void end_snapshot(struct reader *r, const struct hist_event *end)
{
    if (!r->in_snapshot) {
        judge_bad(r->result, "watch %" PRIu32 ": the end of no snapshot", end->watch);
        return;
    }
    for (uint32_t key = 0; key < r->h->key_count; key++)
        if (in_scope(r, key)) check_key(r, end, key);
    if (end->revision < r->last)
        judge_bad(r->result, "watch %" PRIu32 ": a snapshot at %" PRIu64 " after %" PRIu64,
                  end->watch, end->revision, r->last);
    r->in_snapshot = false;
    r->live = true;
    r->last = r->whole = end->revision;
    r->next = changes_after(r->c, end->revision);
}

static void take_event(struct reader *r, const struct hist_event *event)
{
    switch (event->type) {
    case COORD_SNAPSHOT_BEGIN:
        if (r->live || r->in_snapshot)
            judge_bad(r->result, "watch %" PRIu32 ", event %zu: a snapshot that nobody announced",
                      event->watch, place(r, event));
        r->in_snapshot = true;
        r->snapshot = event;
        break;
    case COORD_ENTRY:
        if (!r->in_snapshot)
            judge_bad(r->result, "watch %" PRIu32 ": an entry outside a snapshot", event->watch);
        changes_must_be(r->h, event->key, event->value, event->revision, event->at_ns, "a snapshot",
                        r->result);
        break;
    case COORD_SNAPSHOT_END: end_snapshot(r, event); break;
    case COORD_RESYNC: r->live = r->in_snapshot = false; break;
    case COORD_PROGRESS:
        if (!r->live) break;
        demand(r, event, event->revision);
        if (event->revision > r->whole) r->last = r->whole = event->revision;
        break;
    case COORD_PUT:
    case COORD_DELETE:
    case COORD_EXPIRE: take_change(r, event); break;
    default: r->live = false; break; /* closed: later events belong to another watch */
    }
}

void judge_watches(const struct hist *h, struct judge_result *result)
{
    struct changes c;

    changes_open(h, &c, result);
    for (size_t i = 0, end; i < h->event_count; i = end) {
        struct reader r = {
            .h = h, .c = &c, .result = result, .events = &h->events[i], .scope = h->events[i].key};
        for (end = i; end < h->event_count && h->events[end].watch == h->events[i].watch; end++)
            take_event(&r, &h->events[end]);
    }
    result->looked_at += h->event_count;
    changes_close(&c);
}
