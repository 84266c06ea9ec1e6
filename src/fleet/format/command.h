/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as the specification's JSON (coordinator.md section 4): what our log carries,
 * and what the original's logs carry.
 *
 * Written: compact, keys in the order of the specification, map keys ascending, the five characters
 * <, >, &, U+2028 and U+2029 escaped, an empty map as null. Read: keys in any case, unknown keys
 * ignored, the last of duplicates counts, null leaves a field unset. */
#ifndef FLEET_FORMAT_COMMAND_H
#define FLEET_FORMAT_COMMAND_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"

/* Appends one object without a line end, all or nothing. ERR_INVALID for a kind or time that is
 * none and for text that is not UTF-8; ERR_FULL, ERR_NOMEM. */
enum err fleet_command_encode(const struct fleet_command *command, struct buf *into);
/* Texts of *ret_command are in `bytes` or in `arena`: both must outlive it. ERR_OK, or a refusal
 * in *ret_result (UNREADABLE, UNKNOWN_KIND, PAYLOAD_MISSING; ERR_INVALID) with a note that says
 * where (`note` may be NULL), or ERR_NOMEM for the arena's end. */
enum err fleet_command_decode(struct str bytes, struct arena *arena,
                              struct fleet_command *ret_command, struct fleet_result *ret_result,
                              struct note *note);
#endif
