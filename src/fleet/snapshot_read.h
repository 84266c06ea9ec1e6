/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a snapshot of the original's kind: meta.json and state, as two files of a directory or as
 * two entries of a tar (coordinator.md 6.4 to 6.6). Blocking. */
#ifndef FLEET_SNAPSHOT_READ_H
#define FLEET_SNAPSHOT_READ_H
#include "fleet/format/state.h"
#include "io/fs.h"

struct snapshot_facts {
    uint64_t index, term; /* of meta.json */
    uint64_t bytes;       /* of state */
    struct fleet_state_summary state;
};
/* The rows go into `fleet`; NULL: the text is only checked. ERR_NOT_FOUND; ERR_PARSE: not a tar,
 * not JSON, state before meta.json, one of them twice or missing, cut short; ERR_INVALID: index 0;
 * ERR_TOO_LARGE: meta.json; ERR_CORRUPT: another size or another hash than the files say. The note
 * names the file and, for a tar and for the state, the offset. Entries of other names are skipped.
 */
enum err snapshot_read(struct fs *fs, const char *path, bool is_directory, struct fleet *fleet,
                       struct snapshot_facts *ret_facts, struct note *note);
#endif
