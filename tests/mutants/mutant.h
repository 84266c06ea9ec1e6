/* SPDX-License-Identifier: Apache-2.0 */
/* The planted bugs of src/log, one of which a program switches on. The build makes the edits of
 * tests/sim/log_mutants.txt in a copy of src/log, where MUTANT(NAME) is true while NAME is on. For
 * tests that are linked with log_mutants_dep. */
#ifndef TESTS_MUTANTS_MUTANT_H
#define TESTS_MUTANTS_MUTANT_H
#include <stdbool.h>

#include "mutants/mutant_map.h" /* MUTANT_MAP(X): X(NAME) for each bug of the list */

enum mutant {
    MUTANT_NONE,
#define X(name) MUTANT_##name,
    MUTANT_MAP(X)
#undef X
        MUTANT_COUNT
};
extern enum mutant log_mutant; /* set before anything runs */
#define MUTANT(name) (log_mutant == MUTANT_##name)
const char *mutant_name(enum mutant mutant); /* "GUARD_3"; NULL past the last */

/* Shows that a scenario is held together by one guard: the scenario holds as the code is, and
 * breaks when the mutant of that guard is on. */
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
