/* SPDX-License-Identifier: Apache-2.0 */
/* What the built-in processor keeps of one partition: for each key how often it came and the sum
 * of its numbers, and how far each input was read. Both move together, which is what makes a
 * checkpoint exact: a worker that loads one and reads on from its offsets ends with the totals of a run
 * that was never interrupted.
 *
 * A record is a line: "KEY" or "KEY NUMBER", parted by blanks; without a number it counts as 1. A
 * line that is neither is counted as rejected, never passed over in silence; an empty one is
 * nothing. */
#ifndef WORKER_TALLY_H
#define WORKER_TALLY_H
#include "base/buf.h"
#include "base/map.h"
#include "base/note.h"
#include "text/json.h"

enum {
    TALLY_KEY_MAX = 256,
    TALLY_KEYS_MAX = 1 << 20, /* of one partition; ERR_FULL stops it, and says so */
    TALLY_SOURCES_MAX = 4096, /* inputs of one partition */
    TALLY_SOURCE_MAX = 255,
};
struct tally_total { /* of a key; of a source: how far it was read is its `count` */
    uint64_t count;
    int64_t sum;
};
struct partition_tally {
    struct map totals, sources; /* struct tally_total, by key and by source */
    uint64_t records, rejected; /* records: that were added */
};
struct tally_record {
    char key[TALLY_KEY_MAX + 1];
    size_t key_len;
    int64_t number;
};

enum err tally_open(struct partition_tally **ret_tally); /* ERR_NOMEM */
void tally_close(struct partition_tally *tally);         /* NULL is fine */

/* ERR_OK; ERR_NOT_FOUND: an empty line; ERR_PARSE: to be rejected. */
enum err tally_parse(struct str line, struct tally_record *ret_record);
/* ERR_FULL, ERR_NOMEM: nothing changed. A sum past 64 bits is a rejected record. */
enum err tally_add(struct partition_tally *tally, const struct tally_record *record);

uint64_t tally_offset(const struct partition_tally *tally,
                      struct str source); /* 0: nothing was read */
enum err tally_set_offset(struct partition_tally *tally, struct str source, uint64_t offset);

/* As two JSON values: node_snapshots, {"totals":{"KEY":[COUNT,SUM]},"rejected":N}, and
 * input_offsets, {"SOURCE":OFFSET}. Keys in order, so the same totals are the same bytes. */
enum err tally_write(const struct partition_tally *tally, struct ndjson *into);
/* Of a record that tally_write wrote into. ERR_PARSE, ERR_NOMEM: what was there is gone. */
enum err tally_read(struct partition_tally *tally, const struct json *record, struct note *note);
#endif
