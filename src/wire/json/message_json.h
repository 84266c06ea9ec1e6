/* SPDX-License-Identifier: Apache-2.0 */
/* Writes any message of a contract as JSON, driven by its descriptor. Keys are the contract's field
 * names.
 *
 * Every field is written, except unset members of a oneof. An unset message is null. Maps are
 * sorted by key.
 * Values that JSON readers would damage are text:
 * - fixed64 (identities, hashes): 16 hexadecimal digits
 * - bytes called id, x_id or x_digest: hexadecimal digits
 * - `x_unix_ns`: field `x` in RFC 3339 with nanoseconds, or null if unset */
#ifndef WIRE_JSON_MESSAGE_JSON_H
#define WIRE_JSON_MESSAGE_JSON_H
#include <protobuf-c/protobuf-c.h>

#include "text/ndjson.h"

void message_json(struct ndjson *json, struct str key, const ProtobufCMessage *message);
/* Writes the fields only, into the currently open object. */
void message_json_fields(struct ndjson *json, const ProtobufCMessage *message);
#endif
