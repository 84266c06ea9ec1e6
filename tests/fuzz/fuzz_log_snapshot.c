/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a snapshot file.
 *
 *   byte 0   bit 0: the rest is the file; bit 1: checksums are fixed first, walking over the file
 *            by its lengths; else: number of members (low 4 bits of byte 1), then chunks: section,
 *            length, difference to the expected number
 *
 * Invariants: the result is one that the header names, with a note that has the offset, the same
 * result twice, and no chunk larger than its bound. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/prng.h"
#include "log/snapfile_internal.h"
#include "sim/sim_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_MAX = 256 << 10 };

static void must(bool holds)
{
    if (!holds) abort();
}

/* Writes the right checksums, following the lengths in the file. */
static void fix_checksums(char *file, size_t len)
{
    if (len < SNAP_HEAD_FIXED) return;
    memcpy(file, "mustersn", 8);
    size_t at = load_le32(file + 12);
    if (at < SNAP_HEAD_FIXED + 8 || at > SNAP_HEAD_MAX || at % 8 != 0 || at > len) return;
    uint32_t crc = crc32c(0, file, at - 4);
    store_le32(file + at - 4, crc);
    while (at + SNAP_CHUNK_HEAD <= len) {
        size_t bytes = load_le32(file + at + 4);
        if (bytes > SNAP_CHUNK_MAX || at + snap_chunk_size(bytes) > len) return;
        char salt[4];
        store_le32(salt, crc);
        size_t size = snap_chunk_size(bytes);
        store_le32(file + at, crc32c(crc32c(0, salt, 4), file + at + 4, size - 4));
        at += size;
    }
}

/* A head of `members`, then the chunks that the input describes. */
static size_t compose(const uint8_t *data, size_t size, char *file)
{
    static const char content[256];
    struct snap_head head = {.mark = {.index = 9, .term = 2}};
    uint32_t crc;
    uint64_t number = 0;
    head.mark.members.count = size > 0 ? data[0] & 15 : 0;
    for (size_t i = 0; i < head.mark.members.count; i++) {
        head.mark.members.at[i].id = i;
        memset(head.mark.members.at[i].address, 'a', i * 17);
    }
    size_t len = snap_head_write(&head, file, &crc);
    for (size_t at = 1; at + 3 <= size && len + 512 < FILE_MAX; at += 3, number++) {
        struct snap_chunk chunk = {
            .section = data[at] == 255 ? SNAP_SECTION_END : data[at],
            .number = number + data[at + 2],
            .bytes = str_of(content, data[at + 1]),
        };
        snap_chunk_write(&chunk, crc, file + len);
        len += snap_chunk_size(chunk.bytes.len);
    }
    return len;
}

static enum err read_through(struct fs *fs, uint64_t *ret_bytes)
{
    struct snap_reader *reader;
    struct snap_head head;
    struct buf chunk;
    struct note note = {""};
    uint32_t section = 0, before = 0;
    enum err err = snap_open(fs, "/file", &reader, &head, &note);
    *ret_bytes = 0;
    if (!err) {
        must(head.mark.members.count <= REPLICA_MEMBERS_MAX);
        buf_init(&chunk, SNAP_CHUNK_MAX);
        while (!err && section != UINT32_MAX) {
            err = snap_read(reader, &chunk, &section, &note);
            if (err) break;
            must(section >= before);
            before = section;
            *ret_bytes += chunk.len;
        }
        buf_deinit(&chunk);
        snap_close(reader);
    }
    must(!err || err == ERR_VERSION || err == ERR_CORRUPT);
    if (err) must(strstr(note.text, "/file: offset ") != NULL);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char file[FILE_MAX + SNAP_HEAD_MAX];
    const struct sim_fs_options perfect = {0};
    struct sim_fs *disk;
    struct fs_file *handle;
    struct prng prng;
    struct snap_head head;
    uint64_t first = 0, second = 0, whole = 0;
    size_t len;
    if (size == 0) return 0;
    if (data[0] & 1) {
        len = min_size(size - 1, FILE_MAX);
        memcpy(file, data + 1, len);
        if (data[0] & 2) fix_checksums(file, len);
    } else {
        len = compose(data + 1, size - 1, file);
    }
    prng_seed(&prng, 1);
    must(sim_fs_open(&perfect, &prng, &disk) == ERR_OK);
    struct fs *fs = sim_fs_fs(disk);
    must(fs_open(fs, "/file", FS_WRITE | FS_CREATE, 0600, &handle) == ERR_OK);
    must(fs_write_at(fs, handle, 0, str_of(file, len)) == ERR_OK);
    fs_close(fs, handle);
    enum err err = read_through(fs, &first);
    must(read_through(fs, &second) == err && first == second);
    must(snap_verify(fs, "/file", &head, &whole, NULL) == err);
    if (!err) must(whole == len && first <= len);
    sim_fs_close(disk);
    return 0;
}
