/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a Kubernetes API server. Calls block, have their own timeouts, and may come from any
 * number of threads.
 *
 * The client transfers objects as JSON and does not interpret them. It never retries. Gets and
 * lists carry no resourceVersion, so the server answers them from its store and not from its cache.
 * PATCH is not offered, because without a resourceVersion it overwrites silently.
 *
 * A write may arrive twice: when a kept connection is dead, the transport sends the request again
 * over a new connection. The second create or update with a resourceVersion then returns ERR_EXISTS
 * or ERR_CONFLICT. The writer must recognise its own write in the object. */
#ifndef KUBE_KUBE_H
#define KUBE_KUBE_H
#include "base/note.h"
#include "base/str.h"
#include "kube/config.h"
#include "kube/decode.h"

enum {
    KUBE_BODY_MAX = 16 << 20,      /* bytes of one answer; a larger answer is ERR_TOO_LARGE */
    KUBE_WATCH_LINE_MAX = 8 << 20, /* bytes of one event; a stored object has at most 1.5 MiB */
    KUBE_IDLE_CONNECTIONS_MAX = 8, /* connections kept for later calls; others close after use */
    KUBE_RETRY_AFTER_MAX_MS = 3600 * 1000, /* upper limit for the server's Retry-After */
};

struct kube; /* may be used by any thread; must not be closed while calls run */

/* Opens a client with a copy of the config. Does not connect yet. ERR_INVALID: the server is not an
 * http(s) address, or is plain http on another host, which exposes the token. ERR_NOMEM, ERR_IO. */
enum err kube_open(const struct kube_config *config, struct kube **ret_kube, struct note *note);
void kube_close(struct kube *kube); /* NULL is allowed */
/* Ends every current and future call within a second, from any thread. The result is ERR_CANCELLED
 * if nothing was sent or the call only reads. Used at shutdown when the server does not answer.
 * kube_watch_cancel() ends watches. */
void kube_cancel(struct kube *kube);

/* The path of an object. Each part is as in URLs and is checked before anything is sent. */
struct kube_path {
    const char *group, *version; /* "" and "v1" for the core group */
    const char *namespace_;      /* NULL: not namespaced, or a list of all namespaces */
    const char *resource;        /* "leases" */
    const char *name;            /* NULL: the collection */
    const char *subresource;     /* NULL: the object itself */
};

/* The answer, also set after an error that has a status. */
struct kube_answer {
    uint32_t http_status; /* 0: no answer was received */
    char reason[KUBE_REASON_CAP];
    uint64_t retry_after_ms; /* 0: the server did not request a delay */
    struct json *object;     /* set on success; owned by the answer */
};
void kube_answer_deinit(struct kube_answer *answer); /* a zeroed or deinited answer is allowed */

/* Rules for all calls: *ret_answer is always written and the caller must deinit it; NULL discards
 * the answer. Errors are those of kube_status_err(), and without an answer:
 *   ERR_TIMEOUT, ERR_UNAVAILABLE  nothing was done (a read, or the request was not sent)
 *   ERR_UNKNOWN                   a write was sent and its outcome is unknown
 *   ERR_PARSE, ERR_TOO_LARGE      the answer to a read is malformed; the same case is ERR_UNKNOWN
 *                                 for a write
 *   ERR_CANCELLED                 kube_cancel() was called; nothing was done, as for ERR_TIMEOUT
 *   ERR_INVALID                   the path is invalid; nothing was sent
 *   ERR_UNAUTHENTICATED           the token file cannot be read
 *   ERR_NOMEM */
enum err kube_get(struct kube *kube, const struct kube_path *path, uint64_t timeout_ms,
                  struct kube_answer *ret_answer, struct note *note);

struct kube_list_options {
    const char *label_selector; /* NULL: selects all objects */
    const char *field_selector; /* NULL: selects all objects */
    uint32_t limit;             /* objects per page; 0: the server returns all objects */
    struct str continue_;       /* token of the previous page; all pages show the same instant.
                                 * ERR_PRECONDITION: the token has expired, list from the start */
};
/* Lists objects. The object of the answer is a list for kube_list_decode(). */
enum err kube_list(struct kube *kube, const struct kube_path *path,
                   const struct kube_list_options *options, uint64_t timeout_ms,
                   struct kube_answer *ret_answer, struct note *note);
enum err kube_create(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);
/* Replaces the object. The body must contain metadata.resourceVersion, otherwise the update
 * overwrites concurrent changes. The client does not check the body. */
enum err kube_update(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);

/* Deletes an object. With `uid`, returns ERR_CONFLICT if the object of that name has another uid.
 * NULL deletes any object of that name. */
enum err kube_delete(struct kube *kube, const struct kube_path *path, const char *uid,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);
/* Evicts a pod (policy/v1 Eviction). ERR_FULL (429): a disruption budget forbids the eviction. */
enum err kube_evict(struct kube *kube, const char *namespace_, const char *pod, const char *uid,
                    uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);

/* -- watch: one reader thread; kube_watch_cancel() from any thread -- */

struct kube_watch;
struct kube_watch_options {
    const char *label_selector;   /* NULL: selects all objects */
    const char *resource_version; /* resourceVersion of the list before the watch; never NULL */
    uint64_t idle_timeout_ms; /* the connection counts as dead after this time without a byte; 0:
                                 150,000 (an idle server sends a bookmark about every minute) */
};
/* Opens a watch with a copy of all options. kube_watch_next() connects. ERR_INVALID, ERR_NOMEM. */
enum err kube_watch_open(struct kube *kube, const struct kube_path *path,
                         const struct kube_watch_options *options, struct kube_watch **ret_watch,
                         struct note *note);
/* Returns the next change. When a stream ends or breaks, the watch reopens it at the same position
 * after growing pauses, so no event is lost or repeated. Bookmarks are returned, too.
 *   ERR_TIMEOUT       nothing within wait_ms; call again
 *   ERR_PRECONDITION  the server no longer has the version: list, then open a new watch
 *   ERR_CANCELLED     kube_watch_cancel() was called
 *   ERR_UNAUTHENTICATED, ERR_DENIED, ERR_NOT_FOUND, ERR_INVALID, ERR_UNSUPPORTED   server errors
 *   ERR_PARSE, ERR_TOO_LARGE   the answer is malformed; list again
 * All errors but ERR_TIMEOUT are final. On success the caller must call kube_event_deinit(). */
enum err kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_event *ret_event,
                         struct note *note);
void kube_watch_cancel(struct kube_watch *watch); /* a waiting kube_watch_next() returns at once */
void kube_watch_close(struct kube_watch *watch);  /* not during kube_watch_next(); may be NULL */
#endif
