/* SPDX-License-Identifier: Apache-2.0 */
/* A small file that another thread reads or writes, so that a slow disk does not stop the loop.
 *
 *   watched  A file that a person edits is checked every second, and read after a change.
 *   written  The newest content wins. A reader sees one whole content. A failed write is
 *            repeated. */
#ifndef OPERATOR_SIDE_FILE_H
#define OPERATOR_SIDE_FILE_H
#include "base/note.h"
#include "io/io.h"

enum { SIDE_FILE_EVERY_MS = 1000 }; /* between checks, and before a retry */

struct side_file;
struct side_file_options {
    struct io *io;
    const char *thread;
    const char *directory; /* NULL: `path` is a whole path */
    const char *path;
    size_t bytes_max;
    uint32_t mode;
    /* All callbacks run on the loop's thread, never inside a call of this header. on_content is
     * called only when the content differs. */
    void (*on_content)(void *owner, struct str content);
    /* The content that was passed with `mark` is on disk. May be NULL. */
    void (*on_written)(void *owner, uint64_t mark);
    void (*on_trouble)(void *owner, enum err err, const char *why);
    void *owner;
};
/* Watches the file if on_content is set. Copies the texts. Returns ERR_NOMEM, ERR_INVALID (path),
 * or errors of worker_open() and timer_init(). */
enum err side_file_open(const struct side_file_options *options, struct side_file **ret_file,
                        struct note *note);
/* Waits for the job, and writes a waiting content. NULL is allowed. */
void side_file_close(struct side_file *file);
/* Reads the file now, on the caller's thread. on_content is not called. The view is valid until
 * on_content or side_file_room(). Errors of fs_read_whole() with a note. */
enum err side_file_read(struct side_file *file, struct str *ret_content, struct note *note);
/* An empty buffer for the next content. Fill it, then call side_file_write(). */
struct buf *side_file_room(struct side_file *file);
void side_file_write(struct side_file *file, uint64_t mark);
bool side_file_busy(const struct side_file *file);
#endif
