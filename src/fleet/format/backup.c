/* SPDX-License-Identifier: Apache-2.0 */
/* The backup. */
#include "fleet/format/backup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/hex.h"
#include "section/section.h"
#include "text/json.h"

static const char magic[BACKUP_MAGIC_BYTES] = {'m', 'u', 's', 't', 'e', 'r', 'b', 'k'};
enum { HEAD_FIXED = 16, CRC_BYTES = 4 };
#define SECTION_END UINT32_MAX
_Static_assert((int)BACKUP_JSON_MAX <= (int)BACKUP_PIECE_MAX, "the end is a piece like any other");

bool backup_is(struct str first_bytes)
{
    return first_bytes.len >= sizeof magic && memcmp(first_bytes.at, magic, sizeof magic) == 0;
}

static uint32_t piece_crc(uint32_t head_crc, uint64_t number, uint32_t section, struct str bytes)
{
    char salt[20];
    store_le32(salt, head_crc);
    store_le64(salt + 4, number);
    store_le32(salt + 12, section);
    store_le32(salt + 16, (uint32_t)bytes.len);
    return crc32c(crc32c(0, salt, sizeof salt), bytes.at, bytes.len);
}

/* -- writing -- */

static enum err json_end(struct ndjson *line, struct buf *into)
{
    enum err err = ndjson_end(line);
    if (!err) into->len--; /* no line end */
    return err;
}

enum err backup_head_json(const struct backup_head *head, struct buf *into)
{
    struct ndjson line;
    assert(head->section_count <= BACKUP_SECTIONS_MAX);
    ndjson_begin(&line, into, NDJSON_LINE);
    ndjson_u64(&line, STR("format"), BACKUP_FORMAT);
    ndjson_u64(&line, STR("index"), head->index);
    ndjson_u64(&line, STR("term"), head->term);
    ndjson_hex(&line, STR("cluster"), head->cluster_id);
    ndjson_hex(&line, STR("replica"), head->replica_id);
    ndjson_u64(&line, STR("level"), head->level);
    ndjson_hex(&line, STR("clock_ns"), head->clock_ns);
    ndjson_u64(&line, STR("created_unix_ms"), head->created_ms);
    ndjson_open_array(&line, STR("sections"));
    for (size_t i = 0; i < head->section_count; i++) {
        const struct backup_section *section = &head->sections[i];
        ndjson_open_object(&line, NDJSON_ITEM);
        ndjson_u64(&line, STR("id"), section->id);
        ndjson_c_string(&line, STR("name"), section->name);
        ndjson_u64(&line, STR("version"), section->version);
        ndjson_hex(&line, STR("hash"), section->hash);
        ndjson_close_object(&line);
    }
    ndjson_close_array(&line);
    return json_end(&line, into);
}

static enum err end_json(const struct backup_writer *writer, struct buf *into)
{
    struct ndjson line;
    ndjson_begin(&line, into, NDJSON_LINE);
    ndjson_u64(&line, STR("pieces"), writer->pieces);
    ndjson_open_array(&line, STR("sections"));
    for (size_t i = 0; i < writer->head.section_count; i++) {
        const struct backup_section *section = &writer->head.sections[i];
        ndjson_open_object(&line, NDJSON_ITEM);
        ndjson_c_string(&line, STR("name"), section->name);
        ndjson_u64(&line, STR("bytes"), section->bytes);
        ndjson_u64(&line, STR("crc32c"), section->crc);
        ndjson_close_object(&line);
    }
    ndjson_close_array(&line);
    return json_end(&line, into);
}

enum err backup_write_head(struct backup_writer *writer, const struct backup_head *head,
                           struct buf *into)
{
    size_t start = into->len;
    char fixed[HEAD_FIXED], crc[CRC_BYTES];
    enum err err;

    *writer = (struct backup_writer){.head = *head};
    for (size_t i = 0; i < head->section_count; i++) {
        assert(i == 0 || head->sections[i].id > head->sections[i - 1].id);
        writer->head.sections[i].bytes = 0;
        writer->head.sections[i].crc = 0;
    }
    memcpy(fixed, magic, sizeof magic);
    store_le32(fixed + 8, BACKUP_FORMAT);
    err = buf_append(into, str_of(fixed, sizeof fixed));
    if (!err) err = backup_head_json(head, into);
    if (!err) {
        store_le32(into->data + start + 12, (uint32_t)(into->len - start - HEAD_FIXED));
        writer->head_crc = crc32c(0, into->data + start, into->len - start);
        store_le32(crc, writer->head_crc);
        err = buf_append(into, str_of(crc, sizeof crc));
    }
    if (err) into->len = start;
    return err;
}

static enum err write_piece(struct backup_writer *writer, uint32_t section, struct str bytes,
                            struct buf *into)
{
    char *room;
    enum err err = buf_reserve(into, BACKUP_PIECE_HEAD + bytes.len, &room);

    assert(bytes.len > 0 && bytes.len <= BACKUP_PIECE_MAX);
    if (err) return err;
    store_le32(room, section);
    store_le32(room + 4, (uint32_t)bytes.len);
    store_le32(room + 8, piece_crc(writer->head_crc, writer->pieces, section, bytes));
    memcpy(room + BACKUP_PIECE_HEAD, bytes.at, bytes.len);
    buf_commit(into, BACKUP_PIECE_HEAD + bytes.len);
    return ERR_OK;
}

enum err backup_write_piece(struct backup_writer *writer, size_t place, struct str bytes,
                            struct buf *into)
{
    struct backup_section *section = &writer->head.sections[place];
    enum err err;

    assert(place < writer->head.section_count && place >= writer->section);
    err = write_piece(writer, section->id, bytes, into);
    if (err) return err;
    writer->section = place;
    writer->pieces++;
    section->bytes += bytes.len;
    section->crc = crc32c(section->crc, bytes.at, bytes.len);
    return ERR_OK;
}

enum err backup_write_end(struct backup_writer *writer, struct buf *into)
{
    struct buf json;
    enum err err;

    buf_init(&json, BACKUP_JSON_MAX);
    err = end_json(writer, &json);
    if (!err) err = write_piece(writer, SECTION_END, buf_peek(&json), into);
    buf_deinit(&json);
    return err;
}

/* -- reading -- */

enum stage { AT_HEAD, AT_PIECES, AT_END };
struct backup_reader {
    struct backup_events events;
    struct backup_head head;
    struct buf pending; /* what is not whole yet */
    uint64_t offset;    /* of pending's first byte */
    uint64_t pieces;
    uint32_t head_crc;
    size_t section; /* that came last */
    enum stage stage;
    enum err failed;
};

enum err backup_read_open(const struct backup_events *events, struct backup_reader **ret_reader)
{
    struct backup_reader *reader = calloc(1, sizeof *reader);

    if (!reader) return ERR_NOMEM;
    reader->events = *events;
    buf_init(&reader->pending, (size_t)2 * (BACKUP_PIECE_HEAD + BACKUP_PIECE_MAX));
    *ret_reader = reader;
    return ERR_OK;
}

void backup_read_close(struct backup_reader *reader)
{
    if (!reader) return;
    buf_deinit(&reader->pending);
    free(reader);
}

static enum err wrong(const struct backup_reader *reader, const char *what, struct note *note)
{
    note_set(note, "offset %" PRIu64 ": %s", reader->offset, what);
    return ERR_CORRUPT;
}

static enum err get_hex(const struct json *json, const char *path, uint64_t *ret_value,
                        struct note *note)
{
    struct str text;
    enum err err = json_get_string(json, path, &text, note);

    if (err || (text.len == 16 && hex_read(text, ret_value))) return err;
    note_set(note, "field '%s': expected 16 hexadecimal digits", path);
    return ERR_INVALID;
}

static enum err get_u32(const struct json *json, const char *path, uint32_t *ret_value,
                        struct note *note)
{
    uint64_t value = 0;
    enum err err = json_get_u64(json, path, &value, note);

    if (!err && value > UINT32_MAX) {
        note_set(note, "field '%s': too large", path);
        err = ERR_INVALID;
    }
    if (!err) *ret_value = (uint32_t)value;
    return err;
}

static enum err section_from(const struct json *item, struct backup_section *ret_section,
                             struct note *note)
{
    struct str name = STR_EMPTY;
    enum err err = get_u32(item, "id", &ret_section->id, note);

    if (!err) err = get_u32(item, "version", &ret_section->version, note);
    if (!err) err = json_get_string(item, "name", &name, note);
    if (!err) err = get_hex(item, "hash", &ret_section->hash, note);
    if (!err && (name.len == 0 || name.len > BACKUP_NAME_MAX)) {
        note_set(note, "field 'name': 1 to %d bytes", BACKUP_NAME_MAX);
        err = ERR_INVALID;
    }
    if (!err) memcpy(ret_section->name, name.at, name.len);
    return err;
}

static enum err head_from(const struct json *json, struct backup_head *ret_head, struct note *note)
{
    const struct json *list = NULL;
    struct backup_head head = {0};
    enum err err = json_get_u64(json, "index", &head.index, note);

    if (!err) err = json_get_u64(json, "term", &head.term, note);
    if (!err) err = get_hex(json, "cluster", &head.cluster_id, note);
    if (!err) err = get_hex(json, "replica", &head.replica_id, note);
    if (!err) err = get_u32(json, "level", &head.level, note);
    if (!err) err = get_hex(json, "clock_ns", &head.clock_ns, note);
    if (!err) err = json_get_u64(json, "created_unix_ms", &head.created_ms, note);
    if (!err) err = json_get_array(json, "sections", &list, note);
    if (err) return err;
    if (json_count(list) > BACKUP_SECTIONS_MAX) {
        note_set(note, "field 'sections': more than %d", BACKUP_SECTIONS_MAX);
        return ERR_INVALID;
    }
    head.section_count = json_count(list);
    for (size_t i = 0; !err && i < head.section_count; i++) {
        err = section_from(json_item(list, i), &head.sections[i], note);
        if (!err && i > 0 && head.sections[i].id <= head.sections[i - 1].id) {
            note_set(note, "field 'sections': not in order of their ids");
            err = ERR_INVALID;
        }
    }
    if (!err) *ret_head = head;
    return err;
}

/* The checksum was right, so what cannot be read is of another program. */
static enum err strange(const struct backup_reader *reader, enum err err, struct note *note)
{
    note_prefix(note, "offset %" PRIu64, reader->offset);
    return err == ERR_NOMEM ? err : ERR_CORRUPT;
}

/* *ret_size 0: not whole yet. */
static enum err take_head(struct backup_reader *reader, struct str bytes, size_t *ret_size,
                          struct note *note)
{
    struct json *json;
    size_t length, size;
    enum err err;

    *ret_size = 0;
    if (bytes.len < HEAD_FIXED) return ERR_OK;
    if (!backup_is(bytes)) return wrong(reader, "not a backup", note);
    length = load_le32(bytes.at + 12);
    if (length > BACKUP_JSON_MAX) return wrong(reader, "head is larger than the limit", note);
    size = HEAD_FIXED + length + CRC_BYTES;
    if (bytes.len < size) return ERR_OK;
    reader->head_crc = crc32c(0, bytes.at, size - CRC_BYTES);
    if (reader->head_crc != load_le32(bytes.at + size - CRC_BYTES))
        return wrong(reader, "head: checksum does not match", note);
    if (load_le32(bytes.at + 8) != BACKUP_FORMAT) {
        note_set(note, "format %" PRIu32 " is not known here", load_le32(bytes.at + 8));
        return ERR_VERSION;
    }
    err = json_open(str_of(bytes.at + HEAD_FIXED, length), BACKUP_JSON_MAX, &json, note);
    if (!err) {
        err = head_from(json, &reader->head, note);
        json_close(json);
    }
    if (err) return strange(reader, err, note);
    reader->stage = AT_PIECES;
    *ret_size = size;
    return reader->events.on_head
               ? reader->events.on_head(reader->events.owner, &reader->head, note)
               : ERR_OK;
}

static enum err section_adds_up(const struct json *item, const struct backup_section *section,
                                struct note *note)
{
    struct str name = STR_EMPTY;
    uint64_t bytes = 0;
    uint32_t crc = 0;
    enum err err = json_get_string(item, "name", &name, note);

    if (!err) err = json_get_u64(item, "bytes", &bytes, note);
    if (!err) err = get_u32(item, "crc32c", &crc, note);
    if (err) return err;
    if (str_equal(name, str_from(section->name)) && bytes == section->bytes && crc == section->crc)
        return ERR_OK;
    note_set(note,
             "section %s: %" PRIu64 " bytes with checksum %08" PRIx32 " came, %" PRIu64
             " with %08" PRIx32 " were written",
             section->name, section->bytes, section->crc, bytes, crc);
    return ERR_CORRUPT;
}

static enum err take_end(struct backup_reader *reader, struct str text, struct note *note)
{
    struct json *json;
    const struct json *list = NULL;
    uint64_t pieces = 0;
    enum err err = json_open(text, BACKUP_JSON_MAX, &json, note);

    if (err) return strange(reader, err, note);
    err = json_get_u64(json, "pieces", &pieces, note);
    if (!err) err = json_get_array(json, "sections", &list, note);
    if (!err && (pieces != reader->pieces || json_count(list) != reader->head.section_count)) {
        note_set(note, "sections or pieces are missing");
        err = ERR_CORRUPT;
    }
    for (size_t i = 0; !err && i < reader->head.section_count; i++)
        err = section_adds_up(json_item(list, i), &reader->head.sections[i], note);
    json_close(json);
    reader->stage = AT_END;
    return err ? strange(reader, err, note) : ERR_OK;
}

static enum err take_section(struct backup_reader *reader, uint32_t id, struct str bytes,
                             struct note *note)
{
    size_t place = reader->section;
    struct backup_section *section;

    while (place < reader->head.section_count && reader->head.sections[place].id != id) place++;
    if (place == reader->head.section_count)
        return wrong(reader, "a section that is not in the head, or out of order", note);
    reader->section = place;
    section = &reader->head.sections[place];
    section->bytes += bytes.len;
    section->crc = crc32c(section->crc, bytes.at, bytes.len);
    reader->pieces++;
    if (!reader->events.on_piece) return ERR_OK;
    return reader->events.on_piece(reader->events.owner, section, bytes, note);
}

static enum err take_piece(struct backup_reader *reader, struct str all, size_t *ret_size,
                           struct note *note)
{
    struct str bytes;
    uint32_t section, length;

    *ret_size = 0;
    if (all.len < BACKUP_PIECE_HEAD) return ERR_OK;
    section = load_le32(all.at);
    length = load_le32(all.at + 4);
    if (length == 0 || length > BACKUP_PIECE_MAX)
        return wrong(reader, "a piece of an impossible length", note);
    if (all.len < BACKUP_PIECE_HEAD + length) return ERR_OK;
    bytes = str_of(all.at + BACKUP_PIECE_HEAD, length);
    if (load_le32(all.at + 8) != piece_crc(reader->head_crc, reader->pieces, section, bytes))
        return wrong(reader, "checksum of a piece does not match", note);
    *ret_size = BACKUP_PIECE_HEAD + length;
    return section == SECTION_END ? take_end(reader, bytes, note)
                                  : take_section(reader, section, bytes, note);
}

static enum err take(void *opaque, struct str bytes, size_t *ret_taken, struct note *note)
{
    struct backup_reader *reader = opaque;
    enum err err = ERR_OK;
    size_t size;

    do {
        size = 0;
        if (reader->stage == AT_HEAD)
            err = take_head(reader, bytes, &size, note);
        else if (reader->stage == AT_PIECES)
            err = take_piece(reader, bytes, &size, note);
        else if (bytes.len > 0)
            err = wrong(reader, "bytes behind the end", note);
        if (err) return err;
        bytes = str_tail(bytes, size);
        *ret_taken += size;
        reader->offset += size;
    } while (size > 0);
    return ERR_OK;
}

enum err backup_read(void *opaque, struct str bytes, struct note *note)
{
    struct backup_reader *reader = opaque;
    struct note why = {""};

    if (reader->failed) {
        note_set(note, "failed before: %s", err_text(reader->failed));
        return reader->failed;
    }
    reader->failed = section_feed(&reader->pending, bytes, take, reader, &why);
    if (reader->failed && !why.text[0])
        note_set(&why, "offset %" PRIu64 ": %s", reader->offset, err_text(reader->failed));
    if (reader->failed) note_set(note, "%s", why.text);
    return reader->failed;
}

enum err backup_read_end(struct backup_reader *reader, struct backup_head *ret_head,
                         struct note *note)
{
    if (reader->failed) {
        note_set(note, "failed before: %s", err_text(reader->failed));
        return reader->failed;
    }
    if (reader->stage != AT_END) {
        reader->offset += reader->pending.len;
        return wrong(reader, "cut short", note);
    }
    *ret_head = reader->head;
    return ERR_OK;
}
