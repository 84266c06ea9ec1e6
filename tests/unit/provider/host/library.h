/* SPDX-License-Identifier: Apache-2.0 */
/* A book for tests: short forms of requests, and the answer of a List as text. */
#ifndef TESTS_PROVIDER_HOST_LIBRARY_H
#define TESTS_PROVIDER_HOST_LIBRARY_H
#include "lib/test.h"
#include "provider/host/book.h"

extern const struct offer plain_offer; /* m5.large in z1, on demand */

struct book *library_open(void);                       /* empty, loaded */
void library_offer(struct book *book, const char *id); /* a Speculative machine */
/* Sends a request and decodes the answer. */
struct asked {
    struct book_answer answer;
    char why[256], operation[32];
    enum machine_state state;
};
struct asked library_ask(struct book *book, const struct book_request *request);
struct asked library_call(struct book *book, enum operation_kind kind, const char *id);
void library_end(struct book *book, struct operation_ticket operation); /* well */
/* Brings a machine through its operations to this stable state, without a token. */
void library_bring(struct book *book, const char *id, enum machine_state state);

/* "m-1 Idle host-m-1 | m-2 Configured host-m-2 c1 k=v | revision 7 gone m-3": sorted by id. */
struct listing {
    struct buf text;
    char revision[64], next_page[64];
    bool tombstones, more;
    size_t count;
};
void library_list(struct book *book, const struct book_filter *filter, struct listing *ret);
void listing_free(struct listing *listing);
/* The whole content of the book, from List and a replay, as one text. */
void library_dump(struct book *book, struct buf *into);
/* A book that replayed these changes. */
struct book *library_replay(struct str changes);
#endif
