/* SPDX-License-Identifier: Apache-2.0 */
/* A Machine of the wire as a struct machine with its shard_metadata.
 *
 * Read straight from the bytes: a List has 500,000 of them, and a generated decoder would take
 * several times the CPU there is for it. Refused here, with the field named, is what cannot become
 * a struct machine: bytes that are no Machine, numbers of states and capacity types that nobody
 * knows, quantities that are none, more than LABELS_MAX labels or METADATA_READ_MAX entries of
 * metadata, metadata that is not UTF-8 or has a key twice, a sub-message given twice. Unknown
 * fields are skipped. A last_error that is too long is cut, not refused: what matters is that the
 * machine has failed.
 *
 * Everything else is machine_check()'s: ids and labels that are no text or too long, a label given
 * twice, a NaN price, a host that is missing. The keeper of a record calls it, and counts what it
 * refuses by its reason; a record that is what is kept already needs no second look, and nearly all
 * of a List is.
 *
 * A shard sees few shapes of hardware and many machines of each, so amounts that came before, byte
 * for byte, are not parsed again. */
#ifndef PROVIDER_MACHINE_WIRE_H
#define PROVIDER_MACHINE_WIRE_H
#include "model/machine.h"

struct machine_record {
    struct machine machine;       /* no stamp, destination or promise: they are in the metadata */
    const struct label *metadata; /* sorted by key; values may hold NUL */
    size_t metadata_count;
};

struct machine_reader; /* one thread at a time */
/* Resource names are added to `dimensions`, which outlives the reader. ERR_NOMEM. */
enum err machine_reader_open(struct dimensions *dimensions, struct machine_reader **ret_reader);
void machine_reader_close(struct machine_reader *reader); /* NULL is fine */
/* One Machine. The record points into `bytes` and into the reader, until the next read. ERR_PARSE,
 * ERR_INVALID, ERR_TOO_LARGE, ERR_FULL (a new resource name too many for the shard), ERR_NOMEM. */
enum err machine_read(struct machine_reader *reader, struct str bytes,
                      struct machine_record *ret_record, struct note *note);
/* The id of a record that was refused, as far as it can be made out; empty: it cannot. */
struct str machine_read_id(struct str bytes);
/* A TransitionAck. One without a machine, or with an empty operation_id, is ERR_PARSE. */
enum err machine_read_ack(struct machine_reader *reader, struct str bytes,
                          struct str *ret_operation, struct machine_record *ret_record,
                          struct note *note);
#endif
