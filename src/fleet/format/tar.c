/* SPDX-License-Identifier: Apache-2.0 */
/* USTAR headers of 512 bytes. Each field is given as offset, name and size in bytes:
 *     0 name 100, 100 mode 8, 108 owner 8, 116 group 8, 124 size 12, 136 time 12, 148 sum 8
 *     156 type 1, 157 link name 100, 257 "ustar\0" 6, 263 "00" 2, 265 owner's name 32
 *     297 group's name 32, 329 device 8 + 8, 345 prefix 155, 500 zero 12
 * Numbers are octal digits before a NUL or a blank. A size of more than eleven digits is binary,
 * big-endian, with the top bit of its first byte set. The checksum is the sum of all bytes of the
 * header, with blanks in the checksum's field. */
#include "fleet/format/tar.h"

#include <stdio.h>
#include <string.h>

enum {
    AT_NAME = 0,
    AT_MODE = 100,
    AT_OWNER = 108,
    AT_GROUP = 116,
    AT_SIZE = 124,
    AT_TIME = 136,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_MAGIC = 257,
    AT_DEVICES = 329,
    AT_PREFIX = 345,
    NAME_BYTES = 100,
    SIZE_BYTES = 12,
    SUM_BYTES = 8,
    PREFIX_BYTES = 155,
};
#define OCTAL_SIZE_MAX 077777777777ull

static unsigned header_sum(const char block[TAR_BLOCK])
{
    unsigned sum = 0;

    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= AT_SUM && i < AT_SUM + SUM_BYTES ? ' ' : (unsigned char)block[i];
    return sum;
}

/* -- writing -- */
static void put_size(char *at, uint64_t size)
{
    if (size <= OCTAL_SIZE_MAX) {
        snprintf(at, SIZE_BYTES, "%011llo", (unsigned long long)size);
        return;
    }
    at[0] = '\x80';
    for (size_t i = 0; i < 8; i++) at[SIZE_BYTES - 1 - i] = (char)(size >> (8 * i));
}

enum err tar_header(const char *name, uint64_t size, char block[TAR_BLOCK])
{
    static const char magic[8] = {'u', 's', 't', 'a', 'r', '\0', '0', '0'};
    struct str text = str_from(name);

    if (text.len == 0 || text.len > NAME_BYTES || size > TAR_SIZE_MAX) return ERR_INVALID;
    memset(block, 0, TAR_BLOCK);
    memcpy(block + AT_NAME, text.at, text.len);
    memcpy(block + AT_MODE, "0000644", 8);
    memcpy(block + AT_OWNER, "0000000", 8);
    memcpy(block + AT_GROUP, "0000000", 8);
    put_size(block + AT_SIZE, size);
    memcpy(block + AT_TIME, "00000000000", 12);
    block[AT_TYPE] = '0';
    memcpy(block + AT_MAGIC, magic, sizeof magic);
    memcpy(block + AT_DEVICES, "0000000\0000000000", 16);
    snprintf(block + AT_SUM, SUM_BYTES, "%06o", header_sum(block));
    block[AT_SUM + 7] = ' ';
    return ERR_OK;
}

size_t tar_padding(uint64_t size)
{
    return (TAR_BLOCK - (size_t)(size % TAR_BLOCK)) % TAR_BLOCK;
}

/* -- reading -- */
static bool octal(const char *at, size_t len, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t i = 0, digits = 0;

    while (i < len && at[i] == ' ') i++;
    for (; i < len && at[i] >= '0' && at[i] <= '7'; i++, digits++) {
        if (number > UINT64_MAX >> 3) return false;
        number = number << 3 | (uint64_t)(at[i] - '0');
    }
    while (i < len && (at[i] == ' ' || at[i] == '\0')) i++;
    *ret_number = number;
    return i == len && digits > 0;
}

static bool size_of(const char *at, uint64_t *ret_size)
{
    uint64_t size = 0;

    if (!((unsigned char)at[0] & 0x80)) return octal(at, SIZE_BYTES, ret_size);
    /* negative, or more than 64 bits */
    if (at[0] != '\x80' || at[1] || at[2] || at[3]) return false;
    for (size_t i = 4; i < SIZE_BYTES; i++) size = size << 8 | (unsigned char)at[i];
    *ret_size = size;
    return true;
}

/* A POSIX header may have a prefix: "prefix/name". */
static void name_read(const char *block, char to[TAR_NAME_MAX + 1])
{
    size_t prefix = 0, name = strnlen(block + AT_NAME, NAME_BYTES);

    if (memcmp(block + AT_MAGIC, "ustar", 6) == 0)
        prefix = strnlen(block + AT_PREFIX, PREFIX_BYTES);
    memcpy(to, block + AT_PREFIX, prefix);
    if (prefix > 0) to[prefix++] = '/';
    memcpy(to + prefix, block + AT_NAME, name);
    to[prefix + name] = '\0';
}

const char *tar_entry_read(const char block[TAR_BLOCK], struct tar_entry *ret_entry)
{
    char type = block[AT_TYPE];
    uint64_t sum;

    if (!octal(block + AT_SUM, SUM_BYTES, &sum) || sum != header_sum(block))
        return "its sum is wrong";
    if (!size_of(block + AT_SIZE, &ret_entry->size) || ret_entry->size > TAR_SIZE_MAX)
        return "its size is no size";
    name_read(block, ret_entry->name);
    ret_entry->names_next = type == 'L';
    ret_entry->regular = type == '0' || type == '\0' || type == '7';
    return NULL;
}

bool tar_is_zero(const char block[TAR_BLOCK])
{
    static const char zeros[TAR_BLOCK];

    return memcmp(block, zeros, TAR_BLOCK) == 0;
}
