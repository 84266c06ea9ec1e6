/* SPDX-License-Identifier: Apache-2.0 */
/* Appends words to a bounded command line, and turns Go's one-dash flags into two-dash flags. Sets
 * `too_many` at the first word that does not fit. One thread. */
#include "common/words.h"

#include <stdio.h>

void words_add(struct words *words, char *word)
{
    if (words->count == WORDS_MAX)
        words->too_many = true;
    else
        words->word[words->count++] = word;
}

void words_add_flag(struct words *words, char *word)
{
    size_t size = strlen(word) + 2;
    char *room = words->text + words->used;

    if (size > WORDS_TEXT_MAX - words->used) {
        words->too_many = true;
    } else if (size <= 4 || word[0] != '-' || word[1] == '-' || word[2] == '=') {
        words_add(words, word);
    } else {
        snprintf(room, size, "-%s", word);
        words->used += size;
        words_add(words, room);
    }
}

const char *words_program(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
