/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as commands of the store, one after the other: refused by name, or read, and the bytes
 * written from it are read to the same. A store applies or refuses each; its section is read to
 * the same hash.
 *
 * Each record: two bytes of length, one of time (times 100 ms), then the command. */
#include <stdlib.h>

#include "store/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void read_twice(struct str bytes)
{
    struct store_command command, again;
    struct note note = {""};
    struct buf first, second;
    struct arena arena;
    enum err err;

    arena_init(&arena, (size_t)64 << 20);
    buf_init(&first, (size_t)1 << 20);
    buf_init(&second, (size_t)1 << 20);
    err = store_command_read(bytes, &arena, &command, &note);
    must(err == ERR_OK || err == ERR_PARSE || err == ERR_INVALID || err == ERR_VERSION);
    must(!err || note.text[0]);
    if (!err && command.kind != STORE_TXN) { /* a TXN is written from its message */
        must(store_command_write(&command, &first) == ERR_OK);
        must(store_command_read(buf_peek(&first), &arena, &again, NULL) == ERR_OK);
        must(store_command_write(&again, &second) == ERR_OK);
        must(str_equal(buf_peek(&first), buf_peek(&second)));
    }
    buf_deinit(&first);
    buf_deinit(&second);
    arena_deinit(&arena);
}

static void copy_is_the_same(const struct state_machine *machine, const struct state_machine *copy)
{
    struct note note = {""};
    struct buf bytes;
    void *view;
    bool done = false;

    buf_init(&bytes, (size_t)64 << 20);
    must(machine->ops->snapshot_begin(machine->state, 1, &view) == ERR_OK);
    while (!done) must(machine->ops->snapshot_next(view, 100, &bytes, &done) == ERR_OK);
    machine->ops->snapshot_end(view);
    must(copy->ops->restore_begin(copy->state, 1, &note) == ERR_OK);
    must(copy->ops->restore_next(copy->state, buf_peek(&bytes), &note) == ERR_OK);
    must(copy->ops->restore_end(copy->state, &note) == ERR_OK);
    must(copy->ops->hash(copy->state) == machine->ops->hash(machine->state));
    must(copy->ops->size(copy->state) == machine->ops->size(machine->state));
    buf_deinit(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct store_machine_options options = {.store = {.quota_bytes = 1 << 20}};
    struct store_machine *store, *other;
    struct state_machine machine, copy;
    uint64_t clock_ns = 0, index = 0;
    struct buf reply;

    must(store_machine_open(&options, &store) == ERR_OK);
    must(store_machine_open(&options, &other) == ERR_OK);
    machine = store_machine_registration(store);
    copy = store_machine_registration(other);
    buf_init(&reply, (size_t)16 << 20);
    while (size >= 3 && index < 256) {
        size_t len = min_size((size_t)(data[0] | data[1] << 8), size - 3);
        struct str command = str_of(data + 3, len);
        enum err err;

        clock_ns += data[2] * 100 * NS_PER_MS;
        read_twice(command);
        buf_clear(&reply);
        err = machine.ops->apply(machine.state,
                                 &(struct machine_entry){.index = ++index,
                                                         .term = 1,
                                                         .clock_ns = clock_ns,
                                                         .version = 1,
                                                         .level = 1,
                                                         .actor = STR_EMPTY,
                                                         .request_id = STR_EMPTY,
                                                         .command = command},
                                 &reply, NULL);
        must(err == ERR_OK || err == ERR_VERSION);
        data += 3 + len;
        size -= 3 + len;
    }
    copy_is_the_same(&machine, &copy);
    buf_deinit(&reply);
    store_machine_close(store);
    store_machine_close(other);
    return 0;
}
