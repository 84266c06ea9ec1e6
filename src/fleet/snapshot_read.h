/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a snapshot in the original's format: meta.json and state, as two files of a directory or
 * two entries of a tar (coordinator.md 6.4 to 6.6). Blocking. */
#ifndef FLEET_SNAPSHOT_READ_H
#define FLEET_SNAPSHOT_READ_H
#include "fleet/format/state.h"
#include "io/fs.h"

struct snapshot_facts {
    uint64_t index, term; /* values in meta.json */
    uint64_t bytes;       /* bytes of the file `state` */
    struct fleet_state_summary state;
};
/* Writes the rows into `fleet`; NULL: only checks the text. Other entries are skipped. The note
 * names the file and the offset.
 * ERR_PARSE: not a tar or not JSON, state before meta.json, one of them twice or missing, or
 * truncated.
 * ERR_INVALID: index 0. ERR_TOO_LARGE: meta.json. ERR_CORRUPT: wrong size or hash.
 * ERR_NOT_FOUND. */
enum err snapshot_read(struct fs *fs, const char *path, bool is_directory, struct fleet *fleet,
                       struct snapshot_facts *ret_facts, struct note *note);
#endif
