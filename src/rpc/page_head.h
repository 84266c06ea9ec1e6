/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request by HTTP/1.x, as far as pages need it: which page is asked for. Pure. */
#ifndef RPC_PAGE_HEAD_H
#define RPC_PAGE_HEAD_H
#include "base/str.h"

enum page_head {
    PAGE_HEAD_MORE,  /* the empty line that ends it has not come yet */
    PAGE_HEAD_ASKS,  /* *ret_path, up to its query, and whether the body is wanted */
    PAGE_HEAD_OTHER, /* a method that pages have not */
    PAGE_HEAD_BROKEN,
};
struct page_ask {
    struct str path; /* a view of `bytes`, without its query */
    bool head;       /* HEAD: the body is not wanted */
};
/* What follows the head counts for nothing, so neither does how the bytes were cut. */
enum page_head page_head_read(struct str bytes, struct page_ask *ret_ask);
#endif
