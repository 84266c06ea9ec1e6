/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the environment of a child process. `err` keeps the first failure. One thread. */
#include "io/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void environment_init(struct environment *env, const char *without)
{
    size_t count = 0;

    *env = (struct environment){.count = 0};
    while (environ[count]) count++;
    env->all = calloc(count + ENVIRONMENT_OURS_MAX + 1, sizeof *env->all);
    if (!env->all) {
        env->err = ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!without || strncmp(environ[i], without, strlen(without)) != 0)
            env->all[env->count++] = environ[i];
}

void environment_put(struct environment *env, const char *name, struct str value)
{
    char *text;

    assert(env->ours < ENVIRONMENT_OURS_MAX);
    if (env->err) return;
    if (asprintf(&text, "%s=%.*s", name, STR_ARG(value)) < 0) {
        env->err = ERR_NOMEM;
        return;
    }
    env->texts[env->ours++] = text;
    env->all[env->count++] = text;
}

void environment_deinit(struct environment *env)
{
    for (size_t i = 0; i < env->ours; i++) free(env->texts[i]);
    free(env->all);
}
