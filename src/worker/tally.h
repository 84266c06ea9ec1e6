/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the built-in processor for one partition: the number of records and the sum of the
 * numbers for each key, and the offset read so far for each input. Totals and offsets change
 * together, which makes checkpoints exact: a worker that loads a checkpoint and continues from its
 * offsets gets the totals of an uninterrupted run.
 *
 * A record is a line: "KEY" or "KEY NUMBER", separated by blanks. Without a number it counts as 1.
 * Other lines are counted as rejected. Empty lines are ignored. */
#ifndef WORKER_TALLY_H
#define WORKER_TALLY_H
#include "base/buf.h"
#include "base/map.h"
#include "base/note.h"
#include "text/json.h"

enum {
    TALLY_KEY_MAX = 256,
    TALLY_KEYS_MAX = 1 << 20, /* keys of one partition; ERR_FULL stops it with an error */
    TALLY_SOURCES_MAX = 4096, /* inputs of one partition */
    TALLY_SOURCE_MAX = 255,
};
struct tally_total { /* total of a key; for a source, `count` is the offset read so far */
    uint64_t count;
    int64_t sum;
};
struct partition_tally {
    struct map totals, sources; /* struct tally_total, by key and by source */
    uint64_t records, rejected; /* records: those that were added */
};
struct tally_record {
    char key[TALLY_KEY_MAX + 1];
    size_t key_len;
    int64_t number;
};

enum err tally_open(struct partition_tally **ret_tally); /* ERR_NOMEM */
void tally_close(struct partition_tally *tally);         /* NULL is fine */

/* ERR_OK. ERR_NOT_FOUND: an empty line. ERR_PARSE: the line must be rejected. */
enum err tally_parse(struct str line, struct tally_record *ret_record);
/* ERR_FULL, ERR_NOMEM: nothing changed. A record whose sum would exceed 64 bits is rejected. */
enum err tally_add(struct partition_tally *tally, const struct tally_record *record);

/* 0: nothing was read yet. */
uint64_t tally_offset(const struct partition_tally *tally, struct str source);
enum err tally_set_offset(struct partition_tally *tally, struct str source, uint64_t offset);

/* Writes two JSON members: node_snapshots, {"totals":{"KEY":[COUNT,SUM]},"rejected":N}, and
 * input_offsets, {"SOURCE":OFFSET}. Keys are sorted, so the same totals give the same bytes. */
enum err tally_write(const struct partition_tally *tally, struct ndjson *into);
/* Reads a record of tally_write. After ERR_PARSE and ERR_NOMEM the previous content is lost. */
enum err tally_read(struct partition_tally *tally, const struct json *record, struct note *note);
#endif
