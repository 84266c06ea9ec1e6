/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the coordinators' answers. Pure. A reply that does not fit the request is
 * UNAVAILABLE/corrupt and never "absent". */
#ifndef PRIM_NATIVE_REPLY_H
#define PRIM_NATIVE_REPLY_H
#include "prim/answer.h"
#include "prim/grpc_thread/op.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

static inline ProtobufCBinaryData native_id_bytes(const coord_id *id)
{
    return (ProtobufCBinaryData){sizeof id->b, (uint8_t *)id->b};
}
coord_id native_id(ProtobufCBinaryData bytes); /* zero: `bytes` is no id */

/* `writes`: the outcome may be in doubt. */
coord_result native_failure(const struct grpc_thread_op *op, bool writes);
coord_result native_corrupt(const char *what);

/* Adds a text if the server sent none. */
coord_result native_outcome(const Muster__V1__Outcome *outcome);

struct native_entry {
    struct str key, value, owner; /* borrowed */
    coord_id lease_id;            /* zero: not leased, or unknown */
    uint64_t revision, create_revision, token;
    int64_t ttl_ms, remaining_ms;
};
/* ERR_CORRUPT: impossible numbers. Without `whole` (an event) fields may be missing. */
enum err native_entry(const Muster__V1__Entry *entry, bool whole, struct native_entry *ret_entry);
#endif
