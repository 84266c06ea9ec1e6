/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of muster's contracts, unmodified, as server reflection returns them.
 *
 * A set is an encoded google.protobuf.FileDescriptorSet; two concatenated sets are a set, too. The
 * functions search the bytes without decoding or storing. Every result is a view into the set. In
 * bytes that are not a valid set the functions find nothing, without an error. */
#ifndef WIRE_DESCRIPTORS_H
#define WIRE_DESCRIPTORS_H
#include "base/buf.h"
#include "base/str.h"

/* Returns all contracts of muster and their imports. A file follows its imports. */
struct str descriptors_product(void);

/* Iterates over the files; start with *cursor 0. A file is an encoded FileDescriptorProto. */
bool descriptors_next_file(struct str set, size_t *cursor, struct str *ret_file);
struct str descriptors_file_name(struct str file);
/* Iterates over the names of a file's imports; start with *cursor 0. */
bool descriptors_next_import(struct str file, size_t *cursor, struct str *ret_name);
/* Finds a file by its name. Returns ERR_NOT_FOUND if no file has the name. */
enum err descriptors_find_file(struct str set, struct str name, struct str *ret_file);
/* Finds the file that declares `symbol`, the full name of a message, field, oneof, enum, enum value
 * (whose scope is that of its enum), service or method. ERR_NOT_FOUND. */
enum err descriptors_find_symbol(struct str set, struct str symbol, struct str *ret_file);
#endif
