/* Watches: from applied changes to the streams of those who look.
 *
 * A watcher is first told a snapshot at one revision (or nothing, when it names where it was), then
 * every change after it, in order, each once. What waits for a watcher is only the numbers of
 * changes; the bytes stand in the store's own history, once for all. A watcher that lets more wait
 * than events_max, or longer than history is kept, is told RESYNC and gets a new snapshot: it costs
 * itself only.
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
    struct counter *resyncs, *events; /* may be NULL */
};
enum err hub_open(const struct hub_options *options, struct hub **ret_hub); /* ERR_NOMEM */
void hub_close(struct hub *hub); /* no watcher is left; NULL is fine */
size_t hub_count(const struct hub *hub);

enum watch_kind { WATCH_KEY, WATCH_BUCKET, WATCH_PREFIX };
struct watch_scope {
    enum watch_kind kind;
    struct str name; /* as the caller says it: without "muster/", unless WATCH_PREFIX */
    uint64_t start_revision;
    bool needs_leader; /* ends when leadership is lost */
};
/* The watcher is told from now on. ERR_FULL (watchers_max), ERR_NOMEM: the call is as it was. */
enum err hub_watch(struct hub *hub, struct rpc_call *call, const struct watch_scope *scope,
                   struct watcher **ret_watcher);
void hub_writable(struct watcher *watcher);
void hub_end(struct watcher *watcher, enum grpc_status status, struct str text); /* by us */
void hub_gone(struct watcher *watcher);                                          /* by the call */

void hub_applied(struct hub *hub, const struct store_applied *applied);
void hub_restored(struct hub *hub);
void hub_leadership_lost(struct hub *hub);
void hub_second(struct hub *hub);
#endif
