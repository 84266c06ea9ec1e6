/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes, for tests of a file store: children that act on it and are killed or stopped at
 * a named step. A child reports a fault by exiting with CHILD_WRONG. */
#ifndef TESTS_INTEGRATION_COORD_FILE_CHILD_H
#define TESTS_INTEGRATION_COORD_FILE_CHILD_H
#include <sys/types.h>

#include "rig.h"

enum { CHILD_WRONG = 99, CHILD_NOT_REACHED = 0 };

/* The effect of a step: the process dies, stops, or the step's call fails. */
enum at_step { AT_KILL = -1, AT_STOP = -2 }; /* or an errno */
void step_arm(enum file_step step, int what);
void step_arm_nth(enum file_step step, int what, int nth); /* the nth time, from 1 */
void step_disarm(void);
bool step_reached(void); /* since it was armed, in this process */

typedef void child_fn(void *arg);
pid_t child_start(child_fn *run, void *arg); /* its own process; exits with 0 when run returns */
int child_wait(pid_t pid);                   /* exit code, or minus the signal */
void child_wrong(const char *what);          /* in a child: says it and exits */
void child_await_stop(pid_t pid);            /* until it has stopped itself */

/* How often long forms repeat: FILE_ROUNDS of the environment, or `usual`. */
int rounds(int usual);
#endif
