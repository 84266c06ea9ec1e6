/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a state, cut at the first byte: refused with a note, or read, and the state written
 * from it is read strictly to the same hash. */
#include <stdlib.h>

#include "fleet/format/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err read_state(struct fleet *fleet, bool strict, struct str bytes, size_t cut,
                           struct note *note)
{
    struct fleet_state_options options = {.fleet = fleet, .strict = strict};
    struct fleet_state_summary summary;
    struct fleet_state_reader *reader;
    enum err err;

    must(fleet_state_read_begin(&options, &reader) == ERR_OK);
    do {
        size_t piece = min_size(cut, bytes.len);
        err = fleet_state_read_next(reader, str_of(bytes.at, piece), note);
        bytes = str_tail(bytes, piece);
    } while (!err && bytes.len > 0);
    if (!err) err = fleet_state_read_end(reader, &summary, note);
    fleet_state_read_close(reader);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fleet_state_writer *writer;
    struct fleet *fleet, *again;
    struct note note = {""};
    struct buf text;
    bool done = false;

    if (size == 0) return 0;
    must(fleet_open(&fleet) == ERR_OK);
    must(fleet_open(&again) == ERR_OK);
    buf_init(&text, (size_t)64 << 20);
    if (read_state(fleet, false, str_of(data + 1, size - 1), (size_t)data[0] + 1, &note)) {
        must(note.text[0] != '\0');
    } else {
        must(fleet_state_write_open(fleet, (struct fleet_state_style){.sealed = true}, &writer) ==
             ERR_OK);
        while (!done) must(fleet_state_write_next(writer, 100, &text, &done) == ERR_OK);
        fleet_state_write_close(writer);
        must(read_state(again, true, buf_peek(&text), 64, &note) == ERR_OK);
        must(fleet_hash(again) == fleet_hash(fleet));
    }
    fleet_close(fleet);
    fleet_close(again);
    buf_deinit(&text);
    return 0;
}
