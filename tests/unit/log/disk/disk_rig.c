/* SPDX-License-Identifier: Apache-2.0 */
#include "disk_rig.h"

#include <stdlib.h>
#include <string.h>

static void draw(struct entropy *entropy, void *out, size_t len)
{
    prng_fill(&CONTAINER_OF(entropy, struct rig_entropy, base)->prng, out, len);
}

void rig_entropy_init(struct rig_entropy *entropy, uint64_t seed)
{
    entropy->base.fill = draw;
    prng_seed(&entropy->prng, seed);
}

/* -- the expected content of a log -- */

static void cut_from(struct rig_log *log, uint64_t index)
{
    while (log->count > 0 && log->at[log->count - 1].index >= index) log->count--;
}

void rig_log_put(struct rig_log *log, uint64_t index, uint64_t term, enum entry_kind kind,
                 size_t len)
{
    cut_from(log, index);
    assert(log->count < RIG_ENTRIES_MAX);
    log->at[log->count++] =
        (struct rig_entry){.index = index, .term = term, .kind = kind, .len = len};
}

void rig_log_reset(struct rig_log *log, uint64_t index, uint64_t term)
{
    log->count = 0;
    log->base = index;
    log->base_term = term;
}

uint64_t rig_log_last(const struct rig_log *log)
{
    return log->count > 0 ? log->at[log->count - 1].index : log->base;
}

static size_t find_from(const struct rig_log *log, uint64_t from)
{
    size_t i = 0;
    while (i < log->count && log->at[i].index < from) i++;
    return i;
}

bool rig_log_equal(const struct rig_log *a, const struct rig_log *b, uint64_t from)
{
    if (a->wrong || b->wrong || rig_log_last(a) != rig_log_last(b)) return false;
    size_t i = find_from(a, from), j = find_from(b, from);
    for (; i < a->count && j < b->count; i++, j++) {
        const struct rig_entry *x = &a->at[i], *y = &b->at[j];
        if (x->index != y->index || x->term != y->term || x->kind != y->kind || x->len != y->len)
            return false;
    }
    return i == a->count && j == b->count;
}

void rig_bytes(uint64_t index, uint64_t term, char *room, size_t len)
{
    struct prng prng;
    prng_seed(&prng, index * 1000003 + term);
    prng_fill(&prng, room, len);
}

enum err rig_log_found(void *context, const struct wal_found *found)
{
    struct rig_log *log = context;
    if (found->reset) {
        rig_log_reset(log, found->entry.index, found->entry.term);
        return ERR_OK;
    }
    char *want = malloc(found->entry.bytes.len + 1);
    assert(want);
    rig_bytes(found->entry.index, found->entry.term, want, found->entry.bytes.len);
    bool same = str_equal(str_of(want, found->entry.bytes.len), found->entry.bytes);
    free(want);
    if (!same) log->wrong = found->entry.index;
    rig_log_put(log, found->entry.index, found->entry.term, found->entry.kind,
                found->entry.bytes.len);
    log->at[log->count - 1].place = found->place;
    return ERR_OK;
}

/* -- the disk -- */

void rig_open(struct rig *rig, const struct sim_fs_options *options, uint64_t seed)
{
    struct prng prng;
    prng_seed(&prng, seed);
    *rig = (struct rig){0};
    CHECK_OK("disk", sim_fs_open(options, &prng, &rig->disk));
    rig->fs = sim_fs_fs(rig->disk);
    rig_entropy_init(&rig->entropy, seed + 1);
    CHECK_OK("log", fs_make_dirs(rig->fs, RIG_DIR "/log", 0700));
    CHECK_OK("snap", fs_make_dirs(rig->fs, RIG_DIR "/snap", 0700));
    rig->options = (struct wal_options){
        .fs = rig->fs,
        .entropy = &rig->entropy.base,
        .dir = RIG_DIR,
        .cluster_id = RIG_CLUSTER,
        .replica_id = RIG_REPLICA,
        .segment_bytes = RIG_SEGMENT,
        .create = true,
    };
}

void rig_close(struct rig *rig)
{
    sim_fs_close(rig->disk);
    rig->disk = NULL;
}

enum err rig_append(struct wal *wal, struct rig_append append, struct rig_log *log,
                    struct note *note)
{
    struct entry *entries = calloc(append.count, sizeof *entries);
    struct wal_place *places = calloc(append.count, sizeof *places);
    char *bytes = malloc(append.count * append.len + 1);
    assert(entries && places && bytes);
    for (size_t i = 0; i < append.count; i++) {
        char *at = bytes + i * append.len;
        rig_bytes(append.index + i, append.term, at, append.len);
        entries[i] = (struct entry){.index = append.index + i,
                                    .term = append.term,
                                    .kind = ENTRY_COMMAND,
                                    .bytes = str_of(at, append.len)};
    }
    enum err err = wal_append(wal, entries, append.count, places, note);
    for (size_t i = 0; i < append.count && !err && log; i++) {
        rig_log_put(log, append.index + i, append.term, ENTRY_COMMAND, append.len);
        log->at[log->count - 1].place = places[i];
    }
    free(entries);
    free(places);
    free(bytes);
    return err;
}
