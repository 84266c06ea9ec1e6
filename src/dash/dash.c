/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the dashboard and runs its tick. A tick publishes and sends each changed topic,
 * and then sends the due queries. Closing waits for all calls and all requests of the HTTP thread.
 * Loop's thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"

static const char *const topic_paths[TOPICS] = {
    [TOPIC_RAFT] = "/api/raft",       [TOPIC_TOPOLOGY] = "/api/topology",
    [TOPIC_FLEET] = "/api/fleet",     [TOPIC_SHARDS] = "/api/shards",
    [TOPIC_NEEDS] = "/api/needs",     [TOPIC_STORE] = "/api/store",
    [TOPIC_WORKERS] = "/api/workers", [TOPIC_NOTES] = "/api/notes",
};
static const char *topic_name(enum topic topic)
{
    return topic_paths[topic] + sizeof "/api/" - 1;
}

/* -- helpers -- */

static bool dash_is_young(const struct dash *dash)
{
    return !mono_due(dash->young_until, loop_now(dash->io->loop));
}

mono_time dash_again(const struct dash *dash, uint64_t every_ms)
{
    mono_time now = loop_now(dash->io->loop);
    bool calm = !dash->watched && mono_due(dash->calm_from, now);

    if (dash_is_young(dash)) return mono_after(now, YOUNG_TICK_MS);
    return mono_after(now, calm ? every_ms * CALM_FACTOR : every_ms);
}

void dash_send(struct dash *dash, const char *name, struct str json)
{
    if (json.len > EVENT_MAX) json = STR("{\"fetch\":true}");
    /* a lost event is harmless: the next event contains the whole topic */
    (void)http_channel_send(dash->events, str_from(name), json);
}

void dash_why(char why[WHY_CAP], const struct rpc_outcome *outcome)
{
    if (outcome->status == GRPC_UNIMPLEMENTED)
        snprintf(why, WHY_CAP, "not served here");
    else if (outcome->text.len)
        snprintf(why, WHY_CAP, "%.*s", STR_ARG(outcome->text));
    else
        snprintf(why, WHY_CAP, "%s", err_text(outcome->err ? outcome->err : ERR_UNKNOWN));
}

/* Compares in constant time. False if the dashboard has no token. */
static bool dash_token_matches(const struct dash *dash, struct str authorization)
{
    struct str bearer = STR("Bearer "), given = str_tail(authorization, bearer.len);
    size_t len = strlen(dash->token);
    unsigned char differ = 0;

    if (len == 0 || !str_starts(authorization, bearer) || given.len != len) return false;
    for (size_t i = 0; i < len; i++) differ |= (unsigned char)(given.at[i] ^ dash->token[i]);
    return differ == 0;
}

static bool dash_is_admin(const struct tls_identity *identity)
{
    struct str uri;

    return identity && !tls_identity_uri(identity, STR("bigfleet"), &uri) &&
           str_equal(uri, STR("bigfleet://admin"));
}

const char *dash_admin_by(const struct dash *dash, const struct http_request *request)
{
    if (dash_token_matches(dash, request->authorization)) return "token";
    return dash->token[0] && dash_is_admin(request->identity) ? "certificate" : NULL;
}

void dash_maybe_closed(struct dash *dash)
{
    void (*closed)(void *owner) = dash->closed;
    void *owner = dash->closed_owner;

    if (!dash->closing || dash->channels_open > 0) return;
    if (!page_requests_idle(&dash->lookups) || !page_requests_idle(&dash->actions)) return;
    parts_close(dash);
    links_close(&dash->shards);
    links_close(&dash->replicas);
    links_close(&dash->groups);
    notes_close(dash);
    browse_close(dash);
    page_requests_close(&dash->actions);
    timer_deinit(&dash->tick);
    tls_context_unref(dash->tls);
    tls_context_unref(dash->shard_tls);
    buf_deinit(&dash->text);
    free(dash->history);
    pthread_mutex_destroy(&dash->lock);
    free(dash);
    if (closed) closed(owner);
}

void dash_channel_closed(void *owner)
{
    struct dash *dash = owner;

    dash->channels_open--;
    dash_maybe_closed(dash);
}

enum err dash_channel_open(struct dash *dash, const char *const *addresses, enum dash_peer peer,
                           struct rpc_channel **ret_channel, struct note *note)
{
    struct rpc_channel_options options = {.io = dash->io,
                                          .addresses = addresses,
                                          .tls = peer == PEER_SHARD ? dash->shard_tls : dash->tls,
                                          .follow_leader = peer == PEER_COORDINATORS,
                                          .backoff_max_ms = 5000};
    enum err err = rpc_channel_open(&options, ret_channel, note);

    if (!err) dash->channels_open++;
    return err;
}

/* -- this replica -- */

static void dash_see_leader(struct dash *dash, const struct dash_self *self)
{
    struct leader_seen *last = dash->leader_count ? &dash->leaders[dash->leader_count - 1] : NULL;

    if (!self->leader_id) return;
    if (last && last->term == self->term && last->leader_id == self->leader_id) return;
    if (dash->leader_count == LEADERS_KEPT) {
        memmove(dash->leaders, dash->leaders + 1, sizeof dash->leaders - sizeof dash->leaders[0]);
        dash->leader_count--;
    }
    dash->leaders[dash->leader_count++] =
        (struct leader_seen){clock_wall(dash->io->clock), self->term, self->leader_id};
}

void dash_id_text(uint64_t id, char text[DASH_ID_CAP])
{
    snprintf(text, DASH_ID_CAP, "%016llx", (unsigned long long)id);
}

static void dash_put_id(struct ndjson *json, const char *key, uint64_t id)
{
    char text[DASH_ID_CAP];

    dash_id_text(id, text);
    ndjson_c_string(json, str_from(key), id ? text : NULL);
}

static void dash_write_self(struct dash *dash, struct ndjson *json)
{
    struct dash_self self;

    dash->self(dash->owner, &self);
    dash_see_leader(dash, &self);
    if (dash->snapshot != self.snapshot || dash->snapshot_at.ms == 0) {
        dash->snapshot = self.snapshot;
        dash->snapshot_at = clock_wall(dash->io->clock);
    }
    dash->now.values[SERIES_COMMIT] = (double)self.commit;
    dash->now.values[SERIES_TERM] = (double)self.term;
    ndjson_open_object(json, STR("self"));
    dash_put_id(json, "replica_id", self.id);
    dash_put_id(json, "leader_id", self.leader_id);
    ndjson_c_string(json, STR("role"), self.role);
    ndjson_bool(json, STR("ready"), self.ready);
    ndjson_bool(json, STR("voter"), self.voter);
    ndjson_bool(json, STR("installing"), self.installing);
    ndjson_bool(json, STR("disk_full"), self.disk_full);
    ndjson_u64(json, STR("level"), self.level);
    ndjson_u64(json, STR("term"), self.term);
    ndjson_u64(json, STR("first"), self.first);
    ndjson_u64(json, STR("last"), self.last);
    ndjson_u64(json, STR("durable"), self.durable);
    ndjson_u64(json, STR("commit"), self.commit);
    ndjson_u64(json, STR("applied"), self.applied);
    ndjson_u64(json, STR("snapshot"), self.snapshot);
    ndjson_u64(json, STR("snapshot_seen_ms"), self.snapshot ? dash->snapshot_at.ms : 0);
    ndjson_u64(json, STR("log_bytes"), self.log_bytes);
    ndjson_u64(json, STR("disk_free"), self.disk_free);
    ndjson_close_object(json);
    ndjson_open_array(json, STR("leaders"));
    for (size_t i = 0; i < dash->leader_count; i++) {
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_u64(json, STR("at_ms"), dash->leaders[i].at.ms);
        ndjson_u64(json, STR("term"), dash->leaders[i].term);
        dash_put_id(json, "leader_id", dash->leaders[i].leader_id);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

/* -- topics -- */

static void dash_publish_topic(struct dash *dash, enum topic topic)
{
    struct ndjson json;

    buf_clear(&dash->text);
    ndjson_begin(&json, &dash->text, NDJSON_LINE);
    if (topic == TOPIC_RAFT) dash_write_self(dash, &json);
    parts_write(dash, topic, &json);
    shards_write(dash, topic, &json);
    replicas_write(dash, topic, &json);
    groups_write(dash, topic, &json);
    notes_write(dash, topic, &json);
    if (ndjson_end(&json)) {
        buf_clear(&dash->text);
        ndjson_begin(&json, &dash->text, NDJSON_LINE);
        ndjson_open_object(&json, STR("errors"));
        ndjson_c_string(&json, STR("all"), "too much to show here; musterctl lists it");
        ndjson_close_object(&json);
        if (ndjson_end(&json)) return;
    }
    if (!http_publish(dash->http, topic_paths[topic], "application/json", buf_peek(&dash->text)))
        dash_send(dash, topic_name(topic), json_line(&dash->text));
}

static void dash_publish_sample(struct dash *dash)
{
    dash->now.at = clock_wall(dash->io->clock);
    shards_sample(dash, &dash->now);
    pthread_mutex_lock(&dash->lock);
    history_add(dash->history, &dash->now);
    pthread_mutex_unlock(&dash->lock);
    buf_clear(&dash->text);
    if (!sample_write(&dash->now, &dash->text)) dash_send(dash, "sample", json_line(&dash->text));
}

/* A topic has at most one event per tick. */
static void dash_on_tick(struct timer *timer)
{
    struct dash *dash = CONTAINER_OF(timer, struct dash, tick);
    mono_time now = loop_now(dash->io->loop);

    bool watched = http_stats(dash->http).readers > 0;

    timer_start_in(timer, dash_is_young(dash) ? YOUNG_TICK_MS : TICK_MS);
    dash->eager = dash->hurry || (watched && !dash->watched);
    dash->hurry = false;
    dash->watched = watched;
    dash->dirty[TOPIC_RAFT] = true; /* this replica's values change without a response */
    for (size_t i = 0; i < TOPICS; i++) {
        if (dash->dirty[i]) dash_publish_topic(dash, (enum topic)i);
        dash->dirty[i] = false;
    }
    if (mono_due(dash->sample_due, now)) {
        dash_publish_sample(dash);
        dash->sample_due = mono_after(now, SAMPLE_MS);
    }
    parts_ask(dash);
    shards_ask(dash);
    links_ask(&dash->replicas);
    links_ask(&dash->groups);
    notes_ask(dash);
}

/* -- life -- */

static void dash_copy_text(char *to, size_t cap, const char *from)
{
    snprintf(to, cap, "%s", from ? from : "");
}

static enum err dash_open_rest(struct dash *dash, const struct dash_options *options,
                               struct note *note)
{
    enum err err = timer_init(&dash->tick, dash->io->loop, dash_on_tick);

    if (!err) err = parts_open(dash);
    if (!err) err = shards_open(dash);
    if (!err) err = replicas_open(dash);
    if (!err) err = groups_open(dash);
    if (!err) err = notes_open(dash, options->notes_file);
    if (!err) err = browse_open(dash);
    if (!err) err = actions_open(dash);
    if (!err) err = pages_open(dash);
    for (size_t i = 0; i < TOPICS && !err; i++)
        err = http_publish(dash->http, topic_paths[i], "application/json", STR("{}\n"));
    if (!err) err = http_channel_open(dash->http, "/api/events", (size_t)TOPICS * 4, &dash->events);
    if (!err)
        err = dash_channel_open(dash, options->addresses, PEER_COORDINATORS, &dash->channel, note);
    if (!err) timer_start_in(&dash->tick, 0);
    return err;
}

enum err dash_open(const struct dash_options *options, struct dash **ret_dash, struct note *note)
{
    struct dash *dash = calloc(1, sizeof *dash);
    enum err err;

    if (!dash) return ERR_NOMEM;
    dash->io = options->io;
    dash->log = *options->log;
    dash->http = options->http;
    dash->tls = options->tls;
    dash->shard_tls = options->shard_tls ? options->shard_tls : options->tls;
    if (dash->tls) tls_context_ref(dash->tls);
    if (dash->shard_tls) tls_context_ref(dash->shard_tls);
    dash_copy_text(dash->node, sizeof dash->node, options->node);
    dash_copy_text(dash->version, sizeof dash->version, options->version);
    dash_copy_text(dash->commit, sizeof dash->commit, options->commit);
    dash_copy_text(dash->warning, sizeof dash->warning, options->warning);
    dash_copy_text(dash->read_only, sizeof dash->read_only, options->read_only);
    dash_copy_text(dash->token, sizeof dash->token, options->token);
    dash->self = options->self;
    dash->owner = options->owner;
    pthread_mutex_init(&dash->lock, NULL);
    buf_init(&dash->text, TOPIC_MAX);
    sample_clear(&dash->now, clock_wall(dash->io->clock));
    dash->young_until = mono_after(loop_now(dash->io->loop), YOUNG_MS);
    dash->calm_from = mono_after(loop_now(dash->io->loop), CALM_AFTER_MS);
    dash->history = calloc(1, sizeof *dash->history);
    err = dash->history ? dash_open_rest(dash, options, note) : ERR_NOMEM;
    if (err) {
        note_prefix(note, "dashboard");
        dash_close(dash, NULL, NULL); /* frees before the return, because no channel is open */
    } else {
        *ret_dash = dash;
    }
    return err;
}

void dash_close(struct dash *dash, void (*done)(void *owner), void *owner)
{
    dash->closing = true;
    dash->closed = done;
    dash->closed_owner = owner;
    timer_stop(&dash->tick);
    pages_close(dash);     /* no handler runs after pages_close */
    dash->channels_open++; /* prevents freeing during the teardown */
    links_hang_up(&dash->shards);
    links_hang_up(&dash->replicas);
    if (dash->channel) rpc_channel_close(dash->channel, dash_channel_closed, dash);
    dash->channel = NULL;
    dash_channel_closed(dash);
}
