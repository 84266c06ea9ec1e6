/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a ULID: refused with unchanged output, or read, printed and read again to the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/note.h"
#include "base/ulid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str given = str_of(data, size);
    struct ulid first, second, before;
    struct note note = {""};
    char text[ULID_TEXT_CAP];

    memset(&first, 0xEE, sizeof first);
    before = first;
    if (ulid_parse(given, &first, &note)) {
        must(memcmp(&first, &before, sizeof first) == 0);
        must(str_starts(str_from(note.text), STR("not a valid ulid: ")));
        return 0;
    }
    must(note.text[0] == '\0');
    ulid_text(&first, text);
    must(strlen(text) == ULID_LEN);
    must(str_equal_nocase(str_from(text), given));
    must(ulid_parse(str_from(text), &second, NULL) == ERR_OK);
    must(ulid_compare(&first, &second) == 0);

    return 0;
}
