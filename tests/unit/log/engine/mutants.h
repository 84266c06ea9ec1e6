/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that a scenario is held together by one guard: it holds as the code is, and it breaks when
 * the mutant of that guard is on. For tests that are linked with log_mutants_dep. */
#ifndef TESTS_UNIT_LOG_ENGINE_MUTANTS_H
#define TESTS_UNIT_LOG_ENGINE_MUTANTS_H
#include <stdbool.h>

#include "log/mutant.h"

/* With the mutant, in a process of its own: a crash breaks it as well as a false answer does. */
bool mutant_breaks(bool (*scenario)(void), enum mutant mutant);

/* Runs the tests of this program whose name contains `test` with the mutant, in a process of its
 * own (MUSTER_TEST_MUTANT=GUARD_3 ./program test does the same by hand); true if one fails. */
bool mutant_fails_test(const char *test, enum mutant mutant);
bool mutant_is_planted(void); /* this process was started with one */

#define GUARD_TEST(name, mutant)                                                                   \
    static bool name##_holds(void);                                                                \
    TEST(name)                                                                                     \
    {                                                                                              \
        CHECK("as the code is", name##_holds());                                                   \
        CHECK("breaks without " #mutant, mutant_breaks(name##_holds, MUTANT_##mutant));            \
    }                                                                                              \
    static bool name##_holds(void)
/* In a scenario: ends it as broken, and says where. */
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            return false;                                                                          \
        }                                                                                          \
    } while (0)
#endif
