/* SPDX-License-Identifier: Apache-2.0 */
/* Translates the command line of an older program, such as `bigfleet`, into muster's own. */
#ifndef COMMON_WORDS_H
#define COMMON_WORDS_H
#include "base/str.h"

enum { WORDS_MAX = 512, WORDS_TEXT_MAX = 64 * 1024 };
struct words { /* large: must be static; zero it first */
    char *word[WORDS_MAX + 1];
    int count;
    bool too_many;
    char text[WORDS_TEXT_MAX]; /* flags that got a second dash */
    size_t used;
};
void words_add(struct words *words, char *word);
/* Adds a flag in Go's style, with one dash or two. -o and -o=json stay as they are. */
void words_add_flag(struct words *words, char *word);
const char *words_program(const char *path); /* "bigfleet" of "/usr/bin/bigfleet" */
#endif
