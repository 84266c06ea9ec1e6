/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a sidecar over its Unix socket, for the processing thread: they block, with a limit.
 *
 * A frame is its length in four bytes, highest first, and JSON: {"method":...,"payload":...}. The
 * connection is kept between calls and made anew when it broke, once per call: a sidecar that was
 * restarted meanwhile is found again, and the same record may be mapped twice, which plugins must
 * allow for anyway. */
#ifndef WORKER_SIDECAR_CALL_H
#define WORKER_SIDECAR_CALL_H
#include "base/buf.h"
#include "base/note.h"

enum { SIDECAR_FRAME_MAX = 64 << 20, SIDECAR_CALL_MS = 10000 };

struct sidecar_line {
    int fd;          /* -1: none */
    char path[108];  /* of the socket */
    struct buf work; /* frames */
};
void sidecar_line_init(struct sidecar_line *line, const char *path);
void sidecar_line_deinit(struct sidecar_line *line);
/* The reply's body as it came. ERR_UNAVAILABLE (nobody there, or it broke off), ERR_TIMEOUT,
 * ERR_TOO_LARGE, ERR_NOMEM, with a note. */
enum err sidecar_call(struct sidecar_line *line, struct str method, struct str payload,
                      uint64_t timeout_ms, struct buf *reply, struct note *note);
/* What a reply says: its "payload" as text (a value that is no string as JSON), or ERR_INVALID with
 * its "error"; ERR_PARSE. Appends. */
enum err sidecar_reply_payload(struct str reply, struct buf *into, struct note *note);
/* The bytes of a frame; `payload` NULL: null. */
enum err sidecar_frame(struct str method, const struct str *payload, struct buf *into);
#endif
