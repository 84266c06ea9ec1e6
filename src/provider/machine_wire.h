/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a Machine of the wire into a struct machine with its shard_metadata.
 *
 * Reads the bytes directly: a List has 500,000 machines, for which a generated decoder would need
 * several times the available CPU. Refuses, with the field named, bytes that cannot become a struct
 * machine:
 *   - bytes that are not a Machine, or a sub-message given twice;
 *   - unknown states and capacity types, and malformed quantities;
 *   - more than LABELS_MAX labels or METADATA_READ_MAX metadata entries;
 *   - metadata that is not UTF-8 or has a key twice.
 * Unknown fields are skipped. A last_error that is too long is truncated, not refused, because the
 * failure itself matters more.
 *
 * machine_check() checks everything else: ids and labels that are not text or too long, duplicate
 * labels, a NaN price, a missing host. The code that stores a record calls machine_check() and
 * counts refusals by reason. A record equal to the stored one needs no second check, and nearly all
 * records of a List are equal.
 *
 * A shard sees few shapes of hardware and many machines of each, so the reader caches amounts by
 * their bytes and does not parse them again. */
#ifndef PROVIDER_MACHINE_WIRE_H
#define PROVIDER_MACHINE_WIRE_H
#include "model/machine.h"

struct machine_record {
    struct machine machine; /* without stamp, destination and promise, which are in the metadata */
    const struct label *metadata; /* sorted by key; values may contain NUL */
    size_t metadata_count;
};

struct machine_reader; /* only one thread may use a reader at a time */
/* Adds resource names to `dimensions`, which must outlive the reader. ERR_NOMEM. */
enum err machine_reader_open(struct dimensions *dimensions, struct machine_reader **ret_reader);
void machine_reader_close(struct machine_reader *reader); /* NULL is allowed */
/* Reads one Machine. The record points into `bytes` and into the reader; it is valid until the next
 * read. ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE, ERR_FULL (too many resource names for the shard),
 * ERR_NOMEM. */
enum err machine_read(struct machine_reader *reader, struct str bytes,
                      struct machine_record *ret_record, struct note *note);
/* Returns the id of a refused record, or an empty text if the id cannot be read. */
struct str machine_read_id(struct str bytes);
/* Reads a TransitionAck. ERR_PARSE if it has no machine or an empty operation_id. */
enum err machine_read_ack(struct machine_reader *reader, struct str bytes,
                          struct str *ret_operation, struct machine_record *ret_record,
                          struct note *note);
#endif
