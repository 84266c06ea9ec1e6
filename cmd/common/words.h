/* SPDX-License-Identifier: Apache-2.0 */
/* A command line put together from another one, for programs that are called by an original's name. */
#ifndef COMMON_WORDS_H
#define COMMON_WORDS_H
#include "base/str.h"

enum { WORDS_MAX = 512, WORDS_TEXT_MAX = 64 * 1024 };
struct words { /* large: static, and zeroed */
    char *word[WORDS_MAX + 1];
    int count;
    bool too_many;
    char text[WORDS_TEXT_MAX]; /* of flags that got their second dash */
    size_t used;
};
void words_add(struct words *words, char *word);
/* Go's flags: one dash is as good as two; -o and -o=json stay as they are. */
void words_add_flag(struct words *words, char *word);
const char *words_program(const char *path); /* "bigfleet" of "/usr/bin/bigfleet" */
#endif
