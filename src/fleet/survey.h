/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one query to the join addresses: a round.
 *
 * To ask every replica, a survey has a connection per address, and does not follow a response that
 * names the leader. To ask the leader, the survey has one connection, which follows such responses.
 *
 * A single join address may be a name of all replicas, including this one. Each round resolves the
 * name and queries every address, because a plain connection would only reach the first address. */
#ifndef FLEET_SURVEY_H
#define FLEET_SURVEY_H
#include "base/note.h"
#include "io/io.h"
#include "io/tls.h"
#include "rpc/client.h"
#include "wire/message.h"

enum { SURVEY_ADDRESSES_MAX = 32, SURVEY_ADDRESS_CAP = 280 };

struct survey;
struct survey_to { /* the join addresses and how to connect to them */
    struct io *io;
    const char *const *addresses; /* ends with NULL; copied; none: no queries */
    const char *self;             /* own gRPC address; asked only if there is no other address */
    struct tls_context *tls;      /* NULL: plaintext */
    bool look_up;                 /* resolve a single address's name; false in the simulator */
};
struct survey_options {
    struct survey_to to;
    bool to_leader;   /* ask only the leader; false: ask every replica */
    const char *path; /* gRPC path of the method; static */
    const ProtobufCMessageDescriptor *answer;
    uint64_t timeout_ms; /* of a call; also of connecting, unless to_leader */
    /* May be NULL. */
    void (*asked)(void *owner, size_t at, const char *address);
    /* Called at the end of each query. `message` is NULL if the query failed. */
    void (*answered)(void *owner, size_t at, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, const ProtobufCMessage *message);
    void (*over)(void *owner, size_t count); /* every query was answered or has timed out */
    void *owner;
};
enum err survey_open(const struct survey_options *options, struct survey **ret_survey,
                     struct note *note); /* ERR_NOMEM, ERR_FULL, ERR_TOO_LARGE */
/* No other round may be running. over() follows later. Errors of message_write. */
enum err survey_begin(struct survey *survey, const ProtobufCMessage *request);
/* Ends a running round without over(). closed(), unless NULL, follows when all memory is freed.
 * `survey` may be NULL. */
void survey_close(struct survey *survey, void (*closed)(void *owner), void *owner);
#endif
