/* SPDX-License-Identifier: Apache-2.0 */
/* The original's archive: `meta.json` and then `state`, as a tar (`snapshot save`; coordinator.md
 * 6.5, 6.6) or as two files (export). Written and read as bytes in, bytes out.
 *
 * The header before the state needs its size, so a writer spools the state first; the size is in
 * the meta. A reader gets the archive in pieces and hands on the state as it comes. */
#ifndef FLEET_FORMAT_ARCHIVE_H
#define FLEET_FORMAT_ARCHIVE_H
#include "base/buf.h"
#include "base/note.h"
#include "fleet/format/meta.h"
#include "fleet/format/tar.h"

/* -- writing -- */
/* Appends all that stands before the state: a header, `meta_json` as it is, a header for a state of
 * state_size bytes. ERR_FULL, ERR_NOMEM. */
enum err fleet_archive_head(struct str meta_json, uint64_t state_size, struct buf *into);
/* Appends all that stands behind it. */
enum err fleet_archive_tail(uint64_t state_size, struct buf *into);

/* -- reading -- */
struct fleet_archive_reader;
/* One state byte run after another, in order. Whatever it returns but ERR_OK ends the reading. */
typedef enum err fleet_archive_state_fn(void *owner, struct str bytes, struct note *note);
/* state may be NULL: only the shape is checked. ERR_NOMEM. */
enum err fleet_archive_open(fleet_archive_state_fn *state, void *owner,
                            struct fleet_archive_reader **ret_reader);
/* ERR_PARSE (not a tar, meta is not JSON, state before meta, an entry twice), ERR_INVALID (index
 * 0), ERR_TOO_LARGE (meta), and what the state function answers. Entries of other names are
 * skipped; names match exactly. */
enum err fleet_archive_read(void *reader, struct str bytes, struct note *note);
/* The pair without a tar: all of meta.json, then the state in any portions. */
enum err fleet_archive_meta(struct fleet_archive_reader *reader, struct str json,
                            struct note *note);
enum err fleet_archive_state(void *reader, struct str bytes, struct note *note);
/* After the last byte. ERR_PARSE: no meta.json, no state, or cut short. ERR_CORRUPT: a state of
 * another size than the meta says; one that says 0 says nothing. */
enum err fleet_archive_end(struct fleet_archive_reader *reader, struct fleet_meta *ret_meta,
                           uint64_t *ret_state_size, struct note *note);
void fleet_archive_close(struct fleet_archive_reader *reader); /* NULL is fine */
#endif
