/* SPDX-License-Identifier: Apache-2.0 */
/* A small file that its own thread reads or writes, so that a slow disk does not stop the loop. A
 * file is either watched or written.
 *
 * Watched: a file that a person edits is checked every second, and read when it appears and when it
 * changes. on_content() gets the whole content of one read. A file that changes during the read is
 * read again.
 *
 * Written: the program replaces the file again and again, and the newest content wins. While one
 * content is written, a newer content waits and replaces any content that was waiting. A reader of
 * the file sees one whole content. A content that cannot be written is retried. */
#ifndef OPERATOR_SIDE_FILE_H
#define OPERATOR_SIDE_FILE_H
#include "base/note.h"
#include "io/io.h"

enum { SIDE_FILE_EVERY_MS = 1000 }; /* interval between checks, and between retries */

struct side_file;
struct side_file_options {
    struct io *io;
    const char *thread;    /* name of the thread; static */
    const char *directory; /* NULL: `path` is a whole path */
    const char *path;
    size_t bytes_max;
    uint32_t mode; /* file mode of a written file */
    /* All callbacks run on the loop's thread, never inside a call of this header. on_content gets a
     * watched file's content if it differs from the previous content. */
    void (*on_content)(void *owner, struct str content);
    /* Called when a written content, passed with `mark`, is on disk. May be NULL. */
    void (*on_written)(void *owner, uint64_t mark);
    /* Called once for each new reason why the file cannot be read or written. */
    void (*on_trouble)(void *owner, enum err err, const char *why);
    void *owner;
};
/* Opens a file, which is watched if on_content is set. Copies the texts. Returns ERR_NOMEM,
 * ERR_INVALID (path), or errors of worker_open() and timer_init(). */
enum err side_file_open(const struct side_file_options *options, struct side_file **ret_file,
                        struct note *note);
/* Waits for the job under way, and writes a waiting content. NULL is allowed. */
void side_file_close(struct side_file *file);
/* Reads the file at once, without calling on_content. The view is valid until on_content or
 * side_file_room(). Returns errors of fs_read_whole() with a note. */
enum err side_file_read(struct side_file *file, struct str *ret_content, struct note *note);
/* Returns an empty buffer for the next content, which side_file_write() submits. */
struct buf *side_file_room(struct side_file *file);
void side_file_write(struct side_file *file, uint64_t mark);
bool side_file_busy(const struct side_file *file);
#endif
