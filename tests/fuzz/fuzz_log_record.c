/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record or a segment head.
 *
 *   byte 0   bit 0: checksums are fixed first, so that the code behind them is reached;
 *            bit 1: a segment head
 *   then     8 bytes of salt, then the record
 *
 * Invariants: the result is one that the header names, nothing is read behind the end, and a record
 * that was read is written again to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static uint32_t salted(uint32_t half, const char *from, size_t len)
{
    char salt[4];
    store_le32(salt, half);
    return crc32c(crc32c(0, salt, 4), from, len);
}

static void fix_checksum(char *at, size_t len, uint64_t salt)
{
    if (len < RECORD_HEAD) return;
    store_le32(at + 4, salted((uint32_t)salt, at + 8, RECORD_HEAD - 8));
    size_t bytes = load_le32(at + 8);
    if (bytes > ENTRY_BYTES_MAX || record_size(bytes) > len) return;
    memset(at + RECORD_HEAD + bytes, 0, record_size(bytes) - RECORD_HEAD - bytes);
    store_le32(at, salted((uint32_t)(salt >> 32), at + 4, record_size(bytes) - 4));
}

static void try_record(struct str bytes, uint64_t salt)
{
    struct log_record record, head;
    size_t size = 0, head_size = 0;
    enum err err = record_read(bytes, salt, &record, &size);
    enum err head_err = record_read_head(bytes, salt, &head, &head_size);
    must(err == ERR_OK || err == ERR_CORRUPT || err == ERR_TOO_LARGE);
    if (err == ERR_TOO_LARGE) must(size > bytes.len);
    if (err) return;
    must(head_err == ERR_OK && head_size == size && size <= bytes.len);
    must(record.serial > record.synced && record.bytes.len <= ENTRY_BYTES_MAX);
    char *again = malloc(size);
    must(again != NULL);
    record_write(&record, salt, again);
    must(memcmp(again, bytes.at, size) == 0);
    free(again);
}

static void try_segment(char *at, size_t len, bool fix)
{
    static char again[SEGMENT_HEAD];
    struct segment_head head;
    if (fix && len >= SEGMENT_HEAD) {
        memcpy(at, "musterlg", 8);
        memset(at + 12, 0, 4);
        memset(at + 48, 0, SEGMENT_HEAD - 48);
        store_le32(at + SEGMENT_HEAD - 8, crc32c(0, at, SEGMENT_HEAD - 8));
    }
    enum err err = segment_head_read(str_of(at, len), &head);
    must(err == ERR_OK || err == ERR_CORRUPT || err == ERR_VERSION);
    if (err) return;
    segment_head_write(&head, again);
    if (fix) must(memcmp(again, at, SEGMENT_HEAD) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 9) return 0;
    uint64_t salt = load_le64(data + 1);
    size_t len = size - 9;
    char *copy = malloc(len + 1); /* exact size, so that a read behind the end is found */
    must(copy != NULL);
    char *at = copy + 1;
    memcpy(at, data + 9, len);
    bool fix = data[0] & 1;
    if (data[0] & 2) {
        try_segment(at, len, fix);
    } else {
        if (fix) fix_checksum(at, len, salt);
        try_record(str_of(at, len), salt);
    }
    free(copy);
    return 0;
}
