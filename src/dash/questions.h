/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated queries: to the coordinators, and one for each row of a table of shards, replicas or
 * groups. A query has at most one call at a time. While a query fails, the last response is
 * kept. */
#ifndef DASH_QUESTIONS_H
#define DASH_QUESTIONS_H
#include <protobuf-c/protobuf-c.h>

#include "dash/history.h"
#include "rpc/client.h"

enum { WHY_CAP = 200, LINK_ID_CAP = 1025 };

enum topic {
    TOPIC_RAFT,
    TOPIC_TOPOLOGY,
    TOPIC_FLEET,
    TOPIC_SHARDS,
    TOPIC_NEEDS,
    TOPIC_STORE,
    TOPIC_WORKERS,
    TOPIC_NOTES,
    TOPICS
};

struct dash;
struct question_kind {
    const char *name, *path; /* name: key of the response in its topic */
    const ProtobufCMessageDescriptor *answer;
    enum topic topic; /* published after each response */
    uint32_t series;  /* BIT() of each series with values from the response */
    uint64_t every_ms;
    uint32_t attempts_max; /* 0: the RPC client's default */
    /* Encodes the request. NULL: an empty message. ERR_NOMEM, ERR_FULL. */
    enum err (*request)(void *owner, struct buf *into);
    /* Writes the response as fields of an open object. NULL: the whole message. */
    void (*write)(struct ndjson *json, const ProtobufCMessage *answer);
    /* Copies values of the response into the dashboard. May be NULL. */
    void (*took)(void *owner, const ProtobufCMessage *answer);
};
struct question {
    struct dash *dash;
    const struct question_kind *kind;
    void *owner;
    bool busy;
    mono_time next;
    struct buf json;   /* last response; empty: none */
    char why[WHY_CAP]; /* why the last query failed; "" on success */
};
/* The caller must free `json` with buf_deinit. */
void question_init(struct question *question, struct dash *dash, const struct question_kind *kind,
                   void *owner);
/* Does nothing if the query is not due or has a call in flight. */
void question_ask(struct question *question, struct rpc_channel *channel);

/* -- tables with a query in each row -- */
enum dash_peer { PEER_COORDINATORS, PEER_REPLICA, PEER_SHARD };
struct link {            /* first member of each row */
    struct links *links; /* NULL: a free row */
    char id[LINK_ID_CAP], address[RPC_ADDRESS_CAP];
    struct rpc_channel *channel;
    struct question question; /* its owner is the row */
    bool listed, closing;
};
struct links {
    struct dash *dash;
    const struct question_kind *kind;
    void *rows;
    size_t row_size, count;
    /* The coordinators share the dashboard's channel. Other peers have a channel each. */
    enum dash_peer peer;
    void (*opened)(void *row); /* initializes a new row; may be NULL */
    void (*closed)(void *row); /* frees what opened() allocated; may be NULL */
};
enum err links_open(struct links *links); /* set the fields above first; ERR_NOMEM */
void links_close(struct links *links);    /* close all channels first; a zeroed table is fine */
/* links_end_list() frees the rows for which links_listed() was not called since. */
void links_begin_list(struct links *links);
void links_listed(struct links *links, const char *id, const char *address);
void links_end_list(struct links *links);
void links_hang_up(struct links *links);
void links_ask(struct links *links);
/* Returns the used row after `row`, or the first one if `row` is NULL. Returns NULL at the end. */
void *links_next(const struct links *links, const void *row);
#endif
