/* SPDX-License-Identifier: Apache-2.0 */
/* I14, I15: a power cut under a real ext4. The store is on an image behind a loop device. A copy of
 * the image, taken while nothing is being written to it, is the disk at that moment: everything
 * that the file system has sent, nothing that is only in memory. The copy is mounted (its journal
 * is replayed), the store on it is opened as after a reboot, and compared with the acknowledged
 * writes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "lib/hosts.h"
#include "lib/test.h"

enum { KEYS = 12, IMAGE_MB = 24 };

/* The writer's acknowledged value of each key, and the value that it is writing; 0: absent. */
struct known {
    atomic_int acked[KEYS], tried[KEYS];
    _Atomic uint64_t revision[2 * KEYS]; /* highest ever answered; leased keys above KEYS */
    atomic_int writes, leases;
};

static void note_revision(struct known *known, int at, uint64_t revision)
{
    if (revision > atomic_load(&known->revision[at])) {
        atomic_store(&known->revision[at], revision);
    }
}

struct writer {
    char dir[300];
    struct known *known;
};

static void write_one(struct rig *rig, struct known *known, int at, int number, unsigned *seed)
{
    char key[32], value[32];
    int was = atomic_load(&known->acked[at]);
    int next = was != 0 && rand_r(seed) % 3 == 0 ? 0 : number;
    coord_result got;
    (void)snprintf(key, sizeof key, "p/k%d", at);
    (void)snprintf(value, sizeof value, "%d", number);
    atomic_store(&known->tried[at], next);
    coord_result now = rig_get(rig, key, NULL, 0);
    if (next == 0) {
        got = rig_remove(rig, key, now.revision, NULL);
    } else if (was == 0) {
        got = rig_create(rig, key, value, 0, "", NULL);
    } else {
        got = rig_cas(rig, key, now.revision, value, COORD_TTL_KEEP, NULL, NULL);
    }
    if (got.code != COORD_OK) {
        (void)fprintf(stderr, "# %s: %s\n", key, got.text);
        child_wrong("a write");
    }
    note_revision(known, at, got.revision);
    atomic_store(&known->acked[at], next);
    atomic_fetch_add(&known->writes, 1);
}

static void lease_one(struct rig *rig, struct known *known, int at, unsigned *seed)
{
    struct rig_lease lease;
    char key[32];
    (void)snprintf(key, sizeof key, "q/l%d", at);
    coord_result got = rig_create(rig, key, "leased", 100, "writer", &lease);
    if (got.code != COORD_OK) { return; } /* still held from before */
    note_revision(known, KEYS + at, got.revision);
    atomic_fetch_add(&known->leases, 1);
    if (rand_r(seed) % 2 == 0) {
        got = rig_release(rig, &lease, NULL);
        if (got.code == COORD_OK) { note_revision(known, KEYS + at, got.revision); }
    }
}

static void write_for_ever(void *arg)
{
    struct writer *writer = arg;
    struct rig rig = {0};
    unsigned seed = (unsigned)getpid();
    file_hooks.no_collector = true;
    if (rig_try(&rig, writer->dir, "").code != COORD_OK) { child_wrong("open"); }
    for (int number = 1;; number++) {
        write_one(&rig, writer->known, rand_r(&seed) % KEYS, number, &seed);
        lease_one(&rig, writer->known, rand_r(&seed) % KEYS, &seed);
        rig_sleep_ms(10); /* so that no sync of a later write helps the acknowledged one */
    }
}

/* -- images -- */

static bool run(const char *command)
{
    return system(command) == 0;
}

static long writes_of(const char *device)
{
    char path[128];
    long reads, merged, sectors, ticks, writes = -1;
    (void)snprintf(path, sizeof path, "/sys/block/%s/stat", device);
    FILE *file = fopen(path, "re");
    if (file == NULL) { return -1; }
    if (fscanf(file, "%ld %ld %ld %ld %ld", &reads, &merged, &sectors, &ticks, &writes) != 5) {
        writes = -1;
    }
    (void)fclose(file);
    return writes;
}

static bool loop_of(const char *image, char device[32])
{
    char command[500];
    (void)snprintf(command, sizeof command, "losetup -j %s | head -1 | cut -d: -f1", image);
    FILE *pipe = popen(command, "re");
    bool found = pipe != NULL && fscanf(pipe, "/dev/%31s", device) == 1;
    if (pipe != NULL) { (void)pclose(pipe); }
    return found;
}

/* Repeats the copy when the file system wrote meanwhile. */
static void cut(const char *image, const char *device, const char *copy)
{
    char command[900];
    long before;
    (void)snprintf(command, sizeof command, "cp %s %s", image, copy);
    for (int i = 0; i < 200; i++) {
        before = writes_of(device);
        CHECK("copied", run(command));
        if (before >= 0 && writes_of(device) == before) { return; }
    }
    CHECK("a quiet moment", false);
}

/* -- the invariants -- */

static void check_kept(struct rig *rig, const int *acked, const int *tried)
{
    for (int i = 0; i < KEYS; i++) {
        char key[32], value[32] = "0";
        (void)snprintf(key, sizeof key, "p/k%d", i);
        coord_result got = rig_get(rig, key, value, sizeof value);
        CHECK("never damaged", got.code == COORD_OK || got.code == COORD_NOT_FOUND);
        int found = got.code == COORD_OK ? atoi(value) : 0;
        if (found != acked[i] && found != tried[i]) {
            (void)fprintf(stderr, "# %s: %d found, %d acknowledged, %d tried\n", key, found,
                          acked[i], tried[i]);
        }
        CHECK("the acknowledged value, or the one being written",
              found == acked[i] || found == tried[i]);
    }
}

static void check_over(struct rig *rig, const uint64_t *revision)
{
    for (int i = 0; i < 2 * KEYS; i++) {
        char key[32];
        struct rig_lease lease;
        (void)snprintf(key, sizeof key, i < KEYS ? "p/k%d" : "q/l%d", i % KEYS);
        if (i < KEYS) { (void)rig_remove(rig, key, COORD_ANY, NULL); }
        coord_result got = rig_create(rig, key, "after", 60000, "after", &lease);
        CHECK_ANSWER("every lease is over", got, COORD_OK, COORD_R_CREATED);
        CHECK("no revision is used again", got.revision > revision[i]);
    }
}

static void check_copy(const char *copy, const char *point, const struct known *known)
{
    static const uint8_t next_boot[16] = {9};
    int acked[KEYS], tried[KEYS];
    uint64_t revision[2 * KEYS];
    char command[900], dir[700];
    struct rig rig;
    for (int i = 0; i < KEYS; i++) {
        acked[i] = atomic_load(&known->acked[i]);
        tried[i] = atomic_load(&known->tried[i]);
    }
    for (int i = 0; i < 2 * KEYS; i++) { revision[i] = atomic_load(&known->revision[i]); }
    (void)snprintf(command, sizeof command, "mount -o loop %s %s", copy, point);
    CHECK("mounted, its journal replayed", run(command));
    (void)snprintf(dir, sizeof dir, "%s/store", point);
    file_hooks.boot_id = next_boot;
    rig_open(&rig, dir, "");
    (void)fprintf(stderr, "# %u torn and moved away; %d writes, %d leases so far\n",
                  rig.store->damaged, atomic_load(&known->writes), atomic_load(&known->leases));
    CHECK_U64("another epoch", rig.store->epoch, 2);
    check_kept(&rig, acked, tried);
    check_over(&rig, revision);
    rig_close(&rig);
    file_hooks.boot_id = NULL;
    (void)snprintf(command, sizeof command, "umount %s", point);
    CHECK("unmounted", run(command));
}

static int cut_the_power(const char *base, int times)
{
    char reason[200], image[350], copy[350], point[350], second[350], device[32], command[3000];
    struct writer writer;
    struct rig rig = {0};
    if (!sandbox_enter(reason, sizeof reason)) { return 77; }
    (void)snprintf(image, sizeof image, "%s/disk.img", base);
    (void)snprintf(copy, sizeof copy, "%s/cut.img", base);
    (void)snprintf(point, sizeof point, "%s/mnt", base);
    (void)snprintf(second, sizeof second, "%s/cut", base);
    (void)snprintf(command, sizeof command,
                   "mkdir -p %s %s && truncate -s %dM %s && mkfs.ext4 -q -F %s && "
                   "mount -o loop,commit=1 %s %s",
                   point, second, IMAGE_MB, image, image, image, point);
    if (!run(command) || !loop_of(image, device)) { return 77; }
    writer.known =
        mmap(NULL, sizeof *writer.known, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)snprintf(writer.dir, sizeof writer.dir, "%.280s/store", point);
    file_hooks.no_collector = true;
    rig_open(&rig, writer.dir, "");
    rig_close(&rig);
    pid_t pid = child_start(write_for_ever, &writer);
    for (int i = 0; i < times; i++) {
        rig_sleep_ms(150 + (i * 131) % 900);
        (void)kill(pid, SIGSTOP);
        child_await_stop(pid);
        cut(image, device, copy);
        check_copy(copy, second, writer.known);
        (void)kill(pid, SIGCONT);
    }
    (void)kill(pid, SIGKILL);
    (void)child_wait(pid);
    (void)snprintf(command, sizeof command, "umount %s", point);
    (void)run(command);
    return 0;
}

TEST(I14_I15_what_was_acknowledged_outlives_a_power_cut_and_no_lease_does)
{
    char base[300];
    (void)snprintf(base, sizeof base, "%s/power", test_dir());
    CHECK("a place", mkdir(base, 0700) == 0);
    pid_t pid = fork();
    if (pid == 0) { _exit(cut_the_power(base, rounds(5))); }
    int ended = child_wait(pid);
    if (ended == 77) { SKIP("no ext4 on a loop device can be mounted here"); }
    CHECK_I64("as it should", ended, 0);
}
