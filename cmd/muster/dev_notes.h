/* What `muster dev` does to its fleet by itself, as lines of a file that the dashboards show
 * (--dashboard-notes-file). The newest are kept; the file is replaced whole. */
#ifndef MUSTER_DEV_NOTES_H
#define MUSTER_DEV_NOTES_H
#include "io/io.h"
#include "muster/dev_parts.h"
#include "obs/log.h"

enum { DEV_NOTES_KEPT = 50, DEV_NOTE_CAP = 200 };

struct dev_note {
    wall_time at;
    const char *from; /* "chaos"; static text */
    char text[DEV_NOTE_CAP];
};
struct dev_notes {
    struct io *io;
    const struct log_source *log;
    const struct dev_parts *parts;
    struct dev_note ring[DEV_NOTES_KEPT];
    size_t count; /* ever */
};
/* A file that cannot be written is logged, and nobody fails for it. */
void dev_notes_add(struct dev_notes *notes, const char *from, const char *text);
#endif
