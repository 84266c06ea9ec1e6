/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of tests into a file store: hooks.txt adds the calls to a copy of src/prim/file, which the
 * tests link. All zero: the store behaves as in the product. */
#ifndef TESTS_UNIT_PRIM_FILE_HOOKS_H
#define TESTS_UNIT_PRIM_FILE_HOOKS_H
#include "base/base.h"

/* Steps of the procedures of docs/filestore.md, in order. A hook runs just before the step's system
 * call; hooks of steps that end in _DONE run just after the call. */
#define FILE_STEPS(X)                                                                              \
    X(S1)                                                                                          \
    X(S2)                                                                                          \
    X(S2_BUCKET)                                                                                   \
    X(S2_GRANTED)                                                                                  \
    X(S3)                                                                                          \
    X(S4)                                                                                          \
    X(S5)                                                                                          \
    X(S6) X(S7) X(S7_CREATED) X(S7_DONE) X(S8) X(S8_WRITE) X(S8_DONE) X(S9) X(S9_DONE) X(S10)      \
        X(S10_LINKED) X(S10_DONE) X(S11) X(S11_DONE) X(S12) X(RELEASE_HEADS) X(RELEASE_RECORD)     \
            X(RELEASE_DONE) X(RENEW_LOCKED) X(RENEW_CHECKED) X(RENEW_DONE) X(LOST_RAISED)          \
                X(JUDGE_LOCKED) X(JUDGE_DEAD) X(EPOCH_TEMP) X(EPOCH_RENAME) X(EPOCH_DONE)          \
                    X(GC_FLOOR) X(GC_FLOOR_DONE) X(GC_HEAD) X(GC_LOCK) X(RECOVER_GATE)             \
                        X(RECOVER_RENAME) X(RECOVER_DONE) X(NET_LINK) X(NET_LINK_DONE)             \
                            X(WATCH_WAIT)
enum file_step {
#define X(name) STEP_##name,
    FILE_STEPS(X)
#undef X
        STEP_COUNT
};
const char *file_step_name(enum file_step step); /* "S8_DONE" */

struct file_hooks {
    /* Returns 0, or the errno with which the step's system call must fail. May exit the process. */
    int (*step)(void *arg, enum file_step step);
    void *arg;
    const uint8_t *boot_id; /* 16 bytes instead of the kernel's */
    uint64_t pid_namespace; /* instead of the kernel's; 0: its own */
    int64_t file_system;    /* statfs magic that replaces the real one; 0: the real one */
    const char *mount_type; /* the same for the mount table */
    int no_inotify;         /* errno that inotify_init1 answers; 0: none */
    bool same_hash;         /* all long names have one hash */
    bool no_collector;      /* no thread for garbage collection */
    bool no_unnamed;        /* as if O_TMPFILE did not exist */
    int64_t look_ms;        /* interval of a watch's checks of each lease; 0: one second */
};
extern struct file_hooks file_hooks;

static inline int file_at(enum file_step step)
{
    return __builtin_expect(file_hooks.step != NULL, 0) ? file_hooks.step(file_hooks.arg, step) : 0;
}
#endif
