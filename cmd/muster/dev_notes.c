#include "muster/dev_notes.h"

#include <stdio.h>

#include "text/ndjson.h"

enum { FILE_MAX = DEV_NOTES_KEPT * (2 * DEV_NOTE_CAP + 100), FILE_MODE = 0644 };

static enum err write_notes(const struct dev_notes *notes, struct buf *into)
{
    size_t first = notes->count > DEV_NOTES_KEPT ? notes->count - DEV_NOTES_KEPT : 0;
    enum err err = ERR_OK;

    for (size_t i = first; i < notes->count && !err; i++) {
        const struct dev_note *note = &notes->ring[i % DEV_NOTES_KEPT];
        struct ndjson json;

        ndjson_begin(&json, into, NDJSON_LINE);
        ndjson_u64(&json, STR("at_ms"), note->at.ms);
        ndjson_c_string(&json, STR("from"), note->from);
        ndjson_c_string(&json, STR("text"), note->text);
        err = ndjson_end(&json);
    }
    return err;
}

void dev_notes_add(struct dev_notes *notes, const char *from, const char *text)
{
    struct dev_note *note = &notes->ring[notes->count++ % DEV_NOTES_KEPT];
    char path[DEV_PATH_CAP + 64];
    struct buf content;
    enum err err;

    note->at = clock_wall(notes->io->clock);
    note->from = from;
    snprintf(note->text, sizeof note->text, "%s", text);
    snprintf(path, sizeof path, "%s/%s", notes->parts->dir, DEV_NOTES_FILE);
    buf_init(&content, FILE_MAX);
    err = write_notes(notes, &content);
    if (!err)
        err = fs_publish(notes->io->fs, path, buf_peek(&content), FILE_MODE,
                         entropy_u64(notes->io->entropy));
    if (err)
        LOG_WARN(notes->log, "the notes for the dashboard cannot be written", log_err("err", err));
    buf_deinit(&content);
}
