/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the built-in processor for one partition: for each key, the number of records and
 * the sum of their numbers; for each input file, the offset read so far. Totals and offsets change
 * together, so a worker that continues from a checkpoint gets the same totals.
 *
 * A record is a line "KEY" or "KEY NUMBER"; the default NUMBER is 1. Empty lines are ignored. Other
 * lines are counted as rejected. */
#ifndef WORKER_TALLY_H
#define WORKER_TALLY_H
#include "base/buf.h"
#include "base/map.h"
#include "base/note.h"
#include "text/json.h"

enum {
    TALLY_KEY_MAX = 256,
    TALLY_KEYS_MAX = 1 << 20, /* keys of one partition; more are ERR_FULL */
    TALLY_SOURCES_MAX = 4096,
    TALLY_SOURCE_MAX = 255,
};
struct tally_total { /* offsets are stored as `count` */
    uint64_t count;
    int64_t sum;
};
struct partition_tally {
    struct map totals, sources; /* totals by key, offsets by source */
    uint64_t records, rejected; /* `records` does not include rejected lines */
};
struct tally_record {
    char key[TALLY_KEY_MAX + 1];
    size_t key_len;
    int64_t number;
};

enum err tally_open(struct partition_tally **ret_tally); /* ERR_NOMEM */
void tally_close(struct partition_tally *tally);         /* NULL is fine */

/* ERR_NOT_FOUND: the line is empty. ERR_PARSE: the line must be rejected. */
enum err tally_parse(struct str line, struct tally_record *ret_record);
/* Adds a record, or rejects it if the sum would exceed 64 bits. ERR_FULL, ERR_NOMEM: no change. */
enum err tally_add(struct partition_tally *tally, const struct tally_record *record);

uint64_t tally_offset(const struct partition_tally *tally, struct str source);
enum err tally_set_offset(struct partition_tally *tally, struct str source, uint64_t offset);

/* Writes two JSON members, with sorted keys, so that equal totals give equal bytes:
 *   "node_snapshots": {"totals":{"KEY":[COUNT,SUM]},"rejected":N}
 *   "input_offsets": {"SOURCE":OFFSET} */
enum err tally_write(const struct partition_tally *tally, struct ndjson *into);
/* Reads the output of tally_write. After ERR_PARSE and ERR_NOMEM the previous content is lost. */
enum err tally_read(struct partition_tally *tally, const struct json *record, struct note *note);
#endif
