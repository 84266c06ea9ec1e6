/* SPDX-License-Identifier: Apache-2.0 */
/* Writes any message of a contract as JSON, driven by its descriptor. The keys are the contract's
 * field names, so they are as stable as the wire format.
 *
 * Every field is written, set or not, except the unset members of a oneof. An unset message is
 * null. Values that JSON readers would damage are text: a fixed64 (identities, hashes) is 16
 * hexadecimal digits; bytes called id, x_id or x_digest are hexadecimal digits; a time `x_unix_ns`
 * is `x` in RFC 3339 with nanoseconds, or null if unset. Maps are objects with keys in ascending
 * order. Enums are the names of their values. */
#ifndef WIRE_JSON_MESSAGE_JSON_H
#define WIRE_JSON_MESSAGE_JSON_H
#include <protobuf-c/protobuf-c.h>

#include "text/ndjson.h"

void message_json(struct ndjson *json, struct str key, const ProtobufCMessage *message);
/* Writes the fields only, into the currently open object. */
void message_json_fields(struct ndjson *json, const ProtobufCMessage *message);
#endif
