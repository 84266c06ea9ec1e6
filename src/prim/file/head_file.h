/* SPDX-License-Identifier: Apache-2.0 */
/* Head files: the one object that says what a key is. Replaced whole, so that a reader without any
 * lock sees the old content or the new. */
#ifndef PRIM_FILE_HEAD_FILE_H
#define PRIM_FILE_HEAD_FILE_H
#include "prim/file/store.h"

enum head_found { HEAD_IS_ABSENT, HEAD_IS_THERE, HEAD_IS_DAMAGED };
struct head_file {
    enum head_found found;
    struct head head; /* when there; its strings point below */
    char *large;
    char small[1024];
};
/* 0 or errno. `key` empty: whatever key it says. Reading a second time frees the first. */
int head_read(int heads, const char *name, struct str key, struct head_file *file);
void head_file_init(struct head_file *file);
void head_file_deinit(struct head_file *file);
static inline bool head_is_live(const struct head_file *file)
{
    return file->found == HEAD_IS_THERE && (file->head.flags & HEAD_LIVE) != 0;
}

/* S8 to S11: the new head in place of the old one (`replace`) or where there was none. Durable when
 * the head's flag says so. UNAVAILABLE/storage (MAYBE_APPLIED from S10 on) or /lock_violation. */
coord_result head_publish(struct file_store *store, struct bucket *bucket, const char *name,
                          const struct head *head, bool replace);
/* After a publication that failed, with the key still locked: does the head name this lease, or
 * can that not be read? */
bool head_may_have_lease(const struct bucket *bucket, const char *name, const coord_id *id);
/* The revision of the next change: larger than any this key ever had. `file`: what is there now;
 * `expired`: it is a leased entry that ran out, whose end may have been shown as its revision + 1.
 * 0 or errno. */
int head_next_revision(struct file_store *store, const struct head_file *file, bool expired,
                       uint64_t *ret_revision);
#endif
