/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a Machine of the wire into a struct machine with its shard_metadata.
 *
 * Reads the bytes directly, because a List may have 500,000 machines. Equal amounts are found in a
 * cache by their bytes. An error names the field:
 *   - bytes that are not a Machine, or a sub-message given twice;
 *   - unknown states and capacity types, and malformed quantities;
 *   - more than LABELS_MAX labels or METADATA_READ_MAX metadata entries;
 *   - metadata that is not UTF-8 or has a key twice.
 *
 * Unknown fields are skipped. A last_error that is too long is truncated. The caller must check
 * everything else with machine_check(), except for a record equal to the stored one. */
#ifndef PROVIDER_MACHINE_WIRE_H
#define PROVIDER_MACHINE_WIRE_H
#include "model/machine.h"

struct machine_record {
    struct machine machine;       /* stamp, destination and promise are in the metadata */
    const struct label *metadata; /* sorted by key; values may contain NUL */
    size_t metadata_count;
};

struct machine_reader; /* one thread at a time */
/* machine_read() adds the record's new resource names to `dimensions`, which must outlive the
 * reader. ERR_NOMEM. */
enum err machine_reader_open(struct dimensions *dimensions, struct machine_reader **ret_reader);
void machine_reader_close(struct machine_reader *reader); /* NULL is allowed */
/* The record points into `bytes` and into the reader; it is valid until the next read. ERR_PARSE,
 * ERR_INVALID, ERR_TOO_LARGE, ERR_FULL (too many resource names for the shard), ERR_NOMEM. */
enum err machine_read(struct machine_reader *reader, struct str bytes,
                      struct machine_record *ret_record, struct note *note);
/* The id of a refused record; empty: the id cannot be read. */
struct str machine_read_id(struct str bytes);
/* ERR_PARSE: no machine, or an empty operation_id. */
enum err machine_read_ack(struct machine_reader *reader, struct str bytes,
                          struct str *ret_operation, struct machine_record *ret_record,
                          struct note *note);
#endif
