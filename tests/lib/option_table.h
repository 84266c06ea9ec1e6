/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a table of options obeys the rules of conf/option.h. */
#ifndef TESTS_LIB_OPTION_TABLE_H
#define TESTS_LIB_OPTION_TABLE_H
#include "conf/option.h"

/* Well-formed names, no two options with the same spelling, options of one section together and
 * those without a section first, defaults that parse and lie within their bounds. Otherwise the
 * note names the first mistake. */
bool option_table_valid(const struct option_table *table, struct note *note);
#endif
