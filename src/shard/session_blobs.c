/* SPDX-License-Identifier: Apache-2.0 */
/* Requests bootstrap blobs from operators. Loop's thread.
 *
 * A request belongs to the session on which it was sent, and ends with this session. So a machine
 * is rolled back without waiting for a timeout. Only the first answer counts. */
#include "shard/sessions_internal.h"
#include "text/utf8.h"

static void blob_end(struct session_blob *request, enum blob_end end, struct str content)
{
    struct sessions *s = request->sessions;

    map_remove(&s->requests, action_key(&request->action));
    list_remove(&request->link);
    timer_deinit(&request->timer);
    s->events->on_blob(s->owner, request, end, content);
}

static void on_blob_timeout(struct timer *timer)
{
    blob_end(CONTAINER_OF(timer, struct session_blob, timer), BLOB_TIMEOUT, STR_EMPTY);
}

enum err sessions_ask_blob(struct sessions *s, struct str cluster, struct session_blob *request,
                           const struct profile *profile, uint64_t timeout_ms)
{
    struct session *session = session_of(s, cluster);
    enum err err = timer_init(&request->timer, s->io->loop, on_blob_timeout);
    char id[REQUEST_ID_LEN + 1];

    if (!err) err = map_put(&s->requests, action_key(&request->action), request);
    if (err) {
        timer_deinit(&request->timer);
        return err;
    }
    request->sessions = s;
    request->session = session;
    list_init(&request->link);
    if (!session) {
        blob_end(request, BLOB_NO_SESSION, STR_EMPTY);
        return ERR_OK;
    }
    list_append(&session->blobs, &request->link);
    timer_start_in(&request->timer, timeout_ms);
    session_send_written(
        session, STR_EMPTY,
        frame_write_blob_request(&s->writer, action_id(s, request->action, id), cluster, profile));
    return ERR_OK;
}

void blobs_answer(struct session *session, const struct operator_frame *frame)
{
    struct sessions *s = session->sessions;
    uint64_t action = action_of(s, frame->request_id);
    struct session_blob *request = map_get(&s->requests, action_key(&action));
    struct note note;

    if (!request || request->session != session) { /* late, a duplicate, or unrequested */
        s->stats.blobs_stray++;
    } else if (frame->error.len > 0) {
        blob_end(request, BLOB_ERROR, utf8_clip(frame->error, ERROR_TEXT_MAX / 2));
    } else if (frame->user_data.len > s->limits.blob_max) {
        note_set(&note, "the blob has %zu bytes, at most %zu are allowed", frame->user_data.len,
                 s->limits.blob_max);
        blob_end(request, BLOB_ERROR, str_from(note.text));
    } else {
        blob_end(request, BLOB_READY, frame->user_data);
    }
}

void blobs_over(struct session *session)
{
    LIST_EACH_SAFE(&session->blobs, node, following)
    blob_end(CONTAINER_OF(node, struct session_blob, link), BLOB_NO_SESSION, STR_EMPTY);
}
