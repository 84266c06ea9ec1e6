/* SPDX-License-Identifier: Apache-2.0 */
/* The switch of the planted bugs, and tests that run themselves once more with one of them on. The
 * environment's MUSTER_TEST_MUTANT names the bug of a whole program. */
#include "mutants/mutant.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUTANT_VARIABLE "MUSTER_TEST_MUTANT"

enum mutant log_mutant = MUTANT_NONE;

static const char *const names[] = {[MUTANT_NONE] = "NONE",
#define X(name) [MUTANT_##name] = #name,
                                    MUTANT_MAP(X)
#undef X
};

const char *mutant_name(enum mutant mutant)
{
    return (unsigned)mutant < MUTANT_COUNT ? names[mutant] : NULL;
}

/* A whole program with a planted bug: what scripts/sim-mutants and mutant_fails_test run. */
__attribute__((constructor)) static void choose_mutant(void)
{
    const char *name = getenv(MUTANT_VARIABLE);

    if (!name) return;
    for (int i = MUTANT_NONE; i < MUTANT_COUNT; i++) {
        if (strcmp(name, mutant_name((enum mutant)i)) != 0) continue;
        log_mutant = (enum mutant)i;
        return;
    }
    fprintf(stderr, MUTANT_VARIABLE ": no mutant is called %s\n", name);
    _exit(2);
}

bool mutant_is_planted(void)
{
    return getenv(MUTANT_VARIABLE) != NULL;
}

bool mutant_fails_test(const char *test, enum mutant mutant)
{
    pid_t child = fork();
    int status;

    if (child < 0) abort();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY); /* what breaks here is meant to */
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        setenv(MUTANT_VARIABLE, mutant_name(mutant), 1);
        execl("/proc/self/exe", "test", test, NULL);
        _exit(0); /* not found, then */
    }
    if (waitpid(child, &status, 0) != child) abort();
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

bool mutant_breaks(bool (*scenario)(void), enum mutant mutant)
{
    /* cmocka goes on with the test after these; here they are the end */
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    pid_t child = fork();
    int status;

    if (child < 0) abort();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0 && !getenv("MUSTER_SHOW_MUTANTS"))
            dup2(nowhere, STDERR_FILENO); /* what breaks here is meant to */
        for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], SIG_DFL);
        alarm(60);
        log_mutant = mutant;
        _exit(scenario() ? 0 : 1);
    }
    if (waitpid(child, &status, 0) != child) abort();
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
