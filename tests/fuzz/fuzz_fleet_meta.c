/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as meta.json: refused with a note, or read, and the text written from it, in both
 * layouts, is read to the same. */
#include <stdlib.h>
#include <string.h>

#include "fleet/format/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fleet_meta meta, again;
    struct note note = {""};
    struct buf text;

    buf_init(&text, 1 << 20);
    if (fleet_meta_read(str_of(data, size), &meta, &note)) {
        must(strncmp(note.text, "meta.json: ", 11) == 0);
    } else {
        for (int indented = 0; indented < 2; indented++) {
            buf_clear(&text);
            must(fleet_meta_write(&meta, indented, &text) == ERR_OK);
            must(fleet_meta_read(buf_peek(&text), &again, &note) == ERR_OK);
            must(again.index == meta.index && again.term == meta.term);
            must(again.size == meta.size);
        }
    }
    buf_deinit(&text);
    return 0;
}
