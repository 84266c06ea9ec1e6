/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to the server that is opened again, after a pause, whenever it ends. Loop thread only,
 * but for init. */
#ifndef PRIM_COURIER_STREAM_H
#define PRIM_COURIER_STREAM_H
#include "prim/courier/courier.h"

struct courier_call;
struct courier_stream {
    /* the owner's */
    const char *path;
    void (*on_open)(struct courier_stream *stream); /* send what you want */
    void (*on_message)(struct courier_stream *stream, struct str message);
    /* The request must be sent again. `status`, `text`: of the server, or GRPC_UNAVAILABLE. The
     * owner may leave the stream and free it. May be NULL. */
    void (*on_broken)(struct courier_stream *stream, enum grpc_status status, struct str text);
    /* the courier's */
    struct courier *courier;
    struct courier_call *call; /* NULL: not open */
    struct list link;
    struct timer again;
    mono_time opened;
    uint32_t failures; /* in a row */
    bool wanted;
};
enum err courier_stream_init(struct courier_stream *stream, struct courier *courier,
                             const char *path);
void courier_stream_deinit(struct courier_stream *stream); /* leaves it, too */
void courier_stream_want(struct courier_stream *stream);   /* opens it, and again when it ends */
void courier_stream_leave(struct courier_stream *stream);  /* ends it; no event comes any more */
void courier_stream_reset(struct courier_stream *stream);  /* it hangs: as if it had broken */
enum err courier_stream_send(struct courier_stream *stream, struct str message); /* ERR_FULL, ... */
void courier_stream_send_end(struct courier_stream *stream); /* nothing more will be sent */
#endif
