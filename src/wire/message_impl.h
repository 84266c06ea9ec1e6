/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the message layer; only for its own files. */
#ifndef WIRE_MESSAGE_IMPL_H
#define WIRE_MESSAGE_IMPL_H
#include "wire/field.h"
#include "wire/message.h"

/* Text fields that are bytes in the generated code, because they may contain NUL
 * (proto/text-as-bytes.txt). */
struct text_field {
    const char *message;
    uint32_t number;
};
extern const struct text_field text_as_bytes[]; /* generated; the last entry has a NULL name */
bool is_text_as_bytes(const ProtobufCMessageDescriptor *type, uint32_t number);
/* Checks a message of protobuf-c. ERR_INTERNAL: a string is not UTF-8; the note names the field. */
enum err message_check_text(const ProtobufCMessageDescriptor *type, struct str encoded,
                            struct note *note);
#endif
