/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the bytes of a section into records, whatever the size of the portions. No I/O;
 * caller's thread. */
#include <string.h>

#include "section/section.h"

enum { PORTION = 64 << 10 };

enum err section_feed(struct buf *rest, struct str bytes, section_take_fn *take, void *owner,
                      struct note *note)
{
    while (bytes.len > 0) {
        size_t taken = 0, part = min_size(bytes.len, min_size(PORTION, rest->max - rest->len));
        enum err err = part ? buf_append(rest, str_of(bytes.at, part)) : ERR_FULL;

        if (!err) err = take(owner, buf_peek(rest), &taken, note);
        if (err) return err;
        buf_consume(rest, taken);
        bytes = str_tail(bytes, part);
    }
    return ERR_OK;
}

void section_read_begin(struct section_reader *reader, const char *name, const char *order,
                        section_record_fn *record, void *owner)
{
    *reader = (struct section_reader){
        .name = name, .order = order, .record = record, .owner = owner, .kind = order[0]};
    buf_init(&reader->rest, SECTION_RECORD_MAX + SECTION_RECORD_HEAD + PORTION);
}

void section_read_close(struct section_reader *reader)
{
    buf_deinit(&reader->rest);
}

static enum err record_take(struct section_reader *reader, char kind, struct str content)
{
    const char *order = reader->order, *then = kind ? strchr(order, kind) : NULL;
    struct decoder in = {content, true};

    if (!then || then < strchr(order, reader->kind) || reader->ended ||
        (then == order) != (reader->at == 0))
        return ERR_CORRUPT;
    reader->kind = kind;
    if (then[1]) return reader->record(reader->owner, kind, &in);
    reader->hash = decode_u64(&in);
    reader->ended = true;
    return decode_done(&in) ? ERR_OK : ERR_CORRUPT;
}

static enum err records_take(void *owner, struct str bytes, size_t *ret_taken, struct note *)
{
    struct section_reader *reader = owner;
    enum err err = ERR_OK;

    while (!err && bytes.len >= SECTION_RECORD_HEAD) {
        size_t len = load_le32(bytes.at + 1);

        if (len > SECTION_RECORD_MAX) return ERR_CORRUPT;
        if (bytes.len - SECTION_RECORD_HEAD < len) break;
        err = record_take(reader, bytes.at[0], str_of(bytes.at + SECTION_RECORD_HEAD, len));
        if (err) break;
        *ret_taken += SECTION_RECORD_HEAD + len;
        reader->at += SECTION_RECORD_HEAD + len;
        bytes = str_tail(bytes, SECTION_RECORD_HEAD + len);
    }
    return err;
}

enum err section_read(struct section_reader *reader, struct str bytes, struct note *note)
{
    return section_read_failed(
        reader, section_feed(&reader->rest, bytes, records_take, reader, note), note);
}

bool section_read_any(const struct section_reader *reader)
{
    return reader->at > 0 || reader->rest.len > 0;
}

enum err section_read_end(const struct section_reader *reader)
{
    return reader->ended && reader->rest.len == 0 ? ERR_OK : ERR_CORRUPT;
}

enum err section_read_failed(const struct section_reader *reader, enum err err, struct note *note)
{
    if (err)
        note_set(note, "%s section: record '%c' at byte %llu: %s", reader->name, reader->kind,
                 (unsigned long long)reader->at, err_text(err));
    return err;
}
