/* SPDX-License-Identifier: Apache-2.0 */
/* D9, locks and liveness: which process may go on or must wait, and which lock may be broken. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "lib/test.h"
#include "prim/file/locks.h"
#include "prim/file/store.h"
#include "prim/file/sys.h"

/* Shared by the processes of a test: which process is inside, and how often two were. */
struct shared {
    atomic_int inside, twice, rounds, stop, ready;
    atomic_int pid;
};
static struct shared *shared_new(void)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK("memory", shared != MAP_FAILED);
    return shared;
}

static int64_t soon(struct rig *rig, int64_t ms)
{
    return file_now(rig->store) + ms * NS_IN_MS;
}

static coord_result take(struct rig *rig, struct bucket *bucket, int64_t ms, struct locked *locked)
{
    coord_result result = lock_bucket(rig->store, bucket, false, soon(rig, ms), locked);
    if (result.code != COORD_OK) { return result; }
    result = lock_key(locked, "k", OP_CREATE, soon(rig, ms));
    if (result.code != COORD_OK) { unlock(locked); }
    return result;
}

static struct bucket *bucket_of(struct rig *rig)
{
    struct bucket *bucket = NULL;
    CHECK_ANSWER("a bucket", bucket_get(rig->store, "a", true, &bucket), COORD_OK, COORD_R_NONE);
    return bucket;
}

/* Goes in and out of the key lock until reported to stop. */
static void go_in_and_out(struct rig *rig, struct shared *shared, int times)
{
    struct bucket *bucket = NULL;
    struct locked locked;
    if (bucket_get(rig->store, "a", true, &bucket).code != COORD_OK) { child_wrong("bucket"); }
    for (int i = 0; i < times && !atomic_load(&shared->stop); i++) {
        if (take(rig, bucket, 20000, &locked).code != COORD_OK) { child_wrong("lock"); }
        if (atomic_fetch_add(&shared->inside, 1) != 0) { atomic_fetch_add(&shared->twice, 1); }
        if (i % 16 == 0) { (void)sched_yield(); }
        atomic_fetch_sub(&shared->inside, 1);
        atomic_fetch_add(&shared->rounds, 1);
        unlock(&locked);
    }
    bucket_put(rig->store, bucket);
}

struct crowd {
    const char *dir;
    struct shared *shared;
    int times;
    struct rig *rig;
};

static void *thread_goes(void *arg)
{
    struct crowd *crowd = arg;
    go_in_and_out(crowd->rig, crowd->shared, crowd->times);
    return NULL;
}

TEST(J01_two_opens_in_one_process_and_their_threads_exclude_each_other)
{
    struct rig one, two;
    pthread_t threads[6];
    struct shared *shared = shared_new();
    const char *dir = rig_memory_dir();
    file_hooks.no_collector = true;
    rig_open(&one, dir, "");
    rig_open(&two, dir, "");
    struct crowd a = {.shared = shared, .times = 200, .rig = &one};
    struct crowd b = {.shared = shared, .times = 200, .rig = &two};
    for (int i = 0; i < 6; i++) {
        (void)pthread_create(&threads[i], NULL, thread_goes, i % 2 == 0 ? &a : &b);
    }
    for (int i = 0; i < 6; i++) { (void)pthread_join(threads[i], NULL); }
    CHECK_I64("never two inside", atomic_load(&shared->twice), 0);
    CHECK_I64("all came through", atomic_load(&shared->rounds), 1200);
    rig_close(&one);
    rig_close(&two);
}

static void process_goes(void *arg)
{
    struct crowd *crowd = arg;
    struct rig rig = {0};
    file_hooks.no_collector = true;
    if (rig_try(&rig, crowd->dir, "").code != COORD_OK) { child_wrong("open"); }
    go_in_and_out(&rig, crowd->shared, crowd->times);
}

TEST(processes_exclude_each_other)
{
    struct crowd crowd = {.dir = rig_memory_dir(), .shared = shared_new(), .times = 150};
    pid_t pids[8];
    for (int i = 0; i < 8; i++) { pids[i] = child_start(process_goes, &crowd); }
    for (int i = 0; i < 8; i++) { CHECK_I64("well", child_wait(pids[i]), 0); }
    CHECK_I64("never two inside", atomic_load(&crowd.shared->twice), 0);
    CHECK_I64("all came through", atomic_load(&crowd.shared->rounds), 1200);
}

/* -- a lock whose process is dead, while a descriptor lives -- */

struct orphan {
    const char *dir;
    struct shared *shared;
    bool parent_lives;
};

/* A child that no handler knows of keeps the lock of its parent. */
static void leave_an_orphan(void *arg)
{
    struct orphan *orphan = arg;
    struct rig rig = {0};
    struct bucket *bucket = NULL;
    struct locked locked;
    file_hooks.no_collector = true;
    if (rig_try(&rig, orphan->dir, "").code != COORD_OK) { child_wrong("open"); }
    if (bucket_get(rig.store, "a", true, &bucket).code != COORD_OK) { child_wrong("bucket"); }
    if (take(&rig, bucket, 5000, &locked).code != COORD_OK) { child_wrong("lock"); }
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        for (;;) { (void)pause(); }
    }
    atomic_store(&orphan->shared->pid, (int)child);
    atomic_store(&orphan->shared->ready, 1);
    if (!orphan->parent_lives) { (void)kill(getpid(), SIGKILL); }
    for (;;) { (void)pause(); }
}

TEST(J02_a_lock_kept_by_a_child_nobody_knows_is_recovered_after_lock_timeout)
{
    struct orphan orphan = {.dir = rig_memory_dir(), .shared = shared_new()};
    struct rig rig;
    struct locked locked;
    CHECK_I64("killed", child_wait(child_start(leave_an_orphan, &orphan)), -SIGKILL);
    rig_await(&orphan.shared->ready);
    rig_open(&rig, orphan.dir, "lock_timeout=1500ms");
    struct bucket *bucket = bucket_of(&rig);
    int64_t began = file_now(rig.store);
    coord_result refused = take(&rig, bucket, 100, &locked);
    CHECK_ANSWER("not at once", refused, COORD_UNAVAILABLE, COORD_R_TIMEOUT);
    CHECK_HAS("whose it was", refused.text, "pid");
    CHECK_ANSWER("recovered", take(&rig, bucket, 10000, &locked), COORD_OK, COORD_R_NONE);
    CHECK("not before its time", file_now(rig.store) - began >= 1500 * NS_IN_MS);
    unlock(&locked);
    CHECK_ANSWER("and works", rig_create(&rig, "a/k", "1", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    bucket_put(rig.store, bucket);
    rig_close(&rig);
    (void)kill(atomic_load(&orphan.shared->pid), SIGKILL);
}

TEST(J03_a_lock_whose_process_lives_is_never_broken)
{
    struct orphan orphan = {.dir = rig_memory_dir(), .shared = shared_new(), .parent_lives = true};
    struct rig rig;
    struct locked locked;
    pid_t pid = child_start(leave_an_orphan, &orphan);
    rig_await(&orphan.shared->ready);
    rig_open(&rig, orphan.dir, "lock_timeout=50ms");
    struct bucket *bucket = bucket_of(&rig);
    for (int i = 0; i < 4; i++) {
        CHECK_ANSWER("refused", take(&rig, bucket, 200, &locked), COORD_UNAVAILABLE,
                     COORD_R_TIMEOUT);
    }
    bucket_put(rig.store, bucket);
    rig_close(&rig);
    (void)kill(atomic_load(&orphan.shared->pid), SIGKILL);
    (void)kill(pid, SIGKILL);
    (void)child_wait(pid);
}

/* Holds the lock through a descriptor of its own, with a record that the test chooses. */
static int hold_with_record(struct rig *rig, struct bucket *bucket, const struct lock_record *like)
{
    int fd = lock_open(rig->store, bucket->locks, "k");
    CHECK("a lock file", fd >= 0);
    CHECK_I64("locked", sys_lock(fd, 0, LOCK_EXCLUSIVE), 0);
    CHECK_I64("written", file_record_put(fd, &lock_shape, like), 0);
    return fd;
}

TEST(J05_J06_J07_only_a_record_that_proves_death_lets_a_lock_be_replaced)
{
    struct rig rig;
    struct locked locked;
    rig_open(&rig, rig_memory_dir(), "lock_timeout=20ms");
    struct bucket *bucket = bucket_of(&rig);
    struct lock_record mine = {.who = rig.store->facts.self, .op = OP_CREATE};
    mine.boot_id = rig.store->facts.boot_id;
    struct lock_record reused = mine, namespaced = mine, rebooted = mine, gone = mine;
    reused.who.start_ticks++;       /* J05: another process has the pid now */
    namespaced.who.pid_namespace++; /* J06: means something else there */
    namespaced.who.pid = 4194300;
    rebooted.boot_id.b[0] ^= 1; /* J07 */
    rebooted.who.pid = 4194300;
    gone.who.pid = 4194300;
    const struct {
        const char *why;
        const struct lock_record *record;
        bool broken;
    } cases[] = {
        {"our own, alive", &mine, false},      {"of another namespace", &namespaced, false},
        {"of another boot", &rebooted, false}, {"a pid used again", &reused, true},
        {"no such process", &gone, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = hold_with_record(&rig, bucket, cases[i].record);
        coord_result got = take(&rig, bucket, cases[i].broken ? 10000 : 200, &locked);
        CHECK_ANSWER(cases[i].why, got, cases[i].broken ? COORD_OK : COORD_UNAVAILABLE,
                     cases[i].broken ? COORD_R_NONE : COORD_R_TIMEOUT);
        unlock(&locked);
        sys_close(fd);
    }
    int fd =
        hold_with_record(&rig, bucket, &gone); /* a record that cannot be read proves nothing */
    CHECK("torn", pwrite(fd, "x", 1, 10) == 1);
    CHECK_ANSWER("damaged", take(&rig, bucket, 200, &locked), COORD_UNAVAILABLE, COORD_R_TIMEOUT);
    sys_close(fd);
    CHECK_ANSWER("a free lock needs no proof", take(&rig, bucket, 10000, &locked), COORD_OK,
                 COORD_R_NONE);
    unlock(&locked);
    bucket_put(rig.store, bucket);
    rig_close(&rig);
}

/* Stops after the grant, before the record of its owner: the file still names a dead process. */
static void stop_before_the_record(void *arg)
{
    struct rig rig = {0};
    struct bucket *bucket = NULL;
    struct locked locked;
    file_hooks.no_collector = true;
    if (rig_try(&rig, arg, "").code != COORD_OK) { child_wrong("open"); }
    if (bucket_get(rig.store, "a", true, &bucket).code != COORD_OK) { child_wrong("bucket"); }
    step_arm(STEP_S2_GRANTED, AT_STOP);
    if (take(&rig, bucket, 5000, &locked).code != COORD_OK) { child_wrong("lock"); }
    unlock(&locked);
}

TEST(J31_a_lock_granted_a_moment_ago_is_not_taken_for_the_dead_ones_of_before)
{
    struct rig rig;
    struct locked locked;
    char dir[200];
    (void)snprintf(dir, sizeof dir, "%s", rig_memory_dir());
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "lock_timeout=20ms");
    struct bucket *bucket = bucket_of(&rig);
    struct lock_record gone = {.who = rig.store->facts.self, .op = OP_CREATE};
    gone.who.pid = 4194300;
    gone.boot_id = rig.store->facts.boot_id;
    sys_close(hold_with_record(&rig, bucket, &gone));
    pid_t pid = child_start(stop_before_the_record, dir);
    child_await_stop(pid);
    for (int i = 0; i < 3; i++) {
        CHECK_ANSWER("the gate is not free", take(&rig, bucket, 200, &locked), COORD_UNAVAILABLE,
                     COORD_R_TIMEOUT);
    }
    (void)kill(pid, SIGCONT);
    CHECK_I64("it went on", child_wait(pid), 0);
    CHECK_ANSWER("then free", take(&rig, bucket, 5000, &locked), COORD_OK, COORD_R_NONE);
    unlock(&locked);
    bucket_put(rig.store, bucket);
    rig_close(&rig);
}

struct recoverer {
    char dir[200];
    enum file_step step;
};

static void die_recovering(void *arg)
{
    struct recoverer *recoverer = arg;
    struct rig rig = {0};
    struct bucket *bucket = NULL;
    struct locked locked;
    file_hooks.no_collector = true;
    if (rig_try(&rig, recoverer->dir, "lock_timeout=10ms").code != COORD_OK) {
        child_wrong("open");
    }
    if (bucket_get(rig.store, "a", true, &bucket).code != COORD_OK) { child_wrong("bucket"); }
    step_arm(recoverer->step, AT_KILL);
    (void)take(&rig, bucket, 10000, &locked);
}

TEST(I01_killed_while_it_recovers_a_lock_the_next_one_recovers_it)
{
    static const enum file_step steps[] = {STEP_RECOVER_GATE, STEP_RECOVER_RENAME,
                                           STEP_RECOVER_DONE};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct recoverer recoverer = {.step = steps[i]};
        struct rig rig;
        struct locked locked;
        (void)snprintf(recoverer.dir, sizeof recoverer.dir, "%s", rig_memory_dir());
        file_hooks.no_collector = true;
        rig_open(&rig, recoverer.dir, "lock_timeout=10ms");
        struct bucket *bucket = bucket_of(&rig);
        struct lock_record gone = {.who = rig.store->facts.self, .op = OP_CREATE};
        gone.who.pid = 4194300;
        gone.boot_id = rig.store->facts.boot_id;
        int fd = hold_with_record(&rig, bucket, &gone);
        CHECK_I64("killed", child_wait(child_start(die_recovering, &recoverer)), -SIGKILL);
        CHECK_ANSWER("recovered", take(&rig, bucket, 10000, &locked), COORD_OK, COORD_R_NONE);
        unlock(&locked);
        sys_close(fd);
        (void)gc_run(rig.store, NULL);
        CHECK_I64("no temporary file is left", rig_count(recoverer.dir, "b/a/t"), 0);
        bucket_put(rig.store, bucket);
        rig_close(&rig);
    }
}

static char removed_lock[700];
static int remove_lock_once(void *arg, enum file_step step)
{
    if (step == STEP_S2_GRANTED && atomic_fetch_add((atomic_int *)arg, 1) == 0) {
        (void)unlink(removed_lock);
    }
    return 0;
}

TEST(a_lock_on_a_file_that_lost_its_name_is_not_a_lock)
{
    struct rig rig;
    struct locked locked;
    struct stat info;
    atomic_int times = 0;
    const char *dir = rig_memory_dir();
    rig_open(&rig, dir, "");
    struct bucket *bucket = bucket_of(&rig);
    (void)snprintf(removed_lock, sizeof removed_lock, "%s/b/a/l/k", dir);
    file_hooks.arg = &times;
    file_hooks.step = remove_lock_once;
    CHECK_ANSWER("taken", take(&rig, bucket, 5000, &locked), COORD_OK, COORD_R_NONE);
    file_hooks.step = NULL;
    CHECK_I64("at the second attempt", atomic_load(&times), 2);
    CHECK("it has a name", fstat(locked.key_fd, &info) == 0 && info.st_nlink == 1);
    unlock(&locked);
    (void)snprintf(removed_lock, sizeof removed_lock, "%s/b/a/l/.bucket", dir);
    CHECK("removed by hand", unlink(removed_lock) == 0);
    CHECK_ANSWER("taken", take(&rig, bucket, 5000, &locked), COORD_OK, COORD_R_NONE);
    CHECK("it has a name", fstat(locked.bucket_fd, &info) == 0 && info.st_nlink == 1);
    unlock(&locked);
    bucket_put(rig.store, bucket);
    rig_close(&rig);
}

struct recovery {
    const char *dir;
    struct shared *shared;
    int times;
};

/* Creates a stale lock repeatedly, which all processes recover at once. */
static void recover_and_enter(void *arg)
{
    struct recovery *recovery = arg;
    struct rig rig = {0};
    struct bucket *bucket = NULL;
    file_hooks.no_collector = true;
    if (rig_try(&rig, recovery->dir, "lock_timeout=10ms").code != COORD_OK) { child_wrong("open"); }
    if (bucket_get(rig.store, "a", true, &bucket).code != COORD_OK) { child_wrong("bucket"); }
    for (int i = 0; i < recovery->times; i++) {
        struct locked locked;
        if (take(&rig, bucket, 30000, &locked).code != COORD_OK) { child_wrong("lock"); }
        if (atomic_fetch_add(&recovery->shared->inside, 1) != 0) {
            atomic_fetch_add(&recovery->shared->twice, 1);
        }
        atomic_fetch_add(&recovery->shared->rounds, 1);
        /* Sometimes it is left as a dead parent's child would leave it: held by a descriptor that
         * stays open, with a record of somebody dead. */
        if (i % 3 == 0) {
            struct lock_record gone = {.who = rig.store->facts.self, .op = OP_CREATE};
            gone.who.pid = 4194300;
            gone.boot_id = rig.store->facts.boot_id;
            (void)file_record_put(locked.key_fd, &lock_shape, &gone);
            if (dup(locked.key_fd) < 0) { child_wrong("dup"); }
            atomic_fetch_sub(&recovery->shared->inside, 1);
            sys_close(locked.key_fd); /* not released: the copy keeps the lock */
            locked.key_fd = -1;
        } else {
            atomic_fetch_sub(&recovery->shared->inside, 1);
        }
        unlock(&locked);
    }
}

TEST(J04_J31_those_who_recover_one_stale_lock_at_once_never_meet_inside)
{
    struct recovery recovery = {
        .dir = rig_memory_dir(), .shared = shared_new(), .times = 15 * rounds(1)};
    pid_t pids[6];
    for (int i = 0; i < 6; i++) { pids[i] = child_start(recover_and_enter, &recovery); }
    for (int i = 0; i < 6; i++) { CHECK_I64("well", child_wait(pids[i]), 0); }
    CHECK_I64("never two inside", atomic_load(&recovery.shared->twice), 0);
    CHECK_I64("all came through", atomic_load(&recovery.shared->rounds), 6 * recovery.times);
}

/* -- stopped, forked, collected -- */

static void stop_inside(void *arg)
{
    struct rig rig = {0};
    file_hooks.no_collector = true;
    if (rig_try(&rig, arg, "").code != COORD_OK) { child_wrong("open"); }
    step_arm(STEP_S8, AT_STOP);
    if (rig_create(&rig, "a/k", "theirs", 0, "", NULL).code != COORD_OK) { child_wrong("create"); }
}

TEST(J08_a_process_that_is_stopped_inside_keeps_its_lock_and_is_named)
{
    struct rig rig;
    char dir[200], value[16], pid_text[32];
    (void)snprintf(dir, sizeof dir, "%s", rig_memory_dir());
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "lock_timeout=50ms");
    pid_t pid = child_start(stop_inside, dir);
    child_await_stop(pid);
    rig.timeout_ms = 300;
    coord_result refused = rig_create(&rig, "a/k", "ours", 0, "", NULL);
    CHECK_ANSWER("refused", refused, COORD_UNAVAILABLE, COORD_R_TIMEOUT);
    (void)snprintf(pid_text, sizeof pid_text, "pid %d", (int)pid);
    CHECK_HAS("the blocking process", refused.text, pid_text);
    CHECK_U32("nothing was done", refused.flags, 0);
    rig.timeout_ms = RIG_TIMEOUT_MS;
    CHECK_ANSWER("other keys go on", rig_create(&rig, "a/other", "1", 0, "", NULL), COORD_OK,
                 COORD_R_CREATED);
    (void)kill(pid, SIGCONT);
    CHECK_I64("it went on", child_wait(pid), 0);
    CHECK_ANSWER("as if nothing had been", rig_create(&rig, "a/k", "ours", 0, "", NULL),
                 COORD_EXISTS, COORD_R_HELD);
    CHECK_ANSWER("read", rig_get(&rig, "a/k", value, sizeof value), COORD_OK, COORD_R_NONE);
    CHECK_TEXT("theirs", value, "theirs");
    rig_close(&rig);
}

TEST(J30_a_forked_child_holds_no_lock_and_the_parent_keeps_its_own)
{
    struct rig rig, other;
    struct locked locked, second;
    struct rig_lease lease;
    const char *dir = rig_memory_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    rig_open(&other, dir, "");
    (void)rig_create(&rig, "b/l", "1", 60000, "me", &lease);
    struct bucket *bucket = bucket_of(&rig), *theirs = bucket_of(&other);
    CHECK_ANSWER("held", take(&rig, bucket, 1000, &locked), COORD_OK, COORD_R_NONE);
    int gate[2];
    CHECK("a pipe", pipe(gate) == 0);
    pid_t pid = fork();
    if (pid == 0) { /* without exec, for as long as the test runs */
        char byte;
        (void)close(gate[1]);
        (void)!read(gate[0], &byte, 1);
        _exit(0);
    }
    CHECK_ANSWER("still the parent's", take(&other, theirs, 100, &second), COORD_UNAVAILABLE,
                 COORD_R_TIMEOUT);
    /* Closed without a release: only a copy in the child could keep the lock. */
    sys_close(locked.key_fd);
    sys_close(locked.bucket_fd);
    locked.key_fd = locked.bucket_fd = -1;
    unlock(&locked);
    CHECK_ANSWER("not the child's", take(&other, theirs, 2000, &second), COORD_OK, COORD_R_NONE);
    unlock(&second);
    CHECK_ANSWER("alone too", lock_bucket(other.store, theirs, true, soon(&other, 2000), &second),
                 COORD_OK, COORD_R_NONE);
    unlock(&second);
    (void)close(gate[0]);
    (void)close(gate[1]);
    CHECK_I64("well", child_wait(pid), 0);
    CHECK_ANSWER("the lease is the parent's", rig_renew(&rig, &lease), COORD_OK, COORD_R_RENEWED);
    bucket_put(rig.store, bucket);
    bucket_put(other.store, theirs);
    rig_close(&rig);
    rig_close(&other);
}

static void collect_again_and_again(void *arg)
{
    struct crowd *crowd = arg;
    struct rig rig = {0};
    file_hooks.no_collector = true;
    if (rig_try(&rig, crowd->dir, "tombstone_keep=0s").code != COORD_OK) { child_wrong("open"); }
    while (!atomic_load(&crowd->shared->stop)) {
        (void)gc_run(rig.store, NULL);
        rig_sleep_ms(1);
    }
}

TEST(I18_a_lock_file_removed_by_the_collector_still_excludes)
{
    struct crowd crowd = {.dir = rig_memory_dir(), .shared = shared_new(), .times = 150};
    pid_t pids[4], collector = child_start(collect_again_and_again, &crowd);
    for (int i = 0; i < 4; i++) { pids[i] = child_start(process_goes, &crowd); }
    for (int i = 0; i < 4; i++) { CHECK_I64("well", child_wait(pids[i]), 0); }
    atomic_store(&crowd.shared->stop, 1);
    CHECK_I64("well", child_wait(collector), 0);
    CHECK_I64("never two inside", atomic_load(&crowd.shared->twice), 0);
    CHECK_I64("all came through", atomic_load(&crowd.shared->rounds), 600);
}

static void share_for_ever(void *arg)
{
    struct crowd *crowd = arg;
    struct rig rig = {0};
    char key[32];
    int number = 0;
    file_hooks.no_collector = true;
    if (rig_try(&rig, crowd->dir, "").code != COORD_OK) { child_wrong("open"); }
    atomic_fetch_add(&crowd->shared->ready, 1);
    while (!atomic_load(&crowd->shared->stop)) {
        (void)snprintf(key, sizeof key, "g/key-%d-%d", (int)getpid(), number++ % 8);
        (void)rig_create(&rig, key, "1", 0, "", NULL);
        (void)rig_remove(&rig, key, COORD_ANY, NULL);
    }
}

TEST(J29_a_stream_of_calls_on_single_keys_does_not_starve_an_acquire)
{
    struct crowd crowd = {.dir = rig_memory_dir(), .shared = shared_new()};
    struct rig rig;
    struct rig_lease lease;
    pid_t pids[6];
    for (int i = 0; i < 6; i++) { pids[i] = child_start(share_for_ever, &crowd); }
    file_hooks.no_collector = true;
    rig_open(&rig, crowd.dir, "");
    for (int i = 0; i < 400 && atomic_load(&crowd.shared->ready) < 6; i++) { rig_sleep_ms(5); }
    for (int i = 0; i < 5; i++) {
        CHECK_ANSWER("acquired", rig_acquire(&rig, "g", 1, "me", 60000, 0, &lease), COORD_OK,
                     COORD_R_ACQUIRED);
        CHECK_ANSWER("released", rig_release(&rig, &lease, NULL), COORD_OK, COORD_R_RELEASED);
    }
    atomic_store(&crowd.shared->stop, 1);
    for (int i = 0; i < 6; i++) { CHECK_I64("well", child_wait(pids[i]), 0); }
    rig_close(&rig);
}
