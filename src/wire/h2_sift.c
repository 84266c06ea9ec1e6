/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a client's bytes frame by frame, before nghttp2 gets them, for two reasons.
 *
 * The peer's pace (h2_pace, h2_data_late): only the raw bytes show frame heads and headers that
 * never end (slow loris), and data for closed streams.
 *
 * Resets of streams that were never opened: RFC 9113, 5.1, requires a connection error. But gRPC's
 * C core sends such resets for calls that are cancelled early, and an error would end all other
 * calls. Therefore the reset is dropped, and counts as a frame without content (h2_guard.c). Before
 * the first stream, nghttp2 gets the reset.
 *
 * nghttp2 cannot un-read a frame, so the nine bytes of a frame head are held until complete. */
#include <string.h>

#include "wire/h2_internal.h"

enum { CLIENT_GREETING = 24 };

void h2_sift_init(struct h2_sift *s)
{
    *s = (struct h2_sift){.rest = CLIENT_GREETING, .greeting = true};
}

static void sift_pass(struct h2 *h2, const char *bytes, size_t len)
{
    if (len > 0 && !h2->failed)
        h2_engine_err(h2, nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes, len));
}

/* True if the frame must be dropped. */
static bool sift_head(struct h2 *h2)
{
    struct h2_sift *s = &h2->sift;
    const uint8_t *at = s->head;
    nghttp2_frame_hd head = {
        .length = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2],
        .type = at[3],
        .flags = at[4],
        .stream_id = (int32_t)(((uint32_t)at[5] & 0x7f) << 24 | (uint32_t)at[6] << 16 |
                               (uint32_t)at[7] << 8 | at[8]),
    };

    s->rest = head.length;
    s->held = 0;
    if (head.type == NGHTTP2_DATA) s->data += head.length ? head.length : 1;
    if (head.type == NGHTTP2_HEADERS || head.type == NGHTTP2_CONTINUATION) s->in_headers = true;
    if (head.type == NGHTTP2_HEADERS && head.stream_id > s->newest) s->newest = head.stream_id;
    if (head.type != NGHTTP2_RST_STREAM || head.length != 4 || head.stream_id % 2 == 0 ||
        s->newest == 0 || head.stream_id <= s->newest)
        return false;
    h2_remember_ended(h2, head.stream_id);
    if (h2_guard_frame(&h2->guard, &h2->limits, &head, false))
        h2_fail(h2, ERR_DENIED, H2_ENHANCE_YOUR_CALM);
    return true;
}

/* Called at the last byte of a frame or of the greeting. */
static void sift_frame_end(struct h2_sift *s)
{
    uint8_t type = s->head[3], flags = s->head[4];

    if (s->greeting) {
        s->greeting = false;
        return;
    }
    s->pace.greeted = true;
    if ((type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION) &&
        (flags & NGHTTP2_FLAG_END_HEADERS))
        s->in_headers = false;
}

void h2_sift_feed(struct h2 *h2, struct str bytes)
{
    struct h2_sift *s = &h2->sift;
    size_t at = 0, passed = 0, len, held;
    bool stalls;

    if (bytes.len > 0) s->pace.begun = true;
    while (at < bytes.len && !h2->failed) {
        if (s->rest > 0) {
            len = min_size(s->rest, bytes.len - at);
            s->rest -= len;
            at += len;
            if (s->dropping) passed = at;
            if (s->rest == 0) sift_frame_end(s);
            continue;
        }
        held = s->held;
        if (held == 0 && !s->in_headers) s->pace.stalls = false;
        len = min_size(sizeof s->head - held, bytes.len - at);
        memcpy(s->head + held, bytes.at + at, len);
        s->held += len;
        if (s->held < sizeof s->head) break;
        if (s->head[3] == NGHTTP2_RST_STREAM) { /* counted after the frames before it */
            sift_pass(h2, bytes.at + passed, at - passed);
            passed = at;
        }
        s->dropping = !h2->failed && sift_head(h2);
        if (!s->dropping && held > 0) sift_pass(h2, (const char *)s->head, sizeof s->head);
        at += len;
        if (s->dropping || held > 0) passed = at;
        if (s->rest == 0) sift_frame_end(s);
    }
    sift_pass(h2, bytes.at + passed, at - passed); /* all but an incomplete head */
    stalls = s->held > 0 || s->in_headers;
    if (stalls && !s->pace.stalls) s->pace.since = h2->guard.now;
    s->pace.stalls = stalls;
}
