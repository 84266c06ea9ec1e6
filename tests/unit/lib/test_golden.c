/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/golden.h"

#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

static const struct {
    const char *why, *want, *got, *diff;
} diff_cases[] = {
    {"equal text has no diff", "a\nb\n", "a\nb\n", ""},
    {"a changed line shows old, then new", "a\nb\nc\n", "a\nB\nc\n",
     "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
    {"an added line at the end", "a\n", "a\nb\n", "@@ -1,1 +1,2 @@\n a\n+b\n"},
    {"all of it is new", "", "a\n", "@@ -0,0 +1,1 @@\n+a\n"},
    {"all of it is gone", "a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
    {"a missing last newline is a difference", "a\n", "a",
     "@@ -1,1 +1,1 @@\n-a\n+a\n\\ no newline at the end\n"},
    {"far lines are left out and hunks are apart", "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
     "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
     "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n"},
};

TEST(diff_reads_like_diff_u)
{
    char diff[1024];
    for (size_t i = 0; i < ARRAY_LEN(diff_cases); i++) {
        bool equal = golden_diff(str_from(diff_cases[i].want), str_from(diff_cases[i].got), diff,
                                 sizeof diff);
        CHECK_TEXT(diff_cases[i].why, diff, diff_cases[i].diff);
        CHECK(diff_cases[i].why, equal == (diff_cases[i].diff[0] == '\0'));
    }
}

TEST(a_diff_too_long_is_cut_and_ends_with_nul)
{
    char diff[16];
    CHECK("they differ",
          !golden_diff(STR("aaaaaaaaaaaaaaaaaaaa\n"), STR("b\n"), diff, sizeof diff));
    CHECK("it ends inside", memchr(diff, '\0', sizeof diff) != NULL);
}

TEST(a_transcript_in_the_tree_is_found)
{
    golden_check("lib/sample.txt", STR("one line\nand another\n"));
}
