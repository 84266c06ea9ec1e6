/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and replaces a file of keys and values. Invariant: a file is replaced whole or not at all,
 * and its checksum is verified before a record is returned. Calls block. */
#include "member/ledger/file.h"

#include "base/bytes.h"
#include "base/crc32c.h"

enum { MAGIC_LEN = 16, FILE_HEAD = MAGIC_LEN + 4, RECORD_HEAD = 6, FILE_MODE = 0600 };
static const char magic[MAGIC_LEN] = "muster rows 1\n";

static enum err check(const char *path, struct str content, struct note *note)
{
    struct str records = str_tail(content, FILE_HEAD), key, value;

    if (!str_starts(content, str_of(magic, MAGIC_LEN)))
        return note_fail(note, ERR_CONFLICT,
                         "%s is there and is no file of rows of muster's; it is not touched", path);
    if (content.len < FILE_HEAD ||
        load_le32(content.at + MAGIC_LEN) != crc32c(0, records.at, records.len))
        return note_fail(note, ERR_CORRUPT, "%s: its checksum does not match", path);
    while (ledger_record_next(&records, &key, &value)) continue;
    if (!records.len) return ERR_OK;
    return note_fail(note, ERR_CORRUPT, "%s: its last record is cut", path);
}

enum err ledger_file_read(struct fs *fs, const char *path, struct buf *into,
                          struct str *ret_records, struct note *note)
{
    enum err err;

    buf_clear(into);
    err = fs_read_whole(fs, path, LEDGER_FILE_MAX, into);
    if (!err && !into->len) err = ERR_NOT_FOUND;
    if (err) return note_fail(note, err, "%s: %s", path, err_text(err));
    err = check(path, buf_peek(into), note);
    if (!err) *ret_records = str_tail(buf_peek(into), FILE_HEAD);
    return err;
}

bool ledger_record_next(struct str *records, struct str *ret_key, struct str *ret_value)
{
    size_t key_len, value_len;
    struct str rest;

    if (records->len < RECORD_HEAD) return false;
    key_len = load_le16(records->at);
    value_len = load_le32(records->at + 2);
    rest = str_tail(*records, RECORD_HEAD);
    if (key_len + value_len > rest.len) return false;
    *ret_key = str_of(rest.at, key_len);
    *ret_value = str_of(rest.at + key_len, value_len);
    *records = str_tail(rest, key_len + value_len);
    return true;
}

enum err ledger_file_begin(struct buf *content)
{
    static const char no_sum[FILE_HEAD - MAGIC_LEN];
    enum err err;

    buf_clear(content);
    err = buf_append(content, str_of(magic, MAGIC_LEN));
    return err ? err : buf_append(content, str_of(no_sum, sizeof no_sum));
}

enum err ledger_record_add(struct buf *content, struct str key, struct str value)
{
    size_t before = content->len;
    char head[RECORD_HEAD];
    enum err err;

    if (key.len > UINT16_MAX || value.len > UINT32_MAX) return ERR_TOO_LARGE;
    store_le16(head, (uint16_t)key.len);
    store_le32(head + 2, (uint32_t)value.len);
    err = buf_append(content, str_of(head, sizeof head));
    if (!err) err = buf_append(content, key);
    if (!err) err = buf_append(content, value);
    if (err) content->len = before;
    return err;
}

enum err ledger_file_write(struct fs *fs, const char *path, struct buf *content, uint64_t unique,
                           struct note *note)
{
    enum err err;

    assert(content->len >= FILE_HEAD);
    store_le32(content->data + MAGIC_LEN,
               crc32c(0, content->data + FILE_HEAD, content->len - FILE_HEAD));
    err = fs_publish(fs, path, buf_peek(content), FILE_MODE, unique);
    if (err) note_set(note, "%s: %s", path, err_text(err));
    return err;
}
