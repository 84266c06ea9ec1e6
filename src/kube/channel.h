/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the API server with at most one request at a time. A channel belongs to one
 * thread at a time; only channel_wake() may be called from other threads. Also declares the
 * functions of client.c that watch.c uses. */
#ifndef KUBE_CHANNEL_H
#define KUBE_CHANNEL_H
#include <stdatomic.h>

#include "base/buf.h"
#include "base/time.h"
#include "kube/kube.h"

struct channel;

/* The server of a client. Channels borrow the target. */
struct target {
    char *base;       /* "https://host:port/path": the start of every URL */
    char *host_field; /* Host header if tls-server-name is set; else NULL */
    char *connect_to; /* real address if tls-server-name is set; else NULL */
    const struct kube_config *config;
};
enum err target_init(struct target *target, const struct kube_config *config, struct note *note);
void target_deinit(struct target *target);

enum err channel_open(struct channel **ret_channel);
void channel_close(struct channel *channel); /* NULL is allowed */

struct channel_request {
    const char *method, *url; /* url: the part after `base` */
    const char *token;
    struct str body; /* "": no body; must stay valid until channel_end() */
    size_t received_max;
};
enum err channel_begin(struct channel *channel, const struct target *target,
                       const struct channel_request *request);
enum channel_state {
    CHANNEL_RUNNING, /* wake_at passed, channel_wake(), or a stream received bytes */
    CHANNEL_DONE,    /* the complete answer was received */
    CHANNEL_FAILED,  /* no answer or a truncated answer; `error` has the cause */
};
/* Runs the request until `wake_at`. `stream`: also returns when bytes of a 200 answer arrive, and
 * slows the server down while `received` is large. */
enum channel_state channel_run(struct channel *channel, mono_time wake_at, bool stream);
void channel_end(struct channel *channel);  /* keeps the connection open if possible */
void channel_wake(struct channel *channel); /* any thread */
/* Sleeps until `wake_at` or channel_wake(). The channel must have no request. */
void channel_rest(struct channel *channel, mono_time wake_at);

/* Valid between channel_begin() and channel_end(). */
uint32_t channel_http_status(struct channel *channel);
struct channel_outcome {
    uint64_t retry_after_ms;
    bool sent;      /* some bytes of the request may have been sent */
    bool too_large; /* the answer exceeded received_max */
    bool no_memory;
    const char *error;
};
struct channel_outcome channel_outcome(struct channel *channel);
struct buf *channel_received(struct channel *channel); /* the reader removes bytes from the front */

/* -- client.c -- */
const struct target *kube_target(const struct kube *kube);
/* Returns a heap copy; *ret_token is unchanged if there is no token. */
enum err kube_token(struct kube *kube, char **ret_token, struct note *note);
enum err kube_channel_take(struct kube *kube, struct channel **ret_channel);
void kube_channel_give(struct kube *kube, struct channel *own_channel);
enum err kube_url_path(const struct kube *kube, const struct kube_path *path, struct buf *url,
                       struct note *note);
enum err kube_url_query(struct buf *url, const char *key, struct str value);
#endif
