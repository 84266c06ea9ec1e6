/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the API server and the request that runs over it, and what watch.c uses of
 * client.c. libcurl is used in channel.c only. A channel belongs to one thread at a time, except
 * for channel_wake(). */
#ifndef KUBE_CHANNEL_H
#define KUBE_CHANNEL_H
#include <stdatomic.h>

#include "base/buf.h"
#include "base/time.h"
#include "kube/kube.h"

struct channel;

/* Where all requests of a client go; borrowed by its channels. */
struct target {
    char *base;       /* "https://host:port/path" as requests begin */
    char *host_field; /* a Host header, when tls-server-name hides the real one; else NULL */
    char *connect_to; /* likewise: where to connect instead; else NULL */
    const struct kube_config *config;
};
enum err target_init(struct target *target, const struct kube_config *config, struct note *note);
void target_deinit(struct target *target);

enum err channel_open(struct channel **ret_channel);
void channel_close(struct channel *channel); /* NULL is fine */

struct channel_request {
    const char *method, *url; /* url: from `base` on */
    const char *token;        /* NULL: none */
    struct str body;          /* empty: none; valid until channel_end() */
    size_t received_max;
};
enum err channel_begin(struct channel *channel, const struct target *target,
                       const struct channel_request *request);
enum channel_state {
    CHANNEL_RUNNING, /* wake_at came, or channel_wake(), or, for a stream, bytes */
    CHANNEL_DONE,    /* the whole answer is here */
    CHANNEL_FAILED,  /* no answer, or half of one; `error` says why */
};
/* Works until `wake_at`. With `stream`: also returns whenever bytes of a 200 came, and holds the
 * server back while `received` is large. */
enum channel_state channel_run(struct channel *channel, mono_time wake_at, bool stream);
void channel_end(struct channel *channel); /* the connection stays open when it can be used again */
void channel_wake(struct channel *channel); /* any thread */
/* Without a request: sleeps until `wake_at` or channel_wake(). */
void channel_rest(struct channel *channel, mono_time wake_at);

/* Valid between begin and end. */
uint32_t channel_http_status(struct channel *channel);
struct channel_outcome {
    uint64_t retry_after_ms;
    bool sent;      /* a byte of the request may have left */
    bool too_large; /* the answer passed received_max */
    bool no_memory;
    const char *error;
};
struct channel_outcome channel_outcome(struct channel *channel);
struct buf *channel_received(struct channel *channel); /* the reader consumes from its front */

/* -- client.c -- */
const struct target *kube_target(const struct kube *kube);
/* A heap copy; unchanged when there is no token. */
enum err kube_token(struct kube *kube, char **ret_token, struct note *note);
enum err kube_channel_take(struct kube *kube, struct channel **ret_channel);
void kube_channel_give(struct kube *kube, struct channel *own_channel);
enum err kube_url_path(const struct kube *kube, const struct kube_path *path, struct buf *url,
                       struct note *note);
enum err kube_url_query(struct buf *url, const char *key, struct str value);
#endif
