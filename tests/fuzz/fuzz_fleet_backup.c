/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a backup: the same answer and the same sections however they are cut, and a note
 * with every refusal. With its checksums mended first, so that what is behind them is reached. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "fleet/format/backup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_FIXED = 16 };

struct outcome {
    enum err err;
    uint32_t crc;   /* of all pieces with their sections */
    uint64_t bytes; /* of them */
    struct backup_head head;
    struct note note;
};

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err on_piece(void *owner, const struct backup_section *section, struct str bytes,
                         struct note *note)
{
    struct outcome *outcome = owner;

    (void)note;
    outcome->crc = crc32c(outcome->crc, &section->id, sizeof section->id);
    outcome->crc = crc32c(outcome->crc, bytes.at, bytes.len);
    outcome->bytes += bytes.len;
    return ERR_OK;
}

static void read_backup(struct str bytes, size_t cut, struct outcome *outcome)
{
    struct backup_events events = {.on_piece = on_piece, .owner = outcome};
    struct backup_reader *reader;

    memset(outcome, 0, sizeof *outcome);
    must(backup_read_open(&events, &reader) == ERR_OK);
    while (!outcome->err && bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);
        outcome->err = backup_read(reader, str_of(bytes.at, piece), &outcome->note);
        bytes = str_tail(bytes, piece);
    }
    if (!outcome->err) outcome->err = backup_read_end(reader, &outcome->head, &outcome->note);
    if (outcome->err) must(outcome->note.text[0] != '\0');
    backup_read_close(reader);
}

/* Makes every checksum right, as far as the lengths lead. */
static void mend(char *bytes, size_t size)
{
    size_t at, head;
    uint32_t head_crc;
    uint64_t number = 0;

    if (size < HEAD_FIXED) return;
    head = HEAD_FIXED + (size_t)load_le32(bytes + 12);
    if (head + 4 > size) return;
    head_crc = crc32c(0, bytes, head);
    store_le32(bytes + head, head_crc);
    for (at = head + 4; size - at >= BACKUP_PIECE_HEAD; number++) {
        char salt[20];
        uint32_t len = load_le32(bytes + at + 4), crc;
        if (len > size - at - BACKUP_PIECE_HEAD) return;
        store_le32(salt, head_crc);
        store_le64(salt + 4, number);
        memcpy(salt + 12, bytes + at, 8);
        crc = crc32c(0, salt, sizeof salt);
        store_le32(bytes + at + 8, crc32c(crc, bytes + at + BACKUP_PIECE_HEAD, len));
        at += BACKUP_PIECE_HEAD + len;
    }
}

static void compare(struct str bytes)
{
    static struct outcome whole, cut;

    read_backup(bytes, bytes.len + 1, &whole);
    read_backup(bytes, 37, &cut);
    must(whole.err == cut.err && whole.crc == cut.crc);
    if (whole.err) return;
    must(memcmp(&whole.head, &cut.head, sizeof whole.head) == 0);
    for (size_t i = 0; i < whole.head.section_count; i++)
        whole.bytes -= whole.head.sections[i].bytes;
    must(whole.bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *mended = malloc(size + 1);

    must(mended);
    compare(str_of(data, size));
    if (size > 0) memcpy(mended, data, size);
    mend(mended, size);
    compare(str_of(mended, size));
    free(mended);
    return 0;
}
