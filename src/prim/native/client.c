/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/native/client.h"

#include "prim/native/reply.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DIAL_TIMEOUT_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000,
    ATTEMPTS_MAX = 6,
    STREAM_MESSAGE_MAX = 8 * 1024 * 1024,
};

/* -- which store -- */

void native_client_bind(struct native_client *c, const coord_id *store_id)
{
    c->store_id = *store_id;
}

enum err native_client_write(const struct native_client *c, ProtobufCMessage *message,
                             struct buf *into)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message->descriptor, STORE_ID_FIELD);
    ProtobufCBinaryData meant = native_id_bytes(&c->store_id);

    if (field && !prim_id_is_zero(&c->store_id))
        memcpy((char *)message + field->offset, &meant, sizeof meant);
    return message_write(message, into, NULL);
}

/* -- unary calls -- */

/* All carry (client, sequence), or only read: a repeat does no harm. */
void native_op_init(struct courier_op *op, const char *path, int64_t deadline_ns)
{
    courier_op_init(op, path, deadline_ns, NATIVE_REQUEST_MAX, NATIVE_RESPONSE_MAX);
    op->idempotent = true;
}

/* -- life -- */

static const struct courier_ways ways = {.thread_name = "muster-native",
                                         .attempts_max = ATTEMPTS_MAX,
                                         .stream = {.idempotent = true,
                                                    .response_max = STREAM_MESSAGE_MAX,
                                                    .attempts_max = ATTEMPTS_MAX}};

enum err native_client_open(const struct native_client_options *o,
                            struct native_client **ret_client, struct note *note)
{
    struct native_client *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    err = courier_open(&c->courier, &ways, o->servers, o->clock,
                       &(struct rpc_channel_options){.follow_leader = true,
                                                     .backoff_first_ms = BACKOFF_FIRST_MS,
                                                     .backoff_max_ms = BACKOFF_MAX_MS,
                                                     .dial_timeout_ms = DIAL_TIMEOUT_MS},
                       note);
    if (err)
        free(c);
    else
        *ret_client = c;
    return err;
}

void native_client_close(struct native_client *c)
{
    if (!c) return;
    courier_close(&c->courier, NULL, NULL);
    free(c);
}
