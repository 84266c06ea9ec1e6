/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that are asked again and again: of the coordinators, and one for each row of a table of
 * shards, replicas or groups.
 *
 * A question has at most one call under way. Its answer is read by its descriptor and kept as JSON;
 * while no answer comes the last one stays, and `why` says what is wrong. */
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
    const char *name, *path; /* name: of the answer, in its topic */
    const ProtobufCMessageDescriptor *answer;
    enum topic topic; /* is published again after each answer */
    uint32_t series;  /* BIT() of those it fills: not known while it is not answered */
    uint64_t every_ms;
    uint32_t attempts_max; /* 0: as many as a client makes */
    /* The request; NULL: an empty one. ERR_NOMEM, ERR_FULL. */
    enum err (*request)(void *owner, struct buf *into);
    /* The answer as fields of an open object; NULL: all of it, by its descriptor. */
    void (*write)(struct ndjson *json, const ProtobufCMessage *answer);
    /* What the rest of the dashboard takes of the answer; may be NULL. */
    void (*took)(void *owner, const ProtobufCMessage *answer);
};
struct question {
    struct dash *dash;
    const struct question_kind *kind;
    void *owner;
    bool busy;
    mono_time next;
    struct buf json;   /* of the last answer; empty: there was none */
    char why[WHY_CAP]; /* the last one was not answered, or cannot be shown; "" */
};
/* Its `json` is to be deinitialized. */
void question_init(struct question *question, struct dash *dash, const struct question_kind *kind,
                   void *owner);
/* If it is due, and not under way. */
void question_ask(struct question *question, struct rpc_channel *channel);

/* -- rows of a table that has a question in each -- */
enum dash_peer { PEER_COORDINATORS, PEER_REPLICA, PEER_SHARD };
struct link {            /* first in each row */
    struct links *links; /* NULL: the row is free */
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
    /* Coordinators are asked over the channel of the dashboard; each of the others has a channel to
     * its address. */
    enum dash_peer peer;
    void (*opened)(void *row); /* of a row that is zero but for its link; may be NULL */
    void (*closed)(void *row); /* frees what opened() made; may be NULL */
};
enum err links_open(struct links *links); /* ERR_NOMEM; the other fields are set */
void links_close(struct links *links);    /* no channel is open; fine on a zeroed one */
void links_begin_list(
    struct links *links); /* a list of all rows; links_end_list frees the others */
void links_listed(struct links *links, const char *id, const char *address);
void links_end_list(struct links *links);
void links_hang_up(struct links *links);
void links_ask(struct links *links);
/* The next row in use behind `row`; NULL: the first, and at the end. */
void *links_next(const struct links *links, const void *row);
#endif
