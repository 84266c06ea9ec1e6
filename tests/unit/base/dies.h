/* SPDX-License-Identifier: Apache-2.0 */
/* Proof that an assertion holds the line: runs a misuse in a child and expects it to abort. */
#ifndef TESTS_UNIT_BASE_DIES_H
#define TESTS_UNIT_BASE_DIES_H
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool dies(void (*misuse)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        close(STDERR_FILENO); /* the failed assertion is expected: keep the log quiet */
        signal(SIGABRT, SIG_DFL);
        misuse();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}
#endif
