/* SPDX-License-Identifier: Apache-2.0 */
/* The archive of `snapshot save`: a tar of `meta.json` and then `state` (coordinator.md 6.5, 6.6),
 * written and read as bytes in, bytes out.
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
enum err fleet_archive_read(struct fleet_archive_reader *reader, struct str bytes,
                            struct note *note);
/* After the last byte. ERR_PARSE: no meta.json, no state, or cut short. The meta is the caller's to
 * keep; *ret_state_size is what came, whatever the meta says. */
enum err fleet_archive_end(struct fleet_archive_reader *reader, struct fleet_meta *ret_meta,
                           uint64_t *ret_state_size, struct note *note);
void fleet_archive_close(struct fleet_archive_reader *reader); /* NULL is fine */
#endif
