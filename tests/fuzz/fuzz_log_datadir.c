/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a FORMAT or a VOTE file.
 *
 *   byte 0   bit 0: VOTE; bit 1: its checksums are fixed first
 *
 * Invariants: the result is one that the header names; a FORMAT that was read is written to the
 * same text; of two copies of a vote the newer valid one is used. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/datadir_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void try_format(struct str text)
{
    struct datadir datadir;
    char again[DATADIR_TEXT_CAP];
    enum err err = datadir_parse(text, &datadir);
    must(!err || err == ERR_CORRUPT || err == ERR_VERSION);
    if (err) return;
    must(str_equal(text, str_of(again, datadir_text(&datadir, again))));
    must(datadir.replica_id != 0);
}

static void try_vote(char *file, size_t len, bool fix)
{
    struct vote vote;
    uint64_t serial = 0;
    int slot = -1;
    for (size_t at = 0; fix && at + 48 <= len; at += 4096) {
        memcpy(file + at, "mustervt", 8);
        store_le32(file + at + 44, crc32c(0, file + at, 44));
    }
    enum err err = vote_decode(str_of(file, len), &vote, &serial, &slot);
    must(!err || err == ERR_CORRUPT || err == ERR_VERSION);
    if (err) return;
    must(slot == 0 || slot == 1);
    const char *at = file + slot * 4096;
    must(load_le64(at + 16) == serial && load_le64(at + 24) == vote.term &&
         load_le64(at + 32) == vote.candidate);
    if (fix && len >= 4096 + 48)
        must(serial == max_u64(load_le64(file + 16), load_le64(file + 4096 + 16)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    char *copy = malloc(size);
    must(copy != NULL);
    memcpy(copy, data, size);
    if (data[0] & 1)
        try_vote(copy + 1, size - 1, data[0] & 2);
    else
        try_format(str_of(copy + 1, size - 1));
    free(copy);
    return 0;
}
