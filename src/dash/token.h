/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the token that lets a reader of the dashboard act: one line, mode 0600. The token
 * itself is never printed, because standard output ends up in journals and pod logs. */
#ifndef DASH_TOKEN_H
#define DASH_TOKEN_H
#include "dash/dash.h"

/* ERR_INVALID: not 16 to 128 letters, digits, '-' and '_' on one line; and what the file system
 * answers, with a note. */
enum err dash_token_read(struct fs *fs, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note);
/* Writes a new one, drawn from the I/O's randomness. What fs_publish answers, with a note. */
enum err dash_token_make(struct io *io, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note);
/* Before anything is made: can the file be read, or else be made? ERR_INVALID. */
enum err dash_token_check(struct fs *fs, const char *path, struct note *note);
#endif
