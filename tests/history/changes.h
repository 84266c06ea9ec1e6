/* SPDX-License-Identifier: Apache-2.0 */
/* Every known change of every key, by revision. A change is known from the answer of its write,
 * from a read, or from a watch. */
#ifndef TESTS_HISTORY_CHANGES_H
#define TESTS_HISTORY_CHANGES_H
#include "judge.h"

struct change {
    uint64_t revision;
    uint32_t key;
    bool gone;      /* deleted, released, expired */
    uint64_t value; /* id of the call that wrote it; 0: not known */
};
struct changes {
    struct change *rows; /* by revision, then by name of the key */
    size_t count;
};
/* Reports two sources that disagree about a change. */
void changes_open(const struct hist *h, struct changes *c, struct judge_result *result);
void changes_close(struct changes *c);
/* The first row after that revision. */
size_t changes_after(const struct changes *c, uint64_t revision);
/* The last known change of the key up to that revision; NULL: none. */
const struct change *changes_last(const struct changes *c, uint32_t key, uint64_t revision);
/* Whether what `change` wrote may be gone without any client knowing it: by a deletion or release
 * without an answer, or the end of a lease. */
bool changes_may_be_gone(const struct hist *h, const struct change *change, int64_t by_ns);
/* Reports a value that was found there and cannot have been written by then. */
void changes_must_be(const struct hist *h, uint32_t key, uint64_t value, uint64_t revision,
                     int64_t by_ns, const char *who, struct judge_result *result);
#endif
