/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks text into lines between words, each with its indent; for help and commented files. */
#ifndef CONF_WRAP_H
#define CONF_WRAP_H
#include "base/buf.h"

enum { WRAP_WIDTH = 96 }; /* reads well in a terminal of 100 columns */

struct wrap_options {
    const char *first, *rest; /* what the first line and the others begin with */
    size_t width;             /* a longer word stands alone on its line */
};
/* A newline in the text ends a line. Always ends with one. ERR_FULL, ERR_NOMEM. */
enum err wrap_text(struct str text, const struct wrap_options *options, struct buf *into);
#endif
