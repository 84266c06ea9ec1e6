/* SPDX-License-Identifier: Apache-2.0 */
/* How every test file looks: TEST(rule_in_words) { ... CHECK_...(why, got, want); ... }
 *
 * A file of TESTs needs no main and no list: each registers itself and they run in file order. A
 * failing check prints its label, the value and the expected value, and ends its test. Output is
 * TAP on the real stdout; a test's own output goes to stderr. `./test_x name` runs the tests whose
 * name contains `name`. Built over cmocka, so its asserts and mocks work inside a TEST too. */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

typedef void test_fn(void **state);
void test_register(const char *name, test_fn *fn);

#define TEST(name)                                                                                 \
    static void test_##name(void **state);                                                         \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        test_register(#name, test_##name);                                                         \
    }                                                                                              \
    static void test_##name(void **state __attribute__((unused)))

/* Ends the test as skipped. The reason is printed with the suite's name and counted at the end. */
#define SKIP(...) test_skip(__VA_ARGS__)
void test_skip(const char *reason, ...) __attribute__((format(printf, 1, 2), noreturn));

#define CHECK(why, condition) check_true((why), (condition), #condition, __FILE__, __LINE__)
#define CHECK_U64(why, got, want)                                                                  \
    check_u64((why), (uint64_t)(got), (uint64_t)(want), #got, __FILE__, __LINE__)
#define CHECK_U32(why, got, want)  CHECK_U64(why, got, want)
#define CHECK_SIZE(why, got, want) CHECK_U64(why, got, want)
#define CHECK_I64(why, got, want)                                                                  \
    check_i64((why), (int64_t)(got), (int64_t)(want), #got, __FILE__, __LINE__)
#define CHECK_ERR(why, got, want) check_err((why), (got), (want), #got, __FILE__, __LINE__)
#define CHECK_OK(why, got)        check_err((why), (got), ERR_OK, #got, __FILE__, __LINE__)
#define CHECK_STR(why, got, want) check_str((why), (got), (want), #got, __FILE__, __LINE__)
#define CHECK_TEXT(why, got, want)                                                                 \
    check_str((why), str_from(got), str_from(want), #got, __FILE__, __LINE__)
/* `got` contains `part`. */
#define CHECK_HAS(why, got, part)                                                                  \
    check_has((why), str_from(got), str_from(part), #got, __FILE__, __LINE__)

void check_true(const char *why, bool holds, const char *what, const char *file, int line);
void check_u64(const char *why, uint64_t got, uint64_t want, const char *what, const char *file,
               int line);
void check_i64(const char *why, int64_t got, int64_t want, const char *what, const char *file,
               int line);
void check_err(const char *why, enum err got, enum err want, const char *what, const char *file,
               int line);
void check_str(const char *why, struct str got, struct str want, const char *what, const char *file,
               int line);
void check_has(const char *why, struct str got, struct str part, const char *what, const char *file,
               int line);

/* The seed of a property test: MUSTER_TEST_SEED, or one from the clock; printed, so that a failure
 * can be run again. */
uint64_t test_seed(void);
/* A fresh directory that is removed, with all in it, when the program ends well. */
const char *test_dir(void);
#endif
