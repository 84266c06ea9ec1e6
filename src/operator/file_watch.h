/* SPDX-License-Identifier: Apache-2.0 */
/* A small file that a person edits: read when it appears and whenever it changes.
 *
 * The file is checked every second on a thread of its own, so that a slow disk does not stop the
 * loop. A content is one reading of the whole file; a file that changed meanwhile is read again. */
#ifndef OPERATOR_FILE_WATCH_H
#define OPERATOR_FILE_WATCH_H
#include "base/note.h"
#include "io/io.h"

enum { FILE_WATCH_EVERY_MS = 1000 };

struct file_watch;
struct file_watch_options {
    struct io *io;
    const char *name; /* of the thread; static */
    const char *path; /* copied */
    size_t bytes_max;
    /* On the loop's thread, never from inside a call of this header. Content that differs from the
     * content before; */
    void (*on_content)(void *owner, struct str content);
    /* ... or why it cannot be read, once for each new reason. */
    void (*on_trouble)(void *owner, enum err err, const char *why);
    void *owner;
};
/* ERR_NOMEM, ERR_INVALID (path), what worker_open and timer_init answer. */
enum err file_watch_open(const struct file_watch_options *options, struct file_watch **ret_watch,
                         struct note *note);
/* Reads the file at once; on_content does not come for this content. The view is valid until
 * on_content. Errors as fs_read_whole, with a note. */
enum err file_watch_first(struct file_watch *watch, struct str *ret_content, struct note *note);
void file_watch_close(struct file_watch *watch); /* NULL is fine; waits for a reading under way */
#endif
