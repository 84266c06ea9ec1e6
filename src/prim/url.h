/* SPDX-License-Identifier: Apache-2.0 */
/* Parses store URLs: scheme://host:port,host:port/path?name=value&..., or mem:. Percent-decoded. */
#ifndef PRIM_URL_H
#define PRIM_URL_H
#include <muster/coord.h>

#include "base/str.h"

enum { PRIM_URL_MAX = 4096, PRIM_URL_HOSTS_MAX = 16, PRIM_URL_PARAMS_MAX = 32 };

struct prim_url {
    char *memory; /* the fields below point into it */
    size_t memory_len;
    const char *scheme;
    const char *user, *password;               /* or NULL; never printed */
    const char *hosts[PRIM_URL_HOSTS_MAX + 1]; /* as written, "h:2379"; NULL-terminated */
    size_t host_count;
    const char *path; /* "/dir", "/bucket", or "" */
    struct prim_url_param {
        const char *name, *value;
        bool used;
    } params[PRIM_URL_PARAMS_MAX];
    size_t param_count;
};
/* INVALID/url, with the position of the fault. */
coord_result prim_url_parse(const char *text, struct prim_url *ret_url);
void prim_url_deinit(struct prim_url *url);
/* Marks the parameter as known. NULL: missing. */
const char *prim_url_param(struct prim_url *url, const char *name);
/* Times are written as "500ms" or "5s". INVALID/url: no number within [low, high]. */
coord_result prim_url_number(struct prim_url *url, const char *name, int64_t low, int64_t high,
                             int64_t *value);
coord_result prim_url_time_ms(struct prim_url *url, const char *name, int64_t low, int64_t high,
                              int64_t *value_ms);
/* INVALID/url for the first parameter that was not read. Call last. */
coord_result prim_url_done(const struct prim_url *url);
#endif
