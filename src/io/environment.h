/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the environment of a child process: our own variables and additional ones. */
#ifndef IO_ENVIRONMENT_H
#define IO_ENVIRONMENT_H
#include "base/err.h"
#include "base/str.h"

enum { ENVIRONMENT_OURS_MAX = 12 };
struct environment {
    const char **all; /* the variables; terminated by NULL */
    size_t count, ours;
    char *texts[ENVIRONMENT_OURS_MAX];
    enum err err; /* the first failure; later calls do nothing */
};
/* Copies our environment without variables whose names begin with `without`. NULL copies all. */
void environment_init(struct environment *environment, const char *without);
/* A NUL byte ends the value. */
void environment_put(struct environment *environment, const char *name, struct str value);
void environment_deinit(struct environment *environment);
#endif
