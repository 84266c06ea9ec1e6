/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes to the roster. First byte even: a command, which is applied and written again as the
 * same bytes, or refused without a change. Odd: a snapshot, cut at the first byte: refused with a
 * note, or restored, and a snapshot of the restored roster has the same bytes. */
#include <stdlib.h>

#include "fleet/roster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void try_command(struct state_machine machine, struct str bytes)
{
    struct machine_entry entry = {.version = 1, .command = bytes};
    struct roster_command command;
    uint64_t before = machine.ops->hash(machine.state);
    struct buf again, reply;
    enum err err = roster_decode(bytes, &command);

    buf_init(&again, ROSTER_COMMAND_MAX);
    buf_init(&reply, 16);
    must(machine.ops->apply(machine.state, &entry, &reply, NULL) == ERR_OK);
    must((roster_reply(buf_peek(&reply)) == ERR_OK) == (err == ERR_OK));
    if (err) {
        must(machine.ops->hash(machine.state) == before);
    } else {
        must(roster_encode(&command, &again) == ERR_OK);
        must(str_equal(buf_peek(&again), bytes));
    }
    buf_deinit(&again);
    buf_deinit(&reply);
}

static void try_snapshot(struct state_machine machine, struct str bytes, size_t cut)
{
    struct note note = {""};
    struct str rest = bytes;
    struct buf again;
    bool done = false;
    void *view;
    enum err err = machine.ops->restore_begin(machine.state, 7, &note), end;

    while (!err && rest.len > 0) {
        size_t piece = min_size(cut, rest.len);
        err = machine.ops->restore_next(machine.state, str_of(rest.at, piece), &note);
        rest = str_tail(rest, piece);
    }
    end = machine.ops->restore_end(machine.state, &note);
    if (err || end) {
        must(note.text[0] != '\0');
        return;
    }
    if (bytes.len == 0) return;
    buf_init(&again, bytes.len + 16);
    must(machine.ops->snapshot_begin(machine.state, 7, &view) == ERR_OK);
    while (!done) must(machine.ops->snapshot_next(view, 64, &again, &done) == ERR_OK);
    machine.ops->snapshot_end(view);
    must(str_equal(buf_peek(&again), bytes));
    buf_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct roster *roster;

    if (size == 0) return 0;
    must(roster_open(&roster) == ERR_OK);
    if (data[0] % 2 == 0)
        try_command(roster_registration(roster), str_of(data + 1, size - 1));
    else
        try_snapshot(roster_registration(roster), str_of(data + 1, size - 1), data[0]);
    roster_close(roster);
    return 0;
}
