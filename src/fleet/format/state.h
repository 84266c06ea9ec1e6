/* SPDX-License-Identifier: Apache-2.0 */
/* The whole state as one line of JSON (coordinator.md 6.1): the `state` file of exports and
 * archives, of muster and of the original, and the fleet's section in muster's snapshots. The line
 * is written and read in pieces.
 *
 * Snapshots end in the seal, which other readers ignore. With the seal the reader verifies the
 * restored rows:
 *     ,"muster":{"format":1,"index":<n>,"hash":"<16 hex digits>"}
 *
 * If domains are leaving a shard, another member precedes the seal, and the seal has format 2.
 * Older releases then report an unknown version instead of damage:
 *     ,"domains_leaving":[{"domain":{"Key":..,"Value":..},"shard":..,"since":<n>}, ..] */
#ifndef FLEET_FORMAT_STATE_H
#define FLEET_FORMAT_STATE_H
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"

enum {
    STATE_SLICE_BYTES = 64 << 10, /* written per turn of the event loop, in at most 1 ms */
    STATE_SLICE_MAX = 64 << 20,   /* the largest slice: largest record and budget */
};

/* -- writing -- */
struct fleet_state_style {
    bool heartbeats; /* false: write the unset time */
    bool sealed;     /* write the member "muster" */
    uint64_t index;  /* log index for the seal */
};
struct fleet_state_writer;
/* Opens a writer of the current tables. Errors of fleet_view_open(), ERR_NOMEM. */
enum err fleet_state_write_open(struct fleet *fleet, struct fleet_state_style style,
                                struct fleet_state_writer **ret_writer);
/* Appends about `budget` bytes, at least one unless done. The fleet may change between calls.
 * Errors of fleet_view_next(), ERR_FULL, ERR_NOMEM. */
enum err fleet_state_write_next(void *writer, size_t budget, struct buf *into, bool *ret_done);
void fleet_state_write_close(void *writer); /* NULL is allowed */

/* -- reading -- */
struct fleet_state_reader;
struct fleet_state_options {
    struct fleet *fleet; /* gets each row by fleet_apply(); NULL: check only */
    bool strict;         /* for muster's snapshots: a refused row or no seal is ERR_CORRUPT */
    uint32_t only;       /* tables to read in a second pass; 0: the first pass */
    /* Called with each refused row and the reason. The texts are borrowed. May be NULL. */
    void (*dropped)(void *owner, const struct fleet_row *row, const struct fleet_result *why);
    void *owner;
};
struct fleet_state_summary {
    struct fleet_counts taken;   /* accepted rows per table */
    struct fleet_counts dropped; /* refused rows per table */
    /* Tables that precede the shards and need a second pass, as bits. 0 if strict. */
    uint32_t again;
    bool sealed;
    uint64_t index, hash; /* values in the seal */
};
enum err fleet_state_read_begin(const struct fleet_state_options *options,
                                struct fleet_state_reader **ret_reader); /* ERR_NOMEM */
/* Reads the next bytes, which may be split anywhere. Errors are final, with the offset in the note.
 * ERR_PARSE: not JSON of this shape, or a table appears twice. ERR_CORRUPT: a refused row (strict).
 * ERR_VERSION: of the seal. ERR_TOO_LARGE: a text or the depth. ERR_NOMEM. */
enum err fleet_state_read_next(void *reader, struct str bytes, struct note *note);
/* Call after the last byte. ERR_PARSE: incomplete. ERR_CORRUPT (strict): no seal or wrong hash. */
enum err fleet_state_read_end(struct fleet_state_reader *reader,
                              struct fleet_state_summary *ret_summary, struct note *note);
void fleet_state_read_close(struct fleet_state_reader *reader); /* NULL is allowed */
#endif
