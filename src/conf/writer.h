/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is put together piece by piece, and broken into lines between words: help, manual
 * pages, commented files.
 *
 * After the first failure the calls do nothing, so only `err` in the end needs a check. */
#ifndef CONF_WRITER_H
#define CONF_WRITER_H
#include "conf/option.h"

struct writer {
    struct buf *into;
    enum err err; /* the first failure: ERR_FULL, ERR_NOMEM */
};
void writer_put(struct writer *w, struct str text);
void writer_add(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void writer_value(struct writer *w, const struct option *option, const struct option_value *value);
/* "One of a, b" or "From 1 to 9", with `before` and `after` around it, and `colon` behind "One of";
 * nothing for an option without bounds. */
void writer_bounds(struct writer *w, const struct option *option, const char *before,
                   const char *colon, const char *after);

enum { WRAP_WIDTH = 96 }; /* reads well in a terminal of 100 columns */
struct wrap_options {
    const char *first, *rest; /* what the first line and the others begin with */
    size_t width;             /* a longer word has a line of its own */
};
/* A newline in the text ends a line. Always ends with one. */
void writer_wrap(struct writer *w, struct str text, const struct wrap_options *options);
/* The same, with one indent and WRAP_WIDTH. */
void writer_indent(struct writer *w, struct str text, const char *indent);
#endif
