/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard from the inside.
 *
 *   questions.c   questions asked again and again, tables with one in each row
 *   dash.c     life, the tick, topics: what is published and sent
 *   parts.c    what the coordinators are asked, and what of it goes into the history
 *   shards.c   the same of each shard
 *   replicas.c what each replica says of itself
 *   groups.c   slots and waiters of the groups that have a holder
 *   notes.c    lines of a file that readers are to know
 *   page_requests.c  requests that the HTTP thread passes to the loop
 *   browse.c   the keys of the store below a prefix
 *   actions.c  what may be done, by whom, and how it ended
 *   pages.c    the assets of the page, and the routes that have no topic
 *
 * A topic is one JSON document: at /api/NAME, and as an event NAME whenever it changed. */
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
    YOUNG_TICK_MS = 200, /* at the start, when one answer brings the next question: */
    YOUNG_MS = 10000,    /* the first page is to be full soon */
    SAMPLE_MS = 2000,
    DASH_EVERY_MS = 2000,  /* replicas, shards and groups are asked */
    CALM_FACTOR = 5,       /* so much less often while nobody watches, */
    CALM_AFTER_MS = 60000, /* but not in the first minute: the first page is to be full */
    CALL_TIMEOUT_MS = 4000,
    ANSWER_MAX = 4 << 20, /* of one answer; more is not shown */
    ANSWER_ARENA_MAX = 64 << 20,
    PART_MAX = 8 << 20,    /* of JSON */
    TOPIC_MAX = 15 << 20,  /* below what the listener publishes */
    EVENT_MAX = 192 << 10, /* of a longer topic the event says only that it changed */
    SHARDS_MAX = 64,       /* that are dialled; the rest is listed */
    DASH_ID_CAP = 17,
    LEADERS_KEPT = 32,
};

struct leader_seen {
    wall_time at;
    uint64_t term, leader_id;
};

struct notes; /* notes.c */

enum page_request_state { REQUEST_FREE, REQUEST_WAITING, REQUEST_SENT, REQUEST_DONE };
struct page_request { /* first in each row */
    struct page_requests *all;
    enum page_request_state state;
    uint64_t number; /* from 1 on, in the order in which they came */
};
/* A few requests that the HTTP thread passes to the loop; those that are done stay until their rows
 * are needed. */
struct page_requests {
    struct dash *dash;
    size_t row_size, count;
    /* On the loop, under the lock; after an error fail() ends the request. */
    enum err (*send)(struct page_request *request);
    void (*fail)(struct page_request *request, enum err err);
    pthread_mutex_t lock; /* of what follows, and of the rows */
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
    char token[DASH_TOKEN_MAX + 1]; /* "": no actions */
    void (*self)(void *owner, struct dash_self *ret_self);
    void *owner;
    struct http_channel *events;
    struct rpc_channel *channel;
    size_t channels_open;
    struct question *parts; /* parts.c */
    bool dirty[TOPICS];
    mono_time young_until, calm_from;
    bool watched;
    bool eager; /* in this tick everything is asked: somebody has just begun to watch, or acted */
    bool hurry; /* in the next one */
    struct links shards, replicas, groups;
    size_t shards_listed;
    struct leader_seen leaders[LEADERS_KEPT];
    size_t leader_count;
    uint64_t snapshot; /* the last index seen, and since when */
    wall_time snapshot_at;
    struct sample now; /* what the next sample is made of */
    mono_time sample_due;
    pthread_mutex_t lock; /* of the history, which the HTTP thread writes out */
    struct history *history;
    struct notes *notes; /* NULL: no file was named */
    struct page_requests lookups, actions;
    struct timer tick;
    struct buf text; /* scratch of one topic or event */
    void (*closed)(void *owner);
    void *closed_owner;
    bool closing;
};

/* -- dash.c -- */
/* When a question that is asked every `every_ms` is due again. */
mono_time dash_again(const struct dash *dash, uint64_t every_ms);
/* Whether one that is due then is to be asked now. */
static inline bool dash_due(const struct dash *dash, mono_time due)
{
    return dash->eager || mono_due(due, loop_now(dash->io->loop));
}
void dash_id_text(uint64_t id, char text[DASH_ID_CAP]); /* of a replica */
void dash_send(struct dash *dash, const char *name, struct str json);
void dash_channel_closed(void *dash);
void dash_maybe_closed(struct dash *dash);
/* To coordinators, or to a shard: with what is shown to those. */
enum err dash_channel_open(struct dash *dash, const char *const *addresses, enum dash_peer peer,
                           struct rpc_channel **ret_channel, struct note *note);
/* In words, for who looks at the page. */
void dash_why(char why[WHY_CAP], const struct rpc_outcome *outcome);
/* How the caller is an administrator: "token" or "certificate"; NULL: it is not one. Nobody is
 * where there are no actions. Static text. */
const char *dash_admin_by(const struct dash *dash, const struct http_request *request);
static inline struct str json_line(const struct buf *buf) /* without its line end */
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
void groups_listed(struct dash *dash, struct str claim); /* a key without its "muster/" */
void groups_write(struct dash *dash, enum topic topic, struct ndjson *json);

/* -- notes.c -- */
enum err notes_open(struct dash *dash, const char *path); /* NULL: there are none */
void notes_close(struct dash *dash);
void notes_ask(struct dash *dash);
void notes_write(struct dash *dash, enum topic topic, struct ndjson *json);

/* -- page_requests.c; all but the first and the last two under the lock -- */
enum err page_requests_open(struct page_requests *all); /* ERR_NOMEM; the first fields are set */
void *page_request_at(const struct page_requests *all, size_t i); /* a row */
/* A free row, else the oldest that is done; NULL: there is none. */
void *page_requests_room(struct page_requests *all);
void page_request_post(struct page_requests *all, struct page_request *request);
void page_request_done(struct page_request *request);
bool page_requests_idle(const struct page_requests *all);
void page_requests_close(struct page_requests *all); /* fine on a zeroed one */

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
