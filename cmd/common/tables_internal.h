/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of tables share. */
#ifndef COMMON_TABLES_INTERNAL_H
#define COMMON_TABLES_INTERNAL_H

#define TABLE(name)                                                                                \
    const struct option_table name##_table = {name##_options, ARRAY_LEN(name##_options)}
#endif
