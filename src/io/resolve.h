/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves all addresses of a name, for callers that must contact every address. net_dial uses only
 * the first address that answers. */
#ifndef IO_RESOLVE_H
#define IO_RESOLVE_H
#include "base/note.h"
#include "base/str.h"

enum { RESOLVE_MAX = 32, RESOLVE_CAP = 64 };
struct resolved {
    char at[RESOLVE_MAX][RESOLVE_CAP]; /* such as "10.0.0.7:7790" or "[::1]:7790"; no duplicates */
    size_t count;
};
/* Blocks: call on a worker's thread (io/worker.h). With a note: ERR_INVALID (malformed),
 * ERR_NOT_FOUND, ERR_UNAVAILABLE (retry). */
enum err address_resolve(const char *address, struct resolved *ret_resolved, struct note *note);
#endif
