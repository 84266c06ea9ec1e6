/* The thread that talks to the coordinators: a loop, a channel that follows the leader, unary calls
 * that other threads wait for, and streams that come back by themselves.
 *
 * Every call may be sent again: the server knows writes by their request, and reads and renewals do
 * no harm. So a replica that is cut off, stopped or slow costs a caller a slice of its time, not
 * all of it: after a slice in silence the channel moves on, and so do the streams and the calls
 * that wait for a slot, whose place the server keeps. Only the first of many calls that met the
 * same trouble moves it (`generation`). */
#ifndef PRIM_NATIVE_CLIENT_H
#define PRIM_NATIVE_CLIENT_H
#include <pthread.h>

#include "base/buf.h"
#include "io/real.h"
#include "prim/backend.h"
#include "rpc/client.h"

struct native_client;
struct native_call;

struct native_client_options {
    const char *const *addresses; /* ends with NULL; all of this is copied */
    bool tls;
    const char *ca_file, *cert_file, *key_file; /* or NULL */
    struct prim_clock clock;
};
/* ERR_INVALID, ERR_NOMEM, ERR_IO and what reading certificates gives, with a note. */
enum err native_client_open(const struct native_client_options *options,
                            struct native_client **ret_client, struct note *note);
/* Every call and stream ends first (ERR_CANCELLED, ERR_UNKNOWN), then the thread. */
void native_client_close(struct native_client *client);
struct loop *native_client_loop(struct native_client *client);
int64_t native_client_now(const struct native_client *client); /* the store's clock */
/* Runs fn on the loop's thread and waits for it. Not from that thread. */
void native_client_do(struct native_client *client, void (*fn)(void *owner), void *owner);
/* Loop thread. Is there anything open that would hang if its server fell silent? */
bool native_client_listens(const struct native_client *client);
/* Any thread: calls that wait at the server end, and none begins any more. */
void native_client_stop_waiting(struct native_client *client);

/* -- a thread that waits -- */
struct native_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};
void native_wait_init(struct native_wait *wait);
void native_wait_for(struct native_wait *wait); /* once; it can be thrown away after */
void native_wait_done(struct native_wait *wait);

/* -- unary calls -- */
enum {
    NATIVE_RESPONSE_MAX = 8 * 1024 * 1024,
    NATIVE_REQUEST_MAX = 4 * 1024 * 1024,
};
struct native_op {
    /* set by native_op_init and the caller */
    const char *path;
    struct buf request; /* encoded */
    int64_t deadline_ns;
    bool waits;   /* silence is no trouble: it waits for a slot */
    bool hurried; /* fail when every address has failed, instead of waiting for one */
    void (*done)(struct native_op *op); /* loop's thread; NULL: somebody is in native_op_run */
    void *owner;
    /* the answer */
    enum err err; /* as rpc_outcome */
    enum grpc_status status;
    bool answered, stopped;
    char text[160];
    struct buf response;
    /* the client's */
    struct native_client *client;
    struct rpc_client_call *call;
    struct post post;
    struct list link;
    struct native_wait wait;
    uint32_t generation;
    uint64_t slice_ms;
    bool doubt, again;
};
void native_op_init(struct native_op *op, const char *path, int64_t deadline_ns);
void native_op_deinit(struct native_op *op);
void native_op_start(struct native_client *client, struct native_op *op); /* any thread */
void native_op_run(struct native_client *client, struct native_op *op);   /* not the loop's */

/* -- streams from the server: loop thread only, but for init -- */
struct native_stream {
    /* the owner's */
    const char *path;
    enum err (*on_ask)(struct native_stream *stream, struct buf *request); /* what to ask for */
    void (*on_message)(struct native_stream *stream, struct str message);
    /* `status`, `text`: what the server said, or GRPC_UNAVAILABLE. It is asked again after a pause
     * unless the owner leaves it. */
    void (*on_broken)(struct native_stream *stream, enum grpc_status status, struct str text);
    /* the client's */
    struct native_client *client;
    struct native_call *call; /* NULL: not open */
    struct list link;
    struct timer again;
    mono_time opened;
    uint32_t failures;
    bool wanted;
};
enum err native_stream_init(struct native_stream *stream, struct native_client *client,
                            const char *path);
void native_stream_deinit(struct native_stream *stream); /* leaves it, too */
void native_stream_want(struct native_stream *stream);   /* opens it, and again when it ends */
void native_stream_leave(struct native_stream *stream);  /* ends it; nothing is called any more */
void native_stream_reset(struct native_stream *stream);  /* as if it had broken */
#endif
