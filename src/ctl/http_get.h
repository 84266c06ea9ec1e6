/* SPDX-License-Identifier: Apache-2.0 */
/* One page over HTTP, for commands that read what a process says of itself (/metrics, /readyz). With
 * an authority it is HTTPS, as the processes serve it whenever they have a certificate. Blocks, for
 * as long as it may; nothing is followed, nothing is kept. */
#ifndef CTL_HTTP_GET_H
#define CTL_HTTP_GET_H
#include "base/buf.h"
#include "base/note.h"
#include "base/time.h"

enum { HTTP_GET_MAX = 16 * 1024 * 1024 };
struct fetched_page {
    long status;
    wall_time asked, answered; /* by this machine's clock: before the request, after the answer */
    wall_time date;            /* by the server's, in whole seconds; ms 0: it did not say */
    struct buf text;           /* the body; the caller's to deinit, whatever is returned */
};
struct http_where {
    const char *address; /* host:port */
    const char *ca_file; /* NULL: plaintext */
    uint64_t timeout_ms;
};
/* ERR_UNAVAILABLE (nobody there, or not trusted), ERR_TIMEOUT, ERR_FULL, ERR_NOMEM, with a note. */
enum err http_get(const struct http_where *where, const char *path, struct fetched_page *ret_page,
                  struct note *note);
#endif
