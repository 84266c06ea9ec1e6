/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which connection gets the calls, and which address is dialed next.
 *
 *   active   ready; new calls go here                      at most one
 *   next     being dialed, to become active                only while there is no active connection
 *   spare    being dialed or ready, to another address     only with warm_second
 *   extra    being dialed or ready, to the address of the  at most connections_max - 1; only while
 *            active connection                             the existing streams do not suffice
 *
 * All other connections are retiring: they finish their calls and close.
 *
 * A lost spare is replaced after a random delay. A round is one dial of every address; after a
 * failed round the next round backs off. A connection lost soon after it became ready counts as a
 * failed round. While the leader's address from a "not leader" response is dialed, no other
 * connection becomes active: calls wait for the leader. */
#include <string.h>

#include "rpc/client_internal.h"

enum { SPARE_AGAIN_MIN_MS = 1000, SPARE_AGAIN_SPREAD_MS = 30000 };

static void back_off(struct rpc_channel *c, uint32_t *failures, struct timer *timer)
{
    const struct backoff backoff = {c->options.backoff_first_ms, c->options.backoff_max_ms};

    if (*failures < UINT32_MAX) ++*failures;
    timer_start_in(timer, backoff_ms(backoff, *failures, prng_u64(&c->prng)));
}

static void count_failed_round(struct rpc_channel *c)
{
    c->tried = 0;
    back_off(c, &c->failures, &c->dial.timer);
}

static void step_past(struct rpc_channel *c, const char *address)
{
    for (size_t i = 0; i < c->address_count; i++)
        if (strcmp(c->addresses[i], address) == 0) c->next_address = (i + 1) % c->address_count;
}

/* -- extra connections to the same server -- */

/* `idle_only`: only extra connections without calls */
static void retire_extras(struct rpc_channel *c, bool idle_only)
{
    if (c->extra_count == 0) return;
    LIST_EACH_SAFE(&c->connections, node, following)
    {
        struct client_connection *n = CONTAINER_OF(node, struct client_connection, link);
        bool idle = n->state == CLIENT_READY && n->calls_count == 0;
        if (n->extra && n->state < CLIENT_RETIRING && (idle || !idle_only)) client_retire(n);
    }
}

/* Retires extra connections without calls when half of the active connection's streams are free. */
static void retire_idle_extras(struct rpc_channel *c)
{
    if (c->extra_count == 0 || !c->active || !list_empty(&c->waiting)) return;
    if (h2_streams(c->active->h2) <= h2_requests_max(c->active->h2) / 2) retire_extras(c, true);
}

static bool has_room(const struct client_connection *n)
{
    return n->state == CLIENT_READY && h2_streams(n->h2) < h2_requests_max(n->h2);
}

static void dial_extra(struct rpc_channel *c)
{
    struct client_connection *n;

    if (c->extra_count + 1 >= c->options.connections_max || timer_running(&c->extra_pause.timer))
        return;
    CHANNEL_COUNT(c, dials);
    if (client_dial(c, c->active->address, &n, NULL)) {
        back_off(c, &c->extra_failures, &c->extra_pause.timer);
        return;
    }
    n->extra = true;
    c->extra_count++;
}

struct client_connection *roles_with_room(struct rpc_channel *c)
{
    bool dialing = false;

    if (c->options.connections_max == 1 || has_room(c->active)) return c->active;
    LIST_EACH(&c->connections, node)
    {
        struct client_connection *n = CONTAINER_OF(node, struct client_connection, link);
        if (!n->extra) continue;
        if (has_room(n)) return n;
        dialing = dialing || n->state == CLIENT_DIALING;
    }
    if (!dialing) dial_extra(c); /* one dial at a time, because one connection may suffice */
    return NULL;
}

static void extra_lost(struct client_connection *n)
{
    struct rpc_channel *c = n->channel;

    n->extra = false;
    assert(c->extra_count > 0);
    c->extra_count--;
    if (!client_has_spoken(n) && !c->closing)
        back_off(c, &c->extra_failures, &c->extra_pause.timer);
}

/* -- failures -- */

static void dial_failed(struct rpc_channel *c, const char *address)
{
    CHANNEL_COUNT(c, dials_failed);
    if (c->options.on_dial_failed)
        c->options.on_dial_failed(c->options.owner, address, &c->last_failure);
    if (c->following) {
        c->following = false;
        return;
    }
    step_past(c, address);
    if (++c->tried < c->address_count) return; /* the next address is dialed immediately */
    c->failing = true;
    channel_changed(c);
    count_failed_round(c);
}

static void spare_later(struct rpc_channel *c)
{
    c->spare_failures = 0;
    timer_start_in(&c->spare_pause.timer,
                   SPARE_AGAIN_MIN_MS + prng_below(&c->prng, SPARE_AGAIN_SPREAD_MS));
}

static bool lived_long(const struct client_connection *connection)
{
    mono_time now = loop_now(connection->channel->io->loop);

    return client_has_spoken(connection) &&
           mono_elapsed_ms(connection->ready_since, now) >= CONNECTION_STABLE_MS;
}

void roles_drop(struct client_connection *connection)
{
    struct rpc_channel *c = connection->channel;
    bool stable = lived_long(connection);

    if (c->closing) return;
    if (connection == c->spare) {
        c->spare = NULL;
        if (stable)
            spare_later(c);
        else
            back_off(c, &c->spare_failures, &c->spare_pause.timer);
    } else if (connection == c->next) {
        c->next = NULL;
        dial_failed(c, connection->address);
    } else if (connection == c->active) {
        c->active = NULL;
        retire_extras(c, false);
        step_past(c, connection->address);
        if (stable)
            c->failures = 0;
        else
            count_failed_round(c);
    }
    channel_changed(c);
}

void roles_lost(struct client_connection *connection, const struct note *why)
{
    struct rpc_channel *c = connection->channel;

    c->last_failure = *why;
    if (connection->extra) extra_lost(connection);
    roles_drop(connection);
}

/* -- dialing -- */

void roles_timer(struct timer *timer)
{
    channel_touch(CONTAINER_OF(timer, struct role_timer, timer)->channel);
}

static void dial_next(struct rpc_channel *c)
{
    const char *address = c->addresses[c->next_address];
    enum err err = client_dial(c, address, &c->next, &c->last_failure);

    CHANNEL_COUNT(c, dials);
    if (!err) return;
    c->next = NULL;
    dial_failed(c, address);
    channel_touch(c);
}

static void dial_spare(struct rpc_channel *c)
{
    for (size_t i = 0; i < c->address_count; i++) {
        const char *address = c->addresses[c->spare_address];
        c->spare_address = (c->spare_address + 1) % c->address_count;
        if (strcmp(address, c->active->address) == 0) continue;
        CHANNEL_COUNT(c, dials);
        if (client_dial(c, address, &c->spare, NULL)) {
            c->spare = NULL;
            back_off(c, &c->spare_failures, &c->spare_pause.timer);
        }
        return;
    }
    /* Every address is that of the active connection, so there is no spare to dial. */
    timer_start_in(&c->spare_pause.timer, c->options.backoff_max_ms);
}

static void promote_spare(struct rpc_channel *c)
{
    struct client_connection *dialing = c->next;

    c->active = c->spare;
    c->spare = NULL;
    c->next = NULL;
    timer_stop(&c->dial.timer);
    spare_later(c);
    if (dialing) client_cut(dialing);
}

void roles_settle(struct rpc_channel *c)
{
    if (!c->active && c->spare && c->spare->state == CLIENT_READY && !c->following)
        promote_spare(c);
    if (!c->active && !c->next && !timer_running(&c->dial.timer)) dial_next(c);
    if (c->options.warm_second && c->active && !c->spare && !timer_running(&c->spare_pause.timer))
        dial_spare(c);
    retire_idle_extras(c);
}

void roles_ready(struct client_connection *connection)
{
    struct rpc_channel *c = connection->channel;

    if (connection->extra) {
        c->extra_failures = 0;
        channel_changed(c);
    }
    if (connection != c->next && connection != c->spare) return;
    c->failing = false;
    c->tried = 0;
    if (connection == c->next) {
        assert(!c->active);
        c->next = NULL;
        c->active = connection;
        c->following = false;
    }
    channel_changed(c);
}

/* -- changes of roles -- */

static void step_down(struct rpc_channel *c, bool keep_warm)
{
    struct client_connection *old = c->active;

    c->active = NULL;
    retire_extras(c, false);
    if (keep_warm && c->options.warm_second && !c->spare)
        c->spare = old;
    else
        client_retire(old);
}

void rpc_channel_next_address(struct rpc_channel *c)
{
    if (c->closing || !c->active) return;
    step_past(c, c->active->address);
    step_down(c, false);
    channel_touch(c);
}

void rpc_channel_answer_late(struct rpc_channel *c, uint64_t silence_max_ms)
{
    struct client_connection *late = c->active;

    if (c->closing || !late) return;
    if (c->spare && c->spare->state == CLIENT_READY && !c->following) {
        c->active = c->spare;
        c->spare = late;
        channel_changed(c);
    }
    client_probe(late, silence_max_ms);
}

void roles_follow(struct rpc_channel *c, const struct client_connection *from, struct str leader)
{
    char address[RPC_ADDRESS_CAP];

    if (from && from->extra && from->state == CLIENT_READY) from = c->active; /* same server */
    /* an outdated response: the active connection has changed already */
    if (c->closing || !from || from != c->active) return;
    if (leader.len == 0 || leader.len >= sizeof address) {
        rpc_channel_next_address(c);
        return;
    }
    memcpy(address, leader.at, leader.len);
    address[leader.len] = '\0';
    if (strcmp(address, from->address) == 0) {
        rpc_channel_next_address(c); /* the server is not the leader, but names itself */
        return;
    }
    channel_touch(c);
    if (c->spare && strcmp(c->spare->address, address) == 0) {
        struct client_connection *leading = c->spare;
        c->spare = NULL;
        step_down(c, true);
        if (leading->state == CLIENT_READY) {
            c->active = leading;
        } else {
            c->next = leading;
            c->following = true;
        }
        return;
    }
    if (client_dial(c, address, &c->next, NULL)) {
        c->next = NULL;
        rpc_channel_next_address(c); /* the text is not a valid address */
        return;
    }
    CHANNEL_COUNT(c, dials);
    timer_stop(&c->dial.timer);
    step_down(c, true);
    c->following = true;
}
