/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every file that a role's settings name, before a data directory is made or a port is
 * bound.
 *
 * Each option's row declares what kind of file it names (enum option_file). Only the contents of
 * certificates are checked here; the role's own hook checks those of other files. */
#ifndef COMMON_FILES_H
#define COMMON_FILES_H
#include "conf/conf.h"
#include "io/fs.h"

/* Checks all files of a finished `conf` that was read with `table`. Errors of fs_stat, fs_open and
 * tls_context_open, with a note that names the option. */
enum err files_check(const struct option_table *table, const struct conf *conf, struct fs *fs,
                     struct note *note);
/* The path of a file: below data-dir unless `given` begins with /. ERR_INVALID with a note: too
 * long. */
enum err files_below_data_dir(const struct conf *conf, const char *name, const char *given,
                              char path[FS_PATH_CAP], struct note *note);
#endif
