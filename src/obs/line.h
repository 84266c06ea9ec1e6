/* SPDX-License-Identifier: Apache-2.0 */
/* Text put together in fixed room, for log lines. Used inside obs only.
 *
 * A part that does not fit changes nothing and is remembered in `cut`. */
#ifndef OBS_LINE_H
#define OBS_LINE_H
#include "base/str.h"

struct log_line {
    char *at;
    size_t len, cap;
    bool cut;
};

void line_init(struct log_line *line, char *room, size_t cap);
struct str line_peek(const struct log_line *line);
void line_add(struct log_line *line, struct str text);
void line_add_c(struct log_line *line, const char *text);
void line_add_u64(struct log_line *line, uint64_t value);
void line_add_i64(struct log_line *line, int64_t value);
/* Inside quotes, as in JSON: no control character, line separator or direction mark stays as it is,
 * bytes that are not UTF-8 become U+FFFD. At most `max` bytes of text; more is cut and ends in
 * "...". */
void line_add_quoted(struct log_line *line, struct str text, size_t max);
/* As it is when it can be read back so, else quoted. */
void line_add_word(struct log_line *line, struct str text, size_t max);
/* The shortest decimal that reads back as the same number. */
void line_add_double(struct log_line *line, double value);
#endif
