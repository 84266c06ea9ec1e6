/* Watch: who may be told from here, and when it begins.
 *
 * On the leader a watch begins after a leadership round, so that its snapshot holds everything
 * acknowledged before the call; from then on it follows what is applied. */
#include <stdlib.h>

#include "store/hub.h"
#include "store/service_internal.h"

struct start { /* the call's data until its watch has begun */
    struct list link;
    struct store_service *service;
    struct rpc_call *call;
    struct watch_scope scope; /* its name stands in the call's arena */
    mono_time since;
    struct read_ticket ticket;
};
/* A call's data is one or the other; which, is known by this list. */
static struct start *start_of(struct store_service *service, const struct rpc_call *call)
{
    LIST_EACH(&service->starting, node)
    {
        struct start *start = CONTAINER_OF(node, struct start, link);
        if (start->call == call) return start;
    }
    return NULL;
}

static void start_free(struct start *start)
{
    list_remove(&start->link);
    free(start);
}

static void watch(struct store_service *service, struct rpc_call *call,
                  const struct watch_scope *scope)
{
    struct watcher *watcher;
    struct note note = {""};
    enum err err = hub_watch(service->hub, call, scope, &watcher);

    if (!err) return;
    note_set(&note, "Watch: %zu are open; try again", hub_count(service->hub));
    rpc_fail(call, err, &note);
}

static void on_led(struct read_ticket *ticket, enum err err)
{
    struct start *start = CONTAINER_OF(ticket, struct start, ticket);
    struct store_service *service = start->service;
    struct rpc_call *call = start->call;
    struct watch_scope scope = start->scope;

    start_free(start);
    rpc_call_set_data(call, NULL);
    if (err == ERR_NOT_LEADER)
        rpc_fail_not_leader(call,
                            service->leader_address ? service->leader_address(service->owner) : "");
    else if (err)
        rpc_finish(call, GRPC_UNAVAILABLE, STR("Watch: leadership is changing"), STR_EMPTY);
    else
        watch(service, call, &scope);
}

static void begin(struct store_service *service, struct rpc_call *call,
                  const struct watch_scope *scope)
{
    struct start *start = calloc(1, sizeof *start);

    if (!start) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    *start = (struct start){.service = service,
                            .call = call,
                            .scope = *scope,
                            .since = loop_now(service->io->loop),
                            .ticket = {.done = on_led}};
    list_init(&start->link);
    list_append(&service->starting, &start->link);
    rpc_call_set_data(call, start);
    replica_read(service->replica, &start->ticket);
}

void starts_overdue(struct store_service *service)
{
    mono_time now = loop_now(service->io->loop);

    LIST_EACH_SAFE(&service->starting, node, next)
    {
        struct start *start = CONTAINER_OF(node, struct start, link);

        if (!mono_due(mono_after(start->since, service->limits.wait_ms), now)) break;
        replica_read_cancel(service->replica, &start->ticket);
        rpc_call_set_data(start->call, NULL);
        rpc_finish(start->call, GRPC_UNAVAILABLE, STR("Watch: no majority answered"), STR_EMPTY);
        start_free(start);
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

    (void)bytes;
    rpc_call_set_data(call, NULL);
    if (!scope_of(m, &scope, &note))
        rpc_finish(call, GRPC_INVALID_ARGUMENT, str_from(note.text), STR_EMPTY);
    else if (store_machine_restoring(service->machine))
        rpc_finish(call, GRPC_UNAVAILABLE, STR("Watch: a snapshot is being restored"), STR_EMPTY);
    else if (m->serializable)
        watch(service, call, &scope);
    else if (!service->replica || replica_status(service->replica).role != REPLICA_LEADER)
        rpc_fail_not_leader(call,
                            service->leader_address ? service->leader_address(service->owner) : "");
    else
        begin(service, call, &scope);
}

static void on_writable(void *owner, struct rpc_call *call)
{
    struct watcher *watcher = rpc_call_data(call);

    if (watcher && !start_of(owner, call)) hub_writable(watcher);
}

static void on_drain(void *owner, struct rpc_call *call)
{
    struct watcher *watcher = rpc_call_data(call);

    if (watcher && !start_of(owner, call))
        hub_end(watcher, GRPC_UNAVAILABLE, STR("Watch: this replica stops"));
}

static void on_done(void *owner, struct rpc_call *call)
{
    struct store_service *service = owner;
    struct start *start = start_of(service, call);

    if (start) {
        replica_read_cancel(service->replica, &start->ticket);
        start_free(start);
    } else if (rpc_call_data(call)) {
        hub_gone(rpc_call_data(call));
    }
}

const struct rpc_handler store_watch_handler = {
    .on_message = on_message, .on_writable = on_writable, .on_drain = on_drain, .on_done = on_done};
