/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to the server that is reopened after a pause whenever it ends. Loop's thread, except
 * init. */
#ifndef PRIM_GRPC_THREAD_STREAM_H
#define PRIM_GRPC_THREAD_STREAM_H
#include "prim/grpc_thread/grpc_thread.h"

struct grpc_thread_call;
struct grpc_stream {
    /* Set by the owner. */
    const char *path;
    void (*on_open)(struct grpc_stream *stream); /* may send the stream's request */
    void (*on_message)(struct grpc_stream *stream, struct str message);
    /* The stream broke: its request must be sent again. `status` and `text`: the server's, or
     * GRPC_UNAVAILABLE. The owner may free the stream here. May be NULL. */
    void (*on_broken)(struct grpc_stream *stream, enum grpc_status status, struct str text);
    /* Used by the gRPC thread. */
    struct grpc_thread *grpc_thread;
    struct grpc_thread_call *call; /* NULL: not open */
    struct list link;
    struct timer again;
    mono_time opened;
    uint32_t failures;
    bool wanted;
};
enum err grpc_stream_init(struct grpc_stream *stream, struct grpc_thread *grpc_thread,
                          const char *path);
void grpc_stream_deinit(struct grpc_stream *stream); /* also leaves the stream */
void grpc_stream_want(struct grpc_stream *stream);   /* opens the stream, again if it ends */
void grpc_stream_leave(struct grpc_stream *stream);  /* closes the stream; no event follows */
void grpc_stream_reset(struct grpc_stream *stream);  /* reopens a hanging stream */
enum err grpc_stream_send(struct grpc_stream *stream, struct str message); /* may return ERR_FULL */
void grpc_stream_send_end(struct grpc_stream *stream);
#endif
