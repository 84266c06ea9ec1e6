/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every file that a role's settings name, before a data directory is made or a port is
 * bound.
 *
 * The kind of file that an option names is declared in its table (enum option_file), so that a new
 * option cannot be forgotten here. What a file must contain, a certificate apart, is checked by the
 * role's own hook. */
#ifndef COMMON_FILES_H
#define COMMON_FILES_H
#include "conf/conf.h"
#include "io/fs.h"

/* `conf` is finished, of this table. The errors of fs_stat, fs_open and tls_context_open, with
 * a note that names the option. Makes nothing. */
enum err files_check(const struct option_table *table, const struct conf *conf, struct fs *fs,
                     struct note *note);
/* The path that an option names, which is below data-dir unless it begins with /. ERR_INVALID with a
 * note: it is too long. */
enum err files_below_data_dir(const struct conf *conf, const char *name, const char *given,
                              char path[FS_PATH_CAP], struct note *note);
#endif
