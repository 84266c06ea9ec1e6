/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: from applied changes to the streams of those who look.
 *
 * A watcher is first told a snapshot at one revision (or nothing, when it names where it was), then
 * every change after it, in order, each once. What waits for a watcher is only the numbers of
 * changes; the bytes stand in the store's own history, once for all. A watcher that lets more wait
 * than events_max changes or bytes_max of what they would be told with, or longer than history is
 * kept, is told RESYNC and gets a new snapshot: it costs itself only. So does one that would have
 * the numbers of all watchers together take more than held_max. A turn of the loop tells a bounded
 * number of bytes, to as many as that is.
 *
 * A deletion is told as EXPIRED when a lease's deadline made it. That is known from applying, not
 * from the state: of changes that came by a snapshot of the log it is not known, and they are told
 * as DELETE; likewise the owner of a claim that is over. */
#ifndef STORE_HUB_H
#define STORE_HUB_H
#include "io/io.h"
#include "obs/metrics.h"
#include "rpc/call.h"
#include "store/machine.h"

struct hub;
struct watcher;
struct hub_options {
    struct io *io;
    struct store_machine *machine;
    uint32_t watchers_max, events_max;
    uint64_t bytes_max, held_max;     /* 0: 64 MiB, 256 MiB */
    struct counter *resyncs, *events; /* may be NULL */
};
enum err hub_open(const struct hub_options *options,
                  struct hub **ret_hub); /* ERR_NOMEM, ERR_FULL */
void hub_close(struct hub *hub);         /* no watcher is left; NULL is fine */
size_t hub_count(const struct hub *hub);

enum watch_kind { WATCH_KEY, WATCH_BUCKET, WATCH_PREFIX };
struct watch_scope {
    enum watch_kind kind;
    struct str name; /* as the caller says it: without "muster/", unless WATCH_PREFIX */
    uint64_t start_revision;
    bool needs_leader; /* ends when leadership is lost */
};
/* The call's data is the watcher from now on; it is told from hub_begin on. ERR_FULL
 * (watchers_max), ERR_NOMEM: the call is as it was. */
enum err hub_watch(struct hub *hub, struct rpc_call *call, const struct watch_scope *scope,
                   struct watcher **ret_watcher);
void hub_begin(struct watcher *watcher); /* may end it: COMPACTED */
/* Of who made it, until it begins. */
void hub_set_start(struct watcher *watcher, void *start);
void *hub_start(const struct watcher *watcher);
void hub_writable(struct watcher *watcher);
void hub_end(struct watcher *watcher, enum grpc_status status, struct str text); /* by us */
void hub_gone(struct watcher *watcher);                                          /* by the call */

void hub_applied(struct hub *hub, const struct store_applied *applied);
void hub_restored(struct hub *hub);
void hub_leadership_lost(struct hub *hub);
void hub_second(struct hub *hub);
#endif
