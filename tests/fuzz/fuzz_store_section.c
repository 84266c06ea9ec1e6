/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the store's section of a snapshot, cut at the first byte: refused with a note, or
 * read, and the section written from the store is read to the same hash. */
#include <stdlib.h>

#include "section/section.h"
#include "store/core/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err read_section(struct str bytes, size_t cut, struct store **ret_store,
                             struct note *note)
{
    struct store_options options = {.quota_bytes = 1 << 20};
    struct store_restore *restore = store_restore_open(&options);
    enum err err = ERR_OK;

    must(restore);
    while (!err && bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);
        err = store_restore_feed(restore, str_of(bytes.at, piece), note);
        bytes = str_tail(bytes, piece);
    }
    if (!err) err = store_restore_done(restore, ret_store, note);
    store_restore_close(restore);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store *store, *again = NULL;
    void *view;
    struct note note = {""};
    struct buf bytes;
    bool done = false;

    if (size == 0) return 0;
    if (read_section(str_of(data + 1, size - 1), data[0] ? data[0] : size, &store, &note)) {
        must(note.text[0]);
        return 0;
    }
    buf_init(&bytes, (size_t)64 << 20);
    must(store_view_open(store, &view) == ERR_OK);
    while (!done) must(section_view_next(view, 1000, &bytes, &done) == ERR_OK);
    section_view_close(view);
    must(read_section(buf_peek(&bytes), 7, &again, &note) == ERR_OK);
    must(store_hash(again) == store_hash(store));
    store_close(store);
    store_close(again);
    buf_deinit(&bytes);
    return 0;
}
