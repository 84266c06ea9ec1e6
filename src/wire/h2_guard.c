/* SPDX-License-Identifier: Apache-2.0 */
/* Counts actions that cost a peer nothing, per minute:
 *
 *   reset     a stream reset before or right after its response (rapid reset), by the peer or
 *             because of the peer's frame
 *   abandon   a stream reset between the headers of its response and its end, as for watches
 *   ping      pings without a data or header frame in between, as in gRPC's rule for keep-alive. A
 *             server also counts strikes: pings faster than ping_min_interval_ms, without data sent
 *   settings  each costs a response and may re-size the header table
 *   idle      frames without content: empty DATA, PRIORITY, GOAWAY, unknown types, resets of closed
 *             streams, and window updates beyond two for each data frame sent or new stream
 *
 * The minute is a fixed window: a peer can use twice the limit at its edge, which is harmless. */
#include "wire/h2_internal.h"

enum { MINUTE_MS = 60000, PING_STRIKES_MAX = 2, ABANDONS_PER_RESET = 5 };
/* Limit of window updates that are justified, but not received yet. A peer may send them late in
 * one burst. */
enum { UPDATES_DUE_MAX = 1 << 16, UPDATES_PER_WORK = 2 };

void h2_guard_time(struct h2_guard *g, mono_time now)
{
    g->now = now;
    if (mono_elapsed_ms(g->minute, now) < MINUTE_MS) return;
    g->minute = now;
    for (size_t i = 0; i < H2_ABUSE_COUNT; i++) g->seen[i] = 0;
}

bool h2_guard_count(struct h2_guard *g, const struct h2_limits *limits, enum h2_abuse abuse)
{
    const uint32_t max[H2_ABUSE_COUNT] = {
        [H2_ABUSE_RESET] = limits->resets_per_minute_max,
        [H2_ABUSE_ABANDON] = (uint32_t)min_u64(UINT32_MAX, (uint64_t)ABANDONS_PER_RESET *
                                                               limits->resets_per_minute_max),
        [H2_ABUSE_PING] = limits->pings_per_minute_max,
        [H2_ABUSE_SETTINGS] = limits->settings_per_minute_max,
        [H2_ABUSE_IDLE] = limits->idle_frames_per_minute_max,
    };
    static const char *const names[H2_ABUSE_COUNT] = {
        [H2_ABUSE_RESET] = "resets",     [H2_ABUSE_ABANDON] = "resets of answered calls",
        [H2_ABUSE_PING] = "pings",       [H2_ABUSE_SETTINGS] = "settings",
        [H2_ABUSE_IDLE] = "idle frames",
    };

    if (g->seen[abuse] < max[abuse]) {
        g->seen[abuse]++;
        return false;
    }
    g->abuse = names[abuse];
    return true;
}

static bool guard_ping_strikes(struct h2_guard *g, uint64_t min_interval_ms)
{
    bool fair =
        !g->has_pinged || g->has_sent || mono_elapsed_ms(g->pinged, g->now) >= min_interval_ms;

    if (g->has_sent) g->ping_strikes = 0;
    g->has_pinged = true;
    g->has_sent = false;
    g->pinged = g->now;
    if (fair || ++g->ping_strikes <= PING_STRIKES_MAX) return false;
    g->abuse = "pings";
    return true;
}

bool h2_guard_frame(struct h2_guard *g, const struct h2_limits *limits,
                    const nghttp2_frame_hd *head, bool stream_is_open)
{
    bool ack = head->flags & NGHTTP2_FLAG_ACK;

    switch (head->type) {
    case NGHTTP2_DATA: /* the frame's length without padding */
        if (head->length == 0 && !(head->flags & NGHTTP2_FLAG_END_STREAM))
            return h2_guard_count(g, limits, H2_ABUSE_IDLE);
        h2_guard_work(g);
        return false;
    case NGHTTP2_HEADERS: h2_guard_work(g); return false;
    case NGHTTP2_PING:
        return !ack && (guard_ping_strikes(g, limits->ping_min_interval_ms) ||
                        h2_guard_count(g, limits, H2_ABUSE_PING));
    case NGHTTP2_SETTINGS: return !ack && h2_guard_count(g, limits, H2_ABUSE_SETTINGS);
    case NGHTTP2_WINDOW_UPDATE:
        if (g->updates_due == 0) return h2_guard_count(g, limits, H2_ABUSE_IDLE);
        g->updates_due--;
        return false;
    case NGHTTP2_RST_STREAM: return !stream_is_open && h2_guard_count(g, limits, H2_ABUSE_IDLE);
    case NGHTTP2_PUSH_PROMISE:
    case NGHTTP2_CONTINUATION: return false; /* limited by nghttp2, and per header block */
    default: return h2_guard_count(g, limits, H2_ABUSE_IDLE);
    }
}

void h2_guard_work(struct h2_guard *g)
{
    g->seen[H2_ABUSE_PING] = 0;
    if (g->updates_due < UPDATES_DUE_MAX) g->updates_due += UPDATES_PER_WORK;
}
