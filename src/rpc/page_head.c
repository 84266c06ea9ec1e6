/* SPDX-License-Identifier: Apache-2.0 */
/* The request line of an HTTP/1.x request, which is all that a page needs of its head. Pure: headers
 * and bodies are not looked at. */
#include "rpc/page_head.h"

#include <string.h>

enum page_head page_head_read(struct str bytes, struct page_ask *ret_ask)
{
    const char *end = bytes.len ? memmem(bytes.at, bytes.len, "\r\n\r\n", 4) : NULL;
    struct str rest, line, method, query, version;
    struct page_ask ask;

    if (!end) return PAGE_HEAD_MORE;
    rest = str_of(bytes.at, (size_t)(end - bytes.at));
    (void)str_split(&rest, '\r', &line);
    if (!str_split(&line, ' ', &method) || !str_split(&line, ' ', &query) ||
        !str_split(&line, ' ', &version) || !str_starts(version, STR("HTTP/1.")) || line.at)
        return PAGE_HEAD_BROKEN;
    ask.head = str_equal(method, STR("HEAD"));
    if (!ask.head && !str_equal(method, STR("GET"))) return PAGE_HEAD_OTHER;
    (void)str_split(&query, '?', &ask.path);
    *ret_ask = ask;
    return PAGE_HEAD_ASKS;
}
