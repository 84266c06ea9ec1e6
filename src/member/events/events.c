/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the events of workers as lines of JSON. Invariant: only heartbeats may be dropped; every
 * other event is accepted or refused with ERR_FULL. Any thread. */
#include "member/events/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "obs/field_json.h"
#include "text/ndjson.h"

enum { LIMIT_USUAL = 5000, RUN_CAP = 129, EVENT_ID_CAP = 48, OWN_FIELDS = 4 };

const struct event_topic_info event_topic_infos[TOPIC_COUNT] = {
    [TOPIC_WORKER_REGISTERED] = {"worker_registered", "info", true},
    [TOPIC_WORKER_HEARTBEAT] = {"worker_heartbeat", "info", true},
    [TOPIC_WORKER_DEREGISTERED] = {"worker_deregistered", "info", true},
    [TOPIC_WORKER_FAILED] = {"worker_failed", "warn", true, "due_at_ms"},
    [TOPIC_COORDINATOR_FENCED] = {"coordinator_fenced", "error", true,
                                  "observed_epoch stale_epoch"},
    [TOPIC_WORK_DISPATCHED] = {"work_dispatched", "info", true, "work_id"},
    [TOPIC_WORK_COMPLETED] = {"work_completed", "info", true, "work_id"},
    [TOPIC_WORK_STOLEN] = {"work_stolen", "info", true, "thief work_id"},
    [TOPIC_RUN_DONE] = {"run_done", "info", true, "done items stolen"},
    [TOPIC_WORK_FAILED] = {"work_failed", "warn", false},
    [TOPIC_WORKER_SUSPECTED] = {"worker_suspected", "info", false},
    [TOPIC_WORKER_RECOVERED] = {"worker_recovered", "info", false},
    [TOPIC_WORKER_RESTARTED] = {"worker_restarted", "warn", false},
    [TOPIC_WORKER_IDENTITY_CONFLICT] = {"worker_identity_conflict", "warn", false},
    [TOPIC_CLOCK_SKEW] = {"clock_skew", "warn", false},
    [TOPIC_MASS_FAILURE_HOLD] = {"mass_failure_hold", "error", false},
    [TOPIC_ASSIGNMENT_CHANGED] = {"assignment_changed", "info", false},
    [TOPIC_PARTITION_REVOKING] = {"partition_revoking", "info", false},
    [TOPIC_PARTITION_GRANTED] = {"partition_granted", "info", false},
    [TOPIC_REVOKE_TIMEOUT] = {"revoke_timeout", "error", false},
    [TOPIC_CHECKPOINT_TRIGGERED] = {"checkpoint_triggered", "info", false},
    [TOPIC_CHECKPOINT_TIMEOUT] = {"checkpoint_timeout", "warn", false},
    [TOPIC_PARTITION_OVERFULL] = {"partition_overfull", "warn", false},
    [TOPIC_LEADER_CHANGED] = {"leader_changed", "info", false},
};

struct sampler {
    struct prng prng;
    uint64_t second, seen, written;
    uint64_t one_in; /* one in N heartbeats is written; follows the count of the last second */
};
struct member_events {
    pthread_mutex_t lock; /* protects all fields below that change after open */
    struct events *sink;
    struct clock *clock;
    struct log_source log;
    enum member_events_heartbeat heartbeat;
    uint64_t limit;
    bool ids, rollout_only;
    struct sampler sampler;
    struct member_events_stats stats;
    size_t run_len;
    char run[RUN_CAP];
};

/* -- encoding a line -- */

static bool is_rollouts(enum event_topic topic, const char *key)
{
    const char *list = event_topic_infos[topic].attributes, *at = list ? strstr(list, key) : NULL;
    size_t len = strlen(key);

    return at && (at == list || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' ');
}

static void events_put_text(struct ndjson *line, struct str key, struct str text)
{
    if (text.len)
        ndjson_string(line, key, text);
    else
        ndjson_null(line, key);
}

/* Keeps the order of keys; an existing key keeps its value. */
static void add_field(struct log_field *fields, size_t *count, struct log_field field)
{
    size_t at = *count;

    for (size_t i = 0; i < *count; i++)
        if (strcmp(fields[i].key, field.key) == 0) return;
    assert(*count < EVENT_FIELDS_MAX + OWN_FIELDS);
    for (; at > 0 && strcmp(fields[at - 1].key, field.key) > 0; at--) fields[at] = fields[at - 1];
    fields[at] = field;
    (*count)++;
}

static size_t gather_fields(const struct event_line *event, bool ids, bool rollout_only,
                            char event_id[EVENT_ID_CAP], struct log_field *fields)
{
    size_t count = 0, given = 0;

    for (const struct log_field *f = event->fields; f && f->kind != LOG_KIND_END; f++) {
        given++;
        assert(given <= EVENT_FIELDS_MAX);
        if (!rollout_only || is_rollouts(event->topic, f->key)) add_field(fields, &count, *f);
    }
    if (!ids) return count;
    if (event->entry_index) {
        snprintf(event_id, EVENT_ID_CAP, "%" PRIu64 ".%" PRIu32, event->entry_index,
                 event->entry_place);
        add_field(fields, &count, log_text("event_id", event_id));
    }
    if (event->incarnation) add_field(fields, &count, log_u64("incarnation", event->incarnation));
    if (event->replayed) add_field(fields, &count, log_bool("replayed", true));
    return count;
}

enum err event_line_write(const struct event_line *event, struct str run_id, bool ids,
                          bool rollout_only, struct buf *out)
{
    const struct event_topic_info *info = &event_topic_infos[event->topic];
    struct log_field fields[EVENT_FIELDS_MAX + OWN_FIELDS];
    char event_id[EVENT_ID_CAP];
    size_t count = gather_fields(event, ids, rollout_only, event_id, fields);
    struct ndjson line;

    ndjson_begin(&line, out, NDJSON_LINE);
    ndjson_open_object(&line, STR("ts"));
    ndjson_u64(&line, STR("secs_since_epoch"), event->at.ms / MS_PER_SECOND);
    ndjson_u64(&line, STR("nanos_since_epoch"), event->at.ms % MS_PER_SECOND * NS_PER_MS);
    ndjson_close_object(&line);
    ndjson_open_object(&line, STR("kind"));
    ndjson_open_object(&line, STR("domain"));
    ndjson_c_string(&line, STR("topic"), info->name);
    ndjson_close_object(&line);
    ndjson_close_object(&line);
    ndjson_c_string(&line, STR("level"), info->level);
    events_put_text(&line, STR("run_id"), event->run_id.len ? event->run_id : run_id);
    events_put_text(&line, STR("worker_id"), event->worker_id);
    ndjson_null(&line, STR("trace_id"));
    ndjson_null(&line, STR("span_id"));
    ndjson_null(&line, STR("plugin_id"));
    ndjson_null(&line, STR("algorithm"));
    events_put_text(&line, STR("message"), event->message);
    if (count) {
        ndjson_open_object(&line, STR("attrs"));
        for (size_t i = 0; i < count; i++) field_json(&line, &fields[i]);
        ndjson_close_object(&line);
    } else {
        ndjson_null(&line, STR("attrs"));
    }
    return ndjson_end(&line);
}

/* -- open and close -- */

static void set(struct member_events *events, enum member_events_heartbeat heartbeat,
                uint64_t limit, bool ids, bool rollout_only)
{
    events->heartbeat = heartbeat;
    events->limit = limit ? limit : LIMIT_USUAL;
    events->ids = ids;
    events->rollout_only = rollout_only;
}

enum err member_events_open(const struct member_events_options *options,
                            struct member_events **ret_events)
{
    struct member_events *events;

    if (options->run_id.len >= RUN_CAP || !options->clock) return ERR_INVALID;
    events = calloc(1, sizeof *events);
    if (!events) return ERR_NOMEM;
    pthread_mutex_init(&events->lock, NULL);
    events->sink = options->sink;
    events->clock = options->clock;
    /* the source name that rollout uses, regardless of the process's name */
    log_source_init(&events->log, options->log ? options->log->logger : NULL, "coordinator", NULL);
    events->run_len = options->run_id.len;
    memcpy(events->run, options->run_id.at, options->run_id.len);
    prng_seed(&events->sampler.prng, options->seed);
    events->sampler.one_in = 1;
    set(events, options->heartbeat, options->heartbeat_limit, options->ids, options->rollout_only);
    *ret_events = events;
    return ERR_OK;
}

void member_events_close(struct member_events *events)
{
    if (!events) return;
    pthread_mutex_destroy(&events->lock);
    free(events);
}

void member_events_set(struct member_events *events, enum member_events_heartbeat heartbeat,
                       uint64_t heartbeat_limit, bool ids, bool rollout_only)
{
    if (!events) return;
    pthread_mutex_lock(&events->lock);
    set(events, heartbeat, heartbeat_limit, ids, rollout_only);
    pthread_mutex_unlock(&events->lock);
}

/* -- emitting events -- */

/* Counts under the lock. Writes without the lock, because the sink has its own. */
static enum err events_notify(struct member_events *events, struct event_line event)
{
    enum events_class class = event.topic == TOPIC_WORKER_HEARTBEAT ? EVENT_MAY_DROP : EVENT_KEEP;
    struct str line;
    struct buf out;
    bool ids, rollout_only;
    enum err err;

    pthread_mutex_lock(&events->lock);
    ids = events->ids;
    rollout_only = events->rollout_only;
    pthread_mutex_unlock(&events->lock);
    if (rollout_only && !event_topic_infos[event.topic].rollout) return ERR_OK;
    if (event.at.ms == 0) event.at = clock_wall(events->clock);
    buf_init(&out, EVENT_LINE_MAX);
    err = event_line_write(&event, str_of(events->run, events->run_len), ids, rollout_only, &out);
    if (!err) {
        line = buf_peek(&out);
        line.len--; /* the sink adds the newline */
        err = events_write(events->sink, class, line);
    }
    buf_deinit(&out);
    pthread_mutex_lock(&events->lock);
    if (!err)
        events->stats.written[event.topic]++;
    else if (class == EVENT_MAY_DROP)
        events->stats.dropped++;
    else
        events->stats.refused++;
    pthread_mutex_unlock(&events->lock);
    return err;
}

/* Logged even when the sink was full, because the log is a different output. */
static void warn_of_failure(const struct member_events *events, const struct event_line *event)
{
    uint64_t due_at_ms = 0;

    for (const struct log_field *f = event->fields; f && f->kind != LOG_KIND_END; f++)
        if (strcmp(f->key, "due_at_ms") == 0) due_at_ms = f->u.u64;
    LOG_WARN(&events->log, "worker failed", log_str("worker_id", event->worker_id),
             log_u64("due_at_ms", due_at_ms));
}

enum err member_events_emit(struct member_events *events, const struct event_line *event)
{
    assert(event->topic < TOPIC_COUNT);
    if (!events) return ERR_OK;
    if (event->topic == TOPIC_WORKER_FAILED && !event->replayed) warn_of_failure(events, event);
    return events->sink ? events_notify(events, *event) : ERR_OK;
}

/* Returns how many heartbeats this event represents; 0: the event is not written. Call under the
 * lock. If a second exceeds the limit, the next second is sampled. */
static uint64_t draw(struct member_events *events, uint64_t second)
{
    struct sampler *s = &events->sampler;
    uint64_t least = events->heartbeat == HEARTBEAT_EVENTS_SAMPLED ? HEARTBEAT_EVENTS_ONE_IN : 1;

    if (second != s->second) {
        uint64_t before = second == s->second + 1 ? s->seen : 0;
        s->one_in = before / events->limit + (before % events->limit != 0);
        s->second = second;
        s->seen = s->written = 0;
    }
    s->one_in = max_u64(s->one_in, least);
    s->seen++;
    if (events->heartbeat == HEARTBEAT_EVENTS_NONE || s->written >= events->limit) return 0;
    if (s->one_in > 1 && prng_below(&s->prng, s->one_in) != 0) return 0;
    s->written++;
    return s->one_in;
}

void member_events_heartbeat(struct member_events *events, struct str worker_id)
{
    uint64_t represented;

    if (!events || !events->sink) return;
    pthread_mutex_lock(&events->lock);
    represented = draw(events, clock_mono(events->clock).ms / MS_PER_SECOND);
    if (!represented) events->stats.suppressed++;
    pthread_mutex_unlock(&events->lock);
    if (!represented) return;
    (void)events_notify(
        events,
        (struct event_line){
            .topic = TOPIC_WORKER_HEARTBEAT,
            .worker_id = worker_id,
            .fields = represented > 1
                          ? (const struct log_field[]){log_u64("sampled", represented), LOG_END}
                          : NULL,
        });
}

struct member_events_stats member_events_stats(struct member_events *events)
{
    struct member_events_stats stats = {0};

    if (!events) return stats;
    pthread_mutex_lock(&events->lock);
    stats = events->stats;
    pthread_mutex_unlock(&events->lock);
    return stats;
}
