/* SPDX-License-Identifier: Apache-2.0 */
/* The whole state as one line of JSON (coordinator.md 6.1). It is written from a view and read in
 * pieces, so neither side has all of it in memory.
 *
 * This is the `state` of exports and archives, ours and the original's. Our own snapshots use it as
 * the fleet's section, with one more member at the end, which other readers ignore:
 *     ,"muster":{"format":1,"index":<n>,"hash":"<16 hex digits>"}
 * This seal lets the reader verify that it has restored what was written.
 *
 * Domains that are leaving a shard are another member, before the seal, written only if there are
 * any. The seal then has format 2, so that a release that does not know the member reports an
 * unknown version instead of damage:
 *     ,"domains_leaving":[{"domain":{"Key":..,"Value":..},"shard":..,"since":<n>}, ..] */
#ifndef FLEET_FORMAT_STATE_H
#define FLEET_FORMAT_STATE_H
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"

enum {
    STATE_SLICE_BYTES = 64 << 10, /* written per turn of the loop; takes a millisecond at most */
    STATE_SLICE_MAX = 64 << 20,   /* largest slice: the largest record and one slice */
};

/* -- writing -- */
struct fleet_state_style {
    bool heartbeats; /* write the heartbeats that are set; otherwise the unset time */
    bool sealed;     /* write the member "muster" */
    uint64_t index;  /* for the seal */
};
struct fleet_state_writer;
/* Writes the tables as they are now. Errors of fleet_view_open(), ERR_NOMEM. */
enum err fleet_state_write_open(struct fleet *fleet, struct fleet_state_style style,
                                struct fleet_state_writer **ret_writer);
/* Appends about `budget` bytes, at least one unless done. The fleet may change between calls.
 * Errors of fleet_view_next(), ERR_FULL, ERR_NOMEM. A part of a section (section/section.h). */
enum err fleet_state_write_next(void *writer, size_t budget, struct buf *into, bool *ret_done);
void fleet_state_write_close(void *writer); /* NULL is fine */

/* -- reading -- */
struct fleet_state_reader;
struct fleet_state_options {
    struct fleet *fleet; /* written through fleet_apply(); NULL: only checks the text */
    bool strict;         /* a refused row or a missing seal is ERR_CORRUPT: for our own snapshots */
    uint32_t only;       /* one bit per table: a second pass over these tables; 0: the first pass */
    /* Called with each refused row and the reason; may be NULL. The texts are borrowed. */
    void (*dropped)(void *owner, const struct fleet_row *row, const struct fleet_result *why);
    void *owner;
};
struct fleet_state_summary {
    struct fleet_counts taken;   /* accepted rows */
    struct fleet_counts dropped; /* refused rows */
    /* One bit per table that came before its shards: read it again. Always 0 when strict. */
    uint32_t again;
    bool sealed;
    uint64_t index, hash; /* index and hash in the seal */
};
enum err fleet_state_read_begin(const struct fleet_state_options *options,
                                struct fleet_state_reader **ret_reader); /* ERR_NOMEM */
/* Takes bytes in order, split anywhere. ERR_PARSE (not JSON of this shape, or a table twice),
 * ERR_CORRUPT (strict), ERR_VERSION (of the seal), ERR_TOO_LARGE (a text or the depth), ERR_NOMEM.
 * Errors are final, with a note that names the offset. */
enum err fleet_state_read_next(void *reader, struct str bytes, struct note *note);
/* Call after the last byte. ERR_PARSE: incomplete. ERR_CORRUPT (strict): no seal or wrong hash. */
enum err fleet_state_read_end(struct fleet_state_reader *reader,
                              struct fleet_state_summary *ret_summary, struct note *note);
void fleet_state_read_close(struct fleet_state_reader *reader); /* NULL is fine */
#endif
