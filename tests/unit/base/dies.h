/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a misuse in a child process and expects an assertion to abort it. */
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
        close(STDERR_FILENO); /* hides the message of the expected assertion */
        signal(SIGABRT, SIG_DFL);
        misuse();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}
#endif
