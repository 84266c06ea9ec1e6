/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as the specification's JSON (coordinator.md section 4), in muster's and the original's
 * logs.
 *
 * The writer orders keys as the specification does, and map keys in ascending order. It escapes <,
 * >, &, U+2028 and U+2029. An empty map is null.
 *
 * The reader accepts keys of any case, ignores unknown keys, and uses the last duplicate. Null sets
 * no field. */
#ifndef FLEET_FORMAT_COMMAND_H
#define FLEET_FORMAT_COMMAND_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"

/* Appends one object without a line end, or nothing. ERR_INVALID: an unknown kind, an invalid time,
 * or a text that is not UTF-8. ERR_FULL, ERR_NOMEM. */
enum err fleet_command_encode(const struct fleet_command *command, struct buf *into);
/* Texts point into `bytes` or `arena`, which must outlive the command. ERR_INVALID: *ret_result has
 * the reason (UNREADABLE, UNKNOWN_KIND, PAYLOAD_MISSING). ERR_NOMEM: the arena is full. */
enum err fleet_command_decode(struct str bytes, struct arena *arena,
                              struct fleet_command *ret_command, struct fleet_result *ret_result,
                              struct note *note);
#endif
