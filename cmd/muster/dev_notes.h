/* SPDX-License-Identifier: Apache-2.0 */
/* Notes about what `muster dev` does to its own fleet: lines of a file that the dashboards show
 * (--dashboard-notes-file). Others may append lines, too. A file that grew too long is emptied. */
#ifndef MUSTER_DEV_NOTES_H
#define MUSTER_DEV_NOTES_H
#include "io/io.h"
#include "muster/dev_parts.h"
#include "obs/log.h"

struct dev_notes {
    struct io *io;
    const struct log_source *log;
    const char *dir;
};
/* Appends a note. `from` is the part that acts, such as "chaos". A failed write is only logged. */
void dev_notes_add(struct dev_notes *notes, const char *from, const char *text);
#endif
