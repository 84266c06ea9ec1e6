/* SPDX-License-Identifier: Apache-2.0 */
/* One file that is replaced again and again, off the loop: the newest content wins.
 *
 * While one content is written, a newer one waits and replaces the content that waited before. A
 * reader of the file sees one of them, never a mix. A content that cannot be written is retried. */
#ifndef OPERATOR_FILE_KEEPER_H
#define OPERATOR_FILE_KEEPER_H
#include "base/note.h"
#include "io/io.h"

enum { FILE_KEEPER_AGAIN_MS = 1000 };

struct file_keeper;
struct file_keeper_options {
    struct io *io;
    const char *name; /* of the thread; static */
    const char *path; /* copied */
    size_t bytes_max;
    uint32_t mode;
    /* `mark` came with the content that is on disk now. Loop's thread. */
    void (*on_written)(void *owner, uint64_t mark);
    void (*on_trouble)(void *owner, enum err err, const char *why); /* once for each new reason */
    void *owner;
};
/* ERR_NOMEM, ERR_INVALID (path), what worker_open and timer_init answer. */
enum err file_keeper_open(const struct file_keeper_options *options,
                          struct file_keeper **ret_keeper, struct note *note);
/* The empty buffer for the next content; then file_keeper_write. */
struct buf *file_keeper_room(struct file_keeper *keeper);
void file_keeper_write(struct file_keeper *keeper, uint64_t mark);
bool file_keeper_busy(const struct file_keeper *keeper);
/* NULL is fine. Waits for the write under way; a content that waits is written, too. */
void file_keeper_close(struct file_keeper *keeper);
#endif
