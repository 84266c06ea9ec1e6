/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of a plain tar (USTAR), as far as archives need them.
 *
 * The writer uses mode 0644, owner 0 and time 0, pads files to 512 bytes, and ends a tar with two
 * zero blocks. The reader accepts archives of GNU, BSD, pax and Go writers. Entries that are not
 * regular files are marked, so that the caller can skip them. */
#ifndef FLEET_FORMAT_TAR_H
#define FLEET_FORMAT_TAR_H
#include "base/err.h"
#include "base/str.h"

enum {
    TAR_BLOCK = 512,
    TAR_NAME_MAX = 256,            /* prefix, '/' and name */
    TAR_END_BYTES = 2 * TAR_BLOCK, /* zeros at the end of a tar */
};
#define TAR_SIZE_MAX ((uint64_t)1 << 62)

/* ERR_INVALID: the name is empty or over 100 bytes, or the size is too large. */
enum err tar_header(const char *name, uint64_t size, char block[TAR_BLOCK]);
/* The number of zero bytes behind content of this size. */
size_t tar_padding(uint64_t size);

struct tar_entry {
    char name[TAR_NAME_MAX + 1];
    uint64_t size;
    bool regular;
    bool names_next; /* the content is the full name of the next entry */
};
/* Returns NULL, or a text that describes the fault. The header must not be all zeros. */
const char *tar_entry_read(const char block[TAR_BLOCK], struct tar_entry *ret_entry);
bool tar_is_zero(const char block[TAR_BLOCK]);
#endif
