/* SPDX-License-Identifier: Apache-2.0 */
/* Any message of a contract as JSON, by its descriptor: the keys are the contract's field names, so
 * they are as stable as the wire.
 *
 * Every field is there, set or not, except the members of a oneof that are not chosen; a message
 * that is not set is null. What JSON readers would garble is text: an fixed64 (identities, hashes)
 * is 16 hexadecimal digits, bytes called id, x_id or x_digest are hexadecimal digits, and a time
 * `x_unix_ns` is `x` in RFC 3339 with nanoseconds, null when it never was. Maps are objects with
 * their keys in ascending order, enums the names of their values. */
#ifndef WIRE_JSON_MESSAGE_JSON_H
#define WIRE_JSON_MESSAGE_JSON_H
#include <protobuf-c/protobuf-c.h>

#include "text/ndjson.h"

void message_json(struct ndjson *json, struct str key, const ProtobufCMessage *message);
/* The fields only, into the object that is open. */
void message_json_fields(struct ndjson *json, const ProtobufCMessage *message);
#endif
