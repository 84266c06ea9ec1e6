/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a sidecar over its Unix socket. Calls block with a timeout, on the processing thread.
 *
 * A frame is a length of four bytes, big-endian, and JSON: {"method":...,"payload":...}. If the
 * kept connection broke, a call reconnects once. So a plugin may get a record twice. */
#ifndef WORKER_SIDECAR_CALL_H
#define WORKER_SIDECAR_CALL_H
#include "base/buf.h"
#include "base/note.h"

enum { SIDECAR_FRAME_MAX = 64 << 20, SIDECAR_CALL_MS = 10000 };

struct sidecar_line {
    int fd; /* -1: not connected */
    char path[108];
    struct buf work; /* buffer for frames */
};
void sidecar_line_init(struct sidecar_line *line, const char *path);
void sidecar_line_deinit(struct sidecar_line *line);
/* Makes a call and returns the reply's body. Errors with a note: ERR_UNAVAILABLE (no sidecar, or
 * the connection broke), ERR_TIMEOUT, ERR_TOO_LARGE, ERR_NOMEM. */
enum err sidecar_call(struct sidecar_line *line, struct str method, struct str payload,
                      uint64_t timeout_ms, struct buf *reply, struct note *note);
/* Appends the "payload" of a reply: a string's text, or another value as JSON. ERR_INVALID: the
 * reply has an "error", which the note repeats. ERR_PARSE. */
enum err sidecar_reply_payload(struct str reply, struct buf *into, struct note *note);
/* A NULL `payload` becomes JSON null. */
enum err sidecar_frame(struct str method, const struct str *payload, struct buf *into);
#endif
