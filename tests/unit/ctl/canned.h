/* SPDX-License-Identifier: Apache-2.0 */
/* A command of src/ctl without a fleet: calls are answered here, by their paths, and what was asked
 * and printed can be looked at. Replaces ctl/remote.c. */
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
/* What a path is answered from now on; borrowed. Several answers of one path come in their order,
 * the last one again and again. */
void canned_answer(const char *path, const ProtobufCMessage *answer);
void canned_failure(const char *path, enum err err, const char *why);
/* What was asked of the path last, as JSON; "" when it was not asked. */
const char *canned_asked(const char *path);
/* All that was printed, and a NUL. */
const char *canned_printed(struct canned *canned);
const char *canned_warned(void);

#define CANNED_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#endif
