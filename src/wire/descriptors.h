/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of our contracts, untouched, as server reflection returns them.
 *
 * A set is an encoded google.protobuf.FileDescriptorSet; two sets joined end to end are a set, too.
 * Pure lookups over those bytes: nothing is decoded into memory or kept. Every result is a view
 * into the set. Bytes that are no set are not refused, nothing is found in them. */
#ifndef WIRE_DESCRIPTORS_H
#define WIRE_DESCRIPTORS_H
#include "base/buf.h"
#include "base/str.h"

/* Every contract of the product, with what they import; files come after those they import. */
struct str descriptors_product(void);

/* Walks the files: start with *cursor 0. A file is an encoded FileDescriptorProto. */
bool descriptors_next_file(struct str set, size_t *cursor, struct str *ret_file);
struct str descriptors_file_name(struct str file);
/* Names of the files this one imports: start with *cursor 0. */
bool descriptors_next_import(struct str file, size_t *cursor, struct str *ret_name);
/* ERR_NOT_FOUND. */
enum err descriptors_find_file(struct str set, struct str name, struct str *ret_file);
/* The file that declares `symbol`, the full name of a message, field, oneof, enum, enum value
 * (which is named beside its enum, not inside), service or method. ERR_NOT_FOUND. */
enum err descriptors_find_symbol(struct str set, struct str symbol, struct str *ret_file);
#endif
