/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the built-in processor for one partition: per key, the number of records and the sum
 * of their numbers; per input file, the offset read so far. Totals and offsets change together. A
 * worker that loads a checkpoint and continues from its offsets therefore gets the same totals as
 * an uninterrupted run.
 *
 * A record is a line: "KEY" or "KEY NUMBER", separated by blanks. A missing NUMBER is 1. Empty
 * lines are ignored. Other lines are counted as rejected. */
#ifndef WORKER_TALLY_H
#define WORKER_TALLY_H
#include "base/buf.h"
#include "base/map.h"
#include "base/note.h"
#include "text/json.h"

enum {
    TALLY_KEY_MAX = 256,
    TALLY_KEYS_MAX = 1 << 20, /* keys of one partition; more are ERR_FULL */
    TALLY_SOURCES_MAX = 4096, /* input files of one partition */
    TALLY_SOURCE_MAX = 255,
};
struct tally_total { /* the total of a key; for a source, `count` is an offset in the source */
    uint64_t count;
    int64_t sum;
};
struct partition_tally {
    struct map totals, sources; /* maps from a key, and from a source, to struct tally_total */
    uint64_t records, rejected; /* rejected lines are not counted in `records` */
};
struct tally_record {
    char key[TALLY_KEY_MAX + 1];
    size_t key_len;
    int64_t number;
};

enum err tally_open(struct partition_tally **ret_tally); /* ERR_NOMEM */
void tally_close(struct partition_tally *tally);         /* NULL is fine */

/* Parses a line. ERR_NOT_FOUND: the line is empty. ERR_PARSE: the line must be rejected. */
enum err tally_parse(struct str line, struct tally_record *ret_record);
/* Adds a record, or rejects it if the sum would exceed 64 bits. ERR_FULL, ERR_NOMEM: no change. */
enum err tally_add(struct partition_tally *tally, const struct tally_record *record);

/* 0: nothing was read yet. */
uint64_t tally_offset(const struct partition_tally *tally, struct str source);
enum err tally_set_offset(struct partition_tally *tally, struct str source, uint64_t offset);

/* Writes two JSON members: node_snapshots, {"totals":{"KEY":[COUNT,SUM]},"rejected":N}, and
 * input_offsets, {"SOURCE":OFFSET}. Keys are sorted, so that equal totals give equal bytes. */
enum err tally_write(const struct partition_tally *tally, struct ndjson *into);
/* Reads what tally_write wrote. ERR_PARSE and ERR_NOMEM: the previous content is lost. */
enum err tally_read(struct partition_tally *tally, const struct json *record, struct note *note);
#endif
