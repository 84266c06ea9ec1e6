/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: batches of bytes, each with a checksum, appended and synced one after the other.
 *
 *   head    32 bytes   0 "muster provider\n"   16 version   20 checksum   24 salt (8)
 *   batch   32 bytes   0 magic   4 length of the payload   8 offset of this batch (8)
 *                      16 how much of the file was durable when it was written (8)
 *                      24 checksum of the payload   28 checksum of the 28 bytes before
 *           payload
 *
 * Numbers are little-endian, checksums CRC-32C begun with the salt, so that bytes a client chose
 * are never taken for a batch.
 *
 * Invariants. 1. One batch is written at a time, and the next only after the sync: so at most the
 * last one is torn. 2. A batch that cannot be read and is followed by one that calls it durable is
 * damage: the file is refused, with the offset. One that nothing follows is a torn tail, never
 * acknowledged, and is cut. 3. A new file is made beside under "<path>.next" and renamed when it is
 * whole and durable.
 *
 * Blocking: after journal_open it belongs to a worker, one call at a time. The first failed write
 * or sync is final: every later call says the same. */
#ifndef PROVIDER_HOST_JOURNAL_H
#define PROVIDER_HOST_JOURNAL_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

enum { JOURNAL_HEAD = 32, JOURNAL_BATCH_HEAD = 32 };

struct journal;
struct journal_options {
    struct fs *fs;
    const char *path; /* its directory exists, and nobody else writes there */
    uint64_t salt;    /* random; for a file that is made */
};
struct journal_report {
    bool made;           /* there was none */
    uint64_t torn_bytes; /* cut from the tail */
};
/* A payload, in order; an error ends the walk, and ERR_CORRUPT gets the offset. */
typedef enum err journal_batch_fn(void *context, struct str payload, struct note *note);
/* Reads everything, cuts a torn tail; what was read is durable when it returns. ERR_CORRUPT (also:
 * not such a file), ERR_VERSION, ERR_NOMEM, and what files answer. */
enum err journal_open(const struct journal_options *options, journal_batch_fn *each, void *context,
                      struct journal **ret_journal, struct journal_report *ret_report,
                      struct note *note);
void journal_close(struct journal *journal); /* seals if it can; NULL is fine */
/* Durable when it returns ERR_OK. */
enum err journal_append(struct journal *journal, struct str payload, struct note *note);
/* Says durably that all so far is durable, so that damage to the last batch is not taken for a torn
 * tail. Nothing to do when the last batch was a seal. */
enum err journal_seal(struct journal *journal, struct note *note);
uint64_t journal_size(const struct journal *journal);
bool journal_failed(const struct journal *journal); /* nothing can be appended any more */

/* -- a smaller file in the place of this one; appends to this one go on meanwhile -- */
/* Appends to the next file, which is made beside this one. A `salt` that is not 0 begins it, in the
 * place of one that was begun before. `last`: it is synced and gets the name; from here on it is the
 * one that is appended to. After an error it is gone. */
enum err journal_rewrite(struct journal *journal, uint64_t salt, struct str payload, bool last,
                         struct note *note);
#endif
