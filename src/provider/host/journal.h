/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: batches of bytes, each with a checksum, appended and synced one after the other.
 *
 *   head    32 bytes   0 "muster provider\n"   16 version   20 checksum   24 salt (8)
 *   batch   32 bytes   0 magic   4 length of the payload   8 offset of this batch (8)
 *                      16 durable length of the file when the batch was written (8)
 *                      24 checksum of the payload   28 checksum of the 28 bytes before
 *           payload
 *
 * Numbers are little-endian. Checksums are CRC-32C, started with the salt, so that bytes chosen by
 * a client are never taken for a batch.
 *
 * Invariants:
 *   1. Each batch is synced before the next is written, so at most the last batch is torn.
 *   2. An unreadable batch that a later batch declares durable is damage: the file is refused.
 *   3. An unreadable batch at the end is a torn tail that was never acknowledged, and is cut off.
 *   4. A new file is written to "<path>.next" and renamed when it is complete and durable.
 *
 * Blocking: after journal_open() one worker thread makes all calls. After a failed write or sync
 * every call returns the same error. */
#ifndef PROVIDER_HOST_JOURNAL_H
#define PROVIDER_HOST_JOURNAL_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

enum { JOURNAL_HEAD = 32, JOURNAL_BATCH_HEAD = 32 };

struct journal;
struct journal_options {
    struct fs *fs;
    const char *path; /* in an existing directory where no other process writes */
    uint64_t salt;    /* random number for a new file */
};
struct journal_report {
    bool made;
    uint64_t torn_bytes; /* cut off as a torn tail */
};
/* Receives each payload, in order. An error ends reading; ERR_CORRUPT is noted with the offset. */
typedef enum err journal_batch_fn(void *context, struct str payload, struct note *note);
/* Reads everything and cuts off a torn tail; everything read is durable on return. ERR_CORRUPT
 * (also: not a state file), ERR_VERSION, ERR_NOMEM, and errors of file functions. */
enum err journal_open(const struct journal_options *options, journal_batch_fn *each, void *context,
                      struct journal **ret_journal, struct journal_report *ret_report,
                      struct note *note);
void journal_close(struct journal *journal); /* seals the journal if it can; NULL is allowed */
enum err journal_append(struct journal *journal, struct str payload, struct note *note);
/* Appends a seal, which says that everything before it is durable. Without a seal, damage to the
 * last batch would be taken for a torn tail. */
enum err journal_seal(struct journal *journal, struct note *note);
uint64_t journal_size(const struct journal *journal);
bool journal_failed(const struct journal *journal); /* after a failed write or sync */

/* -- compaction: replaces the file with a smaller one; appends to the old file continue -- */
/* Appends to the next file, beside the current one. A nonzero `salt` begins a new next file. `last`
 * syncs it and renames it over the current file. After an error the next file is removed. */
enum err journal_rewrite(struct journal *journal, uint64_t salt, struct str payload, bool last,
                         struct note *note);
#endif
