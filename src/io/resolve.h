/* SPDX-License-Identifier: Apache-2.0 */
/* Every address of a name. A dial takes the first that answers (io/net.h); a caller that must speak
 * to each of them, or to one that is not itself, asks here. */
#ifndef IO_RESOLVE_H
#define IO_RESOLVE_H
#include "base/note.h"
#include "base/str.h"

enum { RESOLVE_MAX = 32, RESOLVE_CAP = 64 };
struct resolved {
    char at[RESOLVE_MAX][RESOLVE_CAP]; /* "10.0.0.7:7790", "[::1]:7790"; each once */
    size_t count;
};
/* Waits for the resolver, so it belongs on a worker's thread (io/worker.h). ERR_INVALID for an
 * address that is none, ERR_NOT_FOUND, ERR_UNAVAILABLE (ask again), with a note. */
enum err address_resolve(const char *address, struct resolved *ret_resolved, struct note *note);
#endif
