/* SPDX-License-Identifier: Apache-2.0 */
/* Finds files and symbols by scanning the descriptor set each time: reflection is rare. Pure. */
#include "wire/descriptors.h"

#include "wire/field.h"

extern const unsigned char product_descriptor_set[]; /* src/wire/pb generates this array */
extern const size_t product_descriptor_set_len;

/* Field numbers of google/protobuf/descriptor.proto. Every declaration has its name as field 1. */
enum {
    DESCRIPTORS_NAME = 1,
    SET_FILE = 1,
    FILE_PACKAGE = 2,
    FILE_IMPORT = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    FILE_EXTENSION = 7,
    MESSAGE_FIELD = 2,
    MESSAGE_MESSAGE = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_EXTENSION = 6,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2,
};

struct str descriptors_product(void)
{
    return str_of(product_descriptor_set, product_descriptor_set_len);
}

/* A varint field has an empty payload. */
static bool next_of(struct str message, uint32_t number, size_t *cursor, struct str *ret_payload)
{
    struct fields fields = fields_of(str_tail(message, *cursor));
    struct field field = {0};

    while (field.number != number)
        if (!fields_next(&fields, &field)) return false;
    *ret_payload = field.bytes;
    *cursor = (size_t)((const char *)fields.at - message.at);
    return true;
}

static struct str descriptors_text_of(struct str message, uint32_t number)
{
    size_t cursor = 0;
    struct str text;

    return next_of(message, number, &cursor, &text) ? text : STR_EMPTY;
}

bool descriptors_next_file(struct str set, size_t *cursor, struct str *ret_file)
{
    return next_of(set, SET_FILE, cursor, ret_file);
}

struct str descriptors_file_name(struct str file)
{
    return descriptors_text_of(file, DESCRIPTORS_NAME);
}

bool descriptors_next_import(struct str file, size_t *cursor, struct str *ret_name)
{
    return next_of(file, FILE_IMPORT, cursor, ret_name);
}

enum err descriptors_find_file(struct str set, struct str name, struct str *ret_file)
{
    size_t cursor = 0;
    struct str file;

    while (descriptors_next_file(set, &cursor, &file)) {
        if (!str_equal(descriptors_file_name(file), name)) continue;
        *ret_file = file;
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}

/* -- symbols -- */

static bool find_named(struct str scope, uint32_t number, struct str name, struct str *ret_found)
{
    size_t cursor = 0;

    while (next_of(scope, number, &cursor, ret_found))
        if (str_equal(descriptors_text_of(*ret_found, DESCRIPTORS_NAME), name)) return true;
    return false;
}

/* Protobuf puts the names of enum values into the enum's scope. */
static bool has_value(struct str scope, uint32_t number, struct str name)
{
    size_t cursor = 0;
    struct str one, value;

    while (next_of(scope, number, &cursor, &one))
        if (find_named(one, ENUM_VALUE, name, &value)) return true;
    return false;
}

static bool message_has(struct str message, struct str path)
{
    struct str name, inner, found;

    while (str_split(&path, '.', &name)) {
        if (find_named(message, MESSAGE_MESSAGE, name, &inner)) {
            if (!path.at) return true;
            message = inner;
            continue;
        }
        return !path.at && (find_named(message, MESSAGE_FIELD, name, &found) ||
                            find_named(message, MESSAGE_ENUM, name, &found) ||
                            find_named(message, MESSAGE_ONEOF, name, &found) ||
                            find_named(message, MESSAGE_EXTENSION, name, &found) ||
                            has_value(message, MESSAGE_ENUM, name));
    }
    return false;
}

static bool file_has(struct str file, struct str path)
{
    struct str name, found;

    if (!str_split(&path, '.', &name)) return false;
    if (find_named(file, FILE_MESSAGE, name, &found)) return !path.at || message_has(found, path);
    if (find_named(file, FILE_SERVICE, name, &found))
        return !path.at || find_named(found, SERVICE_METHOD, path, &found);
    return !path.at &&
           (find_named(file, FILE_ENUM, name, &found) ||
            find_named(file, FILE_EXTENSION, name, &found) || has_value(file, FILE_ENUM, name));
}

/* `symbol` without "<package>."; false if the package differs. */
static bool strip_package(struct str file, struct str symbol, struct str *ret_path)
{
    struct str package = descriptors_text_of(file, FILE_PACKAGE);

    if (package.len == 0) {
        *ret_path = symbol;
        return true;
    }
    if (symbol.len <= package.len || !str_starts(symbol, package)) return false;
    if (symbol.at[package.len] != '.') return false;
    *ret_path = str_tail(symbol, package.len + 1);
    return true;
}

enum err descriptors_find_symbol(struct str set, struct str symbol, struct str *ret_file)
{
    size_t cursor = 0;
    struct str file, path;

    while (descriptors_next_file(set, &cursor, &file)) {
        if (!strip_package(file, symbol, &path) || !file_has(file, path)) continue;
        *ret_file = file;
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}
