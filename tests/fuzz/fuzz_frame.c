/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as frames of the Raft port.
 *
 *   byte 0   bit 0: the rest is raw; else byte 1 is a kind and the rest a payload with right sums;
 *            bit 1: after the hellos; the others: size of the pieces it comes in
 *
 * Invariants: an accepted frame is written again to the same bytes, its entries are as
 * many as it says, and an incomplete frame is accepted when it is complete. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SESSION = 77 };

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_entries(struct peer_frame frame)
{
    struct entry entry;
    uint64_t index = frame.u.append.prev_index, term = frame.u.append.prev_term;
    uint32_t count = 0;

    must(frame.u.append.entry_count <= FRAME_ENTRIES_MAX);
    while (frame_next_entry(&frame, &entry)) {
        must(entry.index == ++index && entry.term >= term && entry.term <= frame.u.append.term);
        must(entry.kind >= ENTRY_COMMAND && entry.kind <= ENTRY_CHANGE);
        must(entry.bytes.len <= ENTRY_BYTES_MAX);
        term = entry.term;
        count++;
    }
    must(count == frame.u.append.entry_count);
}

static void check_again(struct frame_link link, const struct peer_frame *frame, struct str bytes)
{
    struct buf again;

    buf_init(&again, SIZE_MAX);
    must(frame_append(&link, frame, &again) == ERR_OK);
    must(str_equal(buf_peek(&again), bytes));
    buf_deinit(&again);
}

static void check(struct str input, uint64_t session, size_t piece)
{
    struct frame_link link = {.session = session};
    size_t seen = 0;

    while (input.len > 0) {
        struct frame_link before = link;
        struct note note = {""};
        struct peer_frame frame;
        size_t size = 0;
        enum err err;
        seen = min_size(seen + piece, input.len);
        err = frame_take(&link, str_of(input.at, seen), &frame, &size, &note);
        if (err == ERR_NOT_READY) {
            must(link.number == before.number && frame_wanted(str_of(input.at, seen)) > seen);
            if (seen == input.len) return;
            continue;
        }
        if (err) {
            must(err == ERR_TOO_LARGE || err == ERR_CORRUPT || err == ERR_PARSE ||
                 err == ERR_VERSION);
            must(link.number == before.number && note.text[0] != '\0');
            return;
        }
        must(size >= FRAME_HEAD && size <= seen && link.number == before.number + 1);
        check_again(before, &frame, str_of(input.at, size));
        if (frame.kind == FRAME_APPEND) check_entries(frame);
        input = str_tail(input, size);
        seen -= size;
        if (frame.kind == FRAME_HELLO) link.session = SESSION;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t session;
    char *bytes, salt[8];
    size_t len;
    uint32_t sum;

    if (size < 2) return 0;
    session = data[0] & 2 ? SESSION : 0;
    if (data[0] & 1) {
        check(str_of(data + 1, size - 1), session, 1 + (data[0] >> 2));
        return 0;
    }
    len = size - 2;
    bytes = calloc(1, FRAME_HEAD + len);
    must(bytes != NULL);
    store_le32(bytes, (uint32_t)len);
    store_le32(bytes + 4, data[1]);
    store_le64(bytes + 16, 1);
    memcpy(bytes + FRAME_HEAD, data + 2, len);
    store_le64(salt, session);
    sum = crc32c(crc32c(crc32c(0, salt, 8), bytes, 8), bytes + 16, 8);
    store_le32(bytes + 12, sum);
    store_le32(bytes + 8, crc32c(sum, bytes + FRAME_HEAD, len));
    check(str_of(bytes, FRAME_HEAD + len), session, 1 + (data[0] >> 2));
    free(bytes);
    return 0;
}
