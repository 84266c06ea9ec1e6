/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command of src/ctl without a fleet: canned answers by path; requests and output are
 * recorded. Replaces ctl/remote.c. */
#ifndef TESTS_UNIT_CTL_CANNED_H
#define TESTS_UNIT_CTL_CANNED_H
#include "ctl/ctl.h"
#include "lib/test.h"

struct canned {
    struct ctl ctl;
    struct conf *conf;
};

/* Forgets all answers. `words`: flags and arguments, ending with NULL; --json is one of them. */
void canned_open(struct canned *canned, const char *const *words);
void canned_close(struct canned *canned);
/* Adds an answer of a path; borrowed. Several answers of one path come in order, the last one
 * repeatedly. */
void canned_answer(const char *path, const ProtobufCMessage *answer);
void canned_failure(const char *path, enum err err, const char *why);
/* The last request to the path as JSON; "" without one. */
const char *canned_asked(const char *path);
/* The whole output, with a NUL. */
const char *canned_printed(struct canned *canned);
const char *canned_warned(void);

#define CANNED_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#endif
