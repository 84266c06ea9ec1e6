/* SPDX-License-Identifier: Apache-2.0 */
/* Finds words and options of other tools in a program's table of words. Invariant: a word of the
 * table that has a space matches in both of its orders. The table is constant data, so any thread
 * may call. */
#include <string.h>

#include "conf/command.h"
#include "conf/internal.h"

/* True for "shard", "shards" and "shard/NAME". */
bool phrase_is_noun(struct str typed, struct str noun)
{
    struct str kind = str_of(typed.at, str_find(typed, '/'));

    return str_starts(kind, noun) &&
           (kind.len == noun.len || (kind.len == noun.len + 1 && kind.at[noun.len] == 's'));
}

static bool phrase_is_pair(struct str verb, struct str noun, struct str one, struct str other)
{
    return (str_equal(one, verb) && phrase_is_noun(other, noun)) ||
           (str_equal(other, verb) && phrase_is_noun(one, noun));
}

const struct command_word *phrase_find(const struct command *program, const char *kinds,
                                       struct str first, const char *second)
{
    for (const struct command_word *word = program->words; word && word->words; word++) {
        struct str noun = str_from(word->words), verb;
        bool pair = str_has(noun, ' ');

        if (!strchr(kinds, word->kind) || pair != (second != NULL)) continue;
        (void)str_split(&noun, ' ', &verb);
        if (pair ? phrase_is_pair(verb, noun, first, str_from(second)) : str_equal(verb, first))
            return word;
    }
    return NULL;
}

const char **phrase_drop(struct command_call *call, const char **words, size_t place)
{
    memmove(words + 1, words, place * sizeof *words);
    call->rest = words + 1;
    call->rest_count--;
    return words + 1;
}

enum err phrase_heed_options(struct command_call *call, const char **words, struct note *note)
{
    const struct option_table *table = command_of(call)->options;
    char path[COMMAND_PATH_CAP];

    command_path_text(call, path);
    for (size_t i = 0; i < call->rest_count && strcmp(words[i], "--") != 0; i++) {
        struct str flag = str_of(words[i], strcspn(words[i], "="));
        const struct command_word *other;
        size_t own = 0;

        while (table && own < table->count && !option_is_flag(&table->options[own], flag)) own++;
        if (table && own < table->count) { /* skips its value */
            i += table->options[own].kind != OPTION_BOOL && !words[i][flag.len];
            continue;
        }
        other = flag.at[0] == '-' ? phrase_find(call->path[0], "=!", flag, NULL) : NULL;
        if (other && other->means[0])
            return note_fail(note, ERR_INVALID, "no option %s of '%s'; %s", other->words,
                             path + strlen(call->path[0]->name) + 1, other->means);
        if (other) words = phrase_drop(call, words, i--); /* it changes nothing here */
    }
    return ERR_OK;
}
