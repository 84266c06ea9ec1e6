/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to the server that is opened again, after a pause, whenever it ends. Loop thread only,
 * but for init. */
#ifndef PRIM_GRPC_THREAD_STREAM_H
#define PRIM_GRPC_THREAD_STREAM_H
#include "prim/grpc_thread/grpc_thread.h"

struct grpc_thread_call;
struct grpc_stream {
    /* the owner's */
    const char *path;
    void (*on_open)(struct grpc_stream *stream); /* send what you want */
    void (*on_message)(struct grpc_stream *stream, struct str message);
    /* The request must be sent again. `status`, `text`: of the server, or GRPC_UNAVAILABLE. The
     * owner may leave the stream and free it. May be NULL. */
    void (*on_broken)(struct grpc_stream *stream, enum grpc_status status, struct str text);
    /* the gRPC thread */
    struct grpc_thread *grpc_thread;
    struct grpc_thread_call *call; /* NULL: not open */
    struct list link;
    struct timer again;
    mono_time opened;
    uint32_t failures; /* in a row */
    bool wanted;
};
enum err grpc_stream_init(struct grpc_stream *stream, struct grpc_thread *grpc_thread,
                          const char *path);
void grpc_stream_deinit(struct grpc_stream *stream); /* leaves it, too */
void grpc_stream_want(struct grpc_stream *stream);   /* opens it, and again when it ends */
void grpc_stream_leave(struct grpc_stream *stream);  /* ends it; no event comes any more */
void grpc_stream_reset(struct grpc_stream *stream);  /* it hangs: as if it had broken */
enum err grpc_stream_send(struct grpc_stream *stream, struct str message); /* ERR_FULL, ... */
void grpc_stream_send_end(struct grpc_stream *stream); /* nothing more will be sent */
#endif
