/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the two programs for the tests of the command line, with a clean environment. */
#ifndef TESTS_INTEGRATION_CLI_H
#define TESTS_INTEGRATION_CLI_H
#include "lib/proc.h"
#include "lib/test.h"

const char *cli_muster(void); /* paths of the programs under test */
const char *cli_musterctl(void);
const char *cli_source(void); /* the root of the source tree */

/* Runs "musterctl WORDS..." (or "muster WORDS...") to its end with `variables`, which ends with
 * NULL or is NULL, as its whole environment besides PATH. The exit code; the output is in
 * `proc`. */
int cli_run(struct proc *proc, const char *program, const char *const *words,
            const char *const *variables);
/* Starts it and does not wait. */
void cli_start(struct proc *proc, const char *program, const char *const *words,
               const char *const *variables);
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A path below the test's directory; valid until the 16th call from now. */
const char *cli_path(const char *name);
void cli_write(const char *path, const char *text);
#endif
