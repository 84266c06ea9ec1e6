/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a partition's input and adds it to the partition's tally, a batch at a time. Runs on the
 * processing thread.
 *
 * The inputs of partition 7 are the files of the input directory whose names begin with "00000007."
 * or "00000007-", sorted by name. Records are lines. A last line without a newline is not read yet,
 * because files may grow. A batch and its offsets are added as a whole. */
#ifndef WORKER_INTAKE_H
#define WORKER_INTAKE_H
#include "base/note.h"
#include "io/fs.h"
#include "worker/tally.h"

enum {
    INTAKE_BATCH = 1000,      /* records per batch */
    INTAKE_CHUNK = 256 << 10, /* bytes per read */
    INTAKE_LINE_MAX = 128 << 10,
};
/* Converts a line to a record in the format of tally.h and appends it to `out`. Appending nothing
 * skips the line. ERR_INVALID, ERR_PARSE: the record is rejected. Other errors end intake_batch. */
typedef enum err intake_map_fn(void *owner, struct str line, struct buf *out, struct note *note);
struct intake_options {
    struct fs *fs;
    const char *dir;
    intake_map_fn *map;
    void *owner;
};
/* Reads up to `records_max` lines.
 *   *ret_lines 0          no new input
 *   ERR_CORRUPT           a file is shorter than the part already read
 *   ERR_NOMEM, ERR_FULL   the tally may be partly changed: load it again
 * Also returns errors of the file, with a note. */
enum err intake_batch(const struct intake_options *options, uint32_t partition,
                      struct partition_tally *tally, size_t records_max, size_t *ret_lines,
                      struct note *note);
#endif
