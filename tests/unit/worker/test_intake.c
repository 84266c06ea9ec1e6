/* SPDX-License-Identifier: Apache-2.0 */
/* worker/intake.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "worker/intake.h"

static char dir[64];
static struct intake_options options;
static struct partition_tally *tally;

static void put(const char *name, const char *mode, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, mode);
    CHECK("open", file);
    CHECK("written", fputs(text, file) >= 0);
    CHECK_I64("closed", fclose(file), 0);
}

static void set_up(void)
{
    snprintf(dir, sizeof dir, "/tmp/muster-intake-XXXXXX");
    CHECK("directory", mkdtemp(dir));
    options = (struct intake_options){.fs = fs_real(), .dir = dir};
    CHECK_OK("tally", tally_open(&tally));
}

static void tear_down(void)
{
    char line[96];

    tally_close(tally);
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    CHECK_I64("removed", system(line), 0);
}

static size_t batch(size_t max)
{
    size_t lines;
    struct note note = {""};

    CHECK_OK(note.text, intake_batch(&options, 7, tally, max, &lines, &note));
    return lines;
}

static int64_t sum_of(const char *key)
{
    const struct tally_total *total = map_get(&tally->totals, str_from(key));

    return total ? total->sum : 0;
}

TEST(files_of_a_partition_are_read_in_order_and_once)
{
    set_up();
    put("00000007.txt", "w", "a 1\na 2\nb\n");
    put("00000007-1.txt", "w", "c 5\n");
    put("00000008.txt", "w", "a 100\n");
    put("000000071.txt", "w", "a 100\n");
    CHECK_SIZE("the first", batch(1000), 1);
    CHECK_I64("'-' comes before '.'", sum_of("c"), 5);
    CHECK_SIZE("two of three", batch(2), 2);
    CHECK_SIZE("the rest", batch(1000), 1);
    CHECK_SIZE("nothing more", batch(1000), 0);
    CHECK_I64("a", sum_of("a"), 3);
    CHECK_I64("b", sum_of("b"), 1);
    CHECK_U64("to its end", tally_offset(tally, STR("00000007.txt")), 10);
    tear_down();
}

TEST(a_line_without_its_end_waits)
{
    set_up();
    put("00000007.txt", "w", "a 1\na 2");
    CHECK_SIZE("one", batch(1000), 1);
    CHECK_SIZE("none", batch(1000), 0);
    put("00000007.txt", "a", "0\n");
    CHECK_SIZE("now", batch(1000), 1);
    CHECK_I64("twenty", sum_of("a"), 21);
    tear_down();
}

TEST(long_lines_and_bad_ones_are_rejected_and_counted)
{
    char *text = malloc(3 * INTAKE_CHUNK + 64);
    struct ndjson line;
    struct buf out;

    CHECK("memory", text);
    set_up();
    memset(text, 'x', 3 * INTAKE_CHUNK);
    snprintf(text + 3 * INTAKE_CHUNK, 64, "\nk 4\nbad number\n");
    put("00000007.txt", "w", "k 3\n");
    put("00000007.txt", "a", text);
    while (batch(1000)) continue;
    CHECK_I64("around it", sum_of("k"), 7);
    buf_init(&out, 4096);
    ndjson_begin(&line, &out, NDJSON_LINE);
    CHECK_OK("written", tally_write(tally, &line));
    CHECK_OK("ended", ndjson_end(&line));
    CHECK_OK("text", buf_append_byte(&out, '\0'));
    CHECK_HAS("two", out.data, "\"rejected\":2");
    buf_deinit(&out);
    free(text);
    tear_down();
}

TEST(a_file_that_shrank_is_reported)
{
    struct note note = {""};
    size_t lines;

    set_up();
    put("00000007.txt", "w", "a 1\na 2\n");
    CHECK_SIZE("two", batch(1000), 2);
    put("00000007.txt", "w", "a 1\n");
    CHECK_ERR("shrunk", intake_batch(&options, 7, tally, 10, &lines, &note), ERR_CORRUPT);
    CHECK_HAS("with both numbers", note.text, "has 4 bytes, and 8 were read");
    CHECK_I64("nothing changed", sum_of("a"), 3);
    tear_down();
}

static enum err third_fails(void *owner, struct str line, struct buf *out, struct note *note)
{
    int *left = owner;

    if ((*left)-- == 0) {
        note_set(note, "gone");
        return ERR_UNAVAILABLE;
    }
    return str_equal(line, STR("skip")) ? ERR_OK : buf_append(out, line);
}

TEST(a_batch_whose_plugin_fails_is_not_added_at_all)
{
    size_t lines;
    int left = 2;

    set_up();
    put("00000007.txt", "w", "a\na\na\nskip\n");
    options.map = third_fails;
    options.owner = &left;
    CHECK_ERR("the plugin's error", intake_batch(&options, 7, tally, 10, &lines, NULL),
              ERR_UNAVAILABLE);
    CHECK_I64("nothing", sum_of("a"), 0);
    left = 100;
    CHECK_SIZE("all", batch(10), 4);
    CHECK_I64("three", sum_of("a"), 3);
    CHECK_SIZE("and no empty key", map_count(&tally->totals), 1);
    tear_down();
}
