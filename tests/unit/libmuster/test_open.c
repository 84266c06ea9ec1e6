/* SPDX-License-Identifier: Apache-2.0 */
/* Which store a URL names. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/coord.h>

#include "lib/test.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})

static coord_result open_url(const char *url, coord_store **store)
{
    return coord_open(url, NULL, store);
}

TEST(an_unknown_url_is_refused_with_the_known_ones)
{
    coord_store *store = NULL;
    coord_result result = open_url("redis://localhost", &store);
    CHECK_I64("invalid", result.code, COORD_INVALID);
    CHECK_I64("url", result.reason, COORD_R_URL);
    CHECK_HAS("lists them", result.text, "known: mem, file, etcd");
    CHECK_I64("none at all", open_url("", &store).reason, COORD_R_URL);
    CHECK_I64("NULL", coord_open(NULL, NULL, &store).reason, COORD_R_ARGUMENT);
    CHECK_I64("a parameter nobody asked for", open_url("mem:?colour=red", &store).reason,
              COORD_R_URL);
    CHECK_I64("trace+ and fault+ are for tests only", open_url("trace+mem:", &store).reason,
              COORD_R_URL);
    CHECK("nothing was opened", store == NULL);
}

TEST(a_native_store_without_a_listener_is_unavailable)
{
    coord_store *store = NULL;
    coord_options options = {.open_timeout_ms = 500};
    coord_result result = coord_open("muster://127.0.0.1:1", &options, &store);
    CHECK_I64("unavailable", result.code, COORD_UNAVAILABLE);
    CHECK("nothing was opened", store == NULL);
}

static int64_t standing_still(void *arg)
{
    (void)arg;
    return 1000000000;
}

TEST(only_mem_takes_a_clock)
{
    coord_store *store = NULL;
    coord_options options = {.now = standing_still};
    CHECK_I64("file refuses", coord_open("file:///nowhere", &options, &store).reason,
              COORD_R_ARGUMENT);
    CHECK_I64("mem takes it", coord_open("mem:", &options, &store).code, COORD_OK);
    coord_close(store);
    options = (coord_options){.require_scope = COORD_SCOPE_CLUSTER};
    CHECK_I64("mem is no cluster", coord_open("mem:", &options, &store).reason, COORD_R_SCOPE);
    options = (coord_options){.async_threads = 65};
    CHECK_I64("too many threads", coord_open("mem:", &options, &store).reason, COORD_R_ARGUMENT);
}
