/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a Kubernetes API server: blocking calls, each with its own time limit, from any
 * number of threads.
 *
 * It moves objects as JSON and reports the outcome of a call; it knows no kind of object. It never
 * retries and never reads from the server's cache: a get or a list without a resourceVersion is
 * answered by the store behind the server. PATCH is not offered, because without a resourceVersion
 * it overwrites silently.
 *
 * The surprising rule: a write may arrive twice. When a kept connection turns out dead, the
 * transport sends the request again over a new one. Creates and updates with a resourceVersion then
 * answer ERR_EXISTS or ERR_CONFLICT; the writer must recognise its own write in the object.
 */
#ifndef KUBE_KUBE_H
#define KUBE_KUBE_H
#include "base/note.h"
#include "base/str.h"
#include "kube/config.h"
#include "kube/decode.h"

enum {
    KUBE_BODY_MAX = 16 << 20,      /* bytes of one answer; more is ERR_TOO_LARGE */
    KUBE_WATCH_LINE_MAX = 8 << 20, /* bytes of one event: an object has at most 1.5 MiB stored */
    KUBE_IDLE_CONNECTIONS_MAX = 8, /* kept for the next calls; more are closed after use */
    KUBE_RETRY_AFTER_MAX_MS = 3600 * 1000, /* a longer wish is cut to this */
};

struct kube; /* any thread; no call may run when it is closed */

/* Takes a copy of the config. ERR_INVALID: a server that is no http(s) address, or plain http to
 * another host than this (it would show the token); ERR_NOMEM, ERR_IO. Connects nowhere yet. */
enum err kube_open(const struct kube_config *config, struct kube **ret_kube, struct note *note);
void kube_close(struct kube *kube); /* NULL is fine */
/* Every call that runs or comes, from any thread, ends within a second, as ERR_CANCELLED where
 * nothing was sent or only read; for a process that ends while the server does not answer. Watches
 * have their own word. */
void kube_cancel(struct kube *kube);

/* Where an object lives. Words as in URLs; checked before anything is sent. */
struct kube_path {
    const char *group, *version; /* "" and "v1" for the core group */
    const char *namespace_;      /* NULL: not namespaced, or all namespaces of a list */
    const char *resource;        /* "leases" */
    const char *name;            /* NULL: the collection */
    const char *subresource;     /* NULL: the object itself */
};

/* The answer, also after an error that has a status. */
struct kube_answer {
    uint32_t http_status; /* 0: no answer came */
    char reason[KUBE_REASON_CAP];
    uint64_t retry_after_ms; /* 0: the server did not ask for a pause */
    struct json *object;     /* of a success; the answer's own */
};
void kube_answer_deinit(struct kube_answer *answer); /* fine on a zeroed one, and twice */

/* All: *ret_answer is written in every case and always to be deinited; NULL discards it. The errors
 * are those of kube_status_err(), and without an answer:
 *   ERR_TIMEOUT, ERR_UNAVAILABLE  nothing was done (a read, or the request never left)
 *   ERR_UNKNOWN                   a write was sent and its outcome is open
 *   ERR_PARSE, ERR_TOO_LARGE      a read's answer is not what an API server says; for a write this
 *                                 too is ERR_UNKNOWN
 *   ERR_CANCELLED                 kube_cancel(): as ERR_TIMEOUT
 *   ERR_INVALID                   the path, before anything was sent
 *   ERR_UNAUTHENTICATED           the token file cannot be read
 *   ERR_NOMEM */
enum err kube_get(struct kube *kube, const struct kube_path *path, uint64_t timeout_ms,
                  struct kube_answer *ret_answer, struct note *note);

struct kube_list_options {
    const char *label_selector; /* NULL: all */
    const char *field_selector; /* NULL: all */
    uint32_t limit;             /* objects per page; 0: the server's choice, all of them */
    struct str continue_;       /* of the page before; the pages show one instant. A token that has
                                     become too old is ERR_PRECONDITION: begin anew */
};
/* The answer's object is a list: kube_list_decode(). */
enum err kube_list(struct kube *kube, const struct kube_path *path,
                   const struct kube_list_options *options, uint64_t timeout_ms,
                   struct kube_answer *ret_answer, struct note *note);
enum err kube_create(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);
/* Replaces the object. The body must carry metadata.resourceVersion (not looked at here), else
 * somebody's change is overwritten. */
enum err kube_update(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);

/* `uid`: ERR_CONFLICT when the object of that name has another; NULL: whichever it is. */
enum err kube_delete(struct kube *kube, const struct kube_path *path, const char *uid,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);
/* policy/v1 Eviction of a pod. ERR_FULL (429): a disruption budget is in the way. */
enum err kube_evict(struct kube *kube, const char *namespace_, const char *pod, const char *uid,
                    uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);

/* -- watch: one reader; kube_watch_cancel() from any thread -- */

struct kube_watch;
struct kube_watch_options {
    const char *label_selector;   /* NULL: all */
    const char *resource_version; /* of the list that came before; never NULL */
    uint64_t idle_timeout_ms; /* no byte for so long: the connection is dead; 0: 150,000 (an idle
                                     server sends a bookmark about every minute) */
};
/* Takes a copy of everything. Connects with the first kube_watch_next(). ERR_INVALID, ERR_NOMEM. */
enum err kube_watch_open(struct kube *kube, const struct kube_path *path,
                         const struct kube_watch_options *options, struct kube_watch **ret_watch,
                         struct note *note);
/* The next change. A stream that ends or breaks is taken up again where it was, with growing
 * pauses; nothing is lost and nothing comes twice. Bookmarks are handed over, too.
 *   ERR_TIMEOUT       nothing within wait_ms; call again
 *   ERR_PRECONDITION  too long ago for the server to remember: list, then open a new watch
 *   ERR_CANCELLED     kube_watch_cancel() was called
 *   ERR_UNAUTHENTICATED, ERR_DENIED, ERR_NOT_FOUND, ERR_INVALID, ERR_UNSUPPORTED   the server's no
 *   ERR_PARSE, ERR_TOO_LARGE   not what an API server says; list anew
 * All but ERR_TIMEOUT are final. On success kube_event_deinit() is the caller's. */
enum err kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_event *ret_event,
                         struct note *note);
void kube_watch_cancel(struct kube_watch *watch); /* a waiting next() returns at once */
void kube_watch_close(struct kube_watch *watch);  /* NULL is fine; not during next() */
#endif
