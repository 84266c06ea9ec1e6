/* SPDX-License-Identifier: Apache-2.0 */
/* A session's roll-ups. One budget of bytes bounds all roll-ups that are being received, waiting or
 * processed.
 *
 * A message's announced size is charged before any byte is stored. A message that does not fit
 * stays unread at its sender. Small messages are always admitted, so that the answer to a blob
 * request never waits behind a roll-up.
 *
 * While other messages wait, an admitted message must arrive in one minute plus one second per MiB,
 * or its session is closed. Partial progress does not extend this time. */
#include <stdlib.h>

#include "shard/sessions_internal.h"

enum { SMALL = 16 << 10, MIB = 1 << 20 };

void lane_init(struct rollup_lane *lane)
{
    *lane = (struct rollup_lane){0};
    list_init(&lane->queue);
}

/* -- the budget -- */

static bool lane_fits(const struct sessions *s, size_t bytes)
{
    size_t used = s->stats.rollup_bytes, max = s->limits.rollup_budget;

    return used <= max && bytes <= max - used;
}

static void lane_reserve(struct session *session, size_t bytes)
{
    struct sessions *s = session->sessions;

    assert(session->lane.reserved == 0);
    s->stats.rollup_bytes += bytes;
    session->lane.reserved = bytes;
    session->lane.reserved_at = loop_now(s->io->loop);
}

/* Admits in order of arrival, so that small messages starve no large one. */
static void lane_admit(struct sessions *s)
{
    while (!list_empty(&s->starved)) {
        struct session *session = CONTAINER_OF(s->starved.next, struct session, lane.queue);
        size_t wanted = session->lane.wanted;
        if (!lane_fits(s, wanted)) return;
        list_remove(&session->lane.queue);
        session->lane.wanted = 0;
        lane_reserve(session, wanted);
        rpc_resume(session->call);
    }
    timer_stop(&s->stall);
}

static void lane_give_back(struct sessions *s, size_t bytes)
{
    assert(s->stats.rollup_bytes >= bytes);
    s->stats.rollup_bytes -= bytes;
    lane_admit(s);
}

void lane_announced(struct session *session, size_t bytes)
{
    struct sessions *s = session->sessions;

    if (!session->cluster && bytes > SMALL) { /* before Hello no session may use the budget */
        session_refuse(session, GRPC_INVALID_ARGUMENT, "the first frame must be hello");
        return;
    }
    if (bytes <= SMALL || (list_empty(&s->starved) && lane_fits(s, bytes))) {
        lane_reserve(session, bytes);
        return;
    }
    rpc_pause(session->call);
    session->lane.wanted = bytes;
    list_append(&s->starved, &session->lane.queue);
    s->stats.rollups_paused++;
    if (!timer_running(&s->stall)) timer_start_in(&s->stall, s->limits.rollup_timeout_ms);
}

void lane_release(struct session *session)
{
    size_t reserved = session->lane.reserved;

    session->lane.reserved = 0;
    lane_give_back(session->sessions, reserved);
}

static bool lane_is_stalled(const struct session *session, mono_time now)
{
    const struct rollup_lane *lane = &session->lane;
    uint64_t ms = session->sessions->limits.rollup_timeout_ms;

    if (lane->reserved <= SMALL) return false;
    return mono_elapsed_ms(lane->reserved_at, now) >= ms + lane->reserved * 1000ull / MIB;
}

void lane_on_stall(struct timer *timer)
{
    struct sessions *s = CONTAINER_OF(timer, struct sessions, stall);
    mono_time now = loop_now(s->io->loop);

    LIST_EACH_SAFE(&s->all, node, following)
    {
        struct session *session = CONTAINER_OF(node, struct session, link);
        if (!lane_is_stalled(session, now)) continue;
        s->stats.stalled++;
        session_end(session, GRPC_DEADLINE_EXCEEDED,
                    "a message was announced and not sent while others wait");
    }
    if (!list_empty(&s->starved)) timer_start_in(&s->stall, s->limits.rollup_timeout_ms);
}

/* -- roll-ups -- */

static void rollup_free(struct sessions *s, struct own_rollup *own)
{
    size_t bytes = own->message.len;

    buf_deinit(&own->message);
    free(own);
    lane_give_back(s, bytes);
}

/* Takes over a roll-up. Its charge changes from the announced to the real size. */
static struct own_rollup *rollup_take(struct session *session, const struct operator_frame *frame)
{
    struct sessions *s = session->sessions;
    struct str id = session->cluster->id;
    struct own_rollup *own = malloc(sizeof *own + id.len);

    if (!own) return NULL;
    memcpy(own->cluster, id.at, id.len);
    own->session = session;
    own->rollup = (struct rollup){str_of(own->cluster, id.len), frame->payload};
    own->message = rpc_take_message(session->call);
    s->stats.rollup_bytes += own->message.len;
    lane_release(session);
    return own;
}

/* Passes the waiting roll-up to the owner, unless the owner still processes another one. */
static void lane_next_rollup(struct session *session)
{
    struct sessions *s = session->sessions;
    struct rollup_lane *lane = &session->lane;

    if (session->over || lane->working || !lane->waiting) return;
    lane->working = lane->waiting;
    lane->waiting = NULL;
    s->stats.rollups++;
    s->events->on_rollup(s->owner, &lane->working->rollup);
}

void lane_rollup(struct session *session, const struct operator_frame *frame)
{
    struct sessions *s = session->sessions;
    struct rollup_lane *lane = &session->lane;
    struct own_rollup *own;

    own = rollup_take(session, frame);
    if (!own) {
        session_end(session, GRPC_UNAVAILABLE, "no memory for the roll-up");
        return;
    }
    if (lane->waiting) {
        rollup_free(s, lane->waiting); /* the newer roll-up contains the whole demand */
        s->stats.rollups_superseded++;
    }
    lane->waiting = own;
    lane_next_rollup(session);
}

void sessions_rollup_done(struct sessions *s, struct rollup *rollup, enum rollup_end end)
{
    struct own_rollup *own = CONTAINER_OF(rollup, struct own_rollup, rollup);
    struct session *session = own->session;

    if (session) {
        assert(session->lane.working == own);
        session->lane.working = NULL;
        if (end == ROLLUP_ACKNOWLEDGED)
            session_send_written(
                session, STR_EMPTY,
                frame_write_ack(&s->writer, STR("rollup"), s->term, s->limits.epoch, false, false));
    }
    rollup_free(s, own);
    if (session) lane_next_rollup(session);
}

/* Drops a session's roll-ups. A roll-up that the owner still processes stays charged until its
 * end. */
void lane_over(struct session *session)
{
    struct sessions *s = session->sessions;
    struct rollup_lane *lane = &session->lane;

    if (lane->working) lane->working->session = NULL;
    lane->working = NULL;
    if (lane->waiting) rollup_free(s, lane->waiting);
    lane->waiting = NULL;
    list_remove(&lane->queue);
    lane->wanted = 0;
    lane_release(session);
}
