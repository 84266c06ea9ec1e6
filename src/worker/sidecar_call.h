/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a sidecar over its Unix socket. They block with a timeout; processing thread only.
 *
 * A frame is a length of four bytes, big-endian, followed by JSON: {"method":...,"payload":...}.
 * The connection is kept between calls. If it broke, a call reconnects once, so a restarted sidecar
 * is found again. So a record may be mapped twice, which plugins must tolerate anyway. */
#ifndef WORKER_SIDECAR_CALL_H
#define WORKER_SIDECAR_CALL_H
#include "base/buf.h"
#include "base/note.h"

enum { SIDECAR_FRAME_MAX = 64 << 20, SIDECAR_CALL_MS = 10000 };

struct sidecar_line {
    int fd;          /* -1: no connection */
    char path[108];  /* path of the socket */
    struct buf work; /* buffer for frames */
};
void sidecar_line_init(struct sidecar_line *line, const char *path);
void sidecar_line_deinit(struct sidecar_line *line);
/* Returns the body of the reply unchanged. ERR_UNAVAILABLE (no sidecar, or the connection broke),
 * ERR_TIMEOUT, ERR_TOO_LARGE, ERR_NOMEM, with a note. */
enum err sidecar_call(struct sidecar_line *line, struct str method, struct str payload,
                      uint64_t timeout_ms, struct buf *reply, struct note *note);
/* Appends the "payload" of a reply as text (JSON if the value is not a string). ERR_INVALID: the
 * reply has an "error", which goes into the note. ERR_PARSE. */
enum err sidecar_reply_payload(struct str reply, struct buf *into, struct note *note);
/* Encodes a frame. `payload` NULL: JSON null. */
enum err sidecar_frame(struct str method, const struct str *payload, struct buf *into);
#endif
