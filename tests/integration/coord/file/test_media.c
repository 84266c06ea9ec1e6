/* SPDX-License-Identifier: Apache-2.0 */
/* File systems that a store accepts: J14, J18 to J22, J25, and the rest under netfs=create-only. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "lib/hosts.h"
#include "lib/test.h"

static const struct {
    const char *why;
    int64_t magic;
    const char *type;
    bool accepted;
} media[] = {
    {"ext4", 0xEF53, "ext4", true},
    {"ext3", 0xEF53, "ext3", true},
    {"xfs", 0x58465342, "xfs", true},
    {"btrfs", 0x9123683E, "btrfs", true},
    {"f2fs", 0xF2F52010, "f2fs", true},
    {"zfs", 0x2FC12FC1, "zfs", true},
    {"bcachefs", 0xCA451A4E, "bcachefs", true},
    {"tmpfs", 0x01021994, "tmpfs", true},
    {"J19: ext2 has the magic of ext4 and no journal", 0xEF53, "ext2", false},
    {"NFS", 0x6969, "nfs4", false},
    {"SMB", 0x517B, "smbfs", false},
    {"CIFS", 0xFF534D42, "cifs", false},
    {"SMB2", 0xFE534D42, "cifs", false},
    {"FUSE", 0x65735546, "fuse.sshfs", false},
    {"Ceph", 0x00C36400, "ceph", false},
    {"Lustre", 0x0BD00BD0, "lustre", false},
    {"GPFS", 0x47504653, "gpfs", false},
    {"BeeGFS", 0x19830326, "beegfs", false},
    {"OCFS2", 0x7461636F, "ocfs2", false},
    {"GFS2", 0x01161970, "gfs2", false},
    {"9p", 0x01021997, "9p", false},
    {"vboxsf", 0x786F4256, "vboxsf", false},
    {"AFS", 0x5346414F, "afs", false},
    {"kAFS", 0x6B414653, "afs", false},
    {"Coda", 0x73757245, "coda", false},
    {"FAT", 0x4D44, "vfat", false},
    {"exFAT", 0x2011BAB0, "exfat", false},
    {"unknown", 0x12345678, "newfs", false},
    {"the type contradicts the magic", 0xEF53, "nfs", false},
    {"the magic contradicts the type", 0x6969, "ext4", false},
    {"ramfs", 0x858458F6, "ramfs", false},
};

TEST(J18_J19_a_file_system_is_accepted_by_magic_and_type_together_or_refused)
{
    file_hooks.no_collector = true;
    for (size_t i = 0; i < ARRAY_LEN(media); i++) {
        struct rig rig = {0};
        struct stat info;
        const char *dir = rig_dir();
        file_hooks.file_system = media[i].magic;
        file_hooks.mount_type = media[i].type;
        coord_result got = rig_try(&rig, dir, "");
        CHECK_ANSWER(media[i].why, got, media[i].accepted ? COORD_OK : COORD_UNSUPPORTED,
                     media[i].accepted ? COORD_R_NONE : COORD_R_FILE_SYSTEM);
        if (media[i].accepted) {
            coord_caps caps = rig.backend->ops->capabilities(rig.backend);
            CHECK_TEXT("its name", caps.server, media[i].type);
            CHECK("durable or not",
                  ((caps.bits & COORD_CAP_DURABLE) != 0) == (strcmp(media[i].type, "tmpfs") != 0));
        } else {
            CHECK("nothing was made", stat(dir, &info) < 0);
        }
        rig_close(&rig);
    }
    file_hooks.file_system = 0;
    file_hooks.mount_type = NULL;
}

/* 0: the store opens and accepts an entry, 1: its file system is refused, 2 and 3: neither. */
static int try_store(const char *dir, const char *name)
{
    struct rig rig = {0};
    file_hooks.no_collector = true;
    coord_result got = rig_try(&rig, dir, "");
    (void)fprintf(stderr, "# %s: %s/%s %s\n", name, coord_code_name(got.code),
                  coord_reason_name(got.reason), got.text);
    int code = got.code == COORD_UNSUPPORTED && got.reason == COORD_R_FILE_SYSTEM ? 1
               : got.code == COORD_OK                                             ? 0
                                                                                  : 2;
    if (code == 0 && rig_create(&rig, "a/k", "1", 0, "", NULL).code != COORD_OK) { code = 3; }
    rig_close(&rig);
    return code;
}

/* Real file systems, in a mount namespace of the test's own; 77: cannot be mounted here. */
static int on_real_mount(const char *make, const char *options, const char *expect)
{
    char reason[200], point[600], image[600], command[2000], dir[700];
    static int number;
    (void)snprintf(point, sizeof point, "%s/real-%d", test_dir(), number);
    (void)snprintf(image, sizeof image, "%s/real-%d.img", test_dir(), number++);
    pid_t pid = fork();
    if (pid == 0) {
        if (mkdir(point, 0700) < 0 || !sandbox_enter(reason, sizeof reason)) { _exit(77); }
        (void)snprintf(command, sizeof command, "truncate -s 64M %s && %s %s >/dev/null 2>&1",
                       image, make, image);
        if (make[0] != '\0' && system(command) != 0) { _exit(77); }
        (void)snprintf(command, sizeof command, "mount %s %s %s >/dev/null 2>&1", options,
                       make[0] != '\0' ? image : "none", point);
        if (system(command) != 0) { _exit(77); }
        (void)snprintf(dir, sizeof dir, "%s/store", point);
        int code = try_store(dir, expect);
        (void)snprintf(command, sizeof command, "umount %s >/dev/null 2>&1", point);
        (void)!system(command);
        _exit(code);
    }
    int ended = child_wait(pid);
    (void)unlink(image);
    return ended;
}

static void check_real(const char *make, const char *options, const char *name, int want)
{
    int got = on_real_mount(make, options, name);
    if (got == 77) { SKIP("%s cannot be mounted here", name); }
    CHECK_I64(name, got, want);
}

TEST(a_real_ext4_carries_a_store)
{
    check_real("mkfs.ext4 -q -F", "-o loop", "ext4", 0);
}
TEST(a_real_tmpfs_carries_a_store)
{
    check_real("", "-t tmpfs", "tmpfs", 0);
}
TEST(a_real_xfs_carries_a_store)
{
    check_real("mkfs.xfs -q -f", "-o loop", "xfs", 0);
}
TEST(a_real_btrfs_carries_a_store)
{
    check_real("mkfs.btrfs -q -f -m single", "-o loop", "btrfs", 0);
}
TEST(J19_a_real_ext2_does_not)
{
    check_real("mkfs.ext2 -q -F", "-t ext2 -o loop", "ext2", 1);
}
TEST(J18_a_real_fat_does_not)
{
    check_real("mkfs.vfat", "-t vfat -o loop", "vfat", 1);
}

/* As in a build by sbuild: the chroot is a directory, and the mount it is on is in no mount table.
 */
TEST(a_chroot_below_the_mount_point_carries_a_store)
{
    char reason[200], proc[700], root[600];
    pid_t pid;

    (void)snprintf(root, sizeof root, "%s/chroot", test_dir());
    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    CHECK("made", mkdir(root, 0700) == 0 && mkdir(proc, 0700) == 0);
    pid = fork();
    if (pid == 0) {
        if (!sandbox_enter(reason, sizeof reason) || mount("proc", proc, "proc", 0, NULL) != 0 ||
            chroot(root) != 0 || chdir("/") != 0)
            _exit(77);
        _exit(try_store("/store", "chroot"));
    }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("no chroot to be had here"); }
    CHECK_I64("the store opens", ended, 0);
}

TEST(J20_an_overlay_is_one_containers_own_and_its_lower_layer_nobodys)
{
    char reason[200], base[300], command[3000], dir[400];
    (void)snprintf(base, sizeof base, "%s/layers", test_dir());
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig = {0};
        if (mkdir(base, 0700) < 0 || !sandbox_enter(reason, sizeof reason)) { _exit(77); }
        (void)snprintf(command, sizeof command,
                       "mount -t tmpfs none %s && cd %s && mkdir lower upper work merged", base,
                       base);
        if (system(command) != 0) { _exit(77); }
        file_hooks.no_collector = true;
        (void)snprintf(dir, sizeof dir, "%s/lower/store", base);
        if (rig_try(&rig, dir, "").code != COORD_OK) { _exit(2); }
        rig_close(&rig);
        (void)snprintf(command, sizeof command,
                       "cd %s && mount -t overlay overlay "
                       "-o lowerdir=lower,upperdir=upper,workdir=work merged 2>/dev/null",
                       base);
        if (system(command) != 0) { _exit(77); }
        (void)snprintf(dir, sizeof dir, "%s/merged/store", base);
        for (int i = 0; i < 2; i++) { /* not the second time either */
            coord_result got = rig_try(&rig, dir, "");
            (void)fprintf(stderr, "# lower: %s\n", got.text);
            if (got.code != COORD_UNSUPPORTED) { _exit(3); }
        }
        (void)snprintf(dir, sizeof dir, "%s/merged/own", base);
        coord_result got = rig_try(&rig, dir, "");
        if (got.code != COORD_OK) {
            (void)fprintf(stderr, "# own: %s\n", got.text);
            _exit(4);
        }
        if (rig.backend->ops->capabilities(rig.backend).scope != COORD_SCOPE_MOUNT) { _exit(5); }
        if (rig_create(&rig, "a/k", "1", 0, "", NULL).code != COORD_OK) { _exit(6); }
        rig_close(&rig);
        if (rig_try(&rig, dir, "").code != COORD_OK) { _exit(7); }
        _exit(0);
    }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("no overlay can be mounted here"); }
    CHECK_I64("as it should", ended, 0);
}

TEST(J25_a_part_of_the_store_on_another_device_is_refused)
{
    char reason[200], dir[300], command[700];
    (void)snprintf(dir, sizeof dir, "%s", rig_dir());
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig = {0};
        file_hooks.no_collector = true;
        if (!sandbox_enter(reason, sizeof reason)) { _exit(77); }
        if (rig_try(&rig, dir, "").code != COORD_OK) { _exit(2); }
        rig_close(&rig);
        (void)snprintf(command, sizeof command, "mount -t tmpfs none %s/b 2>/dev/null", dir);
        if (system(command) != 0) { _exit(77); }
        coord_result got = rig_try(&rig, dir, "");
        (void)fprintf(stderr, "# %s\n", got.text);
        _exit(got.code == COORD_INVALID ? 0 : 1);
    }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("nothing can be mounted here"); }
    CHECK_I64("refused", ended, 0);
}

TEST(J14_a_time_namespace_with_another_boottime_is_refused)
{
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
    char dir[300];
    (void)snprintf(dir, sizeof dir, "%s", rig_dir());
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWTIME) < 0) { _exit(77); }
        int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "boottime 100000 0\n", 18) != 18) { _exit(77); }
        (void)close(fd);
        pid_t inner = fork(); /* the next child is the first one inside */
        if (inner == 0) {
            struct rig rig = {0};
            coord_result got = rig_try(&rig, dir, "");
            (void)fprintf(stderr, "# %s\n", got.text);
            _exit(got.code == COORD_UNSUPPORTED && strstr(got.text, "timens") != NULL ? 0 : 1);
        }
        int status;
        (void)waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("no time namespace can be made here"); }
    CHECK_I64("refused", ended, 0);
}

/* -- create-only -- */

static void on_nfs(bool yes)
{
    file_hooks.file_system = yes ? 0x6969 : 0;
    file_hooks.mount_type = yes ? "nfs4" : NULL;
}

struct race {
    char dir[300];
    int go[2];
};

static void create_once(void *arg)
{
    struct race *race = arg;
    struct rig rig = {0};
    char byte;
    if (rig_try(&rig, race->dir, "netfs=create-only").code != COORD_OK) { child_wrong("open"); }
    (void)close(race->go[1]);
    (void)!read(race->go[0], &byte, 1);
    coord_result got = rig_create(&rig, "a/k", "1", 0, "", NULL);
    _exit(got.code == COORD_OK ? 10 : got.code == COORD_EXISTS ? 11 : 12);
}

TEST(J21_create_only_has_one_winner_and_refuses_the_rest)
{
    struct race race;
    struct rig rig;
    struct rig_lease lease;
    pid_t pids[16];
    int winners = 0;
    (void)snprintf(race.dir, sizeof race.dir, "%s", rig_dir());
    CHECK("a pipe", pipe(race.go) == 0);
    on_nfs(true);
    for (int i = 0; i < 16; i++) { pids[i] = child_start(create_once, &race); }
    rig_sleep_ms(200);
    (void)close(race.go[0]);
    (void)close(race.go[1]);
    for (int i = 0; i < 16; i++) {
        int ended = child_wait(pids[i]);
        CHECK("an answer", ended == 10 || ended == 11);
        winners += ended == 10;
    }
    CHECK_I64("one", winners, 1);
    rig_open(&rig, race.dir, "netfs=create-only");
    coord_caps caps = rig.backend->ops->capabilities(rig.backend);
    CHECK_U32("nothing but create", caps.bits, COORD_CAP_CREATE);
    CHECK_I64("no watch", caps.watch, COORD_WATCH_NONE);
    CHECK("and the weaker promise", caps.note[0] != '\0');
    CHECK_ANSWER("read", rig_get(&rig, "a/k", NULL, 0), COORD_OK, COORD_R_NONE);
    CHECK_ANSWER("no lease", rig_create(&rig, "a/l", "1", 60000, "me", &lease), COORD_UNSUPPORTED,
                 COORD_R_CAPABILITY);
    CHECK_ANSWER("not another's", rig_remove(&rig, "a/k", COORD_ANY, NULL), COORD_UNSUPPORTED,
                 COORD_R_CAPABILITY);
    coord_result made = rig_create(&rig, "a/mine", "1", 0, "", NULL);
    CHECK_ANSWER("made", made, COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("one's own", rig_remove(&rig, "a/mine", made.revision, NULL), COORD_OK,
                 COORD_R_DELETED);
    CHECK_ANSWER("gone", rig_get(&rig, "a/mine", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    rig_close(&rig);
    struct rig plain = {0};
    CHECK_ANSWER("not without the opt-in", rig_try(&plain, race.dir, ""), COORD_UNSUPPORTED,
                 COORD_R_FILE_SYSTEM);
    on_nfs(false);
}

TEST(J22_a_link_whose_reply_was_lost_is_found_by_its_link_count)
{
    struct rig rig;
    const char *dir = rig_dir();
    on_nfs(true);
    rig_open(&rig, dir, "netfs=create-only");
    step_arm(STEP_NET_LINK_DONE, EIO);
    CHECK_ANSWER("created all the same", rig_create(&rig, "a/k", "1", 0, "", NULL), COORD_OK,
                 COORD_R_CREATED);
    step_arm(STEP_NET_LINK, EIO);
    coord_result got = rig_create(&rig, "a/m", "1", 0, "", NULL);
    step_disarm();
    CHECK_ANSWER("not created", got, COORD_UNAVAILABLE, COORD_R_STORAGE);
    CHECK_ANSWER("absent", rig_get(&rig, "a/m", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    rig_close(&rig);
    on_nfs(false);
}

/* -- users of one group -- */

static void become(uid_t uid, gid_t gid, gid_t also)
{
    if (setgroups(1, &also) < 0 || setgid(gid) < 0 || setuid(uid) < 0) { _exit(77); }
}

static void first_user(void *arg)
{
    struct rig rig = {0};
    struct rig_lease lease;
    (void)umask(077);
    become(61001, 62001, 62001);
    if (rig_try(&rig, arg, "mode=0770").code != COORD_OK) { child_wrong("open"); }
    if (rig_create(&rig, "a/k", "1", 0, "", NULL).code != COORD_OK) { child_wrong("create"); }
    if (rig_acquire(&rig, "g", 1, "first", 3600000, 0, &lease).code != COORD_OK) {
        child_wrong("acquire");
    }
}

static void use_what_another_made(const char *dir)
{
    struct rig rig = {0};
    struct rig_lease lease;
    coord_result got = rig_try(&rig, dir, "mode=0770");
    if (got.code != COORD_OK) { child_wrong(got.text); }
    got = rig_get(&rig, "a/k", NULL, 0);
    got = rig_cas(&rig, "a/k", got.revision, "2", -1, NULL, NULL);
    if (got.code != COORD_OK) { child_wrong(got.text); }
    got = rig_acquire(&rig, "g", 1, "next", 60000, 0, &lease); /* its holder is dead */
    if (got.code != COORD_OK) { child_wrong(got.text); }
    got = rig_renew(&rig, &lease);
    if (got.code != COORD_OK) { child_wrong(got.text); }
}

static void second_user(void *arg)
{
    (void)umask(077);
    become(61002, 62002, 62001);
    use_what_another_made(arg);
}

static void first_user_again(void *arg)
{
    (void)umask(077);
    become(61001, 62001, 62001);
    use_what_another_made(arg);
}

static void stranger(void *arg)
{
    struct rig rig = {0};
    become(61003, 62003, 62003);
    coord_result got = rig_try(&rig, arg, "mode=0770");
    if (got.code != COORD_UNAVAILABLE || got.reason != COORD_R_FORBIDDEN) { child_wrong(got.text); }
}

TEST(users_of_one_group_share_a_store_and_nobody_else)
{
    char dir[200];
    (void)snprintf(dir, sizeof dir, "%s", rig_memory_dir());
    char *slash = strrchr(dir, '/');
    *slash = '\0';
    if (geteuid() != 0) { SKIP("only root can become several users"); }
    CHECK("all may make something here", chmod(dir, 0777) == 0);
    *slash = '/';
    file_hooks.no_collector = true;
    int ended = child_wait(child_start(first_user, dir));
    if (ended == 77) { SKIP("no other user can be become here"); }
    CHECK_I64("the first", ended, 0);
    CHECK_I64("the second", child_wait(child_start(second_user, dir)), 0);
    CHECK_I64("the first again", child_wait(child_start(first_user_again, dir)), 0);
    CHECK_I64("a stranger", child_wait(child_start(stranger, dir)), 0);
}

TEST(parameters_that_are_wrong_are_refused_with_what_they_may_be)
{
    static const struct {
        const char *params, *says;
    } cases[] = {{"sync=sometimes", "auto or always"},
                 {"mode=0644", "octal"},
                 {"mode=1777", "octal"},
                 {"netfs=all", "create-only"},
                 {"early_death=2", "early_death"},
                 {"lock_timeout=1ms", "lock_timeout"},
                 {"tombstone_keep=x", "tombstone_keep"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig rig = {0};
        coord_result got = rig_try(&rig, rig_dir(), cases[i].params);
        CHECK_ANSWER(cases[i].params, got, COORD_INVALID, COORD_R_URL);
        CHECK_HAS("the allowed values", got.text, cases[i].says);
    }
}
