/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the token for the dashboard's actions: one line, mode 0600. The token is never
 * printed, because standard output may be kept in journals and pod logs. */
#ifndef DASH_TOKEN_H
#define DASH_TOKEN_H
#include "dash/dash.h"

/* ERR_INVALID: not one line of 16-128 letters, digits, '-', '_'. Errors of reading a file. */
enum err dash_token_read(struct fs *fs, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note);
/* Writes a new random token. Errors of fs_publish, with a note. */
enum err dash_token_make(struct io *io, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note);
/* Checks that the file can be read or created. Call before other files are made. ERR_INVALID. */
enum err dash_token_check(struct fs *fs, const char *path, struct note *note);
#endif
