/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a partition's input and adds it to its tally, a batch at a time.
 *
 * The inputs of partition 7 are the regular files of the input directory whose names begin with
 * "00000007." or "00000007-", in the order of their names. Records are lines; a last one without
 * its end is not read yet: files may grow. A batch is added whole or not at all, with the offsets
 * it ends at. For the processing thread. */
#ifndef WORKER_INTAKE_H
#define WORKER_INTAKE_H
#include "base/note.h"
#include "io/fs.h"
#include "worker/tally.h"

enum {
    INTAKE_BATCH = 1000,         /* records */
    INTAKE_CHUNK = 256 << 10,    /* bytes read at once */
    INTAKE_LINE_MAX = 128 << 10, /* a longer record is rejected */
};
/* What becomes of a line, appended to `out`: a record as tally.h reads it. Nothing: the line is
 * passed over. ERR_INVALID, ERR_PARSE: the record is rejected. Any other error ends the batch and
 * is what intake_batch returns. */
typedef enum err intake_map_fn(void *owner, struct str line, struct buf *out, struct note *note);
struct intake_options {
    struct fs *fs;
    const char *dir;
    intake_map_fn *map; /* NULL: lines are records */
    void *owner;
};
/* Reads up to `records_max` lines. *ret_lines 0: there is nothing more to read now. ERR_CORRUPT: a
 * file is shorter than what was read of it. After ERR_NOMEM and ERR_FULL the tally may be half
 * changed: load it anew. Errors of files with a note. */
enum err intake_batch(const struct intake_options *options, uint32_t partition,
                      struct partition_tally *tally, size_t records_max, size_t *ret_lines,
                      struct note *note);
#endif
