/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of `muster dev` on its own fleet, as lines of a file that the dashboards show
 * (--dashboard-notes-file). Lines are added, so that others may add theirs; a file that has become
 * long begins anew, and says so. */
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
/* `from` is the part that acts: "chaos". A file that cannot be written is logged only. */
void dev_notes_add(struct dev_notes *notes, const char *from, const char *text);
#endif
