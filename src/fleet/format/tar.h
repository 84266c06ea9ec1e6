/* SPDX-License-Identifier: Apache-2.0 */
/* Plain tar (USTAR), as much of it as archives need: regular entries, written and read as bytes in,
 * bytes out.
 *
 * Written: mode 0644, owner 0, time 0, padded to 512 bytes, ended by two zero blocks. Read: what
 * GNU, BSD, pax and Go writers make of such archives; entries that are not regular files are given
 * as such, for the caller to skip. */
#ifndef FLEET_FORMAT_TAR_H
#define FLEET_FORMAT_TAR_H
#include "base/note.h"
#include "base/str.h"

enum {
    TAR_BLOCK = 512,
    TAR_NAME_MAX =
        256, /* of what we read: prefix, '/' and name; longer ones are cut, never equal */
};
#define TAR_SIZE_MAX ((uint64_t)1 << 62)

/* -- writing: header, content, padding, header, ..., end -- */
/* ERR_INVALID: an empty name, or one longer than 100 bytes. */
enum err tar_header(const char *name, uint64_t size, char block[TAR_BLOCK]);
/* How many zero bytes follow a content of this size. */
size_t tar_padding(uint64_t size);
enum { TAR_END_BYTES = 2 * TAR_BLOCK }; /* zeros */

/* -- reading -- */
enum tar_event {
    TAR_NEED,  /* the bytes are used up */
    TAR_ENTRY, /* a header: name, size, regular */
    TAR_DATA,  /* some of its content */
    TAR_CLOSE, /* its content is whole */
    TAR_END,   /* two zero blocks; what follows is ignored */
};
struct tar_reader {
    char block[TAR_BLOCK];
    size_t filled;          /* of block */
    uint64_t left, padding; /* of the entry's content, and behind it */
    uint64_t offset;        /* bytes read so far */
    unsigned zeros;         /* zero blocks in a row */
    bool in_entry, long_name, ended;
    char name[TAR_NAME_MAX + 1];
    uint64_t size;
    bool regular;
    struct str data; /* TAR_DATA: in the bytes given */
};
void tar_read_begin(struct tar_reader *reader);
/* Takes from *bytes what it needs for one event. ERR_PARSE: not a tar, with the offset in the note;
 * final. */
enum err tar_read(struct tar_reader *reader, struct str *bytes, enum tar_event *ret_event,
                  struct note *note);
/* Whether the input may end here: after the end blocks, or between entries (some omit them). */
bool tar_read_whole(const struct tar_reader *reader);
#endif
