/* SPDX-License-Identifier: Apache-2.0 */
/* Watch: who may be told from here, and when it begins.
 *
 * On the leader a watch begins after a leadership round, so that its snapshot holds everything
 * acknowledged before the call; from then on it follows what is applied. */
#include <stdlib.h>

#include "store/hub.h"
#include "store/service_internal.h"

struct start { /* until its watch has begun */
    struct list link;
    struct store_service *service;
    struct rpc_call *call;
    struct watcher *watcher;
    mono_time since;
    struct read_ticket ticket;
};

/* What is left is the watcher, or after `gone` the call alone. */
static void start_over(struct start *start, bool gone)
{
    hub_set_start(start->watcher, NULL);
    if (gone) hub_gone(start->watcher);
    list_remove(&start->link);
    free(start);
}

static void on_led(struct read_ticket *ticket, enum err err)
{
    struct start *start = CONTAINER_OF(ticket, struct start, ticket);
    struct store_service *service = start->service;
    struct watcher *watcher = start->watcher;
    struct rpc_call *call = start->call;

    start_over(start, err != ERR_OK);
    if (err == ERR_NOT_LEADER)
        leader_redirect(&service->leader, call);
    else if (err)
        rpc_finish(call, GRPC_UNAVAILABLE, STR("Watch: leadership is changing"), STR_EMPTY);
    else
        hub_begin(watcher);
}

static void begin(struct store_service *service, struct rpc_call *call, struct watcher *watcher)
{
    struct start *start = calloc(1, sizeof *start);

    if (!start) {
        hub_gone(watcher);
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    *start = (struct start){.service = service,
                            .call = call,
                            .watcher = watcher,
                            .since = loop_now(service->io->loop),
                            .ticket = {.done = on_led}};
    list_init(&start->link);
    list_append(&service->starting, &start->link);
    hub_set_start(watcher, start);
    replica_read(service->leader.replica, &start->ticket);
}

/* Its place among the watches is taken from the first moment on. */
static void watch(struct store_service *service, struct rpc_call *call,
                  const struct watch_scope *scope)
{
    struct watcher *watcher;
    struct note note = {""};
    enum err err = hub_watch(service->hub, call, scope, &watcher);

    if (err) {
        note_set(&note, "Watch: %zu are open; try again", hub_count(service->hub));
        rpc_fail(call, err, &note);
    } else if (scope->needs_leader) {
        begin(service, call, watcher);
    } else {
        hub_begin(watcher);
    }
}

void starts_overdue(struct store_service *service)
{
    mono_time now = loop_now(service->io->loop);

    LIST_EACH_SAFE(&service->starting, node, next)
    {
        struct start *start = CONTAINER_OF(node, struct start, link);

        if (!mono_due(mono_after(start->since, service->limits.wait_ms), now)) break;
        struct rpc_call *call = start->call;
        replica_read_cancel(service->leader.replica, &start->ticket);
        start_over(start, true);
        rpc_finish(call, GRPC_UNAVAILABLE, STR("Watch: no majority answered"), STR_EMPTY);
    }
}

static bool scope_of(const Muster__V1__WatchRequest *m, struct watch_scope *scope,
                     struct note *note)
{
    *scope = (struct watch_scope){.kind = m->raw      ? WATCH_PREFIX
                                          : m->bucket ? WATCH_BUCKET
                                                      : WATCH_KEY,
                                  .name = bytes_str(m->scope),
                                  .start_revision = m->start_revision,
                                  .needs_leader = !m->serializable};
    if (m->raw && m->bucket) {
        note_set(note, "Watch: a bucket or a prefix, not both");
        return false;
    }
    if (m->raw) {
        note_set(note, "Watch: a prefix of %zu bytes: at most %d", m->scope.len, STORE_KEY_MAX);
        return m->scope.len <= STORE_KEY_MAX;
    }
    if (m->bucket && m->scope.len == 0) return true; /* keys without a bucket */
    return (m->bucket ? store_check_group(scope->name, note)
                      : store_check_claim_key(scope->name, note)) == 0;
}

static void on_message(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct store_service *service = owner;
    const Muster__V1__WatchRequest *m = (const Muster__V1__WatchRequest *)message;
    struct watch_scope scope;
    struct note note = {""};
    enum grpc_status status;
    const char *text;

    (void)bytes;
    rpc_call_set_data(call, NULL);
    if (!scope_of(m, &scope, &note))
        rpc_finish(call, GRPC_INVALID_ARGUMENT, str_from(note.text), STR_EMPTY);
    else if (!store_is_meant(service, message, &status, &text))
        rpc_finish(call, status, str_from(text), STR_EMPTY);
    else if (store_machine_restoring(service->machine))
        rpc_finish(call, GRPC_UNAVAILABLE, STR("Watch: a snapshot is being restored"), STR_EMPTY);
    else if (!m->serializable && !leader_here(&service->leader))
        leader_redirect(&service->leader, call);
    else
        watch(service, call, &scope);
}

static void on_writable(void *owner, struct rpc_call *call)
{
    struct watcher *watcher = rpc_call_data(call);

    (void)owner;
    if (watcher && !hub_start(watcher)) hub_writable(watcher);
}

static void on_drain(void *owner, struct rpc_call *call)
{
    struct watcher *watcher = rpc_call_data(call);

    (void)owner;
    if (watcher && !hub_start(watcher))
        hub_end(watcher, GRPC_UNAVAILABLE, STR("Watch: this replica stops"));
}

static void on_done(void *owner, struct rpc_call *call)
{
    struct store_service *service = owner;
    struct watcher *watcher = rpc_call_data(call);
    struct start *start = watcher ? hub_start(watcher) : NULL;

    if (start) {
        replica_read_cancel(service->leader.replica, &start->ticket);
        start_over(start, true);
    } else if (watcher) {
        hub_gone(watcher);
    }
}

const struct rpc_handler store_watch_handler = {
    .on_message = on_message, .on_writable = on_writable, .on_drain = on_drain, .on_done = on_done};
