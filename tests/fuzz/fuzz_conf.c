/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration: the first line says of which source. A refusal gives a reason in
 * whole lines. Accepted input prints as a file that loads to the same values, and a reload between
 * the two changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "unit/conf/table.h"

enum { WORDS_MAX = 64, INPUT_MAX = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

/* The lines of `text` as C strings; the copy lives in `room`. */
static size_t split_words(struct str text, char *room, const char **words)
{
    size_t count = 0;
    memcpy(room, text.at, text.len);
    room[text.len] = '\0';
    for (char *at = room; count < WORDS_MAX && at < room + text.len; at += strlen(at) + 1) {
        at[strcspn(at, "\n")] = '\0';
        words[count++] = at;
    }
    words[count] = NULL;
    return count;
}

static void must_load_again(const struct conf *conf)
{
    struct conf_changes changes;
    struct conf *again;
    struct buf printed;

    buf_init(&printed, 1 << 20);
    must(conf_print(conf, "fuzz", &printed) == ERR_OK);
    must(conf_open(&test_table, &again) == ERR_OK);
    must(conf_add_file(again, "printed", buf_peek(&printed)) == ERR_OK);
    must(conf_finish(again) == ERR_OK);
    must(conf_reload(conf, again, &changes) == ERR_OK);
    for (size_t i = 0; i < changes.count;
         i++) { /* only options that a file cannot hold may differ */
        must(changes.each[i].option->flags & OPTION_NOT_IN_FILE);
    }
    conf_close(again);
    buf_deinit(&printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char room[INPUT_MAX + 1];
    const char *words[WORDS_MAX + 1];
    struct str text = str_of(data, min_size(size, INPUT_MAX)), problems;
    struct conf *conf;
    enum err err;

    if (text.len == 0) return 0;
    char source = text.at[0];
    text = str_tail(text, 1);
    must(conf_open(&test_table, &conf) == ERR_OK);
    if (source == 'f')
        err = conf_add_flags(conf, split_words(text, room, words), words);
    else if (source == 'e') {
        split_words(text, room, words);
        err = conf_add_environment(conf, words, NULL);
    } else
        err = conf_add_file(conf, "fuzz.toml", text);
    must(err == ERR_OK || err == ERR_INVALID);
    must(conf_finish(conf) == err);
    problems = conf_problems(conf);
    must((err == ERR_OK) == (problems.len == 0));
    must(err == ERR_OK || problems.at[problems.len - 1] == '\n');
    if (!err) must_load_again(conf);
    conf_close(conf);
    return 0;
}
