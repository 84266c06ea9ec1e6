/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the dashboard's files share.
 *
 *   questions.c   repeated queries, and tables with a query in each row
 *   dash.c     opening and closing, the tick, and topics: publishing and sending
 *   parts.c    queries to the coordinators, and their samples for the history
 *   shards.c   queries to the shards, and their samples for the history
 *   replicas.c queries to each replica about itself
 *   groups.c   slots and waiters of the groups that have a holder
 *   notes.c    lines of a file, shown to readers
 *   page_requests.c  requests that the HTTP thread passes to the loop
 *   browse.c   the keys of the store with a prefix
 *   actions.c  actions, who may start them, and their results
 *   pages.c    the page's assets, and the routes without a topic
 *
 * A topic is one JSON document. It is served at /api/NAME, and each change is the event NAME. */
#ifndef DASH_DASH_INTERNAL_H
#define DASH_DASH_INTERNAL_H
#include <pthread.h>

#include "base/arena.h"
#include "dash/dash.h"
#include "dash/history.h"
#include "dash/questions.h"
#include "text/ndjson.h"

enum {
    TICK_MS = 1000,
    YOUNG_TICK_MS = 200, /* tick until YOUNG_MS, so that the first page fills soon */
    YOUNG_MS = 10000,    /* since the start */
    SAMPLE_MS = 2000,
    DASH_EVERY_MS = 2000,  /* interval of queries to replicas, shards and groups */
    CALM_FACTOR = 5,       /* factor of all intervals while no browser is connected */
    CALM_AFTER_MS = 60000, /* no CALM_FACTOR until this time after the start */
    CALL_TIMEOUT_MS = 4000,
    ANSWER_MAX = 4 << 20, /* bytes of a gRPC response; larger ones are not shown */
    ANSWER_ARENA_MAX = 64 << 20,
    PART_MAX = 8 << 20,    /* bytes of a query's JSON */
    TOPIC_MAX = 15 << 20,  /* bytes; must be below the listener's limit */
    EVENT_MAX = 192 << 10, /* bytes; a larger topic's event contains only the name */
    SHARDS_MAX = 64,       /* shards that are queried; others are only listed */
    DASH_ID_CAP = 17,
    LEADERS_KEPT = 32,
};

struct leader_seen {
    wall_time at;
    uint64_t term, leader_id;
};

struct notes; /* notes.c */

enum page_request_state { REQUEST_FREE, REQUEST_WAITING, REQUEST_SENT, REQUEST_DONE };
struct page_request { /* first member of each row */
    struct page_requests *all;
    enum page_request_state state;
    uint64_t number; /* from 1, in order of arrival */
};
/* Requests that the HTTP thread passes to the event loop. A finished request is kept until its row
 * is needed. */
struct page_requests {
    struct dash *dash;
    size_t row_size, count;
    /* Called on the event loop, with the lock held. If send() fails, fail() ends the request. */
    enum err (*send)(struct page_request *request);
    void (*fail)(struct page_request *request, enum err err);
    pthread_mutex_t lock; /* protects the rows and all fields below */
    struct post post;
    bool posted;
    size_t sent;
    uint64_t numbers;
    void *rows;
};

struct dash {
    struct io *io;
    struct log_source log;
    struct http_server *http;
    struct tls_context *tls, *shard_tls;
    char node[256], version[32], commit[64], warning[WHY_CAP], read_only[WHY_CAP];
    char token[DASH_TOKEN_MAX + 1]; /* "": actions are disabled */
    void (*self)(void *owner, struct dash_self *ret_self);
    void *owner;
    struct http_channel *events;
    struct rpc_channel *channel;
    size_t channels_open;
    struct question *parts; /* parts.c */
    bool dirty[TOPICS];
    mono_time young_until, calm_from;
    bool watched;
    bool eager; /* send all queries in this tick */
    bool hurry; /* the next tick sets `eager` */
    struct links shards, replicas, groups;
    size_t shards_listed;
    struct leader_seen leaders[LEADERS_KEPT];
    size_t leader_count;
    uint64_t snapshot;     /* log index of the newest snapshot */
    wall_time snapshot_at; /* when this process first saw the snapshot */
    struct sample now;     /* values for the next sample */
    mono_time sample_due;
    pthread_mutex_t lock; /* protects `history`, which the HTTP thread reads */
    struct history *history;
    struct notes *notes; /* NULL: no notes file */
    struct page_requests lookups, actions;
    struct timer tick;
    struct buf text; /* scratch buffer of one topic or event */
    void (*closed)(void *owner);
    void *closed_owner;
    bool closing;
};

/* -- dash.c -- */
mono_time dash_again(const struct dash *dash, uint64_t every_ms);
/* True: send the query now. */
static inline bool dash_due(const struct dash *dash, mono_time due)
{
    return dash->eager || mono_due(due, loop_now(dash->io->loop));
}
void dash_id_text(uint64_t id, char text[DASH_ID_CAP]); /* formats a replica's id */
void dash_send(struct dash *dash, const char *name, struct str json);
void dash_channel_closed(void *dash);
void dash_maybe_closed(struct dash *dash);
/* Uses the TLS context for this kind of peer. */
enum err dash_channel_open(struct dash *dash, const char *const *addresses, enum dash_peer peer,
                           struct rpc_channel **ret_channel, struct note *note);
/* Describes a failed call for the page. */
void dash_why(char why[WHY_CAP], const struct rpc_outcome *outcome);
/* Returns "token" or "certificate" (static) if the client is an administrator; else NULL. */
const char *dash_admin_by(const struct dash *dash, const struct http_request *request);
static inline struct str json_line(const struct buf *buf) /* without the line end */
{
    return str_of(buf->data, buf->len - 1);
}

/* -- parts.c -- */
enum err parts_open(struct dash *dash);
void parts_close(struct dash *dash);
void parts_ask(struct dash *dash);
void parts_write(struct dash *dash, enum topic topic, struct ndjson *json);

/* -- shards.c -- */
enum err shards_open(struct dash *dash);
void shards_ask(struct dash *dash);
void shards_write(struct dash *dash, enum topic topic, struct ndjson *json);
void shards_sample(struct dash *dash, struct sample *sample);

/* -- replicas.c -- */
enum err replicas_open(struct dash *dash);
void replicas_listed(struct dash *dash, uint64_t id, const char *address);
void replicas_write(struct dash *dash, enum topic topic, struct ndjson *json);

/* -- groups.c -- */
enum err groups_open(struct dash *dash);
void groups_listed(struct dash *dash, struct str claim); /* `claim`: a key without "muster/" */
void groups_write(struct dash *dash, enum topic topic, struct ndjson *json);

/* -- notes.c -- */
enum err notes_open(struct dash *dash, const char *path); /* `path` NULL: no notes */
void notes_close(struct dash *dash);
void notes_ask(struct dash *dash);
void notes_write(struct dash *dash, enum topic topic, struct ndjson *json);

/* -- page_requests.c: hold the lock, except for the first and the last two functions -- */
/* The caller must set the fields before `lock` first. ERR_NOMEM. */
enum err page_requests_open(struct page_requests *all);
void *page_request_at(const struct page_requests *all, size_t i);
/* Returns a free row, else the oldest finished row. NULL: all rows are in use. */
void *page_requests_room(struct page_requests *all);
void page_request_post(struct page_requests *all, struct page_request *request);
void page_request_done(struct page_request *request);
bool page_requests_idle(const struct page_requests *all);
void page_requests_close(struct page_requests *all); /* allowed for a zeroed table */

/* -- browse.c -- */
enum err browse_open(struct dash *dash);
void browse_close(struct dash *dash);
http_handler browse_page;

/* -- actions.c -- */
enum err actions_open(struct dash *dash);
http_handler actions_page;

/* -- pages.c -- */
enum err pages_open(struct dash *dash);
void pages_close(struct dash *dash);
#endif
