/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a snapshot in a tar: the same answer twice, once with a fleet and once without, and
 * a note with the file's name with every refusal. Bit 0 of the first byte: the header sums are made
 * right first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/format/tar.h"
#include "fleet/snapshot_read.h"
#include "sim/sim_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_MAX = 256 << 10 };

static void must(bool holds)
{
    if (!holds) abort();
}

/* Fixes the sum of every header, following the sizes. */
static void repair(char *file, size_t len)
{
    struct tar_entry entry;

    for (size_t at = 0; at + TAR_BLOCK <= len; at += TAR_BLOCK) {
        unsigned sum = 0;
        if (tar_is_zero(file + at)) continue;
        memset(file + at + 148, ' ', 8);
        for (size_t i = 0; i < TAR_BLOCK; i++) sum += (unsigned char)file[at + i];
        snprintf(file + at + 148, 8, "%06o", sum);
        if (tar_entry_read(file + at, &entry) || entry.size > len) return;
        at += (size_t)entry.size + tar_padding(entry.size);
    }
}

static enum err read_once(struct fs *fs, struct fleet *fleet, struct snapshot_facts *ret_facts)
{
    struct note note = {""};
    enum err err = snapshot_read(fs, "/file", false, fleet, ret_facts, &note);

    if (err)
        must(strncmp(note.text, "/file: ", 7) == 0);
    else
        must(ret_facts->index > 0);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char file[FILE_MAX];
    const struct sim_fs_options perfect = {0};
    struct snapshot_facts facts = {0}, again = {0};
    struct sim_fs *disk;
    struct fs_file *handle;
    struct fleet *fleet;
    struct prng prng;
    struct fs *fs;
    enum err err;

    if (size == 0) return 0;
    size = min_size(size - 1, FILE_MAX);
    memcpy(file, data + 1, size);
    if (data[0] & 1) repair(file, size);
    prng_seed(&prng, 1);
    must(sim_fs_open(&perfect, &prng, &disk) == ERR_OK);
    must(fleet_open(&fleet) == ERR_OK);
    fs = sim_fs_fs(disk);
    must(fs_open(fs, "/file", FS_WRITE | FS_CREATE, 0600, &handle) == ERR_OK);
    must(fs_write_at(fs, handle, 0, str_of(file, size)) == ERR_OK);
    fs_close(fs, handle);
    err = read_once(fs, NULL, &facts);
    if (!err && facts.state.sealed)
        (void)read_once(fs, fleet, &again); /* its seal may be of other rows */
    else
        must(read_once(fs, fleet, &again) == err);
    if (!err) must(facts.bytes <= size);
    fleet_close(fleet);
    sim_fs_close(disk);
    return 0;
}
