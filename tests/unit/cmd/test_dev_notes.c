/* SPDX-License-Identifier: Apache-2.0 */
/* cmd/muster/dev_notes.h: lines are appended, and a truncated file says that older lines were
 * removed. */
#include <stdio.h>
#include <string.h>

#include "io/real.h"
#include "lib/test.h"
#include "muster/dev_notes.h"

enum { LONG_ENOUGH = 64 << 10, LINES_MAX = 10000 };

static void read_notes(const char *path, struct buf *into)
{
    buf_clear(into);
    CHECK_OK("read", fs_read_whole(fs_real(), path, LONG_ENOUGH * 2, into));
}

TEST(a_truncated_file_says_so)
{
    struct io io = {.clock = clock_real(), .fs = fs_real()};
    char dir[DEV_PATH_CAP];
    struct dev_notes notes = {.io = &io, .dir = dir};
    char path[DEV_PATH_CAP + 64];
    struct buf text;
    size_t before = 0, lines = 0;

    snprintf(dir, sizeof dir, "%s", test_dir());
    snprintf(path, sizeof path, "%s/%s", dir, DEV_NOTES_FILE);
    buf_init(&text, LONG_ENOUGH * 2 + 1);
    for (;; lines++) { /* until the file is truncated */
        CHECK("it is bounded", lines < LINES_MAX);
        dev_notes_add(&notes, "chaos", "killed one");
        read_notes(path, &text);
        if (text.len < before) break;
        CHECK("nothing was dropped yet", !memmem(text.data, text.len, "dropped", 7));
        before = text.len;
    }
    CHECK("it was long", before > LONG_ENOUGH);
    CHECK_OK("end", buf_append_byte(&text, '\0'));
    CHECK_HAS("the message", (const char *)text.data, "older notes were dropped");
    CHECK_HAS("and the new line is there", (const char *)text.data, "killed one");
    CHECK("behind it", strstr((const char *)text.data, "dropped") <
                           strstr((const char *)text.data, "killed one"));
    buf_deinit(&text);
}
