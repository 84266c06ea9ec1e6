/* SPDX-License-Identifier: Apache-2.0 */
/* Invariant: after the first error, kept in `err`, nothing is appended. One thread per writer. */
#include "conf/writer.h"

#include <stdarg.h>
#include <string.h>

void writer_put(struct writer *w, struct str text)
{
    if (!w->err) w->err = buf_append(w->into, text);
}

void writer_add(struct writer *w, const char *format, ...)
{
    va_list args;

    if (w->err) return;
    va_start(args, format);
    w->err = buf_vappendf(w->into, format, args);
    va_end(args);
}

void writer_value(struct writer *w, const struct option *option, const struct option_value *value)
{
    if (!w->err) w->err = option_format(option, value, w->into);
}

void writer_bounds(struct writer *w, const struct option *option, const char *before,
                   const char *colon, const char *after)
{
    char low[UNITS_TEXT_CAP], high[UNITS_TEXT_CAP];

    if (!option->choices && option->min == 0 && option->max == 0) return;
    writer_add(w, "%s%s", before, option->choices ? "One of" : "From ");
    for (size_t i = 0; option->choices && option->choices[i]; i++)
        writer_add(w, "%s %s", i > 0 ? "," : colon, option->choices[i]);
    option_number_text(option, option->min, low);
    option_number_text(option, option->max, high);
    if (!option->choices && option->max > 0)
        writer_add(w, "%s to %s", low, high);
    else if (!option->choices)
        writer_add(w, "%s on", low);
    writer_add(w, "%s", after);
}

/* False: there is no word. */
static bool writer_next_word(struct str *line, struct str *ret_word)
{
    while (line->len > 0 && line->at[0] == ' ') *line = str_tail(*line, 1);
    if (line->len == 0) return false;
    size_t end = str_find(*line, ' ');
    *ret_word = str_of(line->at, end);
    *line = str_tail(*line, end);
    return true;
}

void writer_wrap(struct writer *w, struct str text, const struct wrap_options *options)
{
    const char *indent = options->first;
    struct str line, word;

    while (str_split(&text, '\n', &line)) {
        size_t column = strlen(indent), words = 0;
        writer_add(w, "%s", indent);
        while (writer_next_word(&line, &word)) {
            if (words > 0 && column + 1 + word.len > options->width) {
                writer_add(w, "\n%s", options->rest);
                column = strlen(options->rest);
                words = 0;
            }
            if (words > 0) writer_add(w, " ");
            writer_put(w, word);
            column += word.len + (words > 0 ? 1 : 0);
            words++;
        }
        writer_add(w, "\n");
        indent = options->rest;
    }
}

void writer_indent(struct writer *w, struct str text, const char *indent)
{
    writer_wrap(w, text, &(struct wrap_options){indent, indent, WRAP_WIDTH});
}
