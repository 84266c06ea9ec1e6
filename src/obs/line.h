/* SPDX-License-Identifier: Apache-2.0 */
/* Builds text for log lines in a buffer of fixed size. Only src/obs uses it.
 *
 * A part that does not fit is left out as a whole and sets `cut`. */
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
/* Adds `text` in quotes, escaped as in JSON. Control characters, line separators and direction
 * marks are escaped; bytes that are not UTF-8 become U+FFFD. Longer text is cut and ends in
 * "...". */
void line_add_quoted(struct log_line *line, struct str text, size_t max);
/* Without quotes if a logfmt reader reads `text` back unchanged, else quoted. */
void line_add_word(struct log_line *line, struct str text, size_t max);
/* the shortest decimal that parses to the same number */
void line_add_double(struct log_line *line, double value);
#endif
