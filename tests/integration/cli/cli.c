/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = PROC_ARGS_MAX - 2, VARIABLES_MAX = 32, PATHS = 16 };

static const char *cli_variable(const char *name)
{
    const char *value = getenv(name);
    if (!value) SKIP("%s is not set; run this through meson test", name);
    return value;
}

const char *cli_muster(void)
{
    return cli_variable("MUSTER_TEST_MUSTER");
}

const char *cli_musterctl(void)
{
    return cli_variable("MUSTER_TEST_MUSTERCTL");
}

const char *cli_source(void)
{
    return cli_variable("MUSTER_TEST_SOURCE");
}

void cli_start(struct proc *proc, const char *program, const char *const *words,
               const char *const *variables)
{
    /* A sanitizer's report must not be taken for an exit code of ours. */
    const char *argv[WORDS_MAX + 2] = {program};
    const char *environment[VARIABLES_MAX + 4] = {"PATH=/usr/bin:/bin", "ASAN_OPTIONS=exitcode=99",
                                                  "UBSAN_OPTIONS=halt_on_error=1:exitcode=98"};
    for (size_t i = 0; words && words[i]; i++) {
        CHECK("few enough words", i < WORDS_MAX);
        argv[i + 1] = words[i];
    }
    for (size_t i = 0; variables && variables[i]; i++) {
        CHECK("few enough variables", i < VARIABLES_MAX);
        environment[i + 3] = variables[i];
    }
    CHECK("it starts", proc_start(proc, argv, environment));
}

int cli_run(struct proc *proc, const char *program, const char *const *words,
            const char *const *variables)
{
    cli_start(proc, program, words, variables);
    bool ended = proc_wait_end(proc, PROC_DEADLINE_MS);
    int code = ended ? proc_exit_code(proc) : -1;
    proc_end(proc);
    CHECK("it ends by itself", ended);
    return code;
}

const char *cli_path(const char *name)
{
    static char paths[PATHS][4096];
    static size_t next;
    char *path = paths[next++ % PATHS];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
    return path;
}

void cli_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(path, file != NULL);
    CHECK("written", fputs(text, file) >= 0);
    CHECK("closed", fclose(file) == 0);
}
