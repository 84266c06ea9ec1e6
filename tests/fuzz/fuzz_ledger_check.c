/* SPDX-License-Identifier: Apache-2.0 */
/* A file as LMDB leaves it, or not: the walk over its pages ends, and says what is wrong. That LMDB
 * itself lives with what was found good is tests/unit/member/parts/test_ledger.c's. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/fs.h"
#include "member/ledger/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One file, in memory. */
struct held {
    struct fs fs;
    struct fs_file file;
    const uint8_t *data;
    size_t size;
};

static enum err held_open(struct fs *fs, const char *path, uint32_t flags, uint32_t mode,
                          struct fs_file **ret_file)
{
    (void)path, (void)flags, (void)mode;
    *ret_file = &((struct held *)fs)->file;
    return ERR_OK;
}

static void held_close(struct fs *fs, struct fs_file *file)
{
    (void)fs, (void)file;
}

static enum err held_read_at(struct fs *fs, struct fs_file *file, uint64_t offset, void *into,
                             size_t len, size_t *ret_got)
{
    const struct held *held = (const struct held *)fs;

    (void)file;
    *ret_got = offset < held->size ? min_size(len, held->size - (size_t)offset) : 0;
    if (*ret_got) memcpy(into, held->data + offset, *ret_got);
    return ERR_OK;
}

static enum err held_size(struct fs *fs, struct fs_file *file, uint64_t *ret_size)
{
    (void)file;
    *ret_size = ((const struct held *)fs)->size;
    return ERR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct held held = {
        .fs = {.open = held_open,
               .close = held_close,
               .read_at = held_read_at,
               .file_size = held_size},
        .data = data,
        .size = size,
    };
    struct note note = {""};
    enum err err = ledger_check(&held.fs, "x.db", &note);

    assert(!err || err == ERR_NOT_FOUND || err == ERR_CONFLICT || err == ERR_CORRUPT ||
           err == ERR_NOMEM);
    assert(!err || err == ERR_NOT_FOUND || err == ERR_NOMEM || note.text[0]);
    return 0;
}
