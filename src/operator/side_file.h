/* SPDX-License-Identifier: Apache-2.0 */
/* A small file, read or written off the loop by a thread of its own, so that a slow disk does not stop
 * the loop. A file is watched or written, never both.
 *
 * Watched: a file that a person edits is checked every second, and read when it appears and whenever
 * it changes. A content is one reading of the whole file; a file that changed meanwhile is read again.
 *
 * Written: one file is replaced again and again, and the newest content wins. While one content is
 * written, a newer one waits and replaces the content that waited before. A reader of the file sees
 * one of them, never a mix. A content that cannot be written is retried. */
#ifndef OPERATOR_SIDE_FILE_H
#define OPERATOR_SIDE_FILE_H
#include "base/note.h"
#include "io/io.h"

enum { SIDE_FILE_EVERY_MS = 1000 }; /* checks, and retries */

struct side_file;
struct side_file_options {
    struct io *io;
    const char *thread;    /* its name; static */
    const char *directory; /* NULL: `path` says all */
    const char *path;
    size_t bytes_max;
    uint32_t mode; /* written */
    /* All on the loop's thread, never from inside a call of this header. Watched: content that differs
     * from the content before. */
    void (*on_content)(void *owner, struct str content);
    /* Written: `mark` came with the content that is on disk now. NULL is fine. */
    void (*on_written)(void *owner, uint64_t mark);
    /* Why the file cannot be read or written, once for each new reason. */
    void (*on_trouble)(void *owner, enum err err, const char *why);
    void *owner;
};
/* Watched if it has an on_content. Copies its texts. ERR_NOMEM, ERR_INVALID (path), what worker_open
 * and timer_init answer. */
enum err side_file_open(const struct side_file_options *options, struct side_file **ret_file,
                        struct note *note);
/* Waits for the job under way; a content that waits is written, too. NULL is fine. */
void side_file_close(struct side_file *file);
/* Reads the file at once; on_content does not come for this content. The view is valid until
 * on_content or side_file_room. Errors as fs_read_whole, with a note. */
enum err side_file_read(struct side_file *file, struct str *ret_content, struct note *note);
/* Written: the empty buffer for the next content; then side_file_write. */
struct buf *side_file_room(struct side_file *file);
void side_file_write(struct side_file *file, uint64_t mark);
bool side_file_busy(const struct side_file *file);
#endif
