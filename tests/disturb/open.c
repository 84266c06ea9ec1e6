/* SPDX-License-Identifier: Apache-2.0 */
/* coord_open for tests: any URL of libmuster, behind the prefixes trace+ and fault+.
 *
 * The library's own coord_open is compiled once more as libmuster_open, and asks disturb_store_open
 * for the store, which puts the wrappers around the backend: the product has no hook for them. What
 * one call needs lives in its thread. */
#include <string.h>

#include "disturb/disturb.h"
#include "disturb/fault.h"
#include "disturb/trace.h"
#include "prim/answer.h"

enum { WRAPS_MAX = 4 };

static const struct {
    const char *prefix;
    disturb_wrap_fn *wrap;
} wrappers[] = {
    {"trace+", prim_trace_wrap},
    {"fault+", prim_fault_wrap},
};
static _Thread_local struct {
    disturb_wrap_fn *wraps[WRAPS_MAX]; /* outermost first */
    size_t count;
    prim_open_fn *open; /* of the backend */
} disturbed;

/* Cuts the prefixes off *url. */
static coord_result take_prefixes(const char **url)
{
    disturbed.count = 0;
    for (size_t i = 0; i < ARRAY_LEN(wrappers);) {
        size_t len = strlen(wrappers[i].prefix);
        if (strncmp(*url, wrappers[i].prefix, len) != 0) {
            i++;
            continue;
        }
        if (disturbed.count == WRAPS_MAX) {
            return prim_answer(COORD_INVALID, COORD_R_URL, "at most %d trace+ and fault+",
                               WRAPS_MAX);
        }
        disturbed.wraps[disturbed.count++] = wrappers[i].wrap;
        *url += len;
        i = 0;
    }
    return prim_ok(COORD_R_NONE);
}

static coord_result open_wrapped(const struct prim_open *in, struct prim_backend **ret_backend)
{
    struct prim_backend *backend, *outer;
    coord_result result = disturbed.open(in, &backend);
    if (result.code != COORD_OK) { return result; }
    for (size_t i = disturbed.count; i-- > 0;) { /* the innermost first */
        result = disturbed.wraps[i](in->url, &in->clock, backend, &outer);
        if (result.code != COORD_OK) {
            backend->ops->close(backend);
            return result;
        }
        backend = outer;
    }
    *ret_backend = backend;
    return prim_ok(COORD_R_NONE);
}

coord_result disturb_store_open(prim_open_fn *open, struct prim_url *url,
                                const coord_options *options, coord_store **ret_store)
{
    disturbed.open = open;
    return prim_store_open(open_wrapped, url, options, ret_store);
}

coord_result coord_open(const char *url, const coord_options *options, coord_store **ret_store)
{
    coord_result result = prim_ok(COORD_R_NONE);
    if (url != NULL) { result = take_prefixes(&url); }
    return result.code == COORD_OK ? libmuster_open(url, options, ret_store) : result;
}
