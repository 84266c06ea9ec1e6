/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers of io/fs.h with the k-th call failing, with the k-th allocation failing, and with a
 * power cut between any two calls. Each checker must also find the mistake that it is there for. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/fault_alloc.h"
#include "lib/fault_fs.h"
#include "lib/test.h"
#include "sim/sim_fs.h"

enum { PATH_CAP = 256, OLD_LEN = 1700, NEW_LEN = 2300, SEEDS = 300 };

static const enum err errors[] = {ERR_IO, ERR_NO_SPACE};
static const struct {
    const char *name;
    uint32_t calls;
} kinds[] = {
    {"open", FAULT_FS_OPEN},     {"read", FAULT_FS_READ},         {"write", FAULT_FS_WRITE},
    {"sync", FAULT_FS_SYNC},     {"sync_dir", FAULT_FS_SYNC_DIR}, {"rename", FAULT_FS_RENAME},
    {"remove", FAULT_FS_REMOVE}, {"make_dir", FAULT_FS_MAKE_DIR}, {"look", FAULT_FS_LOOK},
    {"any", FAULT_FS_ANY},
};

/* -- beds: the kernel's file system and the simulated one -- */

struct bed {
    struct fs *fs;
    struct sim_fs *disk;
    char root[64];
};

static void bed_open(struct bed *bed, bool simulated)
{
    static int number;
    const struct sim_fs_options perfect = {0};
    struct prng prng;
    prng_seed(&prng, 1);
    *bed = (struct bed){.fs = fs_real()};
    if (simulated) {
        CHECK_OK("disk", sim_fs_open(&perfect, &prng, &bed->disk));
        bed->fs = sim_fs_fs(bed->disk);
        snprintf(bed->root, sizeof bed->root, "/bed");
    } else {
        snprintf(bed->root, sizeof bed->root, "%s/%d", test_dir(), number++);
    }
    CHECK_OK("root", fs_make_dir(bed->fs, bed->root, 0755));
}

static const char *in(const struct bed *bed, const char *name)
{
    static char paths[4][PATH_CAP];
    static unsigned next;
    char *path = paths[next++ % ARRAY_LEN(paths)];
    int len = snprintf(path, PATH_CAP, "%s/%s", bed->root, name);
    CHECK("it fits", len > 0 && len < PATH_CAP);
    return path;
}

static void count_entry(void *context, const char *name, enum fs_kind kind)
{
    (void)name, (void)kind;
    ++*(size_t *)context;
}

static size_t count_entries(struct fs *fs, const char *dir)
{
    size_t count = 0;
    CHECK_OK("list", fs_list(fs, dir, count_entry, &count));
    return count;
}

static bool has_content(struct fs *fs, const char *path, struct str want)
{
    struct buf buf;
    buf_init(&buf, 1 << 16);
    bool same = fs_read_whole(fs, path, 1 << 16, &buf) == ERR_OK && str_equal(buf_peek(&buf), want);
    buf_deinit(&buf);
    return same;
}

/* Runs `scenario` for both beds, every kind of call, both errors, every k. It makes at least
 * `calls` calls: a sweep over all calls that ends sooner was empty. */
typedef void sweep_fn(struct bed *bed, struct fault_fs *fault, const char *why, enum err injected);
static void sweep_all(sweep_fn *scenario, uint64_t calls)
{
    for (int simulated = 0; simulated < 2; simulated++)
        for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++)
            for (size_t e = 0; e < ARRAY_LEN(errors); e++) {
                struct fault_fs fault = {0};
                struct bed bed;
                uint64_t turns = 0;
                FAULT_SWEEP_FS(&fault, k, kinds[kind].calls, errors[e])
                {
                    char why[128];
                    struct fault_fs_plan plan = fault.plan;
                    snprintf(why, sizeof why, "%s bed, %s number %d fails with %s",
                             simulated ? "simulated" : "real", kinds[kind].name, (int)k,
                             err_name(errors[e]));
                    bed_open(&bed, simulated);
                    fault_fs_init(&fault, bed.fs);
                    plan.partial = k % 2 ? 0 : 5;
                    fault_fs_arm(&fault, plan);
                    scenario(&bed, &fault, why, errors[e]);
                    sim_fs_close(bed.disk);
                    turns = k;
                }
                if (kinds[kind].calls == FAULT_FS_ANY)
                    CHECK("the sweep went to the end", turns > calls);
            }
}

/* -- the k-th call fails -- */

static void sweep_publish(struct bed *bed, struct fault_fs *fault, const char *why,
                          enum err injected)
{
    struct fault_fs_plan plan = fault->plan;
    fault_fs_disarm(fault);
    CHECK_OK("old", fs_publish(bed->fs, in(bed, "f"), STR("old content"), 0644, 1));
    fault_fs_arm(fault, plan);
    enum err err = fs_publish(fault_fs_fs(fault), in(bed, "f"), STR("the new content"), 0644, 2);
    fault_fs_disarm(fault);
    bool fired = fault_fs_fired(fault);
    CHECK(why, err == ERR_OK || fired);
    CHECK(why, err == ERR_OK || err == ERR_UNKNOWN || err == injected);
    bool new = err == ERR_OK || err == ERR_UNKNOWN;
    CHECK(why,
          has_content(bed->fs, in(bed, "f"), new ? STR("the new content") : STR("old content")));
    CHECK_SIZE(why, count_entries(bed->fs, bed->root), 1);
    CHECK_OK(why, fs_publish(bed->fs, in(bed, "f"), STR("next"), 0644, 3));
}

TEST(publishing_with_the_kth_call_failing)
{
    sweep_all(sweep_publish, 5);
}

static void sweep_read(struct bed *bed, struct fault_fs *fault, const char *why, enum err injected)
{
    struct fault_fs_plan plan = fault->plan;
    struct buf buf;
    buf_init(&buf, 1000);
    CHECK_OK("before", buf_append(&buf, STR("before ")));
    CHECK_OK("old", fs_publish(bed->fs, in(bed, "f"), STR("content"), 0644, 1));
    fault_fs_arm(fault, plan);
    enum err err = fs_read_whole(fault_fs_fs(fault), in(bed, "f"), 100, &buf);
    CHECK(why, err == (fault_fs_fired(fault) ? injected : ERR_OK));
    CHECK_STR(why, buf_peek(&buf), err ? STR("before ") : STR("before content"));
    buf_deinit(&buf);
}

TEST(reading_whole_with_the_kth_call_failing)
{
    sweep_all(sweep_read, 4);
}

static void sweep_make_dirs(struct bed *bed, struct fault_fs *fault, const char *why,
                            enum err injected)
{
    struct fs_info info;
    enum err err = fs_make_dirs(fault_fs_fs(fault), in(bed, "a/b/c"), 0755);
    CHECK(why, err == ERR_OK ? !fault_fs_fired(fault) : err == injected || err == ERR_UNKNOWN);
    fault_fs_disarm(fault);
    CHECK_OK(why, fs_make_dirs(bed->fs, in(bed, "a/b/c"), 0755));
    CHECK_OK(why, fs_stat(bed->fs, in(bed, "a/b/c"), &info));
    CHECK_U32(why, info.kind, FS_DIRECTORY);
}

TEST(making_directories_with_the_kth_call_failing)
{
    sweep_all(sweep_make_dirs, 10);
}

static void sweep_sweep(struct bed *bed, struct fault_fs *fault, const char *why, enum err injected)
{
    struct fault_fs_plan plan = fault->plan;
    struct fs_file *file;
    fault_fs_disarm(fault);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, ".f.0000000%d.tmp", i);
        CHECK_OK(why, fs_open(bed->fs, in(bed, name), FS_WRITE | FS_CREATE, 0644, &file));
        fs_close(bed->fs, file);
    }
    fault_fs_arm(fault, plan);
    enum err err = fs_sweep_temps(fault_fs_fs(fault), bed->root);
    CHECK(why, err == (fault_fs_fired(fault) ? injected : ERR_OK));
    CHECK(why, count_entries(bed->fs, bed->root) == 0 || err);
    CHECK_OK(why, fs_sweep_temps(bed->fs, bed->root));
    CHECK_SIZE(why, count_entries(bed->fs, bed->root), 0);
}

TEST(sweeping_with_the_kth_call_failing)
{
    sweep_all(sweep_sweep, 4);
}

static void sweep_lock(struct bed *bed, struct fault_fs *fault, const char *why, enum err injected)
{
    struct fs_lock *lock = NULL;
    struct note note = {""};
    enum err err = fs_lock_dir(fault_fs_fs(fault), bed->root, &lock, &note);
    CHECK(why, err == (fault_fs_fired(fault) ? injected : ERR_OK));
    CHECK(why, (lock != NULL) == (err == ERR_OK));
    if (err) CHECK_HAS(why, note.text, err_text(injected));
    fs_unlock(fault_fs_fs(fault), lock);
    CHECK_OK(why, fs_lock_dir(bed->fs, bed->root, &lock, NULL));
    fs_unlock(bed->fs, lock);
}

TEST(locking_with_the_kth_call_failing)
{
    sweep_all(sweep_lock, 1);
}

static void sweep_zero(struct bed *bed, struct fault_fs *fault, const char *why, enum err injected)
{
    struct fs_file *file;
    enum err err = fs_open(fault_fs_fs(fault), in(bed, "s"), FS_WRITE | FS_CREATE, 0644, &file);
    if (!err) {
        err = fs_allocate_zeroed(fault_fs_fs(fault), file, 0, 300000);
        fs_close(bed->fs, file);
    }
    CHECK(why, err == (fault_fs_fired(fault) ? injected : ERR_OK));
}

TEST(zeroing_with_the_kth_call_failing)
{
    sweep_all(sweep_zero, 6);
}

/* The wrapper itself: it counts the calls of its plan, and a call that fails has no effect. */
TEST(the_fault_file_system_fails_exactly_the_planned_call)
{
    struct fault_fs fault;
    struct fs_file *file;
    struct bed bed;
    bed_open(&bed, true);
    fault_fs_init(&fault, bed.fs);
    struct fs *fs = fault_fs_fs(&fault);
    CHECK_OK("open", fs_open(fs, in(&bed, "f"), FS_READ | FS_WRITE | FS_CREATE, 0644, &file));
    fault_fs_arm(&fault, (struct fault_fs_plan){
                             .calls = FAULT_FS_WRITE, .nth = 2, .err = ERR_NO_SPACE, .partial = 3});
    CHECK_OK("first", fs_write_at(fs, file, 0, STR("1")));
    CHECK("not yet", !fault_fs_fired(&fault));
    CHECK_ERR("second", fs_write_at(fs, file, 1, STR("23456")), ERR_NO_SPACE);
    CHECK("now", fault_fs_fired(&fault));
    CHECK("a part", has_content(bed.fs, in(&bed, "f"), STR("1234")));
    CHECK_OK("third", fs_write_at(fs, file, 4, STR("5")));
    fault_fs_arm(&fault, (struct fault_fs_plan){
                             .calls = FAULT_FS_ANY, .nth = 1, .err = ERR_IO, .from_then_on = true});
    CHECK_ERR("nothing works", fs_rename(fs, in(&bed, "f"), in(&bed, "g")), ERR_IO);
    CHECK_ERR("any more", fs_remove(fs, in(&bed, "f")), ERR_IO);
    CHECK_ERR("at all", fs_sync(fs, file), ERR_IO);
    fault_fs_disarm(&fault);
    CHECK_ERR("and that sync was final", fs_sync(fs, file), ERR_IO);
    CHECK_U64("all are counted", fault.total, 7);
    CHECK("nothing was done", has_content(bed.fs, in(&bed, "f"), STR("12345")));
    fs_close(fs, file);
    sim_fs_close(bed.disk);
}

/* -- the k-th allocation fails -- */

static void alloc_scenario(struct fs *fs, const char *root)
{
    char path[PATH_CAP], other[PATH_CAP], deep[PATH_CAP];
    struct fs_lock *lock = NULL;
    struct fs_file *file = NULL;
    struct buf buf;
    struct note note;
    snprintf(path, sizeof path, "%s/f", root);
    snprintf(other, sizeof other, "%s/g", root);
    snprintf(deep, sizeof deep, "%s/a/b", root);
    buf_init(&buf, 1000);
    enum err locked = fs_lock_dir(fs, root, &lock, &note);
    CHECK("lock", locked == ERR_OK || locked == ERR_NOMEM);
    enum err dirs = fs_make_dirs(fs, deep, 0755);
    CHECK("dirs", dirs == ERR_OK || dirs == ERR_NOMEM);
    enum err published = fs_publish(fs, path, STR("content"), 0644, 5);
    CHECK("publish", published == ERR_OK || published == ERR_NOMEM);
    enum err opened = fs_open(fs, path, FS_READ | FS_WRITE, 0, &file);
    CHECK("open",
          opened == ERR_OK || opened == ERR_NOMEM || (published && opened == ERR_NOT_FOUND));
    if (!opened) {
        enum err wrote = fs_write_at(fs, file, 7, STR(" and more"));
        CHECK("write", wrote == ERR_OK || wrote == ERR_NOMEM);
        enum err cut = fs_truncate(fs, file, 3);
        CHECK("truncate", cut == ERR_OK || cut == ERR_NOMEM);
        CHECK_OK("a sync takes no memory", fs_sync(fs, file));
    }
    enum err read = fs_read_whole(fs, path, 100, &buf);
    CHECK("read", read == ERR_OK || read == ERR_NOMEM || (published && read == ERR_NOT_FOUND));
    if (read) CHECK_SIZE("untouched", buf_peek(&buf).len, 0);
    enum err swept = fs_sweep_temps(fs, root);
    CHECK("sweep", swept == ERR_OK || swept == ERR_NOMEM);
    enum err moved = fs_rename(fs, path, other);
    CHECK("rename", moved == ERR_OK || moved == ERR_NOMEM || (published && moved == ERR_NOT_FOUND));
    enum err removed = fs_remove(fs, moved ? path : other);
    CHECK("remove",
          removed == ERR_OK || removed == ERR_NOMEM || (published && removed == ERR_NOT_FOUND));
    fs_close(fs, file);
    fs_unlock(fs, lock);
    buf_deinit(&buf);
}

TEST(the_real_file_system_with_the_kth_allocation_failing)
{
    FAULT_SWEEP_ALLOC(k)
    {
        char root[PATH_CAP];
        snprintf(root, sizeof root, "%s/alloc-%d", test_dir(), (int)k);
        CHECK("root", mkdir(root, 0755) == 0);
        alloc_scenario(fs_real(), root);
    }
}

struct walk {
    struct fs *fs;
    const char *dir;
    uint64_t bytes;
};

static void walk_entry(void *context, const char *name, enum fs_kind kind)
{
    struct walk *walk = context;
    char path[PATH_CAP];
    struct fs_info info;
    snprintf(path, sizeof path, "%s/%s", walk->dir, name);
    CHECK_OK(path, fs_stat(walk->fs, path, &info));
    walk->bytes += SIM_FS_NODE_BYTES + info.size;
    if (kind != FS_DIRECTORY) return;
    struct walk below = {.fs = walk->fs, .dir = path};
    CHECK_OK(path, fs_list(walk->fs, path, walk_entry, &below));
    walk->bytes += below.bytes;
}

/* A node that was created without a name would use memory that no walk finds. */
static void check_all_found(struct fs *fs)
{
    struct walk walk = {.fs = fs, .dir = "", .bytes = SIM_FS_NODE_BYTES};
    uint64_t left;
    CHECK_OK("list", fs_list(fs, "/", walk_entry, &walk));
    CHECK_OK("free", fs_free_bytes(fs, "/", &left));
    CHECK_U64("found and charged", walk.bytes, SIM_FS_CAPACITY_DEFAULT - left);
}

TEST(the_simulated_disk_with_the_kth_allocation_failing)
{
    FAULT_SWEEP_ALLOC(k)
    {
        const struct sim_fs_options options = {.write_torn_per_million = 500000};
        struct sim_fs *disk = NULL;
        struct prng prng;
        prng_seed(&prng, k);
        enum err err = sim_fs_open(&options, &prng, &disk);
        CHECK("disk", err == ERR_OK || err == ERR_NOMEM);
        if (err) continue;
        alloc_scenario(sim_fs_fs(disk), "/");
        sim_fs_crash(disk);
        check_all_found(sim_fs_fs(disk));
        sim_fs_close(disk);
    }
}

/* -- the power is cut between any two calls -- */

typedef enum err publish_fn(struct fs *fs, const char *path, struct str content, uint32_t mode,
                            uint64_t unique);

static struct str pattern(char *bytes, size_t len, uint64_t seed)
{
    struct prng prng;
    prng_seed(&prng, seed);
    prng_fill(&prng, bytes, len);
    return str_of(bytes, len);
}

/* The fault of the file after the restart, or NULL. `had_old`: the file existed before. */
static const char *verdict(struct fs *fs, enum err err, struct str old, struct str new,
                           bool had_old)
{
    struct fs_info info;
    bool is_new = has_content(fs, "/d/f", new);
    bool is_old =
        had_old ? has_content(fs, "/d/f", old) : fs_stat(fs, "/d/f", &info) == ERR_NOT_FOUND;
    if (!is_new && !is_old) return "neither the old content nor the new";
    if (err == ERR_OK && !is_new) return "ERR_OK, and the new content is gone";
    if (err != ERR_OK && err != ERR_UNKNOWN && !is_old)
        return "an error, and the new content is there";
    return NULL;
}

struct cut {
    uint64_t seed, boundary; /* the power goes before this call; 0: after the last */
    bool had_old, failing_disk;
};

static const char *cut_publish(publish_fn *publish, const struct cut *cut, bool *ret_fired)
{
    static char old_bytes[OLD_LEN], new_bytes[NEW_LEN];
    struct str old = pattern(old_bytes, OLD_LEN, cut->seed),
               new = pattern(new_bytes, NEW_LEN, ~cut->seed);
    struct sim_fs_options options = {
        .write_lost_per_million = 300000,
        .write_torn_per_million = 300000,
        .name_lost_per_million = 400000,
        .reorder_names = cut->seed % 2,
    };
    struct sim_fs *disk;
    struct fault_fs fault;
    struct prng prng;
    prng_seed(&prng, cut->seed);
    CHECK_OK("disk", sim_fs_open(&options, &prng, &disk));
    struct fs *fs = sim_fs_fs(disk);
    CHECK_OK("dir", fs_make_dirs(fs, "/d", 0755));
    if (cut->had_old) CHECK_OK("old", fs_publish(fs, "/d/f", old, 0644, 1));
    if (cut->failing_disk) {
        options.write_fails_per_million = options.sync_fails_per_million = 200000;
        options.failed_sync_drops_per_million = 700000;
        CHECK_OK("failing", sim_fs_set_options(disk, &options));
    }
    fault_fs_init(&fault, fs);
    if (cut->boundary)
        fault_fs_arm(&fault, (struct fault_fs_plan){.calls = FAULT_FS_ANY,
                                                    .nth = cut->boundary,
                                                    .err = ERR_IO,
                                                    .from_then_on = true});
    enum err err = publish(fault_fs_fs(&fault), "/d/f", new, 0644, 2);
    *ret_fired = fault_fs_fired(&fault);
    sim_fs_crash(disk);
    options.write_fails_per_million = options.sync_fails_per_million = 0;
    CHECK_OK("healthy", sim_fs_set_options(disk, &options));
    const char *wrong = verdict(fs, err, old, new, cut->had_old);
    if (!wrong && fs_sweep_temps(fs, "/d")) wrong = "what was left cannot be swept";
    if (!wrong && count_entries(fs, "/d") > 1) wrong = "something is left after the sweep";
    if (!wrong && fs_publish(fs, "/d/f", old, 0644, 2)) wrong = "the next process cannot publish";
    sim_fs_close(disk);
    return wrong;
}

/* The first fault over all seeds and boundaries, with the power cut that showed it; NULL when
 * none. */
static const char *hunt(publish_fn *publish, bool failing_disk, struct cut *ret_cut,
                        uint64_t *ret_cuts)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bool fired = true;
        for (uint64_t boundary = 1; fired; boundary++) {
            struct cut cut = {seed, boundary, seed % 3 != 0, failing_disk};
            const char *wrong = cut_publish(publish, &cut, &fired);
            ++*ret_cuts;
            *ret_cut = cut;
            if (wrong) return wrong;
        }
    }
    return NULL;
}

static void check_never_wrong(bool failing_disk)
{
    struct cut cut;
    uint64_t cuts = 0;
    char why[160];
    const char *wrong = hunt(fs_publish, failing_disk, &cut, &cuts);
    snprintf(why, sizeof why, "seed %d, power cut before call %d: %s", (int)cut.seed,
             (int)cut.boundary, wrong ? wrong : "");
    CHECK(why, wrong == NULL);
    CHECK("each of the five calls of a publish was a boundary", cuts >= SEEDS * 5 || failing_disk);
}

TEST(a_power_cut_at_any_call_leaves_the_old_content_or_the_new)
{
    check_never_wrong(false);
}

TEST(a_power_cut_on_a_failing_disk_leaves_the_old_content_or_the_new)
{
    check_never_wrong(true);
}

/* -- planted mistakes: faulty variants of publish -- */

static enum err put_temp(struct fs *fs, struct str content, bool sync)
{
    struct fs_file *file;
    enum err err =
        fs_open(fs, "/d/.f.00000002.tmp", FS_WRITE | FS_CREATE | FS_EXCLUSIVE, 0644, &file);
    if (err) return err;
    err = fs_write_at(fs, file, 0, content);
    if (!err && sync) err = fs_sync(fs, file);
    fs_close(fs, file);
    return err;
}

static enum err publish_without_sync(struct fs *fs, const char *path, struct str content,
                                     uint32_t mode, uint64_t unique)
{
    (void)mode, (void)unique;
    enum err err = put_temp(fs, content, false);
    if (!err) err = fs_rename(fs, "/d/.f.00000002.tmp", path);
    if (err) return err;
    return fs_sync_dir(fs, "/d") ? ERR_UNKNOWN : ERR_OK;
}

static enum err publish_without_sync_dir(struct fs *fs, const char *path, struct str content,
                                         uint32_t mode, uint64_t unique)
{
    (void)mode, (void)unique;
    enum err err = put_temp(fs, content, true);
    return err ? err : fs_rename(fs, "/d/.f.00000002.tmp", path);
}

static enum err publish_in_place(struct fs *fs, const char *path, struct str content, uint32_t mode,
                                 uint64_t unique)
{
    (void)unique;
    struct fs_file *file;
    enum err err = fs_open(fs, path, FS_WRITE | FS_CREATE | FS_TRUNCATE, mode, &file);
    if (err) return err;
    err = fs_write_at(fs, file, 0, content);
    if (!err) err = fs_sync(fs, file);
    fs_close(fs, file);
    return err || fs_sync_dir(fs, "/d") ? ERR_UNKNOWN : ERR_OK;
}

static enum err publish_removing_first(struct fs *fs, const char *path, struct str content,
                                       uint32_t mode, uint64_t unique)
{
    (void)mode, (void)unique;
    enum err err = put_temp(fs, content, true);
    if (err) return err;
    (void)fs_remove(fs, path);
    err = fs_rename(fs, "/d/.f.00000002.tmp", path);
    return err || fs_sync_dir(fs, "/d") ? ERR_UNKNOWN : ERR_OK;
}

static enum err publish_certain_after_rename(struct fs *fs, const char *path, struct str content,
                                             uint32_t mode, uint64_t unique)
{
    (void)mode, (void)unique;
    enum err err = put_temp(fs, content, true);
    if (!err) err = fs_rename(fs, "/d/.f.00000002.tmp", path);
    return err ? err : fs_sync_dir(fs, "/d"); /* ERR_IO: "not done", though it may be */
}

/* A new handle evades the rule that a failed sync is final. */
static enum err publish_syncing_again(struct fs *fs, const char *path, struct str content,
                                      uint32_t mode, uint64_t unique)
{
    (void)mode, (void)unique;
    struct fs_file *file;
    enum err err = put_temp(fs, content, false);
    for (int tries = 0; !err && tries < 10; tries++) {
        err = fs_open(fs, "/d/.f.00000002.tmp", FS_WRITE, 0, &file);
        if (err) return err;
        bool synced = fs_sync(fs, file) == ERR_OK;
        fs_close(fs, file);
        if (!synced) continue;
        err = fs_rename(fs, "/d/.f.00000002.tmp", path);
        if (err) return err;
        return fs_sync_dir(fs, "/d") ? ERR_UNKNOWN : ERR_OK;
    }
    return err ? err : ERR_IO;
}

static const struct {
    const char *why;
    publish_fn *publish;
    bool failing_disk;
    const char *caught;
} planted[] = {
    {"no sync before the rename", publish_without_sync, false,
     "neither the old content nor the new"},
    {"no sync of the directory", publish_without_sync_dir, false,
     "ERR_OK, and the new content is gone"},
    {"written in place", publish_in_place, false, "neither the old content nor the new"},
    {"removed first", publish_removing_first, false, "neither the old content nor the new"},
    {"doubt reported as no", publish_certain_after_rename, false,
     "an error, and the new content is there"},
    {"a failed sync tried again", publish_syncing_again, true,
     "neither the old content nor the new"},
};

TEST(the_checker_catches_every_planted_mistake)
{
    for (size_t i = 0; i < ARRAY_LEN(planted); i++) {
        struct cut cut;
        uint64_t cuts = 0;
        const char *wrong = hunt(planted[i].publish, planted[i].failing_disk, &cut, &cuts);
        CHECK(planted[i].why, wrong != NULL);
        CHECK_TEXT(planted[i].why, wrong, planted[i].caught);
    }
}

/* -- directories: death half-way, a second try, then the power cut -- */

typedef enum err make_dirs_fn(struct fs *fs, const char *path, uint32_t mode);

/* The process is killed before call k of the first try (the kernel lives), and the next process
 * repeats the call. When that returns ERR_OK, the directories, and files published in them, are
 * durable. */
static bool dirs_survive(make_dirs_fn *make_dirs, uint64_t seed, uint64_t k, bool *ret_fired)
{
    const struct sim_fs_options options = {.name_lost_per_million = 600000, .reorder_names = true};
    struct sim_fs *disk;
    struct fault_fs fault;
    struct prng prng;
    prng_seed(&prng, seed);
    CHECK_OK("disk", sim_fs_open(&options, &prng, &disk));
    struct fs *fs = sim_fs_fs(disk);
    fault_fs_init(&fault, fs);
    fault_fs_arm(&fault, (struct fault_fs_plan){
                             .calls = FAULT_FS_ANY, .nth = k, .err = ERR_IO, .from_then_on = true});
    (void)make_dirs(fault_fs_fs(&fault), "/a/b/c", 0755);
    *ret_fired = fault_fs_fired(&fault);
    sim_fs_process_died(disk);
    CHECK_OK("the next process", make_dirs(fs, "/a/b/c", 0755));
    CHECK_OK("publish", fs_publish(fs, "/a/b/c/f", STR("x"), 0644, 1));
    sim_fs_crash(disk);
    bool survived = has_content(fs, "/a/b/c/f", STR("x"));
    sim_fs_close(disk);
    return survived;
}

static bool dirs_always_survive(make_dirs_fn *make_dirs)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bool fired = true;
        for (uint64_t k = 1; fired; k++)
            if (!dirs_survive(make_dirs, seed, k, &fired)) return false;
    }
    return true;
}

/* Planted mistake: existing directories count as durable. */
static enum err make_dirs_trusting(struct fs *fs, const char *path, uint32_t mode)
{
    static const char *const levels[] = {"/a", "/a/b", "/a/b/c"}, *const above[] = {"/", "/a",
                                                                                    "/a/b"};
    (void)path;
    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        enum err err = fs_make_dir(fs, levels[i], mode);
        if (err == ERR_EXISTS) continue;
        if (!err) err = fs_sync_dir(fs, above[i]);
        if (err) return err;
    }
    return ERR_OK;
}

TEST(directories_survive_although_their_first_maker_was_killed)
{
    CHECK("in every seed, at every call", dirs_always_survive(fs_make_dirs));
    CHECK("and the check can fail", !dirs_always_survive(make_dirs_trusting));
}
