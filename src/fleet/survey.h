/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one query to the join addresses: a round.
 *
 * Either to every replica: each address has its own connection, and leaders are not followed. Or to
 * the leader: one connection, which follows the leader's address.
 *
 * Several join addresses stand for one replica each. A single join address may be a name that
 * resolves to all replicas, including this one. Each round resolves it and queries every resulting
 * address; otherwise the dialer would only reach the first address, maybe this replica's own. */
#ifndef FLEET_SURVEY_H
#define FLEET_SURVEY_H
#include "base/note.h"
#include "io/io.h"
#include "io/tls.h"
#include "rpc/client.h"
#include "wire/message.h"

enum { SURVEY_ADDRESSES_MAX = 32, SURVEY_ADDRESS_CAP = 280 };

struct survey;
struct survey_to { /* the join addresses, and how to reach them */
    struct io *io;
    const char *const *addresses; /* ends with NULL; copied; NULL or empty: no queries */
    const char *self;             /* this replica's gRPC address; skipped if there are others */
    struct tls_context *tls;      /* TLS of a client; NULL: plaintext */
    bool look_up;                 /* resolve the name; the simulator's names are hosts */
};
struct survey_options {
    struct survey_to to;
    bool to_leader;   /* otherwise to every replica */
    const char *path; /* the method's path; static */
    const ProtobufCMessageDescriptor *answer;
    uint64_t timeout_ms; /* timeout of one call, including the dial unless to the leader */
    /* A query is sent: `address` has the index `at`. May be NULL. */
    void (*asked)(void *owner, size_t at, const char *address);
    /* `message` is NULL on an error, and if the response cannot be decoded. */
    void (*answered)(void *owner, size_t at, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, const ProtobufCMessage *message);
    void (*over)(void *owner, size_t count); /* every query was answered or has timed out */
    void *owner;
};
enum err survey_open(const struct survey_options *options, struct survey **ret_survey,
                     struct note *note); /* ERR_NOMEM, ERR_FULL, ERR_TOO_LARGE */
/* Must not be called during a round. over() follows, never from inside. Errors of message_write. */
enum err survey_begin(struct survey *survey, const ProtobufCMessage *request);
/* Ends a running round without over(). closed() (may be NULL) is called when everything is freed.
 * NULL survey: closed at once. */
void survey_close(struct survey *survey, void (*closed)(void *owner), void *owner);
#endif
