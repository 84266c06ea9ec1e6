/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of muster's contracts, as server reflection returns them.
 *
 * A set is an encoded google.protobuf.FileDescriptorSet; two concatenated sets are a set, too. All
 * results are views into the set. In malformed bytes the functions find nothing. */
#ifndef WIRE_DESCRIPTORS_H
#define WIRE_DESCRIPTORS_H
#include "base/buf.h"
#include "base/str.h"

/* All contracts of muster and their imports. A file follows its imports. */
struct str descriptors_product(void);

/* Start with *cursor 0. A file is an encoded FileDescriptorProto. */
bool descriptors_next_file(struct str set, size_t *cursor, struct str *ret_file);
struct str descriptors_file_name(struct str file);
/* Start with *cursor 0. Returns the names of the file's imports. */
bool descriptors_next_import(struct str file, size_t *cursor, struct str *ret_name);
/* ERR_NOT_FOUND. */
enum err descriptors_find_file(struct str set, struct str name, struct str *ret_file);
/* Finds the file that declares `symbol`: the full name of a message, field, oneof, enum, enum
 * value, service or method. ERR_NOT_FOUND. */
enum err descriptors_find_symbol(struct str set, struct str symbol, struct str *ret_file);
#endif
