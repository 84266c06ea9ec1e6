/* SPDX-License-Identifier: Apache-2.0 */
/* One option of every kind and every flag, for the tests of conf. */
#ifndef TESTS_UNIT_CONF_TABLE_H
#define TESTS_UNIT_CONF_TABLE_H
#include "conf/conf.h"

static const char *const test_levels[] = {"debug", "info", "warn", "error", NULL};
static const struct option test_options[] = {
    {.name = "config", .kind = OPTION_STRING, .flags = OPTION_NOT_IN_FILE, .help = "the file"},
    {.name = "json", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY, .help = "print as JSON"},
    {.name = "name", .kind = OPTION_STRING, .fallback = "node", .help = "what this one is called"},
    {.name = "token", .kind = OPTION_STRING, .flags = OPTION_RELOAD, .help = "any text"},
    {.name = "color", .kind = OPTION_BOOL, .fallback = "true", .help = "whether to use colour"},
    {.name = "peers", .kind = OPTION_LIST, .example = "a:1,b:2", .help = "who else is there"},
    {.name = "http.listen",
     .kind = OPTION_ADDRESS,
     .fallback = "127.0.0.1:8790",
     .help = "where pages are served"},
    {.name = "http.connections-max",
     .kind = OPTION_U64,
     .fallback = "256",
     .min = 1,
     .max = 65536,
     .flags = OPTION_RELOAD,
     .help = "open at once"},
    {.name = "log.level",
     .kind = OPTION_ENUM,
     .choices = test_levels,
     .fallback = "info",
     .flags = OPTION_RELOAD,
     .help = "the least serious line that is written",
     .also = "-l"},
    {.name = "log.flush-every",
     .kind = OPTION_DURATION,
     .fallback = "1s",
     .min = 10,
     .max = 60000,
     .flags = OPTION_RELOAD,
     .help = "how long a line may wait"},
    {.name = "log.file-max",
     .kind = OPTION_SIZE,
     .fallback = "64MiB",
     .min = 4096,
     .help = "when a file is turned over"},
};
static const struct option_table test_table = {test_options, ARRAY_LEN(test_options)};
#endif
