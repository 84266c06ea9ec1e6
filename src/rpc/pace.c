/* SPDX-License-Identifier: Apache-2.0 */
/* How a peer paces its bytes, seen from outside the protocol engine.
 *
 * Three things only the raw bytes tell: that a frame's head or a request's headers have begun and
 * do not come to an end (slow loris), how often a peer pings, and how much data it sends, also for
 * streams that are gone. A frame is
 *
 *   bytes 0-2   length of the payload      byte 3   type        byte 4   flags
 *   bytes 5-8   stream                     then the payload
 *
 * after the 24 bytes of the client's magic. Whether any of it is right is nghttp2's business: it
 * sees the same bytes and ends the connection over the first that is wrong. Payload of other
 * frames may come as slowly as it likes; that is back-pressure, or it ends with a ping that is
 * not answered. */
#include <string.h>

#include "rpc/server_internal.h"

enum {
    HEAD_BYTES = 9,
    TYPE_DATA = 0,
    TYPE_HEADERS = 1,
    TYPE_PING = 6,
    TYPE_CONTINUATION = 9,
    FLAG_ACK = 1,
    FLAG_END_HEADERS = 4,
};

void pace_init(struct pace *p)
{
    *p = (struct pace){.preface_left = PACE_PREFACE};
}

static bool is_strike(struct pace *p, mono_time now, uint64_t min_interval_ms, uint64_t answers)
{
    bool fair = !p->has_pinged || answers != p->answers ||
                mono_elapsed_ms(p->pinged, now) >= min_interval_ms;

    if (answers != p->answers) p->strikes = 0;
    p->has_pinged = true;
    p->pinged = now;
    p->answers = answers;
    return !fair && ++p->strikes > PING_STRIKES_MAX;
}

static void on_head(struct pace *p)
{
    uint8_t type = p->head[3];

    p->payload_left = (uint32_t)p->head[0] << 16 | (uint32_t)p->head[1] << 8 | p->head[2];
    p->head_len = 0; /* its bytes stay until the next head: on_frame_end looks at them */
    if (type == TYPE_DATA) p->data += p->payload_left ? p->payload_left : 1;
    if (type == TYPE_HEADERS || type == TYPE_CONTINUATION) p->in_headers = true;
}

static void on_frame_end(struct pace *p)
{
    uint8_t type = p->head[3], flags = p->head[4];

    p->greeted = true;
    if ((type == TYPE_HEADERS || type == TYPE_CONTINUATION) && (flags & FLAG_END_HEADERS))
        p->in_headers = false;
}

/* Where the state stands after some bytes: between frames, or somewhere that must not last. */
static void judge(struct pace *p, mono_time now)
{
    bool stalls = p->head_len > 0 || p->in_headers;

    if (stalls && !p->stalls) p->since = now;
    p->stalls = stalls;
}

bool pace_feed(struct pace *p, struct str bytes, mono_time now, uint64_t ping_min_interval_ms,
               uint64_t answers)
{
    bool abuse = false;
    size_t n = min_size(p->preface_left, bytes.len);

    p->preface_left = (uint8_t)(p->preface_left - n);
    bytes = str_tail(bytes, n);
    while (bytes.len > 0) {
        if (p->payload_left > 0) {
            n = min_size(p->payload_left, bytes.len);
            p->payload_left -= (uint32_t)n;
            bytes = str_tail(bytes, n);
            if (p->payload_left == 0) on_frame_end(p);
            continue;
        }
        if (p->head_len == 0 && !p->in_headers) p->stalls = false; /* a new frame: a new clock */
        n = min_size((size_t)HEAD_BYTES - p->head_len, bytes.len);
        memcpy(p->head + p->head_len, bytes.at, n);
        p->head_len = (uint8_t)(p->head_len + n);
        bytes = str_tail(bytes, n);
        if (p->head_len < HEAD_BYTES) continue;
        on_head(p);
        if (p->head[3] == TYPE_PING && !(p->head[4] & FLAG_ACK))
            abuse |= is_strike(p, now, ping_min_interval_ms, answers);
        if (p->payload_left == 0) on_frame_end(p);
    }
    judge(p, now);
    return abuse;
}
