/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a text in pieces and wraps its lines between words, for help, man pages and commented
 * files.
 *
 * After the first error the functions do nothing, so callers check `err` only at the end. */
#ifndef CONF_WRITER_H
#define CONF_WRITER_H
#include "conf/option.h"

struct writer {
    struct buf *into;
    enum err err; /* the first failure: ERR_FULL or ERR_NOMEM */
};
void writer_put(struct writer *w, struct str text);
void writer_add(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void writer_value(struct writer *w, const struct option *option, const struct option_value *value);
/* Adds "One of a, b" or "From 1 to 9" between `before` and `after`, with `colon` after "One of".
 * Adds nothing for an option without bounds. */
void writer_bounds(struct writer *w, const struct option *option, const char *before,
                   const char *colon, const char *after);

enum { WRAP_WIDTH = 96 }; /* fits a terminal of 100 columns */
struct wrap_options {
    const char *first, *rest; /* the text that begins the first line, and each other line */
    size_t width;             /* of a line; a longer word gets a line of its own */
};
/* A newline ends a line. The result always ends with a newline. */
void writer_wrap(struct writer *w, struct str text, const struct wrap_options *options);
void writer_indent(struct writer *w, struct str text, const char *indent);
#endif
