/* SPDX-License-Identifier: Apache-2.0 */
/* Compares text with a transcript in tests/golden/, so that a reviewer reads a change as a diff.
 *
 *     golden_check("obs/log.txt", buf_peek(&out));
 *
 * On a difference the test fails and a unified diff is printed. MUSTER_TEST_GOLDEN_UPDATE=1 writes
 * the transcript instead and passes; read the diff of the working tree before committing it. */
#ifndef TESTS_LIB_GOLDEN_H
#define TESTS_LIB_GOLDEN_H
#include "base/str.h"

#define golden_check(path, got) golden_check_at((path), (got), __FILE__, __LINE__)
/* The same for a text that a page of the source tree quotes: the page is compared and rewritten,
 * too. */
#define golden_check_quoted(path, got, page)                                                       \
    golden_check_quoted_at((path), (got), (page), __FILE__, __LINE__)
void golden_check_quoted_at(const char *path, struct str got, const char *page, const char *file,
                            int line);
void golden_check_at(const char *path, struct str got, const char *file, int line);

/* True when equal. Else writes a unified diff (expected first) into `diff`, cut to its size. */
bool golden_diff(struct str want, struct str got, char *diff, size_t diff_cap);
#endif
