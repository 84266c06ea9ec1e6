/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls on the kernel's file system and on the simulated disk side by side: all answers and
 * bytes must be equal. The names are few, so that calls collide often. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/prng.h"
#include "lib/test.h"
#include "sim/sim_fs.h"

enum { SIDES = 2, HANDLES = 4, STEPS = 1000, SEEDS = 4, PATH_CAP = 256, DATA_MAX = 3000 };

static const char *const names[] = {
    "a",     "b",     "c",       "d",   "d/a", "d/b",  "d/e",
    "d/e/a", "d/e/f", "d/e/f/g", "c/a", "a/",  "d/e/", "./d//a",
};

struct pair {
    struct fs *fs[SIDES];
    char root[SIDES][64];
    struct fs_file *files[SIDES][HANDLES];
    struct prng prng;
    char done[160]; /* the last step, for the failure message */
};

static const char *path(struct pair *p, int side, const char *name)
{
    static char paths[4][PATH_CAP];
    static unsigned next;
    char *at = paths[next++ % ARRAY_LEN(paths)];
    int len = snprintf(at, PATH_CAP, "%s/%s", p->root[side], name);
    CHECK("it fits", len > 0 && len < PATH_CAP);
    return at;
}

static const char *any_name(struct pair *p)
{
    return names[prng_below(&p->prng, ARRAY_LEN(names))];
}

static void same(struct pair *p, const enum err err[SIDES])
{
    CHECK_ERR(p->done, err[1], err[0]);
}

/* -- steps: each runs on both sides and compares -- */

static void step_open(struct pair *p)
{
    static const uint32_t ways[] = {
        FS_READ,
        FS_READ | FS_WRITE,
        FS_WRITE | FS_CREATE,
        FS_READ | FS_WRITE | FS_CREATE,
        FS_WRITE | FS_CREATE | FS_EXCLUSIVE,
        FS_READ | FS_WRITE | FS_APPEND,
        FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE,
    };
    const char *name = any_name(p);
    uint32_t flags = ways[prng_below(&p->prng, ARRAY_LEN(ways))];
    uint64_t slot = prng_below(&p->prng, HANDLES);
    enum err err[SIDES];
    snprintf(p->done, sizeof p->done, "open %s with flags 0x%x", name, flags);
    for (int side = 0; side < SIDES; side++) {
        fs_close(p->fs[side], p->files[side][slot]);
        p->files[side][slot] = NULL;
        err[side] = fs_open(p->fs[side], path(p, side, name), flags, 0644, &p->files[side][slot]);
    }
    same(p, err);
}

static void step_write(struct pair *p, uint64_t slot)
{
    char data[DATA_MAX];
    size_t len = (size_t)prng_below(&p->prng, sizeof data);
    uint64_t offset = prng_below(&p->prng, 5000);
    enum err err[SIDES];
    prng_fill(&p->prng, data, len);
    snprintf(p->done, sizeof p->done, "write %zu at %zu", len, (size_t)offset);
    for (int side = 0; side < SIDES; side++)
        err[side] = fs_write_at(p->fs[side], p->files[side][slot], offset, str_of(data, len));
    same(p, err);
}

static void step_read(struct pair *p, uint64_t slot)
{
    char data[SIDES][DATA_MAX];
    size_t len = (size_t)prng_below(&p->prng, DATA_MAX), got[SIDES] = {0};
    uint64_t offset = prng_below(&p->prng, 7000);
    enum err err[SIDES];
    snprintf(p->done, sizeof p->done, "read %zu at %zu", len, (size_t)offset);
    for (int side = 0; side < SIDES; side++)
        err[side] =
            fs_read_at(p->fs[side], p->files[side][slot], offset, data[side], len, &got[side]);
    same(p, err);
    CHECK_SIZE(p->done, got[1], got[0]);
    CHECK(p->done, memcmp(data[0], data[1], got[0]) == 0);
}

static void step_size(struct pair *p, uint64_t slot)
{
    uint64_t size = prng_below(&p->prng, 6000), got[SIDES] = {0};
    uint64_t what = prng_below(&p->prng, 3);
    enum err err[SIDES];
    snprintf(p->done, sizeof p->done, "size, way %zu, %zu", (size_t)what, (size_t)size);
    for (int side = 0; side < SIDES; side++) {
        struct fs_file *file = p->files[side][slot];
        err[side] = what == 0   ? fs_truncate(p->fs[side], file, size)
                    : what == 1 ? fs_sync(p->fs[side], file)
                                : fs_allocate_zeroed(p->fs[side], file, size, 1000);
    }
    same(p, err);
    for (int side = 0; side < SIDES; side++)
        CHECK_OK("size", fs_file_size(p->fs[side], p->files[side][slot], &got[side]));
    CHECK_U64(p->done, got[1], got[0]);
}

static void step_names(struct pair *p)
{
    const char *name = any_name(p), *other = any_name(p);
    uint64_t what = prng_below(&p->prng, 6);
    enum err err[SIDES];
    snprintf(p->done, sizeof p->done, "names, way %zu, %s %s", (size_t)what, name, other);
    for (int side = 0; side < SIDES; side++) {
        struct fs *fs = p->fs[side];
        const char *at = path(p, side, name);
        switch (what) {
        case 0: err[side] = fs_remove(fs, at); break;
        case 1: err[side] = fs_make_dir(fs, at, 0755); break;
        case 2: err[side] = fs_make_dirs(fs, at, 0755); break;
        case 3: err[side] = fs_sync_dir(fs, at); break;
        default: err[side] = fs_rename(fs, at, path(p, side, other)); break;
        }
    }
    same(p, err);
}

static void step_publish(struct pair *p)
{
    const char *name = any_name(p);
    char data[64];
    uint64_t unique = prng_u64(&p->prng);
    enum err err[SIDES];
    prng_fill(&p->prng, data, sizeof data);
    snprintf(p->done, sizeof p->done, "publish %s", name);
    for (int side = 0; side < SIDES; side++)
        err[side] =
            fs_publish(p->fs[side], path(p, side, name), str_of(data, sizeof data), 0644, unique);
    same(p, err);
}

static void sum_names(void *context, const char *name, enum fs_kind kind)
{
    *(uint64_t *)context += str_hash(str_from(name), (uint64_t)kind); /* whatever the order */
}

static void step_look(struct pair *p)
{
    const char *name = any_name(p);
    struct fs_info info[SIDES] = {0};
    uint64_t sums[SIDES] = {0};
    enum err err[SIDES];
    snprintf(p->done, sizeof p->done, "stat %s", name);
    for (int side = 0; side < SIDES; side++)
        err[side] = fs_stat(p->fs[side], path(p, side, name), &info[side]);
    same(p, err);
    CHECK_U32(p->done, info[1].kind, info[0].kind);
    CHECK_U32(p->done, info[1].mode, info[0].mode);
    if (info[0].kind == FS_REGULAR) CHECK_U64(p->done, info[1].size, info[0].size);
    snprintf(p->done, sizeof p->done, "list %s", name);
    for (int side = 0; side < SIDES; side++)
        err[side] = fs_list(p->fs[side], path(p, side, name), sum_names, &sums[side]);
    same(p, err);
    CHECK_U64(p->done, sums[1], sums[0]);
}

static void step(struct pair *p)
{
    uint64_t slot = prng_below(&p->prng, HANDLES), what = prng_below(&p->prng, 10);
    if (what < 2)
        step_open(p);
    else if (what < 5)
        step_names(p);
    else if (what == 5)
        step_publish(p);
    else if (what == 6)
        step_look(p);
    else if (!p->files[0][slot])
        step_open(p);
    else if (what == 7)
        step_write(p, slot);
    else if (what == 8)
        step_read(p, slot);
    else
        step_size(p, slot);
}

TEST(random_calls_answer_the_same_on_both)
{
    uint64_t seed = test_seed();
    umask(022);
    for (uint64_t run = 0; run < SEEDS; run++) {
        const struct sim_fs_options perfect = {0};
        struct pair pair = {.done = "start"};
        struct sim_fs *disk;
        prng_seed(&pair.prng, seed + run);
        CHECK_OK("disk", sim_fs_open(&perfect, &pair.prng, &disk));
        pair.fs[0] = fs_real();
        pair.fs[1] = sim_fs_fs(disk);
        snprintf(pair.root[0], sizeof pair.root[0], "%s/%d", test_dir(), (int)run);
        snprintf(pair.root[1], sizeof pair.root[1], "/pair");
        for (int side = 0; side < SIDES; side++)
            CHECK_OK("root", fs_make_dir(pair.fs[side], pair.root[side], 0755));
        for (int i = 0; i < STEPS; i++) step(&pair);
        for (int side = 0; side < SIDES; side++)
            for (int i = 0; i < HANDLES; i++) fs_close(pair.fs[side], pair.files[side][i]);
        sim_fs_close(disk);
    }
}
