/* SPDX-License-Identifier: Apache-2.0 */
/* The whole state as one line of JSON (coordinator.md 6.1), written from a view and read back in
 * pieces, so that neither side ever holds it whole.
 *
 * It is the `state` of exports and archives, the original's and ours, and with one more member at
 * the end, which other readers ignore, the fleet's section of our own snapshots:
 *     ,"muster":{"format":1,"index":<n>,"hash":"<16 hex digits>"}
 * With it the reader proves that what it built is what was written.
 *
 * Domains that are leaving a shard are one more member, before that one, which is written only when
 * there are any. The seal is of format 2 then, so that a release that does not know the member
 * refuses the state by name instead of calling it damaged:
 *     ,"domains_leaving":[{"domain":{"Key":..,"Value":..},"shard":..,"since":<n>}, ..] */
#ifndef FLEET_FORMAT_STATE_H
#define FLEET_FORMAT_STATE_H
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"

enum {
    STATE_SLICE_BYTES = 64 << 10, /* made in one turn of the loop: a millisecond at most */
    STATE_SLICE_MAX = 64 << 20,   /* a machine's largest record and a slice: more is no slice */
};

/* -- writing -- */
struct fleet_state_style {
    bool heartbeats; /* those that are set; else all are the unset time */
    bool sealed;     /* with the member "muster" */
    uint64_t index;  /* in the seal */
};
struct fleet_state_writer;
/* The tables as they are now. What fleet_view_open() answers, ERR_NOMEM. */
enum err fleet_state_write_open(struct fleet *fleet, struct fleet_state_style style,
                                struct fleet_state_writer **ret_writer);
/* Appends about `budget` bytes, at least one unless done. The fleet may change between calls. What
 * fleet_view_next() answers, ERR_FULL, ERR_NOMEM. A part of a section (section/section.h). */
enum err fleet_state_write_next(void *writer, size_t budget, struct buf *into, bool *ret_done);
void fleet_state_write_close(void *writer); /* NULL is fine */

/* -- reading -- */
struct fleet_state_reader;
struct fleet_state_options {
    struct fleet *fleet; /* written through fleet_apply(); NULL: the text is only checked */
    bool strict;   /* a row that is refused, or no seal, is ERR_CORRUPT: for our own snapshots */
    uint32_t only; /* bit per table: a second reading, of the tables in `again`; 0: the first */
    /* Each row the rules of writing refused, and why; may be NULL. Borrowed texts. */
    void (*dropped)(void *owner, const struct fleet_row *row, const struct fleet_result *why);
    void *owner;
};
struct fleet_state_summary {
    struct fleet_counts taken;   /* rows that were taken */
    struct fleet_counts dropped; /* rows that were refused */
    /* Bit per table that came before the shards it needs: to be read once more. Never when strict. */
    uint32_t again;
    bool sealed;
    uint64_t index, hash; /* of the seal */
};
enum err fleet_state_read_begin(const struct fleet_state_options *options,
                                struct fleet_state_reader **ret_reader); /* ERR_NOMEM */
/* Bytes in order, cut anywhere. ERR_PARSE (not JSON of that shape, a table twice), ERR_CORRUPT
 * (strict), ERR_VERSION (of the seal),
 * ERR_TOO_LARGE (one text or the depth), ERR_NOMEM; final, with a note naming the offset. */
enum err fleet_state_read_next(void *reader, struct str bytes, struct note *note);
/* After the last byte. ERR_PARSE: it is not whole. ERR_CORRUPT, strict: no seal, another hash. */
enum err fleet_state_read_end(struct fleet_state_reader *reader,
                              struct fleet_state_summary *ret_summary, struct note *note);
void fleet_state_read_close(struct fleet_state_reader *reader); /* NULL is fine */
#endif
