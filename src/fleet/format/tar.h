/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of a plain tar (USTAR), as much of it as archives need.
 *
 * Written: mode 0644, owner 0, time 0, padded to 512 bytes, ended by two zero blocks. Read: what
 * GNU, BSD, pax and Go writers make of such archives; entries that are not regular files are given
 * as such, for the caller to skip. */
#ifndef FLEET_FORMAT_TAR_H
#define FLEET_FORMAT_TAR_H
#include "base/err.h"
#include "base/str.h"

enum {
    TAR_BLOCK = 512,
    TAR_NAME_MAX = 256,            /* of what we read: prefix, '/' and name */
    TAR_END_BYTES = 2 * TAR_BLOCK, /* zeros */
};
#define TAR_SIZE_MAX ((uint64_t)1 << 62)

/* ERR_INVALID: an empty name, or one longer than 100 bytes; a size past the limit. */
enum err tar_header(const char *name, uint64_t size, char block[TAR_BLOCK]);
/* How many zero bytes follow a content of this size. */
size_t tar_padding(uint64_t size);

struct tar_entry {
    char name[TAR_NAME_MAX + 1];
    uint64_t size;
    bool regular;
    bool names_next; /* its content is the name of the next entry, which has only a part of it */
};
/* NULL, or what is wrong with the block, which is not of zeros. */
const char *tar_entry_read(const char block[TAR_BLOCK], struct tar_entry *ret_entry);
bool tar_is_zero(const char block[TAR_BLOCK]);
#endif
