/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the head of a request for /health or /version: the result depends neither on the
 * cuts nor on the bytes that follow, and a path that is found is one of the two. */
#include <stdlib.h>
#include <string.h>

#include "rpc/server_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_ask(struct str bytes, const struct page_ask *ask)
{
    struct str line = str_of(bytes.at, str_find(bytes, '\r'));

    must(ask->path.at >= bytes.at && ask->path.at + ask->path.len <= bytes.at + line.len);
    must(!str_has(ask->path, ' ') && !str_has(ask->path, '?'));
    must(str_starts(line, ask->head ? STR("HEAD ") : STR("GET ")));
    must(ask->path.at == bytes.at + (ask->head ? 5 : 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = calloc(1, size ? size : 1); /* exact size, so that a read past the end is found */
    struct str bytes = str_of(copy, size);
    struct page_ask ask = {STR_EMPTY, false}, part = {STR_EMPTY, false};
    enum page_head whole, cut;

    must(copy != NULL);
    if (size) memcpy(copy, data, size);
    whole = page_head_read(bytes, &ask);
    must((whole == PAGE_HEAD_MORE) == (size == 0 || !memmem(copy, size, "\r\n\r\n", 4)));
    if (whole == PAGE_HEAD_ASKS) check_ask(bytes, &ask);
    for (size_t len = 0; len <= size; len++) {
        cut = page_head_read(str_of(copy, len), &part);
        if (cut == PAGE_HEAD_MORE) continue;
        must(cut == whole);
        must(cut != PAGE_HEAD_ASKS || (str_equal(part.path, ask.path) && part.head == ask.head));
        break; /* the request is answered, and the rest is ignored */
    }
    free(copy);
    return 0;
}
