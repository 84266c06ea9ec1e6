/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a child process: ours, and what is put here. */
#ifndef IO_ENVIRONMENT_H
#define IO_ENVIRONMENT_H
#include "base/err.h"
#include "base/str.h"

enum { ENVIRONMENT_OURS_MAX = 12 };
struct environment {
    const char **all; /* ends with NULL */
    size_t count, ours;
    char *texts[ENVIRONMENT_OURS_MAX];
    enum err err; /* the first failure; then the rest does nothing */
};
/* Leaves out the variables whose names begin with `without`, unless that is NULL. */
void environment_init(struct environment *environment, const char *without);
/* A NUL ends the value: no variable can hold one. */
void environment_put(struct environment *environment, const char *name, struct str value);
void environment_deinit(struct environment *environment);
#endif
