/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as membership's section of a snapshot, cut at the first byte: refused with a note, or
 * read, and the section written from it is read to the same hash, and time may go on. */
#include <stdlib.h>

#include "member/core/member.h"
#include "section/section.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err read_section(struct str bytes, size_t cut, struct membership **ret_membership,
                             struct note *note)
{
    struct member_options options = {.quota_bytes = 1 << 20};
    struct member_restore *restore = member_restore_open(&options);
    enum err err = ERR_OK;

    must(restore);
    while (!err && bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);

        err = member_restore_feed(restore, str_of(bytes.at, piece), note);
        bytes = str_tail(bytes, piece);
    }
    if (!err) err = member_restore_done(restore, ret_membership, note);
    member_restore_close(restore);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct membership *m, *again = NULL;
    struct member_op op = {.kind = MEMBER_OP_TICK};
    struct member_command command = {.ops = &op, .op_count = 1};
    struct member_result result;
    void *view;
    struct note note = {""};
    struct buf bytes;
    bool done = false;

    if (size == 0) return 0;
    if (read_section(str_of(data + 1, size - 1), data[0] ? data[0] : size, &m, &note)) {
        must(note.text[0]);
        return 0;
    }
    buf_init(&bytes, (size_t)256 << 20);
    must(member_view_open(m, &view) == ERR_OK);
    while (!done) must(section_view_next(view, 1000, &bytes, &done) == ERR_OK);
    section_view_close(view);
    must(read_section(buf_peek(&bytes), 7, &again, &note) == ERR_OK);
    must(member_hash(again) == member_hash(m));
    for (uint64_t i = 1; i < 4; i++) {
        uint64_t due = member_next_due(m);

        if (due == UINT64_MAX) break;
        member_apply(m, i, due, &command, &result);
        member_apply(again, i, due, &command, &result);
        must(member_hash(again) == member_hash(m));
    }
    member_close(m);
    member_close(again);
    buf_deinit(&bytes);
    return 0;
}
