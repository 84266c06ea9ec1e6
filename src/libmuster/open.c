/* SPDX-License-Identifier: Apache-2.0 */
/* Maps URLs to stores. mem: and file: are part of the library; other stores are found on first use
 * (store_library.h). Any thread. */
#include <stdio.h>

#include "libmuster/store_library.h"
#include "prim/answer.h"
#include "prim/store.h"
#include "prim/stores.h"

static const struct scheme {
    const char *name;
    prim_open_fn *open;           /* or: */
    const char *library, *opener; /* arguments for store_library_opener */
    bool any_clock;               /* accepts coord_options.now */
} schemes[] = {
    {.name = "mem", .open = prim_memory_open, .any_clock = true},
    {.name = "file", .open = prim_file_open},
    {.name = "etcd", .library = "grpc", .opener = "prim_etcd_open"},
    {.name = "etcds", .library = "grpc", .opener = "prim_etcd_open"},
    {.name = "k8s", .library = "kube", .opener = "prim_kube_open"},
    {.name = "nats", .library = "nats", .opener = "prim_nats_open"},
    {.name = "muster", .library = "grpc", .opener = "prim_native_open"},
    {.name = NULL},
};

static const struct scheme *scheme_of(const char *name)
{
    for (const struct scheme *s = schemes; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0) return s;
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

coord_result coord_open(const char *url, const coord_options *options, coord_store **ret_store)
{
    static const coord_options defaults;
    struct prim_url parsed;
    if (url == NULL || ret_store == NULL)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "url and ret_store are needed");
    coord_result result = prim_url_parse(url, &parsed);
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
        prim_open_fn *open = scheme->open;
        if (open == NULL) result = store_library_opener(scheme->library, scheme->opener, &open);
        if (result.code == COORD_OK) result = prim_store_open(open, &parsed, options, ret_store);
    }
    prim_url_deinit(&parsed);
    return result;
}
