/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/wrap.h"

#include <string.h>

/* Takes the next word of *line; false at its end. */
static bool next_word(struct str *line, struct str *ret_word)
{
    while (line->len > 0 && line->at[0] == ' ') *line = str_tail(*line, 1);
    if (line->len == 0) return false;
    size_t end = str_find(*line, ' ');
    *ret_word = str_of(line->at, end);
    *line = str_tail(*line, end);
    return true;
}

enum err wrap_text(struct str text, const struct wrap_options *options, struct buf *into)
{
    const char *indent = options->first;
    struct str rest = text, line, word;
    enum err err = ERR_OK;

    while (!err && str_split(&rest, '\n', &line)) {
        size_t column = strlen(indent), words = 0;
        err = buf_append_c(into, indent);
        while (!err && next_word(&line, &word)) {
            if (words > 0 && column + 1 + word.len > options->width) {
                err = buf_append_byte(into, '\n');
                if (!err) err = buf_append_c(into, options->rest);
                column = strlen(options->rest);
                words = 0;
            }
            if (!err && words > 0) err = buf_append_byte(into, ' ');
            if (!err) err = buf_append(into, word);
            column += word.len + (words > 0 ? 1 : 0);
            words++;
        }
        if (!err) err = buf_append_byte(into, '\n');
        indent = options->rest;
    }
    return err;
}
