/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a user's script, which reads a task from standard input and writes an answer to
 * standard output, within limits of time and bytes.
 *
 * A script that takes too long gets SIGTERM and, SCRIPT_KILL_AFTER_MS later, SIGKILL, together with
 * everything it started. A script that prints too much is killed immediately. */
#ifndef PROVIDER_HOST_SCRIPT_H
#define PROVIDER_HOST_SCRIPT_H
#include "base/note.h"
#include "base/str.h"
#include "io/loop.h"

enum { SCRIPT_KILL_AFTER_MS = 2000 };

struct script_end {
    struct note error; /* empty if the exit status is 0 */
    struct str output; /* also after an error; may be empty */
};
struct script;
struct script_options { /* copied */
    struct loop *loop;
    const char *program, *argument;
    const char *const *env; /* NULL: the variables of this process */
    struct str input;
    uint64_t timeout_ms;
    size_t output_max;
    void (*done)(void *owner,
                 const struct script_end *end); /* called once; the script is freed afterwards */
    void *owner;
};
/* Errors of process_start(), with a note; then done() is never called. */
enum err script_start(const struct script_options *options, struct script **ret_script,
                      struct note *note);
void script_abandon(struct script *script); /* kills the script, and done() is not called */
#endif
