/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a user's script: a task on standard input, an answer on standard output, within limits
 * of time and bytes.
 *
 * A script that takes too long gets SIGTERM and, SCRIPT_KILL_AFTER_MS later, SIGKILL; so does
 * everything it started. A script that prints too much is killed at once. done() comes exactly once
 * and describes how the script ended. */
#ifndef PROVIDER_HOST_SCRIPT_H
#define PROVIDER_HOST_SCRIPT_H
#include "base/note.h"
#include "base/str.h"
#include "io/loop.h"

enum { SCRIPT_KILL_AFTER_MS = 2000 }; /* SIGTERM to SIGKILL */

struct script_end {
    struct note error; /* empty: exit status 0 */
    struct str output; /* all of it, in any case; may be empty */
};
struct script;
struct script_options { /* copied */
    struct loop *loop;
    const char *program, *argument;
    const char *const *env; /* NULL: ours */
    struct str input;
    uint64_t timeout_ms;
    size_t output_max;
    void (*done)(void *owner,
                 const struct script_end *end); /* the script is gone when it returns */
    void *owner;
};
/* Errors as process_start, with a note; then done() never comes. */
enum err script_start(const struct script_options *options, struct script **ret_script,
                      struct note *note);
void script_abandon(struct script *script); /* killed; done() never comes */
#endif
