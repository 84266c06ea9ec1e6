/* SPDX-License-Identifier: Apache-2.0 */
/* D8: leftovers, damaged files, full and failing disks, other boots, copies. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "lib/hosts.h"
#include "lib/test.h"
#include "prim/file/lease_file.h"
#include "prim/file/store.h"

static const uint8_t boot_two[16] = {2}, boot_three[16] = {3};

static void path_of(const char *dir, const char *below, char path[700])
{
    (void)snprintf(path, 700, "%s/%s", dir, below);
}

static void put_file(const char *dir, const char *below, const char *text)
{
    char path[700];
    path_of(dir, below, path);
    FILE *file = fopen(path, "we");
    CHECK("a file is made", file != NULL);
    (void)fputs(text, file);
    (void)fclose(file);
}

static bool is_there(const char *dir, const char *below)
{
    char path[700];
    struct stat info;
    path_of(dir, below, path);
    return stat(path, &info) == 0;
}

TEST(I03_I04_a_stray_temporary_file_goes_with_its_process_and_is_never_seen)
{
    struct rig rig;
    char dead[80], alive[80], foreign[80];
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    CHECK_ANSWER("made", rig_create(&rig, "a/k", "1", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    const uint8_t *boot = rig.store->facts.boot_id.b;
    (void)snprintf(dead, sizeof dead, "b/a/t/%02x%02x%02x%02x.4194300.1.7", boot[0], boot[1],
                   boot[2], boot[3]);
    (void)snprintf(alive, sizeof alive, "b/a/t/%02x%02x%02x%02x.%u.%llu.7", boot[0], boot[1],
                   boot[2], boot[3], rig.store->facts.self.pid,
                   (unsigned long long)rig.store->facts.self.start_ticks);
    (void)snprintf(foreign, sizeof foreign, "b/a/t/00000000.1.1.1");
    put_file(dir, dead, "torn");
    put_file(dir, alive, "torn");
    put_file(dir, foreign, "torn");
    struct gc_report report = gc_run(rig.store, NULL);
    CHECK_U32("two go", report.temps, 2);
    CHECK("not that of a living process", is_there(dir, alive));
    CHECK_ANSWER("the entry is unchanged", rig_get(&rig, "a/k", NULL, 0), COORD_OK, COORD_R_NONE);
    rig_close(&rig);
}

static void all_refuse(struct rig *rig, const char *why)
{
    CHECK_ANSWER(why, rig_get(rig, "a/k", NULL, 0), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    CHECK_ANSWER(why, rig_create(rig, "a/k", "2", 0, "", NULL), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    CHECK_ANSWER(why, rig_remove(rig, "a/k", COORD_FORCE, NULL), COORD_UNAVAILABLE,
                 COORD_R_CORRUPT);
}

TEST(I05_I06_I07_a_damaged_head_is_never_a_value_and_never_absent)
{
    struct rig rig;
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    CHECK_ANSWER("made", rig_create(&rig, "a/k", "value", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    long size = rig_file_size(dir, "b/a/h/k");
    for (long cut = 0; cut < size; cut += 7) {
        char path[700];
        path_of(dir, "b/a/h/k", path);
        char bytes[256];
        int fd = open(path, O_RDWR | O_CLOEXEC);
        CHECK("read", pread(fd, bytes, sizeof bytes, 0) == size);
        CHECK("cut", ftruncate(fd, cut) == 0);
        all_refuse(&rig, "cut short");
        CHECK("restored", pwrite(fd, bytes, (size_t)size, 0) == size);
        (void)close(fd);
    }
    for (long at = 0; at < size; at++) {
        unsigned char mask = (unsigned char)(1u << (at % 8));
        rig_flip(dir, "b/a/h/k", at, mask);
        CHECK_ANSWER("one bit", rig_get(&rig, "a/k", NULL, 0), COORD_UNAVAILABLE, COORD_R_CORRUPT);
        rig_flip(dir, "b/a/h/k", at, mask);
    }
    rig_truncate(dir, "b/a/h/k", size + 1);
    all_refuse(&rig, "one byte too long");
    rig_truncate(dir, "b/a/h/k", 3000000);
    all_refuse(&rig, "far too long");
    rig_truncate(dir, "b/a/h/k", size);
    CHECK_ANSWER("restored", rig_get(&rig, "a/k", NULL, 0), COORD_OK, COORD_R_NONE);
    rig_close(&rig);
}

static void lease_name(const struct rig_lease *lease, char name[64])
{
    char id[PRIM_ID_TEXT_CAP];
    prim_id_text(&lease->grant.lease_id, id);
    (void)snprintf(name, 64, "s/%s", id);
}

/* The holder cannot renew; a contender waits a full TTL from when it first saw the damage. */
static void check_lost_record(const char *dir, bool delete)
{
    struct rig holder, other;
    struct rig_lease lease, next;
    char name[64], path[700];
    file_hooks.no_collector = true;
    rig_open(&holder, dir, "");
    rig_open(&other, dir, "");
    CHECK_ANSWER("held", rig_create(&holder, "a/k", "1", 1000, "a", &lease), COORD_OK,
                 COORD_R_CREATED);
    rig_sleep_ms(600);
    lease_name(&lease, name);
    path_of(dir, name, path);
    if (delete) {
        CHECK("removed by hand", unlink(path) == 0);
    } else {
        rig_flip(dir, name, 50, 4);
    }
    int64_t seen = prim_boottime_ns(NULL);
    CHECK_ANSWER("held", rig_create(&other, "a/k", "2", 1000, "b", &next), COORD_EXISTS,
                 COORD_R_HELD);
    CHECK_ANSWER("no renewal", rig_renew(&holder, &lease), COORD_EXPIRED, COORD_R_REVOKED);
    coord_result got;
    do {
        rig_sleep_ms(20);
        got = rig_create(&other, "a/k", "2", 60000, "b", &next);
    } while (got.code == COORD_EXISTS);
    CHECK_ANSWER("taken", got, COORD_OK, COORD_R_CREATED);
    CHECK("no earlier", prim_boottime_ns(NULL) - seen >= 1000 * NS_IN_MS);
    rig_close(&holder);
    rig_close(&other);
}

TEST(I08_a_damaged_lease_record_is_waited_out)
{
    check_lost_record(rig_dir(), false);
}

TEST(I09_a_missing_lease_record_is_waited_out)
{
    check_lost_record(rig_dir(), true);
}

TEST(I10_I11_every_failing_call_leaves_the_old_state_and_no_temporary_file)
{
    static const enum file_step steps[] = {STEP_S7,       STEP_S7_CREATED, STEP_S8,
                                           STEP_S8_WRITE, STEP_S10,        STEP_S10_LINKED};
    static const int errors[] = {ENOSPC, EDQUOT, EIO, EROFS};
    struct rig rig;
    struct rig_lease lease;
    char value[16];
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    coord_result made = rig_create(&rig, "a/k", "old", 0, "", NULL);
    for (size_t named = 0; named < 2; named++) {
        file_hooks.no_unnamed = named == 1;
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
            for (size_t e = 0; e < ARRAY_LEN(errors); e++) {
                bool publishing = steps[i] >= STEP_S10;
                step_arm(steps[i], errors[e]);
                coord_result got = steps[i] < STEP_S8
                                       ? rig_create(&rig, "a/leased", "1", 60000, "me", &lease)
                                       : rig_cas(&rig, "a/k", made.revision, "new", -1, NULL, NULL);
                step_disarm();
                CHECK("it was reached", step_reached());
                CHECK_ANSWER("storage", got, COORD_UNAVAILABLE, COORD_R_STORAGE);
                CHECK_U32("unclear only once it may be visible", got.flags & COORD_F_MAYBE_APPLIED,
                          publishing ? COORD_F_MAYBE_APPLIED : 0);
                CHECK_ANSWER("read", rig_get(&rig, "a/k", value, sizeof value), COORD_OK,
                             COORD_R_NONE);
                CHECK_TEXT("the old state", value, "old");
                CHECK_I64("no temporary file", rig_count(dir, "b/a/t"), 0);
                CHECK_I64("no record", rig_count(dir, "s"), 0);
            }
        }
    }
    file_hooks.no_unnamed = false;
    rig_close(&rig);
}

TEST(I11_the_same_call_again_after_a_failed_publication_is_a_call_like_any_other)
{
    struct rig rig;
    struct rig_lease lease;
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "sync=always");
    static const enum file_step steps[] = {STEP_S8_WRITE, STEP_S10};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        for (int slot = 0; slot < 2; slot++) {
            const coord_id request = prim_id_request(), id = prim_id_random();
            char name[32];
            (void)snprintf(name, sizeof name, "a/n%zu-%d", i, slot);
            if (slot == 1) { (void)rig_acquire(&rig, name, 2, "other", 60000, 0, &lease); }
            for (int attempt = 0; attempt < 2; attempt++) {
                rig.request = request;
                rig.lease_id = id;
                rig.attempt = (uint32_t)attempt;
                if (attempt == 0) { step_arm(steps[i], ENOSPC); }
                coord_result got = slot == 0 ? rig_create(&rig, name, "1", 60000, "me", &lease)
                                             : rig_acquire(&rig, name, 2, "me", 60000, 0, &lease);
                step_disarm();
                CHECK_I64("failed, then done", got.code,
                          attempt == 0 ? COORD_UNAVAILABLE : COORD_OK);
            }
            CHECK_ANSWER("and it lives", rig_renew(&rig, &lease), COORD_OK, COORD_R_RENEWED);
            rig.attempt = 0;
        }
    }
    rig_close(&rig);
}

TEST(I10_a_disk_that_is_really_full)
{
    char reason[200], mount[600], path[700];
    struct rig rig;
    struct rig_lease lease;
    (void)snprintf(mount, sizeof mount, "%s/disk", test_dir());
    CHECK("a mount point", mkdir(mount, 0700) == 0);
    pid_t pid = fork(); /* the sandbox ends with the child */
    if (pid == 0) {
        if (!sandbox_enter(reason, sizeof reason)) { _exit(77); }
        const char *kind = disk_mount(mount, 16 << 20, reason, sizeof reason);
        if (kind == NULL) { _exit(77); }
        (void)fprintf(stderr, "# a full %s\n", kind);
        file_hooks.no_collector = true;
        (void)snprintf(path, sizeof path, "%s/store", mount);
        rig_open(&rig, path, "");
        static char big[65536];
        memset(big, 'x', sizeof big - 1);
        CHECK_ANSWER("made", rig_create(&rig, "a/k", "old", 0, "", NULL), COORD_OK,
                     COORD_R_CREATED);
        CHECK_ANSWER("held", rig_create(&rig, "a/l", "1", 60000, "me", &lease), COORD_OK,
                     COORD_R_CREATED);
        coord_result got = {0};
        char key[32];
        for (int i = 0; i < 2000 && got.code == COORD_OK; i++) {
            (void)snprintf(key, sizeof key, "a/fill-%d", i);
            got = rig_create(&rig, key, big, 0, "", NULL);
        }
        CHECK_ANSWER("full", got, COORD_UNAVAILABLE, COORD_R_STORAGE);
        CHECK_ANSWER("absent", rig_get(&rig, key, NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
        CHECK_ANSWER("a lease is still renewed", rig_renew(&rig, &lease), COORD_OK,
                     COORD_R_RENEWED);
        CHECK_ANSWER("and read", rig_get(&rig, "a/k", NULL, 0), COORD_OK, COORD_R_NONE);
        CHECK_I64("no temporary file", rig_count(path, "b/a/t"), 0);
        rig_close(&rig);
        disk_unmount(mount);
        _exit(0);
    }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("no disk of our own can be mounted here"); }
    CHECK_I64("as it should", ended, 0);
}

TEST(I13_a_file_system_that_becomes_read_only)
{
    char reason[200], mount_point[600], path[700];
    struct rig rig;
    struct rig_lease lease;
    (void)snprintf(mount_point, sizeof mount_point, "%s/readonly", test_dir());
    CHECK("a mount point", mkdir(mount_point, 0700) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (!sandbox_enter(reason, sizeof reason)) { _exit(77); }
        if (disk_mount(mount_point, 16 << 20, reason, sizeof reason) == NULL) { _exit(77); }
        file_hooks.no_collector = true;
        (void)snprintf(path, sizeof path, "%s/store", mount_point);
        rig_open(&rig, path, "");
        (void)rig_create(&rig, "a/k", "old", 0, "", NULL);
        if (mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY | MS_BIND, NULL) < 0) {
            _exit(77);
        }
        CHECK_ANSWER("no lease", rig_create(&rig, "a/l", "1", 60000, "me", &lease),
                     COORD_UNAVAILABLE, COORD_R_STORAGE);
        CHECK_ANSWER("no entry", rig_create(&rig, "b/n", "1", 0, "", NULL), COORD_UNAVAILABLE,
                     COORD_R_STORAGE);
        CHECK_ANSWER("no change", rig_remove(&rig, "a/k", COORD_ANY, NULL), COORD_UNAVAILABLE,
                     COORD_R_STORAGE);
        CHECK_ANSWER("it is read", rig_get(&rig, "a/k", NULL, 0), COORD_OK, COORD_R_NONE);
        rig_close(&rig);
        struct rig late = {0};
        CHECK_ANSWER("nor opened", rig_try(&late, path, ""), COORD_UNAVAILABLE, COORD_R_STORAGE);
        _exit(0);
    }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("no disk of our own can be mounted here"); }
    CHECK_I64("as it should", ended, 0);
}

static char intruder[700];
static int intrude(void *arg, enum file_step step)
{
    (void)arg;
    if (step == STEP_S10) {
        int fd = open(intruder, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0) { (void)close(fd); }
    }
    return 0;
}

TEST(a_head_that_appears_while_its_key_is_locked_is_reported_and_left)
{
    struct rig rig;
    struct rig_lease lease;
    for (int named = 0; named < 2; named++) {
        const char *dir = rig_dir();
        file_hooks.no_collector = true;
        file_hooks.no_unnamed = named == 1;
        rig_open(&rig, dir, "");
        (void)rig_create(&rig, "a/first", "1", 0, "", NULL);
        path_of(dir, "b/a/h/k", intruder);
        file_hooks.step = intrude;
        coord_result got = rig_create(&rig, "a/k", "1", 60000, "me", &lease);
        file_hooks.step = NULL;
        CHECK_ANSWER("the lock did not hold", got, COORD_UNAVAILABLE, COORD_R_LOCK_VIOLATION);
        CHECK_I64("left as it is", rig_file_size(dir, "b/a/h/k"), 0);
        CHECK_I64("no record", rig_count(dir, "s"), 0);
        CHECK_I64("no temporary file", rig_count(dir, "b/a/t"), 0);
        rig_close(&rig);
    }
    file_hooks.no_unnamed = false;
}

TEST(I12_a_failed_sync_is_final_for_the_store_object)
{
    static const enum file_step steps[] = {STEP_S9, STEP_S11};
    struct rig rig;
    struct rig_lease lease;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        const char *dir = rig_dir();
        rig_open(&rig, dir, "");
        (void)rig_create(&rig, "a/l", "1", 60000, "me", &lease);
        step_arm(steps[i], EIO);
        coord_result got = rig_create(&rig, "a/k", "1", 0, "", NULL);
        step_disarm();
        CHECK_ANSWER("failed", got, COORD_UNAVAILABLE, COORD_R_STORAGE);
        CHECK_U32("unclear when it is visible", got.flags & COORD_F_MAYBE_APPLIED, i);
        CHECK_I64("the host learns it", atomic_load(&rig.degraded), 1);
        CHECK_ANSWER("nothing after it", rig_create(&rig, "a/m", "1", 0, "", NULL),
                     COORD_UNAVAILABLE, COORD_R_DEGRADED);
        CHECK_ANSWER("no renewal", rig_renew(&rig, &lease), COORD_UNAVAILABLE, COORD_R_DEGRADED);
        CHECK_ANSWER("no reading", rig_get(&rig, "a/l", NULL, 0), COORD_UNAVAILABLE,
                     COORD_R_DEGRADED);
        CHECK("the capabilities say so", atomic_load(&rig.backend->degraded));
        rig_close(&rig);
        rig_open(&rig, dir, "");
        CHECK_ANSWER("another object works", rig_create(&rig, "a/m", "1", 0, "", NULL), COORD_OK,
                     COORD_R_CREATED);
        rig_close(&rig);
    }
}

TEST(I15_after_a_boot_all_leases_are_over_and_every_revision_is_larger)
{
    struct rig rig;
    struct rig_lease lease, next;
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    coord_result kept = rig_create(&rig, "a/kept", "1", 0, "", NULL);
    coord_result leased = rig_create(&rig, "a/leased", "1", 3600000, "me", &lease);
    rig_close(&rig);
    file_hooks.boot_id = boot_two;
    rig_open(&rig, dir, "");
    CHECK_U64("the next epoch", rig.store->epoch, 2);
    CHECK_ANSWER("kept", rig_get(&rig, "a/kept", NULL, 0), COORD_OK, COORD_R_NONE);
    CHECK_ANSWER("over", rig_get(&rig, "a/leased", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_ANSWER("no renewal", rig_renew(&rig, &lease), COORD_EXPIRED, COORD_R_DEADLINE);
    coord_result again = rig_create(&rig, "a/leased", "2", 60000, "you", &next);
    CHECK_ANSWER("taken", again, COORD_OK, COORD_R_CREATED);
    CHECK("larger than anything of the old boot",
          again.revision >= UINT64_C(2) << 40 && again.revision > leased.revision);
    coord_result changed = rig_cas(&rig, "a/kept", kept.revision, "2", -1, NULL, NULL);
    CHECK("this too", changed.revision >= UINT64_C(2) << 40);
    rig_close(&rig);
    file_hooks.boot_id = NULL; /* J23: another host, and back */
    rig_open(&rig, dir, "");
    CHECK_U64("each change of boot is an epoch", rig.store->epoch, 3);
    rig_close(&rig);
}

static void die_opening(void *arg)
{
    struct rig rig = {0};
    file_hooks.boot_id = boot_two;
    step_arm(*(enum file_step *)((void **)arg)[1], AT_KILL);
    (void)rig_try(&rig, ((void **)arg)[0], "");
}

TEST(I16_killed_while_an_epoch_begins_the_store_opens_and_no_epoch_is_used_twice)
{
    for (enum file_step step = STEP_EPOCH_TEMP; step <= STEP_EPOCH_DONE; step++) {
        struct rig rig;
        const char *dir = rig_dir();
        void *arg[] = {(void *)(uintptr_t)dir, &step};
        file_hooks.no_collector = true;
        rig_open(&rig, dir, "");
        coord_result before = rig_create(&rig, "a/k", "1", 0, "", NULL);
        rig_close(&rig);
        CHECK_I64("killed", child_wait(child_start(die_opening, arg)), -9);
        file_hooks.boot_id = boot_three;
        rig_open(&rig, dir, "");
        file_hooks.boot_id = NULL;
        CHECK_U64("2 was used or it was not", rig.store->epoch, step == STEP_EPOCH_DONE ? 3 : 2);
        coord_result after = rig_cas(&rig, "a/k", before.revision, "2", -1, NULL, NULL);
        CHECK("larger", after.revision >= rig.store->epoch << 40);
        rig_close(&rig);
    }
}

TEST(I21_I22_a_torn_head_is_moved_away_only_when_it_was_never_synced)
{
    struct rig rig;
    struct rig_lease lease, next;
    char value[16];
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/kept", "1", 0, "", NULL);
    (void)rig_create(&rig, "a/rotten", "1", 0, "", NULL);
    coord_result torn = rig_create(&rig, "a/torn", "1", 60000, "me", &lease);
    (void)rig_create(&rig, "a/empty", "1", 60000, "me", &lease);
    rig_flip(dir, "b/a/h/rotten", 20, 1);
    rig_truncate(dir, "b/a/h/torn", 100);
    rig_truncate(dir, "b/a/h/empty", 0);
    CHECK_ANSWER("in the same boot any damage is damage", rig_get(&rig, "a/torn", NULL, 0),
                 COORD_UNAVAILABLE, COORD_R_CORRUPT);
    rig_close(&rig);
    file_hooks.boot_id = boot_two;
    rig_open(&rig, dir, "");
    CHECK_I64("two are moved", rig_count(dir, "lost"), 2);
    CHECK_HAS("and reported", rig.backend->ops->capabilities(rig.backend).note, "2 torn");
    CHECK_ANSWER("absent", rig_get(&rig, "a/torn", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    coord_result anew = rig_create(&rig, "a/torn", "2", 60000, "you", &next);
    CHECK_ANSWER("free", anew, COORD_OK, COORD_R_CREATED);
    CHECK("larger", anew.revision > torn.revision);
    CHECK_ANSWER("never absent", rig_get(&rig, "a/rotten", NULL, 0), COORD_UNAVAILABLE,
                 COORD_R_CORRUPT);
    CHECK_ANSWER("never absent", rig_create(&rig, "a/rotten", "2", 0, "", NULL), COORD_UNAVAILABLE,
                 COORD_R_CORRUPT);
    CHECK_ANSWER("intact", rig_get(&rig, "a/kept", value, sizeof value), COORD_OK, COORD_R_NONE);
    rig_close(&rig);
    file_hooks.boot_id = NULL;
}

TEST(I17_collected_tombstones_never_give_a_revision_back)
{
    struct rig rig;
    char key[32];
    uint64_t last[50] = {0};
    const char *dir = rig_memory_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "tombstone_keep=0s");
    for (int round = 0; round < 6; round++) {
        unsigned collected = 0;
        for (int i = 0; i < 50; i++) {
            (void)snprintf(key, sizeof key, "a/k%d", i);
            coord_result made = rig_create(&rig, key, "1", 0, "", NULL);
            CHECK_ANSWER("made", made, COORD_OK, COORD_R_CREATED);
            CHECK("larger than ever", made.revision > last[i]);
            coord_result gone = rig_remove(&rig, key, made.revision, NULL);
            last[i] = gone.revision;
        }
        CHECK_ANSWER("one lives", rig_create(&rig, "a/alive", "1", 0, "", NULL),
                     round == 0 ? COORD_OK : COORD_EXISTS,
                     round == 0 ? COORD_R_CREATED : COORD_R_HELD);
        collected = gc_run(rig.store, NULL).heads;
        CHECK_U32("all tombstones", collected, 50);
        CHECK_I64("only the living head", rig_count(dir, "b/a/h"), 1);
        CHECK_I64("its lock and the bucket's", rig_count(dir, "b/a/l"), 2);
    }
    rig_close(&rig);
    rig_open(&rig, dir, "tombstone_keep=0s");
    coord_result made = rig_create(&rig, "a/k7", "1", 0, "", NULL);
    CHECK("after a reopening too", made.revision > last[7]);
    rig_close(&rig);
}

TEST(I17_an_expired_entry_is_collected_and_its_revision_is_not_used_again)
{
    struct rig rig;
    struct rig_lease lease;
    const char *dir = rig_memory_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "tombstone_keep=0s");
    coord_result made = rig_create(&rig, "a/k", "1", 1000, "me", &lease);
    CHECK_U32("not while it lives", gc_run(rig.store, NULL).heads, 0);
    rig_sleep_ms(1050);
    CHECK_U32("then", gc_run(rig.store, NULL).heads, 1);
    coord_result again = rig_create(&rig, "a/k", "1", 60000, "you", &lease);
    CHECK("past the number of its expiry", again.revision > made.revision + 1);
    rig_close(&rig);
}

static int rounds_seen(const char *dir)
{
    return rig_count(dir, "b/a/h") == 0 ? 1 : 0;
}

TEST(the_collector_runs_by_itself_and_once_for_all_processes)
{
    struct rig rig, other;
    const char *dir = rig_memory_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "tombstone_keep=0s");
    for (int round = 0; round < 2; round++) {
        (void)rig_create(&rig, "a/k", "1", 0, "", NULL);
        (void)rig_remove(&rig, "a/k", COORD_ANY, NULL);
        file_hooks.no_collector = false;
        rig_open(&other, dir, "tombstone_keep=0s"); /* its first round comes at once */
        file_hooks.no_collector = true;
        for (int i = 0; i < (round == 0 ? 1000 : 50) && !rounds_seen(dir); i++) {
            rig_sleep_ms(10);
        }
        CHECK_I64("the first collects; the second has nothing to do for half a minute",
                  rounds_seen(dir), round == 0 ? 1 : 0);
        rig_close(&other);
    }
    rig_close(&rig);
}

TEST(A16_killed_between_floor_and_removal_a_revision_is_not_used_again)
{
    static const enum file_step steps[] = {STEP_GC_FLOOR, STEP_GC_FLOOR_DONE, STEP_GC_HEAD,
                                           STEP_GC_LOCK};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct rig rig;
        const char *dir = rig_memory_dir();
        file_hooks.no_collector = true;
        rig_open(&rig, dir, "tombstone_keep=0s");
        coord_result made = rig_create(&rig, "a/k", "1", 0, "", NULL);
        coord_result gone = rig_remove(&rig, "a/k", made.revision, NULL);
        pid_t pid = fork();
        if (pid == 0) {
            struct rig mine = {0};
            if (rig_try(&mine, dir, "tombstone_keep=0s").code != COORD_OK) { _exit(1); }
            step_arm(steps[i], AT_KILL);
            (void)gc_run(mine.store, NULL);
            _exit(0);
        }
        CHECK_I64("killed", child_wait(pid), -9);
        coord_result again = rig_create(&rig, "a/k", "2", 0, "", NULL);
        CHECK_ANSWER("made", again, COORD_OK, COORD_R_CREATED);
        CHECK("larger", again.revision > gone.revision);
        rig_close(&rig);
    }
}

TEST(I19_the_root_is_removed_under_a_running_store)
{
    struct rig rig;
    struct rig_lease lease;
    char command[800];
    const char *dir = rig_dir();
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/k", "1", 60000, "me", &lease);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK("removed", system(command) == 0);
    CHECK_ANSWER("no write", rig_create(&rig, "a/m", "1", 0, "", NULL), COORD_UNAVAILABLE,
                 COORD_R_STORAGE);
    CHECK_ANSWER("no read", rig_get(&rig, "a/k", NULL, 0), COORD_UNAVAILABLE, COORD_R_STORAGE);
    CHECK_ANSWER("no renewal", rig_renew(&rig, &lease), COORD_EXPIRED, COORD_R_REVOKED);
    CHECK("nothing was made", !is_there(dir, ""));
    rig_close(&rig);
}

TEST(F06_a_copy_of_a_store_is_another_store)
{
    struct rig rig, copy;
    char command[1600], value[16];
    const char *dir = rig_dir(), *other = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/k", "1", 0, "", NULL);
    coord_id id = rig.backend->id;
    rig_close(&rig);
    (void)snprintf(command, sizeof command, "cp -a '%s' '%s'", dir, other);
    CHECK("copied", system(command) == 0);
    rig_open(&copy, other, "");
    CHECK("another id", !prim_id_equal(&id, &copy.backend->id));
    CHECK_U64("and epoch", copy.store->epoch, 2);
    CHECK_ANSWER("the same entries", rig_get(&copy, "a/k", value, sizeof value), COORD_OK,
                 COORD_R_NONE);
    coord_id copied = copy.backend->id;
    rig_close(&copy);
    rig_open(&copy, other, "");
    CHECK("which it keeps", prim_id_equal(&copied, &copy.backend->id));
    rig_close(&copy);
    rig_open(&rig, dir, ""); /* J24 */
    CHECK("the first keeps its own", prim_id_equal(&id, &rig.backend->id));
    rig_close(&rig);
}

TEST(a_foreign_directory_is_not_turned_into_a_store)
{
    struct rig rig = {0};
    char path[700];
    const char *dir = rig_dir();
    CHECK("a directory", mkdir(dir, 0700) == 0);
    put_file(dir, "precious.txt", "mine");
    CHECK_ANSWER("refused", rig_try(&rig, dir, ""), COORD_INVALID, COORD_R_URL);
    path_of(dir, "precious.txt", path);
    CHECK("removed", unlink(path) == 0);
    CHECK_ANSWER("empty is fine", rig_try(&rig, dir, ""), COORD_OK, COORD_R_NONE);
    (void)rig_create(&rig, "a/k", "1", 0, "", NULL);
    rig_close(&rig);
    rig_flip(dir, "FORMAT", 20, 1);
    CHECK_ANSWER("damaged", rig_try(&rig, dir, ""), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    rig_flip(dir, "FORMAT", 20, 1);
    rig_flip(dir, "meta/epoch", 20, 1);
    CHECK_ANSWER("damaged", rig_try(&rig, dir, ""), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    path_of(dir, "meta/epoch", path);
    CHECK("removed", unlink(path) == 0);
    CHECK_ANSWER("missing", rig_try(&rig, dir, ""), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    path_of(dir, "FORMAT", path);
    CHECK("removed", unlink(path) == 0);
    CHECK_ANSWER("missing", rig_try(&rig, dir, ""), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    put_file(dir, "FORMAT", "musterfs 2\n");
    CHECK_ANSWER("newer", rig_try(&rig, dir, ""), COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM);
}
