/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a process that stands for a machine, or of a script that works on one: ours,
 * without the provider's own MUSTER_ variables, and what is put here. */
#ifndef PROVIDER_HOST_ENVIRONMENT_H
#define PROVIDER_HOST_ENVIRONMENT_H
#include "base/err.h"
#include "base/str.h"

enum { ENVIRONMENT_OURS_MAX = 12 };
struct environment {
    const char **all; /* ends with NULL */
    size_t count, ours;
    char *texts[ENVIRONMENT_OURS_MAX];
    enum err err; /* the first failure; then the rest does nothing */
};
void environment_init(struct environment *environment);
/* A NUL ends the value: no variable can hold one. */
void environment_put(struct environment *environment, const char *name, struct str value);
void environment_deinit(struct environment *environment);
#endif
