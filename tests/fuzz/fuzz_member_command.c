/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as commands of membership, one after the other: refused by name, or read and written
 * again to the same bytes. A membership applies or refuses each operation; its snapshot is read to
 * the same hash and size, and the copy continues like the first.
 *
 * Each record: two bytes of length, one of time (times 100 ms), then the command. */
#include <stdlib.h>

#include "member/core/member.h"
#include "section/section.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void write_again(struct str bytes, const struct member_command *command)
{
    struct buf again;

    buf_init(&again, (size_t)4 << 20);
    must(member_batch_begin(&again, command->wall_ms) == ERR_OK);
    for (size_t i = 0; i < command->op_count; i++)
        must(member_batch_add(&again, &command->ops[i]) == ERR_OK);
    must(str_equal(buf_peek(&again), bytes));
    must(member_batch_ops(bytes) == command->op_count);
    buf_deinit(&again);
}

static struct membership *copy_of(struct membership *m, const struct member_options *options)
{
    struct member_restore *restore = member_restore_open(options);
    void *view;
    struct membership *copy = NULL;
    struct note note = {""};
    bool done = false;
    struct buf bytes;

    buf_init(&bytes, (size_t)64 << 20);
    must(restore && member_view_open(m, &view) == ERR_OK);
    while (!done) must(section_view_next(view, 100, &bytes, &done) == ERR_OK);
    section_view_close(view);
    must(member_restore_feed(restore, buf_peek(&bytes), &note) == ERR_OK);
    must(member_restore_done(restore, &copy, &note) == ERR_OK);
    member_restore_close(restore);
    buf_deinit(&bytes);
    must(member_hash(copy) == member_hash(m) && member_bytes(copy) == member_bytes(m));
    must(member_next_due(copy) == member_next_due(m));
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct member_options options = {.quota_bytes = 1 << 20};
    static struct member_result results[MEMBER_OPS_MAX], others[MEMBER_OPS_MAX];
    struct membership *m = member_open(&options), *copy = NULL;
    struct str left = str_of(data, size);
    uint64_t index = 0, clock_ns = 0;
    struct arena arena;

    must(m);
    arena_init(&arena, (size_t)64 << 20);
    while (left.len > 3) {
        size_t len =
            min_size((unsigned char)left.at[0] | (unsigned char)left.at[1] << 8, left.len - 3);
        struct str bytes = str_of(left.at + 3, len);
        struct member_command command;
        struct note note = {""};
        enum err err;

        clock_ns += (unsigned char)left.at[2] * 100000000ull;
        left = str_tail(left, 3 + len);
        arena_reset(&arena);
        err = member_command_read(bytes, &arena, &command, &note);
        must(err == ERR_OK || err == ERR_PARSE || err == ERR_INVALID || err == ERR_VERSION);
        must(!err || note.text[0]);
        if (err) continue;
        write_again(bytes, &command);
        member_apply(m, ++index, clock_ns, &command, results);
        if (copy) {
            member_apply(copy, index, clock_ns, &command, others);
            for (size_t i = 0; i < command.op_count; i++)
                must(results[i].status == others[i].status);
            must(member_hash(copy) == member_hash(m));
        }
        if (index % 3 == 0) {
            member_close(copy);
            copy = copy_of(m, &options);
        }
    }
    member_close(copy);
    member_close(copy_of(m, &options));
    member_close(m);
    arena_deinit(&arena);
    return 0;
}
