/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as the specification's JSON (coordinator.md section 4), in our logs and in the
 * original's.
 *
 * Written compactly: keys in the order of the specification, map keys ascending, the five
 * characters <, >, &, U+2028 and U+2029 escaped, an empty map as null. When read, keys may have any
 * case, unknown keys are ignored, the last duplicate counts, and null leaves a field unset. */
#ifndef FLEET_FORMAT_COMMAND_H
#define FLEET_FORMAT_COMMAND_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"

/* Appends one object without a line end; appends nothing on error. ERR_INVALID: an unknown kind, an
 * invalid time, or text that is not UTF-8. ERR_FULL, ERR_NOMEM. */
enum err fleet_command_encode(const struct fleet_command *command, struct buf *into);
/* Texts of *ret_command point into `bytes` or `arena`; both must outlive the command. Returns
 * ERR_OK; ERR_INVALID with the refusal in *ret_result (UNREADABLE, UNKNOWN_KIND, PAYLOAD_MISSING)
 * and a note that names the place (`note` may be NULL); or ERR_NOMEM if the arena is full. */
enum err fleet_command_decode(struct str bytes, struct arena *arena,
                              struct fleet_command *ret_command, struct fleet_result *ret_result,
                              struct note *note);
#endif
