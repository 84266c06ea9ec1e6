/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes channels, and runs the task that does a channel's work: roles, waiting calls,
 * ends of calls. Loop's thread. */
#include <stdlib.h>
#include <string.h>

#include "rpc/client_internal.h"

enum {
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MAX_MS = 10000,
    DIAL_TIMEOUT_MS = 5000,
    PING_TIMEOUT_MS = 20000,
    CALLS_MAX = 10000,
};

void channel_touch(struct rpc_channel *channel)
{
    loop_defer(channel->io->loop, &channel->work);
}

void channel_changed(struct rpc_channel *channel)
{
    channel->changed = true;
    channel_touch(channel);
}

/* -- waiting calls -- */

static void fail_the_impatient(struct rpc_channel *c)
{
    LIST_EACH_SAFE(&c->waiting, node, following)
    {
        struct rpc_client_call *call = CONTAINER_OF(node, struct rpc_client_call, link);
        if (!call->wait_for_ready)
            client_call_stop(call, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, c->last_failure.text);
    }
}

static void assign_waiting(struct rpc_channel *c)
{
    enum err err = ERR_OK;

    while (c->active && !list_empty(&c->waiting)) {
        struct rpc_client_call *call = CONTAINER_OF(c->waiting.next, struct rpc_client_call, link);
        struct client_connection *n = roles_with_room(c);
        if (!n) return; /* this function runs again when a stream or connection is free */
        err = client_call_begin(call, n);
        if (err == ERR_FULL) return;
        if (err == ERR_CLOSED) {
            roles_drop(n);
            client_retire(n);
            roles_settle(c);
        }
    }
    if (!c->active && c->failing && !c->following) fail_the_impatient(c);
}

/* -- ends -- */

static void count_end(const struct rpc_channel *c, const struct rpc_client_call *call)
{
    const struct rpc_client_metrics *counts = c->options.metrics;
    uint64_t took;

    if (!counts) return;
    took = clock_mono_ns(c->io->clock).ns - call->started.ns;
    counter_inc(counts->calls[grpc_status_defined(call->outcome.status)]);
    if (call->outcome.err == ERR_UNKNOWN) counter_inc(counts->unknown);
    histogram_observe(counts->seconds, (double)took / 1e9);
}

static void deliver_ends(struct rpc_channel *c)
{
    struct list due, *node;

    list_init(&due);
    list_splice(&due, &c->ended);
    while ((node = list_pop(&due)) != NULL) {
        struct rpc_client_call *call = CONTAINER_OF(node, struct rpc_client_call, link);
        assert(call->state == CALL_ENDED);
        count_end(c, call);
        call->events.on_end(call->owner, call, &call->outcome);
        assert(c->calls_count > 0);
        c->calls_count--;
        c->changed = true;
        client_call_free(call);
    }
}

static void continue_resumed(struct rpc_channel *c)
{
    struct list due, *node;

    list_init(&due);
    list_splice(&due, &c->resumed);
    while ((node = list_pop(&due)) != NULL)
        answer_continue(CONTAINER_OF(node, struct rpc_client_call, resume_link));
}

/* -- life -- */

static void channel_free(struct rpc_channel *c)
{
    turn_hook_remove(&c->hook);
    task_cancel(&c->work);
    timer_deinit(&c->dial.timer);
    timer_deinit(&c->spare_pause.timer);
    timer_deinit(&c->extra_pause.timer);
    for (size_t i = 0; i < c->address_count; i++) free(c->addresses[i]);
    free(c->tls_name);
    tls_context_unref(c->options.tls);
    free(c);
}

static void report_changes(struct rpc_channel *c)
{
    if (!c->changed || c->closing) return;
    c->changed = false;
    if (c->options.on_change) c->options.on_change(c->options.owner);
}

static void work(struct task *task)
{
    struct rpc_channel *c = CONTAINER_OF(task, struct rpc_channel, work);
    void (*done)(void *);
    void *owner;

    if (!c->closing) {
        roles_settle(c);
        assign_waiting(c);
    }
    continue_resumed(c);
    deliver_ends(c);
    report_changes(c);
    done = c->done;
    owner = c->done_owner;
    if (!c->closing || c->calls_count > 0 || !list_empty(&c->connections)) return;
    channel_free(c);
    if (done) done(owner);
}

/* at the end of the turn, one write per connection */
static void flush_all(struct turn_hook *hook)
{
    struct rpc_channel *c = CONTAINER_OF(hook, struct rpc_channel, hook);

    LIST_EACH_SAFE(&c->connections, node, following)
    client_flush(CONTAINER_OF(node, struct client_connection, link));
}

static enum err copy_addresses(struct rpc_channel *c, const char *const *addresses,
                               struct note *note)
{
    struct address_parts parts;

    for (size_t i = 0; addresses && addresses[i]; i++) {
        enum err err = address_split(addresses[i], &parts, note);
        if (err) return err;
        if (c->address_count == RPC_ADDRESSES_MAX || strlen(addresses[i]) >= RPC_ADDRESS_CAP)
            return note_fail(note, ERR_INVALID, "%s: too many addresses, or too long",
                             addresses[i]);
        c->addresses[c->address_count] = str_dup(str_from(addresses[i]));
        if (!c->addresses[c->address_count]) return ERR_NOMEM;
        c->address_count++;
    }
    if (c->address_count > 0) return ERR_OK;
    return note_fail(note, ERR_INVALID, "no address to dial");
}

static void settle_options(struct rpc_channel *c, const struct rpc_channel_options *given)
{
    struct rpc_channel_options *o = &c->options;

    *o = *given;
    o->addresses = NULL; /* the channel has its own copies */
    o->tls_name = NULL;
    if (!o->backoff_first_ms) o->backoff_first_ms = BACKOFF_FIRST_MS;
    if (!o->backoff_max_ms) o->backoff_max_ms = BACKOFF_MAX_MS;
    if (!o->dial_timeout_ms) o->dial_timeout_ms = DIAL_TIMEOUT_MS;
    if (!o->ping_timeout_ms) o->ping_timeout_ms = PING_TIMEOUT_MS;
    if (!o->calls_max) o->calls_max = CALLS_MAX;
    if (!o->connections_max) o->connections_max = 1;
    if (o->tls) tls_context_ref(o->tls);
}

enum err rpc_channel_open(const struct rpc_channel_options *options,
                          struct rpc_channel **ret_channel, struct note *note)
{
    struct rpc_channel *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    c->io = options->io;
    c->dial.channel = c->spare_pause.channel = c->extra_pause.channel = c;
    settle_options(c, options);
    task_init(&c->work, work);
    list_init(&c->waiting);
    list_init(&c->delayed);
    list_init(&c->ended);
    list_init(&c->resumed);
    list_init(&c->connections);
    prng_seed(&c->prng, entropy_u64(c->io->entropy));
    err = copy_addresses(c, options->addresses, note);
    if (!err && options->tls_name) {
        c->tls_name = str_dup(str_from(options->tls_name));
        if (!c->tls_name) err = ERR_NOMEM;
    }
    if (!err) err = timer_init(&c->dial.timer, c->io->loop, roles_timer);
    if (!err) err = timer_init(&c->spare_pause.timer, c->io->loop, roles_timer);
    if (!err) err = timer_init(&c->extra_pause.timer, c->io->loop, roles_timer);
    if (err) {
        channel_free(c);
        return err;
    }
    turn_hook_add(c->io->loop, &c->hook, flush_all);
    channel_touch(c);
    *ret_channel = c;
    return ERR_OK;
}

static void stop_all(struct list *calls)
{
    while (!list_empty(calls))
        client_call_stop(CONTAINER_OF(calls->next, struct rpc_client_call, link), ERR_CANCELLED,
                         GRPC_CANCELLED, "the channel was closed");
}

void rpc_channel_close(struct rpc_channel *c, void (*done)(void *owner), void *owner)
{
    assert(!c->closing);
    c->closing = true;
    c->done = done;
    c->done_owner = owner;
    timer_stop(&c->dial.timer);
    timer_stop(&c->spare_pause.timer);
    timer_stop(&c->extra_pause.timer);
    c->active = c->next = c->spare = NULL;
    stop_all(&c->waiting);
    stop_all(&c->delayed);
    LIST_EACH_SAFE(&c->connections, node, following)
    {
        struct client_connection *connection = CONTAINER_OF(node, struct client_connection, link);
        stop_all(&connection->calls);
        client_cut(connection);
    }
    channel_touch(c);
}

bool rpc_channel_ready(const struct rpc_channel *c)
{
    return c->active != NULL;
}

size_t rpc_channel_room(const struct rpc_channel *c)
{
    return c->active && c->active->h2 ? h2_requests_max(c->active->h2) : 0;
}

bool rpc_channel_failing(const struct rpc_channel *c)
{
    return c->failing;
}

const char *rpc_channel_peer(const struct rpc_channel *c)
{
    return c->active ? c->active->address : "";
}

const char *rpc_channel_warm_peer(const struct rpc_channel *c)
{
    return c->spare && c->spare->state == CLIENT_READY ? c->spare->address : "";
}
