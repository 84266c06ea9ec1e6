/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as meta.json: refused with a note, or read, and then what is written of it, in both
 * layouts, is read to the same. */
#include <stdlib.h>
#include <string.h>

#include "fleet/format/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

/* A text that was cut inside a letter is not written: nobody restores by it. */
static bool writable(const struct fleet_meta *meta)
{
    bool good = str_is_utf8(str_from(meta->id));

    for (size_t i = 0; i < meta->server_count; i++)
        good &= str_is_utf8(str_from(meta->servers[i].id)) &&
                str_is_utf8(str_from(meta->servers[i].address));
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fleet_meta meta, again;
    struct note note = {""};
    struct buf text;

    buf_init(&text, 1 << 20);
    if (fleet_meta_read(str_of(data, size), &meta, &note)) {
        must(strncmp(note.text, "meta.json: ", 11) == 0);
    } else if (writable(&meta)) {
        for (int indented = 0; indented < 2; indented++) {
            buf_clear(&text);
            must(fleet_meta_write(&meta, indented, &text) == ERR_OK);
            must(fleet_meta_read(buf_peek(&text), &again, &note) == ERR_OK);
            must(again.index == meta.index && again.server_count == meta.server_count);
            must(strcmp(again.id, meta.id) == 0);
        }
    }
    buf_deinit(&text);
    return 0;
}
