/* SPDX-License-Identifier: Apache-2.0 */
/* The message layer from the inside; only for its own files. */
#ifndef WIRE_MESSAGE_IMPL_H
#define WIRE_MESSAGE_IMPL_H
#include "wire/field.h"
#include "wire/message.h"

/* Text kept as bytes in the generated code because it may hold NUL (proto/text-as-bytes.txt). */
struct text_field {
    const char *message;
    uint32_t number;
};
extern const struct text_field text_as_bytes[]; /* generated; ends with a NULL name */
bool is_text_as_bytes(const ProtobufCMessageDescriptor *type, uint32_t number);
/* For a message that protobuf-c has written. ERR_INTERNAL: a string in it is not UTF-8; the note
 * names it. */
enum err message_check_text(const ProtobufCMessageDescriptor *type, struct str encoded,
                            struct note *note);
#endif
