/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for a bootstrap blob, and who waits for their answers.
 *
 * A request belongs to the session it was sent on: it is not sent again on the next one, and it is
 * answered at once when its session ends, so that the machine is rolled back without waiting for a
 * deadline. An answer counts if it comes on that session, in time, and once. */
#include <stdio.h>
#include <stdlib.h>

#include "shard/sessions_internal.h"
#include "text/utf8.h"

void draw_id(struct sessions *s, char out[REQUEST_ID_LEN + 1])
{
    snprintf(out, REQUEST_ID_LEN + 1, "%016llx", (unsigned long long)entropy_u64(s->io->entropy));
}

static void waiter_free(struct blob_waiter *waiter)
{
    struct sessions *s = waiter->sessions;

    map_remove(&s->waiters, str_of(waiter->id, REQUEST_ID_LEN));
    list_remove(&waiter->link);
    timer_deinit(&waiter->timer);
    free(waiter);
}

/* The answer is told later in this turn. */
static void settle(struct blob_waiter *waiter, enum blob_end end)
{
    waiter->end = end;
    waiter->session = NULL;
    timer_stop(&waiter->timer);
    list_remove(&waiter->link);
    list_append(&waiter->sessions->answered, &waiter->link);
    sessions_wake(waiter->sessions);
}

static void tell(struct blob_waiter *waiter, enum blob_end end, struct str content)
{
    struct sessions *s = waiter->sessions;
    uint64_t action = waiter->action;

    waiter_free(waiter); /* first: the owner may ask again */
    s->events->on_blob(s->owner, action, end, content);
}

static void on_timeout(struct timer *timer)
{
    struct blob_waiter *waiter = CONTAINER_OF(timer, struct blob_waiter, timer);

    tell(waiter, BLOB_TIMEOUT, STR_EMPTY);
}

static enum err waiter_new(struct sessions *s, uint64_t action, struct blob_waiter **ret_waiter)
{
    struct blob_waiter *waiter = calloc(1, sizeof *waiter);
    char id[REQUEST_ID_LEN + 1];
    enum err err;

    if (!waiter) return ERR_NOMEM;
    draw_id(s, id);
    memcpy(waiter->id, id, sizeof waiter->id);
    list_init(&waiter->link);
    waiter->sessions = s;
    waiter->action = action;
    err = timer_init(&waiter->timer, s->io->loop, on_timeout);
    if (!err) err = map_put(&s->waiters, str_of(waiter->id, REQUEST_ID_LEN), waiter);
    if (err) {
        timer_deinit(&waiter->timer);
        free(waiter);
        return err;
    }
    *ret_waiter = waiter;
    return ERR_OK;
}

enum err sessions_ask_blob(struct sessions *s, struct str cluster, uint64_t action,
                           const struct profile *profile, uint64_t timeout_ms)
{
    const struct session_cluster *known = cluster_find(s, cluster);
    struct session *session = known ? known->session : NULL;
    struct blob_waiter *waiter;
    enum err err = waiter_new(s, action, &waiter);

    if (err) return err;
    s->stats.blobs++;
    if (!session) {
        settle(waiter, BLOB_NO_SESSION);
        return ERR_OK;
    }
    waiter->session = session;
    list_append(&session->blobs, &waiter->link);
    timer_start_in(&waiter->timer, timeout_ms);
    session_send_written(
        session, STR_EMPTY,
        frame_write_blob_request(&s->writer, str_of(waiter->id, REQUEST_ID_LEN), cluster, profile));
    return ERR_OK;
}

void blobs_answer(struct session *session, const struct operator_frame *frame)
{
    struct sessions *s = session->sessions;
    struct blob_waiter *waiter = map_get(&s->waiters, frame->request_id);
    struct note note;

    if (!waiter || waiter->session != session) { /* late, unknown, or given twice */
        s->stats.blobs_stray++;
    } else if (frame->error.len > 0) {
        tell(waiter, BLOB_ERROR, utf8_clip(frame->error, ERROR_TEXT_MAX / 2));
    } else if (frame->user_data.len > s->limits.blob_max) {
        note_set(&note, "the blob has %zu bytes, at most %zu are allowed", frame->user_data.len,
                 s->limits.blob_max);
        tell(waiter, BLOB_ERROR, str_from(note.text));
    } else {
        tell(waiter, BLOB_READY, frame->user_data);
    }
}

void blobs_over(struct session *session)
{
    LIST_EACH_SAFE(&session->blobs, node, following)
    settle(CONTAINER_OF(node, struct blob_waiter, link), BLOB_NO_SESSION);
}

void blobs_tell(struct sessions *s)
{
    struct list now; /* what is answered meanwhile is told next time */

    list_init(&now);
    list_splice(&now, &s->answered);
    LIST_EACH_SAFE(&now, node, following)
    {
        struct blob_waiter *waiter = CONTAINER_OF(node, struct blob_waiter, link);
        tell(waiter, waiter->end, STR_EMPTY);
    }
}

void blobs_close(struct sessions *s)
{
    size_t cursor = 0;
    struct map_entry *entry;

    while ((entry = map_next(&s->waiters, &cursor))) waiter_free(entry->value);
    map_deinit(&s->waiters);
}
