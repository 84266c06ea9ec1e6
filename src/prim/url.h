/* SPDX-License-Identifier: Apache-2.0 */
/* A store's URL: scheme://host:port,host:port/path?name=value&... , or mem:. Percent-decoded. */
#ifndef PRIM_URL_H
#define PRIM_URL_H
#include <muster/coord.h>

#include "base/str.h"

enum { PRIM_URL_MAX = 4096, PRIM_URL_HOSTS_MAX = 16, PRIM_URL_PARAMS_MAX = 32 };

struct prim_url {
    char *memory; /* everything below points into it */
    size_t memory_len;
    const char *scheme;
    const char *user, *password;               /* or NULL; never printed */
    const char *hosts[PRIM_URL_HOSTS_MAX + 1]; /* as written, "h:2379"; ends with NULL */
    size_t host_count;
    const char *path; /* "/dir", "/bucket", or "" */
    struct prim_url_param {
        const char *name, *value;
        bool used;
    } params[PRIM_URL_PARAMS_MAX];
    size_t param_count;
};
/* INVALID/url with a text that says where. */
coord_result prim_url_parse(const char *text, struct prim_url *ret_url);
void prim_url_deinit(struct prim_url *url);
/* NULL: not there. Marks it as known. */
const char *prim_url_param(struct prim_url *url, const char *name);
/* INVALID/url when it is there and no number within [low, high]; "500ms", "5s" for times. */
coord_result prim_url_number(struct prim_url *url, const char *name, int64_t low, int64_t high,
                             int64_t *value);
coord_result prim_url_time_ms(struct prim_url *url, const char *name, int64_t low, int64_t high,
                              int64_t *value_ms);
/* INVALID/url naming the first parameter that nobody asked for. Call last. */
coord_result prim_url_done(const struct prim_url *url);
#endif
