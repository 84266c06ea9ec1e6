/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TESTS_MAX = 512 };
static struct {
    const char *name;
    test_fn *fn;
} tests[TESTS_MAX];
static size_t test_count;
static char skip_reason[512];
static char directory[64];

void test_register(const char *name, test_fn *fn)
{
    assert(test_count < TESTS_MAX);
    tests[test_count].name = name;
    tests[test_count++].fn = fn;
}

void test_skip(const char *reason, ...)
{
    va_list args;
    va_start(args, reason);
    vsnprintf(skip_reason, sizeof skip_reason, reason, args);
    va_end(args);
    skip();
    abort(); /* skip() never returns, but is not declared so */
}

static void failed(const char *file, int line)
{
    _fail(file, line);
}

void check_true(const char *why, bool holds, const char *what, const char *file, int line)
{
    if (holds) return;
    print_error("%s\n  %s is false\n", why, what);
    failed(file, line);
}

void check_u64(const char *why, uint64_t got, uint64_t want, const char *what, const char *file,
               int line)
{
    if (got == want) return;
    print_error("%s\n  %s: got %" PRIu64 " (0x%" PRIx64 "), want %" PRIu64 " (0x%" PRIx64 ")\n",
                why, what, got, got, want, want);
    failed(file, line);
}

void check_i64(const char *why, int64_t got, int64_t want, const char *what, const char *file,
               int line)
{
    if (got == want) return;
    print_error("%s\n  %s: got %" PRIi64 ", want %" PRIi64 "\n", why, what, got, want);
    failed(file, line);
}

void check_err(const char *why, enum err got, enum err want, const char *what, const char *file,
               int line)
{
    if (got == want) return;
    print_error("%s\n  %s: got %s, want %s\n", why, what, err_name(got), err_name(want));
    failed(file, line);
}

void check_str(const char *why, struct str got, struct str want, const char *what, const char *file,
               int line)
{
    if (str_equal(got, want)) return;
    print_error("%s\n  %s:\n  got  (%zu) %.*s\n  want (%zu) %.*s\n", why, what, got.len,
                STR_ARG(got), want.len, STR_ARG(want));
    failed(file, line);
}

void check_has(const char *why, struct str got, struct str part, const char *what, const char *file,
               int line)
{
    if (part.len == 0 || (got.len > 0 && memmem(got.at, got.len, part.at, part.len))) return;
    print_error("%s\n  %s: \"%.*s\"\n  does not contain \"%.*s\"\n", why, what, STR_ARG(got),
                STR_ARG(part));
    failed(file, line);
}

uint64_t test_seed(void)
{
    const char *given = getenv("MUSTER_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given ? strtoull(given, NULL, 0)
                          : (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
    fprintf(stderr, "MUSTER_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

const char *test_dir(void)
{
    if (directory[0]) return directory;
    snprintf(directory, sizeof directory, "/tmp/muster-test-XXXXXX");
    if (!mkdtemp(directory)) {
        perror("mkdtemp");
        abort();
    }
    return directory;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    int tap_fd = dup(STDOUT_FILENO);
    FILE *tap = tap_fd >= 0 ? fdopen(tap_fd, "w") : NULL;
    size_t number = 0, failures = 0;

    if (!tap) {
        perror("stdout");
        return 1;
    }
    dup2(STDERR_FILENO, STDOUT_FILENO);
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    for (size_t i = 0; i < test_count; i++) {
        if (only && !strstr(tests[i].name, only)) continue;
        const struct CMUnitTest one = {tests[i].name, tests[i].fn, NULL, NULL, NULL};
        skip_reason[0] = '\0';
        int bad = _cmocka_run_group_tests(tests[i].name, &one, 1, NULL, NULL);
        number++;
        if (bad) failures++;
        fprintf(tap, "%s %zu - %s%s%s\n", bad ? "not ok" : "ok", number, tests[i].name,
                skip_reason[0] && !bad ? " # SKIP " : "", bad ? "" : skip_reason);
        fflush(tap);
    }
    fprintf(tap, "1..%zu\n", number);
    fclose(tap);
    if (directory[0] && failures == 0) nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return failures > 0;
}
