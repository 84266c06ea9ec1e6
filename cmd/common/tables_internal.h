/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of tables share. */
#ifndef COMMON_TABLES_INTERNAL_H
#define COMMON_TABLES_INTERNAL_H

/* A table and its rows. */
#define TABLE(name, ...)                                                                           \
    static const struct option name##_options[] = {__VA_ARGS__};                                   \
    const struct option_table name##_table = {name##_options, ARRAY_LEN(name##_options)}
/* A row that says something about one call only. */
#define FLAG(name, kind, ...) OPTION(name, kind, .flags = OPTION_FLAG_ONLY, __VA_ARGS__)
#endif
