/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/bigfleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 256, TEXT_MAX = 64 * 1024 };

struct words {
    char *word[WORDS_MAX + 1];
    int count;
    char text[TEXT_MAX]; /* options with their second dash */
    size_t used;
};

static bool add(struct words *words, char *word)
{
    if (words->count == WORDS_MAX) return false;
    words->word[words->count++] = word;
    return true;
}

/* Go's flags: one dash is as good as two. */
static bool add_option(struct words *words, char *word)
{
    size_t size = strlen(word) + 2;
    char *room = words->text + words->used;

    if (word[0] != '-' || word[1] == '-' || !word[1]) return add(words, word);
    if (size > TEXT_MAX - words->used) return false;
    snprintf(room, size, "-%s", word);
    words->used += size;
    return add(words, room);
}

static bool is_role(const char *word)
{
    return strcmp(word, "coordinator") == 0 || strcmp(word, "shard") == 0;
}

/* A file or the environment may set it: a word of ours would win over both. */
static bool is_configured(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strstr(argv[i], "-config")) return true;
    return getenv("MUSTER_CONFIG") || getenv("MUSTER_EXECUTE_CONCURRENCY");
}

static bool translate(struct words *words, int argc, char **argv)
{
    static char run[] = "run", id[] = "--id=node-1", no_bootstrap[] = "--no-bootstrap";
    static char one_at_a_time[] = "--execute-concurrency=1"; /* the original's default */
    bool fits = add(words, argv[0]) && add(words, argv[1]) && add(words, run);

    /* First, so that what is said comes later and counts. */
    if (strcmp(argv[1], "coordinator") == 0)
        fits = fits && add(words, id) && add(words, no_bootstrap);
    else if (!is_configured(argc, argv))
        fits = fits && add(words, one_at_a_time);
    for (int i = 2; i < argc && fits; i++) fits = add_option(words, argv[i]);
    return fits;
}

int bigfleet_main(const struct command *program, int argc, char **argv)
{
    static struct words words;

    /* Whoever says `run` speaks to muster. */
    if (argc < 2 || !is_role(argv[1]) || (argc > 2 && argv[2][0] != '-'))
        return program_main(program, argc, argv);
    if (!translate(&words, argc, argv)) {
        fprintf(stderr, "%s: too many words\n", argv[0]);
        return 2;
    }
    return program_main(program, words.count, words.word);
}
