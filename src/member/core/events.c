/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the events that are not emitted yet, in an array indexed by their consecutive numbers. */
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

static size_t event_at(const struct membership *m, uint64_t number)
{
    return m->events_first + (size_t)(number - m->head.emitted - 1);
}

/* makes room for every event number up to the newest */
static void events_reserve(struct membership *m)
{
    size_t want = (size_t)(m->head.event_number - m->head.emitted);

    if (m->events_first + want <= m->events_cap) return;
    if (m->events_first) {
        memmove(m->events, m->events + m->events_first,
                (m->events_cap - m->events_first) * sizeof(void *));
        memset(m->events + m->events_cap - m->events_first, 0, m->events_first * sizeof(void *));
        m->events_first = 0;
    }
    if (want > m->events_cap) {
        size_t cap = max_size(want, 2 * m->events_cap);

        m->events = member_must(realloc(m->events, cap * sizeof(void *)));
        memset(m->events + m->events_cap, 0, (cap - m->events_cap) * sizeof(void *));
        m->events_cap = cap;
    }
}

bool member_event_put(struct membership *m, const struct member_event *event)
{
    struct event_row *row;
    char *at;

    if (event->number <= m->head.emitted || event->number > m->head.event_number) return false;
    events_reserve(m);
    if (m->events[event_at(m, event->number)]) return false;
    row = member_must(malloc(sizeof *row + event->worker.len + event->text.len));
    at = row->text;
    row->event = *event;
    row->event.worker = str_put(&at, event->worker);
    row->event.text = str_put(&at, event->text);
    row_born(m, &row->row, ROW_EVENT);
    m->bytes += EVENT_COST + event->worker.len + event->text.len;
    m->event_count++;
    m->events[event_at(m, event->number)] = row;
    return true;
}

void member_events_drop(struct membership *m, uint64_t through)
{
    while (m->head.emitted < through) {
        size_t at = event_at(m, m->head.emitted + 1);
        struct event_row *row = m->events[at];

        m->events[at] = NULL;
        row_gone(m, &row->row);
        m->bytes -= EVENT_COST + row->event.worker.len + row->event.text.len;
        m->event_count--;
        m->events_first++;
        m->head.emitted++;
        free(row);
    }
    if (!m->event_count) m->events_first = 0;
}

bool member_next_event(const struct membership *m, uint64_t *number, struct member_event *ret_event)
{
    uint64_t last = max_u64(*number, m->head.emitted);

    if (last >= m->head.event_number) return false;
    *number = last + 1;
    *ret_event = m->events[event_at(m, last + 1)]->event;
    return true;
}

uint64_t member_emitted(const struct membership *m)
{
    return m->head.emitted;
}
