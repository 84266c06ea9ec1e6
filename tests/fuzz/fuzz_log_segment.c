/* SPDX-License-Identifier: Apache-2.0 */
/* Any segments on a disk, opened as a log.
 *
 *   byte 0   bit 0: the rest follows the head of one segment unchanged; else acts of 8 bytes:
 *            what, serial, synced, index, term, length, two more
 *
 * Records have right checksums and any numbers, in any order, torn and damaged at will.
 *
 * Invariants: a look and an open return the same error and the same state. An opened log accepts an
 * append, and then contains its old entries and the new one, also after a power cut. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "log/wal.h"
#include "sim/sim_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ACT = 8, IMAGE = 64 << 10, SEGMENTS = 3, REPLICA = 5 };

static void must(bool holds)
{
    if (!holds) abort();
}

struct image {
    char bytes[SEGMENTS][IMAGE];
    size_t end[SEGMENTS];
    bool there[SEGMENTS];
    size_t at; /* segment in use */
};

static uint64_t salt_of(size_t segment)
{
    return 0x1111111122222222 * (segment + 1);
}

static void image_begin(struct image *image)
{
    memset(image, 0, sizeof *image);
    for (size_t i = 0; i < SEGMENTS; i++) {
        struct segment_head head = {
            .sequence = i + 1, .salt = salt_of(i), .replica_id = REPLICA, .cluster_id = 1};
        segment_head_write(&head, image->bytes[i]);
        image->end[i] = SEGMENT_HEAD;
    }
    image->there[0] = true;
}

static void put_record(struct image *image, const uint8_t *act, bool torn)
{
    static const char content[256];
    static const enum record_kind kinds[] = {RECORD_COMMAND, RECORD_BARRIER, RECORD_CHANGE,
                                             RECORD_RESET, RECORD_SEAL};
    struct log_record record = {
        .kind = kinds[act[6] % ARRAY_LEN(kinds)],
        .serial = act[1] == 255 ? UINT64_MAX : 1u + act[1],
        .index = act[3] == 255 ? UINT64_MAX : act[3],
        .term = act[4],
        .bytes = str_of(content, act[5]),
    };
    record.synced = min_u64(act[2], record.serial - 1);
    size_t size = record_size(record.bytes.len);
    if (image->end[image->at] + size > IMAGE) return;
    record_write(&record, salt_of(image->at), image->bytes[image->at] + image->end[image->at]);
    image->end[image->at] += torn ? min_size(size, act[7] * 8u) : size;
}

static void act_on(struct image *image, const uint8_t *act)
{
    size_t end = image->end[image->at];
    switch (act[0] % 6) {
    case 0:
    case 1: put_record(image, act, false); break;
    case 2: put_record(image, act, true); break;
    case 3: /* into another segment */
        image->at = act[1] % SEGMENTS;
        image->there[image->at] = true;
        break;
    case 4: /* damage */
        image->bytes[image->at][(act[1] + 256u * act[2]) % end] ^= (char)(1 << act[3] % 8);
        break;
    case 5: image->end[image->at] = min_size(end + act[1] * 8u, IMAGE); break; /* a gap */
    default: break;
    }
}

/* -- the disk -- */

struct entropy_fixed {
    struct entropy base;
    struct prng prng;
};

static void draw(struct entropy *entropy, void *out, size_t len)
{
    prng_fill(&((struct entropy_fixed *)entropy)->prng, out, len);
}

static void lay_out(struct fs *fs, const struct image *image)
{
    must(fs_make_dirs(fs, "/d/log", 0700) == ERR_OK);
    for (size_t i = 0; i < SEGMENTS; i++) {
        static const char *const names[SEGMENTS] = {"/d/log/0000000000000001.seg",
                                                    "/d/log/0000000000000002.seg",
                                                    "/d/log/0000000000000003.seg"};
        struct fs_file *file;
        if (!image->there[i]) continue;
        must(fs_open(fs, names[i], FS_WRITE | FS_CREATE, 0600, &file) == ERR_OK);
        must(fs_write_at(fs, file, 0, str_of(image->bytes[i], image->end[i])) == ERR_OK);
        must(fs_sync(fs, file) == ERR_OK);
        fs_close(fs, file);
    }
    must(fs_sync_dir(fs, "/d/log") == ERR_OK);
}

/* Summary of the entries in a log. */
struct held {
    uint64_t hash, last, count;
};

static enum err hold(void *context, const struct wal_found *found)
{
    struct held *held = context;
    held->hash = held->hash * 1000003 + found->entry.index * 31 + found->entry.term * 7 +
                 found->entry.bytes.len + found->reset;
    held->last = found->entry.index;
    held->count++;
    return ERR_OK;
}

static void live_on(struct sim_fs *disk, const struct wal_options *options, struct wal *wal,
                    struct held held)
{
    struct entry entry = {
        .index = held.last + 1, .term = 300, .kind = ENTRY_COMMAND, .bytes = STR("on")};
    struct wal_found found = {.entry = entry};
    struct wal_place place;
    struct held again = {0};
    if (entry.index == 0) entry.index = found.entry.index = 1;
    must(wal_append(wal, &entry, 1, &place, NULL) == ERR_OK);
    (void)hold(&held, &found);
    sim_fs_crash(disk);
    wal_close(wal);
    must(wal_open(options, false, hold, &again, &wal, NULL, NULL) == ERR_OK);
    must(memcmp(&held, &again, sizeof held) == 0);
    wal_close(wal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image image;
    const struct sim_fs_options harsh = {.write_lost_per_million = 1000000,
                                         .name_lost_per_million = 1000000};
    struct entropy_fixed entropy = {.base = {draw}};
    struct sim_fs *disk;
    struct wal *wal = NULL;
    if (size == 0) return 0;
    prng_seed(&entropy.prng, 1);
    image_begin(&image);
    if (data[0] & 1) {
        size_t len = min_size(size - 1, IMAGE - SEGMENT_HEAD);
        memcpy(image.bytes[0] + SEGMENT_HEAD, data + 1, len);
        image.end[0] += len;
    } else {
        for (size_t at = 1; at + ACT <= size; at += ACT) act_on(&image, data + at);
    }
    must(sim_fs_open(&harsh, &entropy.prng, &disk) == ERR_OK);
    lay_out(sim_fs_fs(disk), &image);
    struct wal_options options = {.fs = sim_fs_fs(disk),
                                  .entropy = &entropy.base,
                                  .dir = "/d",
                                  .replica_id = REPLICA,
                                  .segment_bytes = 64 << 10};
    struct held looked = {0}, opened = {0};
    struct note note = {""};
    enum err look_err = wal_open(&options, true, hold, &looked, &wal, NULL, &note);
    if (!look_err) wal_close(wal);
    must(!look_err || (look_err == ERR_CORRUPT && note.text[0]));
    enum err err = wal_open(&options, false, hold, &opened, &wal, NULL, &note);
    /* A look also reads segments that should be unused. */
    must(err == look_err || (err == ERR_OK && look_err == ERR_CORRUPT));
    if (!look_err) must(memcmp(&looked, &opened, sizeof looked) == 0);
    if (!err && !look_err)
        live_on(disk, &options, wal, opened);
    else if (!err)
        wal_close(wal);
    sim_fs_close(disk);
    return 0;
}
