#include "mutants.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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
