/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/golden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/test.h"

#ifndef MUSTER_SOURCE_DIR
#error "the build passes the path of the source tree as MUSTER_SOURCE_DIR"
#endif

enum { LINES_MAX = 4096, CONTEXT = 3, TEXT_MAX = 4 << 20, DIFF_MAX = 16 * 1024 };
#define UPDATE "the same test run with MUSTER_TEST_GOLDEN_UPDATE=1 "

struct lines {
    struct str line[LINES_MAX];
    size_t count;
};

/* A line keeps its end, so that a missing last newline is a difference. */
static void split(struct str text, struct lines *lines)
{
    lines->count = 0;
    while (text.len > 0 && lines->count < LINES_MAX) {
        size_t end = min_size(str_find(text, '\n') + 1, text.len);
        if (lines->count == LINES_MAX - 1) end = text.len; /* the last one takes the rest */
        lines->line[lines->count++] = str_of(text.at, end);
        text = str_tail(text, end);
    }
}

/* longest[i][j]: length of the longest common run of lines of want[i..] and got[j..]. */
static uint16_t *common_table(const struct lines *want, const struct lines *got)
{
    size_t width = got->count + 1;
    uint16_t *longest = calloc((want->count + 1) * width, sizeof *longest);
    if (!longest) abort();
    for (size_t i = want->count; i-- > 0;)
        for (size_t j = got->count; j-- > 0;) {
            uint16_t *at = &longest[i * width + j];
            uint16_t down = at[width], right = at[1];
            if (str_equal(want->line[i], got->line[j]))
                *at = (uint16_t)(at[width + 1] + 1);
            else
                *at = down > right ? down : right;
        }
    return longest;
}

static void print_line(FILE *out, char mark, struct str line)
{
    bool whole = line.len > 0 && line.at[line.len - 1] == '\n';
    fprintf(out, "%c%.*s%s", mark, STR_ARG(line), whole ? "" : "\n\\ no newline at the end\n");
}

struct step {
    char mark;
    size_t want, got;
}; /* ' ' kept, '-' only wanted, '+' only got */

static size_t walk(const struct lines *want, const struct lines *got, const uint16_t *longest,
                   struct step *steps)
{
    size_t i = 0, j = 0, count = 0, width = got->count + 1;
    while (i < want->count || j < got->count) {
        struct step *step = &steps[count++];
        *step = (struct step){' ', i, j};
        if (i < want->count && j < got->count && str_equal(want->line[i], got->line[j])) {
            i++, j++;
        } else if (j == got->count || (i < want->count && longest[(i + 1) * width + j] >=
                                                              longest[i * width + j + 1])) {
            step->mark = '-';
            i++;
        } else {
            step->mark = '+';
            j++;
        }
    }
    return count;
}

static bool near_change(const struct step *steps, size_t count, size_t at)
{
    size_t from = at > CONTEXT ? at - CONTEXT : 0, to = min_size(at + CONTEXT + 1, count);
    for (size_t i = from; i < to; i++)
        if (steps[i].mark != ' ') return true;
    return false;
}

static void print_hunks(FILE *out, const struct lines *want, const struct lines *got,
                        const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t end = i, old_count = 0, new_count = 0;
        if (!near_change(steps, count, i)) continue;
        for (; end < count && near_change(steps, count, end); end++) {
            old_count += steps[end].mark != '+';
            new_count += steps[end].mark != '-';
        }
        fprintf(out, "@@ -%zu,%zu +%zu,%zu @@\n", steps[i].want + (old_count > 0), old_count,
                steps[i].got + (new_count > 0), new_count);
        for (; i < end; i++)
            print_line(out, steps[i].mark,
                       steps[i].mark == '+' ? got->line[steps[i].got] : want->line[steps[i].want]);
    }
}

bool golden_diff(struct str want, struct str got, char *diff, size_t diff_cap)
{
    struct lines *old = calloc(1, sizeof *old), *new = calloc(1, sizeof *new);
    struct step *steps = calloc(2 * LINES_MAX, sizeof *steps);
    uint16_t *longest;
    FILE *out;

    if (!old || !new || !steps || diff_cap < 2) abort();
    diff[0] = '\0';
    if (!str_equal(want, got)) {
        split(want, old);
        split(got, new);
        longest = common_table(old, new);
        out = fmemopen(diff, diff_cap, "w"); /* writes a closing NUL; cuts a longer text */
        if (!out) abort();
        setvbuf(out, NULL, _IONBF, 0);
        print_hunks(out, old, new, steps, walk(old, new, longest, steps));
        fclose(out);
        diff[diff_cap - 1] = '\0';
        free(longest);
    }
    free(steps);
    free(new);
    free(old);
    return str_equal(want, got);
}

static char *read_file(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    char *text;
    if (!file) return NULL;
    text = malloc(TEXT_MAX);
    if (!text) abort();
    *ret_len = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    return text;
}

static void write_file(char *path, struct str content)
{
    FILE *file;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    file = fopen(path, "wb");
    if (!file || fwrite(content.at, 1, content.len, file) != content.len || fclose(file) != 0) {
        perror(path);
        abort();
    }
}

void golden_check_at(const char *path, struct str got, const char *file, int line)
{
    char full[1024];
    static char diff[DIFF_MAX];
    size_t len = 0;
    char *want;
    const char *update = getenv("MUSTER_TEST_GOLDEN_UPDATE");
    bool equal;

    snprintf(full, sizeof full, "%s/tests/golden/%s", MUSTER_SOURCE_DIR, path);
    if (update && strcmp(update, "1") == 0) {
        write_file(full, got);
        return;
    }
    want = read_file(full, &len);
    if (!want) {
        print_error("%s: %s\n" UPDATE "writes tests/golden/%s\n", full, strerror(errno), path);
        _fail(file, line);
        return;
    }
    equal = golden_diff(str_of(want, len), got, diff, sizeof diff);
    free(want);
    if (equal) return;
    print_error("--- tests/golden/%s\n+++ this run\n%s", path, diff);
    print_error(UPDATE "accepts the new text of tests/golden/%s\n", path);
    _fail(file, line);
}

void golden_check_quoted_at(const char *path, struct str got, const char *page, const char *file,
                            int line)
{
    char golden[1024], quoting[1024];
    size_t golden_len = 0, len = 0;
    char *want, *text, *at = NULL;

    snprintf(golden, sizeof golden, "%s/tests/golden/%s", MUSTER_SOURCE_DIR, path);
    snprintf(quoting, sizeof quoting, "%s/%s", MUSTER_SOURCE_DIR, page);
    want = read_file(golden, &golden_len);
    text = read_file(quoting, &len);
    if (want && text) at = memmem(text, len, want, golden_len);
    if (!at) {
        print_error("%s does not hold the text of tests/golden/%s, word for word\n", page, path);
        _fail(file, line);
    }
    golden_check_at(path, got, file, line);
    if (!str_equal(str_of(want, golden_len), got)) { /* MUSTER_TEST_GOLDEN_UPDATE=1 */
        size_t before = (size_t)(at - text), behind = before + golden_len;
        size_t whole = before + got.len + (len - behind);
        char *made = malloc(whole);

        assert(made);
        memcpy(made, text, before);
        memcpy(made + before, got.at, got.len);
        memcpy(made + before + got.len, text + behind, len - behind);
        write_file(quoting, str_of(made, whole));
        free(made);
    }
    free(want);
    free(text);
}
