/* SPDX-License-Identifier: Apache-2.0 */
#include "snap_rig.h"

#include <string.h>

#include "base/prng.h"

enum { CHUNKS = 9, CHUNK_BYTES = 700 };

struct snap_head snap_rig_head(uint64_t index)
{
    struct snap_head head = {
        .mark = {.index = index, .term = index / 10 + 1, .members_index = index / 2},
        .cluster_id = 99,
        .level = 3,
        .clock_ns = index * 1000,
    };
    head.mark.members.count = 1 + index % 5;
    for (size_t i = 0; i < head.mark.members.count; i++) {
        struct member *member = &head.mark.members.at[i];
        member->id = index * 100 + i;
        member->role = i == 0 ? MEMBER_VOTER : MEMBER_LEARNER;
        memset(member->address, 'a', i * 60);
        memcpy(member->address + i * 60, "host:0", 7);
        member->address[i * 60 + 5] = (char)('0' + i);
    }
    return head;
}

/* Chunk `number` of the snapshot at `index`; its section. */
static uint32_t chunk_of(uint64_t index, uint64_t number, char room[CHUNK_BYTES], size_t *ret_len)
{
    struct prng prng;
    prng_seed(&prng, index * 1000 + number);
    *ret_len = number == 4 ? 0 : 1 + prng_below(&prng, CHUNK_BYTES);
    prng_fill(&prng, room, *ret_len);
    return (uint32_t)(number / 4 * 3);
}

enum err snap_rig_write(struct fs *fs, const char *dir, uint64_t index, uint64_t unique,
                        struct note *note)
{
    struct snap_head head = snap_rig_head(index);
    struct snap_writer *writer;
    uint64_t bytes;
    enum err err = snap_create(fs, dir, &head, unique, &writer, note);
    if (err) return err;
    for (uint64_t i = 0; i < CHUNKS && !err; i++) {
        char room[CHUNK_BYTES];
        size_t len;
        uint32_t section = chunk_of(index, i, room, &len);
        err = snap_write(writer, section, str_of(room, len), note);
    }
    if (err) {
        snap_abandon(writer);
        return err;
    }
    return snap_finish(writer, &bytes, note);
}

bool snap_rig_heads_equal(const struct snap_head *a, const struct snap_head *b)
{
    const struct members *x = &a->mark.members, *y = &b->mark.members;
    if (a->mark.index != b->mark.index || a->mark.term != b->mark.term ||
        a->mark.members_index != b->mark.members_index || a->cluster_id != b->cluster_id ||
        a->level != b->level || a->clock_ns != b->clock_ns || x->count != y->count)
        return false;
    for (size_t i = 0; i < x->count; i++)
        if (x->at[i].id != y->at[i].id || x->at[i].role != y->at[i].role ||
            strcmp(x->at[i].address, y->at[i].address) != 0)
            return false;
    return true;
}

enum err snap_rig_compare(struct fs *fs, const char *path, uint64_t index, struct note *note)
{
    struct snap_reader *reader;
    struct snap_head head, want = snap_rig_head(index);
    struct buf chunk;
    enum err err = snap_open(fs, path, &reader, &head, note);
    if (err) return err;
    bool same = snap_rig_heads_equal(&head, &want);
    buf_init(&chunk, SNAP_CHUNK_MAX);
    for (uint64_t i = 0;; i++) {
        char room[CHUNK_BYTES];
        size_t len;
        uint32_t section;
        err = snap_read(reader, &chunk, &section, note);
        if (err) break;
        if (section == UINT32_MAX) {
            same = same && i == CHUNKS;
            break;
        }
        same = same && i < CHUNKS && chunk_of(index, i, room, &len) == section &&
               str_equal(buf_peek(&chunk), str_of(room, len));
    }
    buf_deinit(&chunk);
    snap_close(reader);
    if (!err && !same) {
        note_set(note, "%s: whole, but another", path);
        return ERR_INTERNAL;
    }
    return err;
}
