/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a store's URL: refused with a reason, or split into parts that lie inside of it. */
#include <stdlib.h>
#include <string.h>

#include "prim/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct prim_url url;
    int64_t number = 7, ms = 7;

    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    coord_result result = prim_url_parse(text, &url);
    if (result.code != COORD_OK) {
        must(result.code == COORD_INVALID && result.reason == COORD_R_URL && result.text[0]);
        free(text);
        return 0;
    }
    must(strlen(url.scheme) > 0 && url.host_count <= PRIM_URL_HOSTS_MAX);
    must(url.hosts[url.host_count] == NULL && url.param_count <= PRIM_URL_PARAMS_MAX);
    for (size_t i = 0; i < url.host_count; i++) must(url.hosts[i][0] != '\0');
    must(url.path[0] == '\0' || url.path[0] == '/');
    must((prim_url_done(&url).code == COORD_OK) == (url.param_count == 0));
    for (size_t i = 0; i < url.param_count; i++) {
        const char *name = url.params[i].name;
        must(prim_url_param(&url, name) == url.params[i].value);
        if (prim_url_number(&url, name, -9, 9, &number).code == COORD_OK) {
            must(number >= -9 && number <= 9);
        }
        if (prim_url_time_ms(&url, name, 1, 900, &ms).code == COORD_OK) must(ms >= 1 && ms <= 900);
    }
    must(prim_url_done(&url).code == COORD_OK);
    prim_url_deinit(&url);
    free(text);
    return 0;
}
