/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an archive: the same answer, meta and state however they are cut, and a note with
 * every refusal. */
#include <stdlib.h>
#include <string.h>

#include "fleet/format/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum err err;
    struct buf state;
    struct fleet_meta meta;
    struct note note;
};

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err take(void *owner, struct str bytes, struct note *note)
{
    (void)note;
    return buf_append(owner, bytes);
}

static void read_archive(struct str bytes, size_t cut, struct outcome *outcome)
{
    struct fleet_archive_reader *reader;
    uint64_t state_size = 0;

    memset(outcome, 0, sizeof *outcome);
    buf_init(&outcome->state, (size_t)64 << 20);
    must(fleet_archive_open(take, &outcome->state, &reader) == ERR_OK);
    while (!outcome->err && bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);
        outcome->err = fleet_archive_read(reader, str_of(bytes.at, piece), &outcome->note);
        bytes = str_tail(bytes, piece);
    }
    if (!outcome->err)
        outcome->err = fleet_archive_end(reader, &outcome->meta, &state_size, &outcome->note);
    if (!outcome->err) must(state_size == outcome->state.len);
    if (outcome->err) must(outcome->note.text[0] != '\0');
    fleet_archive_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole, cut;

    read_archive(str_of(data, size), size + 1, &whole);
    read_archive(str_of(data, size), 37, &cut);
    must(whole.err == cut.err);
    if (!whole.err) {
        must(str_equal(buf_peek(&whole.state), buf_peek(&cut.state)));
        must(whole.meta.index == cut.meta.index && whole.meta.index > 0);
    }
    buf_deinit(&whole.state);
    buf_deinit(&cut.state);
    return 0;
}
