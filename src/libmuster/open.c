/* SPDX-License-Identifier: Apache-2.0 */
/* Which store a URL names. The only place that knows them all. */
#include <stdio.h>

#include "prim/answer.h"
#include "prim/etcd/etcd.h"
#include "prim/fault.h"
#include "prim/file/file.h"
#include "prim/kube/kube.h"
#include "prim/memory/memory.h"
#include "prim/native/native.h"
#include "prim/nats/nats.h"
#include "prim/store.h"
#include "prim/trace.h"

static const struct scheme {
    const char *name;
    prim_open_fn *open;
    bool any_clock; /* takes coord_options.now */
} schemes[] = {
    {.name = "mem", .open = prim_memory_open, .any_clock = true},
    {.name = "file", .open = prim_file_open},
    {.name = "etcd", .open = prim_etcd_open},
    {.name = "etcds", .open = prim_etcd_open},
    {.name = "k8s", .open = prim_kube_open},
    {.name = "nats", .open = prim_nats_open},
    {.name = "muster", .open = prim_native_open},
    {.name = NULL},
};

static const struct {
    const char *prefix;
    prim_wrap_fn *wrap;
} wrappers[] = {
    {"trace+", prim_trace_wrap},
    {"fault+", prim_fault_wrap},
};

static const struct scheme *scheme_of(const char *name)
{
    for (const struct scheme *s = schemes; s->name != NULL; s++) {
        if (strcmp(s->name, name) == 0) { return s; }
    }
    return NULL;
}

static coord_result unknown(const char *name)
{
    char known[96] = "";
    for (const struct scheme *s = schemes; s->name != NULL; s++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", s->name);
    }
    return prim_answer(COORD_INVALID, COORD_R_URL, "unknown scheme \"%.20s\"; known: %s", name,
                       known);
}

/* Cuts the prefixes off *text. */
static coord_result take_prefixes(const char **text, prim_wrap_fn *wraps[])
{
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(wrappers);) {
        size_t len = strlen(wrappers[i].prefix);
        if (strncmp(*text, wrappers[i].prefix, len) != 0) {
            i++;
            continue;
        }
        if (count == PRIM_WRAPS_MAX) {
            return prim_answer(COORD_INVALID, COORD_R_URL, "at most %d trace+ and fault+",
                               PRIM_WRAPS_MAX);
        }
        wraps[count++] = wrappers[i].wrap;
        *text += len;
        i = 0;
    }
    return prim_ok(COORD_R_NONE);
}

coord_result coord_open(const char *url, const coord_options *options, coord_store **ret_store)
{
    static const coord_options defaults;
    struct prim_url parsed;
    struct prim_store_source source = {.url = &parsed};
    if (url == NULL || ret_store == NULL) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "url and ret_store are needed");
    }
    coord_result result = take_prefixes(&url, source.wraps);
    if (result.code != COORD_OK) { return result; }
    result = prim_url_parse(url, &parsed);
    if (result.code != COORD_OK) { return result; }
    const struct scheme *scheme = scheme_of(parsed.scheme);
    if (options == NULL) { options = &defaults; }
    if (scheme == NULL) {
        result = unknown(parsed.scheme);
    } else if (options->now != NULL && !scheme->any_clock) {
        result =
            prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                        "a clock of one's own is for mem: only; %s has the system's", scheme->name);
    } else {
        source.open = scheme->open;
        result = prim_store_open(&source, options, ret_store);
    }
    prim_url_deinit(&parsed);
    return result;
}
