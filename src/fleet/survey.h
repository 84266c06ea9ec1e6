/* SPDX-License-Identifier: Apache-2.0 */
/* One question to the join addresses: a round.
 *
 * Either to every replica, which speaks for itself: each address has a connection of its own, and
 * no leader is followed. Or to the leader: one connection, at whatever address it is named.
 *
 * Several join addresses are one replica each and are taken as they are. A single one may be a name
 * of all replicas, ourselves among them; it is looked up anew each time and every
 * address behind it is asked, or the dialer would always meet the first, which may be us. */
#ifndef FLEET_SURVEY_H
#define FLEET_SURVEY_H
#include "base/note.h"
#include "io/io.h"
#include "io/tls.h"
#include "rpc/client.h"
#include "wire/message.h"

enum { SURVEY_ADDRESSES_MAX = 32, SURVEY_ADDRESS_CAP = 280 };

struct survey;
struct survey_to { /* the join addresses, and how they are reached */
    struct io *io;
    const char *const *addresses; /* ends with NULL; copied; NULL or none: nobody to ask */
    const char *self;             /* our own gRPC address: not asked when there are others */
    struct tls_context *tls;      /* of a client; NULL: plaintext */
    bool look_up;                 /* a real resolver is there; the simulator's names are hosts */
};
struct survey_options {
    struct survey_to to;
    bool to_leader;   /* else to every replica */
    const char *path; /* of the method; static text */
    const ProtobufCMessageDescriptor *answer;
    uint64_t timeout_ms; /* of one call, dialing included unless it is to the leader */
    /* A round begins: `address` is number `at`. May be NULL. */
    void (*asked)(void *owner, size_t at, const char *address);
    /* `message` is NULL with an error, and when the answer cannot be read. */
    void (*answered)(void *owner, size_t at, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, const ProtobufCMessage *message);
    void (*over)(void *owner, size_t count); /* every address was asked and has had its time */
    void *owner;
};
enum err survey_open(const struct survey_options *options, struct survey **ret_survey,
                     struct note *note); /* ERR_NOMEM, ERR_FULL, ERR_TOO_LARGE */
/* Not while a round runs. over() follows, never from inside. What message_write answers. */
enum err survey_begin(struct survey *survey, const ProtobufCMessage *request);
/* Ends a round that runs, without over(). closed() (may be NULL) when nothing of it is left. NULL
 * survey: closed at once. */
void survey_close(struct survey *survey, void (*closed)(void *owner), void *owner);
#endif
