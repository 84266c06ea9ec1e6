/* SPDX-License-Identifier: Apache-2.0 */
/* D9, leases between processes: death, stops, namespaces, clocks, and a crowd on one group. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "lib/test.h"
#include "prim/file/lease_file.h"
#include "prim/file/sys.h"

struct hold {
    char dir[200];
    int64_t ttl_ms;
    const char *params;
    int ready[2], go[2];
    enum { HOLD, CLOSE_DESCRIPTORS, NO_EARLY_DEATH, OTHER_NAMESPACE } how;
};

static void hold_init(struct hold *hold, const char *dir, int64_t ttl_ms)
{
    *hold = (struct hold){.ttl_ms = ttl_ms, .params = ""};
    (void)snprintf(hold->dir, sizeof hold->dir, "%s", dir);
    CHECK("pipes", pipe(hold->ready) == 0 && pipe(hold->go) == 0);
}

/* Takes a slot, reports it, and lives until it is killed. */
static void hold_a_slot(void *arg)
{
    struct hold *hold = arg;
    struct rig rig = {0};
    struct rig_lease lease;
    char byte = 'x';
    file_hooks.no_collector = true;
    rig.options.no_early_death = hold->how == NO_EARLY_DEATH;
    if (rig_try(&rig, hold->dir, hold->params).code != COORD_OK) { child_wrong("open"); }
    if (rig_acquire(&rig, "g", 1, "child", hold->ttl_ms, 0, &lease).code != COORD_OK) {
        child_wrong("acquire");
    }
    if (hold->how == CLOSE_DESCRIPTORS) {
        for (int fd = 3; fd < 256; fd++) {
            if (fd != hold->ready[1] && fd != hold->go[0]) { (void)close(fd); }
        }
    }
    (void)!write(hold->ready[1], &byte, 1);
    (void)!read(hold->go[0], &byte, 1);
    if (byte == 'r') {
        coord_result result = rig_renew(&rig, &lease);
        _exit(result.code == COORD_EXPIRED ? 40 + result.reason - COORD_R_DEADLINE : result.code);
    }
}

static void await_ready(struct hold *hold)
{
    char byte;
    CHECK("it is ready", read(hold->ready[0], &byte, 1) == 1);
}

static coord_result contend(struct rig *rig, struct rig_lease *lease)
{
    return rig_acquire(rig, "g", 1, "contender", 60000, 0, lease);
}

TEST(J09_the_claim_of_a_killed_process_is_free_at_once)
{
    struct hold hold;
    struct rig rig;
    struct rig_lease lease;
    hold_init(&hold, rig_dir(), 3600000);
    pid_t pid = child_start(hold_a_slot, &hold);
    await_ready(&hold);
    rig_open(&rig, hold.dir, "");
    CHECK_ANSWER("held", contend(&rig, &lease), COORD_EXISTS, COORD_R_FULL);
    (void)kill(pid, SIGKILL);
    siginfo_t info; /* dead and not yet reaped by its parent: that counts as dead, too */
    CHECK("dead", waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK_ANSWER("free", contend(&rig, &lease), COORD_OK, COORD_R_ACQUIRED);
    CHECK_I64("killed", child_wait(pid), -SIGKILL);
    rig_close(&rig);
}

/* No client can acquire the slot before its time, and then one must be able to. */
static void check_held_to_the_end(struct hold *hold, const char *params, bool kill_it)
{
    struct rig rig;
    struct rig_lease lease;
    pid_t pid;
    coord_result got;
    int64_t begun;

    for (;;) {
        begun = prim_boottime_ns(NULL);
        pid = child_start(hold_a_slot, hold);
        await_ready(hold);
        rig_open(&rig, hold->dir, params);
        if (kill_it) {
            (void)kill(pid, SIGKILL);
            CHECK_I64("killed", child_wait(pid), -SIGKILL);
        }
        got = contend(&rig, &lease);
        if (got.code != COORD_OK || prim_boottime_ns(NULL) - begun < hold->ttl_ms * NS_IN_MS) break;
        /* The machine stopped for the whole TTL: repeat with another lease. */
        CHECK_ANSWER("given back", rig_release(&rig, &lease, NULL), COORD_OK, COORD_R_RELEASED);
        rig_close(&rig);
        if (!kill_it) {
            (void)kill(pid, SIGKILL);
            (void)child_wait(pid);
        }
    }
    CHECK_ANSWER("held", got, COORD_EXISTS, COORD_R_FULL);
    CHECK("to its end", got.hint_ms > 0);
    rig_sleep_ms(got.hint_ms + 5);
    while (got.code == COORD_EXISTS) {
        got = contend(&rig, &lease);
        rig_sleep_ms(5);
    }
    CHECK_ANSWER("free", got, COORD_OK, COORD_R_ACQUIRED);
    if (!kill_it) {
        (void)kill(pid, SIGKILL);
        (void)child_wait(pid);
    }
    rig_close(&rig);
}

TEST(J10_a_process_that_closed_its_descriptors_and_lives_keeps_its_claim)
{
    struct hold hold;
    hold_init(&hold, rig_dir(), 2000);
    hold.how = CLOSE_DESCRIPTORS;
    check_held_to_the_end(&hold, "", false);
}

TEST(early_death_can_be_turned_off_by_the_judge_and_by_the_holder)
{
    struct hold hold;
    hold_init(&hold, rig_dir(), 2000);
    check_held_to_the_end(&hold, "early_death=0", true);
    hold_init(&hold, rig_dir(), 2000);
    hold.how = NO_EARLY_DEATH;
    check_held_to_the_end(&hold, "", true);
}

TEST(J11_a_process_of_another_pid_namespace_cannot_be_proven_dead)
{
    struct hold hold;
    struct rig rig;
    struct rig_lease lease;
    hold_init(&hold, rig_dir(), 2500);
    pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) < 0) { _exit(77); }
        pid_t pid = fork(); /* number 1 of its own namespace */
        if (pid == 0) {
            hold_a_slot(&hold);
            _exit(0);
        }
        await_ready(&hold);
        (void)kill(pid, SIGKILL);
        int status;
        (void)waitpid(pid, &status, 0);
        _exit(0);
    }
    int ended = child_wait(outer);
    if (ended == 77) { SKIP("no pid namespace can be made here"); }
    CHECK_I64("well", ended, 0);
    rig_open(&rig, hold.dir, "");
    coord_result got = contend(&rig, &lease);
    CHECK_ANSWER("held although it is dead", got, COORD_EXISTS, COORD_R_FULL);
    rig_sleep_ms(got.hint_ms + 5);
    CHECK_ANSWER("to its end", contend(&rig, &lease), COORD_OK, COORD_R_ACQUIRED);
    rig_close(&rig);
}

TEST(F03_a_process_stopped_past_its_ttl_finds_its_lease_taken)
{
    struct hold hold;
    struct rig rig;
    struct rig_lease lease;
    hold_init(&hold, rig_dir(), 300);
    pid_t pid = child_start(hold_a_slot, &hold);
    await_ready(&hold);
    (void)kill(pid, SIGSTOP);
    child_await_stop(pid);
    rig_open(&rig, hold.dir, "");
    rig_sleep_ms(350);
    CHECK_ANSWER("free", contend(&rig, &lease), COORD_OK, COORD_R_ACQUIRED);
    CHECK("reported to renew", write(hold.go[1], "r", 1) == 1);
    (void)kill(pid, SIGCONT);
    CHECK_I64("superseded", child_wait(pid), 40 + COORD_R_SUPERSEDED - COORD_R_DEADLINE);
    CHECK_ANSWER("the new holder is untouched", rig_renew(&rig, &lease), COORD_OK, /* J27 */
                 COORD_R_RENEWED);
    rig_close(&rig);
}

/* Stopped between its check and its write, holding the record lock. */
static void stop_renewing(void *arg)
{
    struct hold *hold = arg;
    struct rig rig = {0};
    struct rig_lease lease;
    file_hooks.no_collector = true;
    if (rig_try(&rig, hold->dir, "").code != COORD_OK) { child_wrong("open"); }
    if (rig_acquire(&rig, "g", 1, "child", hold->ttl_ms, 0, &lease).code != COORD_OK) {
        child_wrong("acquire");
    }
    step_arm(STEP_RENEW_CHECKED, AT_STOP);
    coord_result result = rig_renew(&rig, &lease);
    if (result.code != COORD_OK) { child_wrong("renew"); }
    result = rig_renew(&rig, &lease);
    _exit(result.code == COORD_EXPIRED ? 40 : 41);
}

TEST(T5_a_renewal_stopped_between_check_and_write_and_a_takeover_cannot_both_happen)
{
    struct hold hold;
    struct rig rig;
    struct rig_lease lease;
    hold_init(&hold, rig_dir(), 1200);
    pid_t pid = child_start(stop_renewing, &hold);
    child_await_stop(pid);
    rig_open(&rig, hold.dir, "");
    rig_sleep_ms(1300);
    rig.timeout_ms = 300;
    CHECK_ANSWER("the judge waits for the record", contend(&rig, &lease), COORD_UNAVAILABLE,
                 COORD_R_TIMEOUT);
    (void)kill(pid, SIGCONT);
    rig.timeout_ms = RIG_TIMEOUT_MS;
    coord_result got;
    do {
        got = contend(&rig, &lease);
    } while (got.code == COORD_EXISTS);
    CHECK_ANSWER("then it is over", got, COORD_OK, COORD_R_ACQUIRED);
    CHECK_I64("and its next renewal returns it", child_wait(pid), 40);
    rig_close(&rig);
}

TEST(T5_killed_in_the_same_place_its_record_is_judged)
{
    struct hold hold;
    struct rig rig;
    struct rig_lease lease;
    hold_init(&hold, rig_dir(), 3600000);
    pid_t pid = child_start(stop_renewing, &hold);
    child_await_stop(pid);
    (void)kill(pid, SIGKILL);
    CHECK_I64("killed", child_wait(pid), -SIGKILL);
    rig_open(&rig, hold.dir, "");
    CHECK_ANSWER("free", contend(&rig, &lease), COORD_OK, COORD_R_ACQUIRED);
    rig_close(&rig);
}

/* Dies between check and write, and a child no handler knows of keeps the record locked. */
static atomic_int *orphan_pid;
static int leave_an_orphan(void *arg, enum file_step step)
{
    (void)arg;
    if (step != STEP_RENEW_CHECKED) { return 0; }
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        for (;;) { (void)pause(); }
    }
    atomic_store(orphan_pid, (int)child);
    (void)kill(getpid(), SIGKILL);
    for (;;) { (void)pause(); }
}

static void die_renewing(void *arg)
{
    struct hold *hold = arg;
    struct rig rig = {0};
    struct rig_lease lease;
    file_hooks.no_collector = true;
    if (rig_try(&rig, hold->dir, "").code != COORD_OK) { child_wrong("open"); }
    if (rig_acquire(&rig, "g", 1, "child", hold->ttl_ms, 0, &lease).code != COORD_OK) {
        child_wrong("acquire");
    }
    file_hooks.step = leave_an_orphan;
    (void)rig_renew(&rig, &lease);
}

TEST(J02_a_record_that_stays_locked_after_its_holders_death_is_judged_without_its_lock)
{
    struct hold hold;
    struct rig rig;
    struct rig_lease lease;
    orphan_pid =
        mmap(NULL, sizeof *orphan_pid, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK("memory", orphan_pid != MAP_FAILED);
    hold_init(&hold, rig_dir(), 2500);
    CHECK_I64("killed", child_wait(child_start(die_renewing, &hold)), -SIGKILL);
    rig_open(&rig, hold.dir, "");
    coord_result got = contend(&rig, &lease);
    /* Its liveness lock is kept, too, so its early death is not visible. */
    CHECK_ANSWER("held", got, COORD_EXISTS, COORD_R_FULL);
    rig_sleep_ms(got.hint_ms + 5);
    CHECK_ANSWER("to its end", contend(&rig, &lease), COORD_OK, COORD_R_ACQUIRED);
    (void)kill(atomic_load(orphan_pid), SIGKILL);
    rig_close(&rig);
}

struct judge_arg {
    struct hold *hold;
    enum file_step step;
};

static void die_judging(void *arg)
{
    struct judge_arg *judge = arg;
    struct rig rig = {0};
    struct rig_lease lease;
    file_hooks.no_collector = true;
    if (rig_try(&rig, judge->hold->dir, "").code != COORD_OK) { child_wrong("open"); }
    step_arm(judge->step, AT_KILL);
    (void)contend(&rig, &lease);
}

TEST(I01_killed_while_it_judges_the_next_one_comes_to_the_same_end)
{
    static const enum file_step steps[] = {STEP_JUDGE_LOCKED, STEP_JUDGE_DEAD};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct hold hold;
        struct rig rig;
        struct rig_lease lease;
        hold_init(&hold, rig_memory_dir(), 3600000);
        pid_t pid = child_start(hold_a_slot, &hold);
        await_ready(&hold);
        (void)kill(pid, SIGKILL);
        (void)child_wait(pid);
        struct judge_arg judge = {.hold = &hold, .step = steps[i]};
        CHECK_I64("killed", child_wait(child_start(die_judging, &judge)), -SIGKILL);
        rig_open(&rig, hold.dir, "");
        CHECK_ANSWER("free", contend(&rig, &lease), COORD_OK, COORD_R_ACQUIRED);
        rig_close(&rig);
    }
}

TEST(J26_each_lease_follows_its_own_ttl)
{
    struct rig rig, other;
    struct rig_lease quick, slow;
    const char *dir = rig_dir();
    rig_open(&rig, dir, "");
    rig_open(&other, dir, "");
    (void)rig_create(&rig, "a/quick", "1", 150, "me", &quick);
    (void)rig_create(&other, "a/slow", "1", 60000, "you", &slow);
    rig_sleep_ms(200);
    CHECK_ANSWER("over", rig_get(&other, "a/quick", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_ANSWER("not over", rig_get(&rig, "a/slow", NULL, 0), COORD_OK, COORD_R_NONE);
    CHECK_ANSWER("renewing the one", rig_renew(&other, &slow), COORD_OK, COORD_R_RENEWED);
    CHECK_ANSWER("does not revive the other", rig_get(&other, "a/quick", NULL, 0), COORD_NOT_FOUND,
                 COORD_R_NONE);
    rig_close(&rig);
    rig_close(&other);
}

TEST(D19_a_lease_continues_in_another_process_when_it_is_taken_up_before_anybody_judges_it)
{
    struct hold hold;
    struct rig rig;
    int64_t left = 0;
    hold_init(&hold, rig_dir(), 60000);
    pid_t pid = child_start(hold_a_slot, &hold);
    await_ready(&hold);
    rig_open(&rig, hold.dir, "");
    coord_holders *holders = NULL;
    (void)rig_holders(&rig, "g", &holders);
    struct prim_held held = {.key = (char[]){"g/slot-0000"}, .token = holders->rows[0].token};
    struct prim_claim claim = {.owner = "child", .ttl_ms = 60000, .held = &held, .count = 1};
    coord_holders_free(holders);
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS,
                             .request_id = prim_id_request()};
    coord_entry *entry = NULL;
    (void)rig.backend->ops->get(rig.backend, &call, STR("g/slot-0000"), 0, &entry);
    claim.lease_id = entry->lease_id;
    coord_entry_free(entry);
    CHECK_ANSWER("taken up", rig.backend->ops->adopt(rig.backend, &call, &claim, &left), COORD_OK,
                 COORD_R_RENEWED);
    CHECK("the remaining time", left > 50000 && left <= 60000);
    (void)kill(pid, SIGKILL);
    (void)child_wait(pid);
    struct rig_lease lease;
    CHECK_ANSWER("its first process is dead, its holder is not", contend(&rig, &lease),
                 COORD_EXISTS, COORD_R_FULL);
    int64_t sent = 0;
    CHECK_ANSWER("renewed", rig.backend->ops->renew(rig.backend, &call, &claim, &sent), COORD_OK,
                 COORD_R_RENEWED);
    rig_close(&rig);
}

/* -- a crowd on one group -- */

enum { CROWD_SLOTS = 3 };
struct crowd {
    atomic_int alive[CROWD_SLOTS]; /* number of holders that believe to hold this slot */
    atomic_int most, twice, grants, stop;
    _Atomic uint64_t last_token[CROWD_SLOTS];
    atomic_int back;
    char dir[200];
};

static void note_grant(struct crowd *crowd, const struct rig_lease *lease)
{
    uint32_t slot = lease->grant.slot;
    if (atomic_fetch_add(&crowd->alive[slot], 1) != 0) { atomic_fetch_add(&crowd->twice, 1); }
    uint64_t last = atomic_exchange(&crowd->last_token[slot], lease->grant.token);
    if (last >= lease->grant.token) { atomic_fetch_add(&crowd->back, 1); }
    atomic_fetch_add(&crowd->grants, 1);
}

/* Acquires, holds for a moment, releases; sometimes it only dies, and its lease with it. */
static void churn(void *arg)
{
    struct crowd *crowd = arg;
    struct rig rig = {0};
    struct rig_lease lease;
    char owner[32];
    unsigned seed = (unsigned)getpid();
    file_hooks.no_collector = true;
    if (rig_try(&rig, crowd->dir, "").code != COORD_OK) { child_wrong("open"); }
    rig.timeout_ms = 60000;
    (void)snprintf(owner, sizeof owner, "p%d", (int)getpid());
    while (!atomic_load(&crowd->stop)) {
        coord_result got = rig_acquire(&rig, "crowd", CROWD_SLOTS, owner, 60000, 0, &lease);
        if (got.code == COORD_OK) {
            note_grant(crowd, &lease);
            rig_sleep_ms(1 + rand_r(&seed) % 5);
            if (rig_renew(&rig, &lease).code != COORD_OK) { child_wrong("renew"); }
            atomic_fetch_sub(&crowd->alive[lease.grant.slot], 1);
            if (rand_r(&seed) % 20 == 0) { _exit(3); } /* without a word */
            if (rig_release(&rig, &lease, NULL).code != COORD_OK) { child_wrong("release"); }
        } else if (got.code != COORD_EXISTS) {
            (void)fprintf(stderr, "# %s\n", got.text);
            child_wrong("acquire");
        } else {
            rig_sleep_ms(1 + rand_r(&seed) % 10);
        }
    }
}

TEST(never_more_holders_than_slots_however_many_processes_fight)
{
    enum { MANY = 64 };
    struct crowd *crowd =
        mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[MANY];
    struct timespec began, now;
    int seconds = rounds(3), died = 0;
    CHECK("memory", crowd != MAP_FAILED);
    (void)snprintf(crowd->dir, sizeof crowd->dir, "%s", rig_memory_dir());
    for (int i = 0; i < MANY; i++) { pids[i] = child_start(churn, crowd); }
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        for (int i = 0; ended > 0 && i < MANY; i++) {
            if (pids[i] != ended) { continue; }
            CHECK_I64("it only went away", WEXITSTATUS(status), 3);
            died++;
            pids[i] = child_start(churn, crowd);
        }
        if (ended <= 0) { rig_sleep_ms(2); }
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - began.tv_sec < seconds);
    atomic_store(&crowd->stop, 1);
    for (int i = 0; i < MANY; i++) {
        int ended = child_wait(pids[i]);
        CHECK("well", ended == 0 || ended == 3);
    }
    (void)fprintf(stderr, "# %d processes, %d s: %d grants, %d died holding\n", MANY, seconds,
                  atomic_load(&crowd->grants), died);
    CHECK_I64("never two in one slot", atomic_load(&crowd->twice), 0);
    CHECK_I64("tokens only grow", atomic_load(&crowd->back), 0);
    CHECK("they got somewhere", atomic_load(&crowd->grants) > 10);
}

struct held_import {
    struct rig *rig;
    struct rig_lease *lease;
    coord_result result;
    atomic_bool reached, go;
};

static int hold_import(void *arg, enum file_step step)
{
    struct held_import *held = arg;
    if (step == STEP_RENEW_CHECKED) {
        atomic_store(&held->reached, true);
        while (!atomic_load(&held->go)) { rig_sleep_ms(1); }
    }
    return 0;
}

static void *import_it(void *arg)
{
    struct held_import *held = arg;
    int64_t left_ms;
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + 60000 * NS_IN_MS,
                             .request_id = prim_id_request()};
    held->result =
        held->rig->backend->ops->adopt(held->rig->backend, &call, &held->lease->claim, &left_ms);
    return NULL;
}

/* When the lock of a dead owner's record is stuck, the record is judged without it. An importer
 * that was stopped while it held that lock must not believe later that it holds the claim. */
TEST(an_importer_that_was_stopped_holding_a_dead_owners_record_is_no_second_holder)
{
    struct rig rig, other;
    struct rig_lease taken;
    struct held_import held = {.rig = &rig};
    pthread_t thread;
    const char *dir = rig_dir();
    held.lease =
        mmap(NULL, sizeof *held.lease, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK("shared memory", held.lease != MAP_FAILED);
    file_hooks.no_collector = true;
    pid_t child = fork();
    if (child == 0) {
        rig_open(&other, dir, "");
        _exit(rig_create(&other, "a/k", "1", 600000, "me", held.lease).code == COORD_OK ? 0 : 1);
    }
    int status = -1;
    CHECK_I64("waited", waitpid(child, &status, 0), child);
    CHECK_I64("made, and its maker is dead", status, 0);
    rig_open(&rig, dir, "");
    rig_open(&other, dir, "");
    file_hooks.step = hold_import;
    file_hooks.arg = &held;
    CHECK_I64("starts", pthread_create(&thread, NULL, import_it, &held), 0);
    while (!atomic_load(&held.reached)) { rig_sleep_ms(1); }
    CHECK_ANSWER("taken from the dead", rig_create(&other, "a/k", "2", 600000, "you", &taken),
                 COORD_OK, COORD_R_CREATED);
    atomic_store(&held.go, true);
    CHECK_I64("joined", pthread_join(thread, NULL), 0);
    file_hooks.step = NULL;
    CHECK_ANSWER("not imported", held.result, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_ANSWER("one holder", rig_renew(&other, &taken), COORD_OK, COORD_R_RENEWED);
    rig_close(&rig);
    rig_close(&other);
    (void)munmap(held.lease, sizeof *held.lease);
}
