/* SPDX-License-Identifier: Apache-2.0 */
/* I01, I02, I20: a process is killed at every step of every procedure. The process that comes next
 * finds the old state or the new one, at once, and nothing is left over after the collector has
 * passed. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "lib/test.h"
#include "prim/file/store.h"

/* One store for all; each scene has a bucket of its own, so that nothing is synced twice. */
static char group[16], key[32], temps[32];

static void next_bucket(void)
{
    static int number;
    (void)snprintf(group, sizeof group, "c%d", number++);
    (void)snprintf(key, sizeof key, "%s/k", group);
    (void)snprintf(temps, sizeof temps, "b/%s/t", group);
}

/* The effect of an act on the key (or on the group). */
enum effect {
    SETS,  /* "new" instead of "old" */
    MAKES, /* "new" where no entry was */
    ENDS,  /* nothing where "old" was */
    LEASES /* nothing before, nothing after: the lease dies with its process */
};
struct act {
    const char *name;
    enum effect effect;
    bool slot;
    void (*prepare)(struct rig *rig, struct rig_lease *lease);
    coord_result (*act)(struct rig *rig, struct rig_lease *lease);
};

static void need(coord_result result, const char *what)
{
    if (result.code != COORD_OK) {
        (void)fprintf(stderr, "# %s: %s\n", what, result.text);
        child_wrong(what);
    }
}

static void nothing(struct rig *rig, struct rig_lease *lease)
{
    (void)rig, (void)lease;
}
static void old_entry(struct rig *rig, struct rig_lease *lease)
{
    (void)lease;
    need(rig_create(rig, key, "old", 0, "", NULL), "prepare an entry");
}
static void old_lease(struct rig *rig, struct rig_lease *lease)
{
    need(rig_create(rig, key, "old", 60000, "child", lease), "prepare a lease");
}
static void old_slot(struct rig *rig, struct rig_lease *lease)
{
    need(rig_acquire(rig, group, 1, "child", 60000, 0, lease), "prepare a slot");
}
static void over_tombstone(struct rig *rig, struct rig_lease *lease)
{
    old_entry(rig, lease);
    need(rig_remove(rig, key, COORD_ANY, NULL), "prepare a tombstone");
}

static coord_result create(struct rig *rig, struct rig_lease *lease)
{
    (void)lease;
    return rig_create(rig, key, "new", 0, "", NULL);
}
static coord_result create_leased(struct rig *rig, struct rig_lease *lease)
{
    return rig_create(rig, key, "new", 60000, "child", lease);
}
static coord_result set(struct rig *rig, struct rig_lease *lease)
{
    (void)lease;
    coord_result now = rig_get(rig, key, NULL, 0);
    return rig_cas(rig, key, now.revision, "new", COORD_TTL_KEEP, NULL, NULL);
}
static coord_result drop_lease(struct rig *rig, struct rig_lease *lease)
{
    coord_result now = rig_get(rig, key, NULL, 0);
    return rig_cas(rig, key, now.revision, "new", 0, lease, NULL);
}
static coord_result delete (struct rig *rig, struct rig_lease *lease)
{
    (void)lease;
    return rig_remove(rig, key, COORD_ANY, NULL);
}
static coord_result force(struct rig *rig, struct rig_lease *lease)
{
    (void)lease;
    return rig_remove(rig, key, COORD_FORCE, NULL);
}
static coord_result release(struct rig *rig, struct rig_lease *lease)
{
    return rig_release(rig, lease, NULL);
}
static coord_result renew(struct rig *rig, struct rig_lease *lease)
{
    return rig_renew(rig, lease);
}
static coord_result acquire(struct rig *rig, struct rig_lease *lease)
{
    return rig_acquire(rig, group, 1, "child", 60000, 0, lease);
}
static coord_result take_over(struct rig *rig, struct rig_lease *lease)
{
    return rig_acquire(rig, group, 1, "child", 60000, COORD_TAKEOVER_SAME_OWNER, lease);
}

static const struct act acts[] = {
    {"create", MAKES, false, nothing, create},
    {"create over a tombstone", MAKES, false, over_tombstone, create},
    {"compare and set", SETS, false, old_entry, set},
    {"delete", ENDS, false, old_entry, delete},
    {"create with a lease", LEASES, false, nothing, create_leased},
    {"drop a lease", MAKES, false, old_lease, drop_lease},
    {"release", LEASES, false, old_lease, release},
    {"renew", LEASES, false, old_lease, renew},
    {"delete by force", LEASES, false, old_lease, force},
    {"acquire", LEASES, true, nothing, acquire},
    {"take over", LEASES, true, old_slot, take_over},
    {"release a slot", LEASES, true, old_slot, release},
    {"renew a slot", LEASES, true, old_slot, renew},
};

struct scene {
    const char *dir;
    const struct act *act;
    enum file_step step;
    bool named;
};

static void die_acting(void *arg)
{
    struct scene *scene = arg;
    struct rig rig = {0};
    struct rig_lease lease;
    file_hooks.no_collector = true;
    file_hooks.no_unnamed = scene->named;
    need(rig_try(&rig, scene->dir, ""), "open");
    scene->act->prepare(&rig, &lease);
    step_arm(scene->step, AT_KILL);
    need(scene->act->act(&rig, &lease), "act");
    step_disarm();
    rig_close(&rig);
}

static bool is_published(enum file_step step)
{
    return step >= STEP_S10_DONE && step <= STEP_S12;
}

static void check_value(struct rig *rig, const struct scene *scene, bool killed)
{
    char value[16] = "";
    char why[128];
    bool after = !killed || is_published(scene->step) || scene->step >= STEP_RELEASE_RECORD;
    (void)snprintf(why, sizeof why, "%s killed at %s", scene->act->name,
                   file_step_name(scene->step));
    coord_result got = rig_get(rig, key, value, sizeof value);
    switch (scene->act->effect) {
    case SETS: CHECK_TEXT(why, value, after ? "new" : "old"); break;
    case MAKES:
        if (after) {
            CHECK_TEXT(why, value, "new");
        } else {
            CHECK_ANSWER(why, got, COORD_NOT_FOUND, COORD_R_NONE);
        }
        break;
    case ENDS:
        if (after) {
            CHECK_ANSWER(why, got, COORD_NOT_FOUND, COORD_R_NONE);
        } else {
            CHECK_TEXT(why, value, "old");
        }
        break;
    case LEASES: CHECK_ANSWER(why, got, COORD_NOT_FOUND, COORD_R_NONE); break;
    }
}

/* Nothing of the dead process blocks the next one, and nothing stays. */
static void check_next(struct rig *rig, const struct scene *scene, const char *dir)
{
    struct rig_lease lease;
    char why[128];
    (void)snprintf(why, sizeof why, "after %s killed at %s", scene->act->name,
                   file_step_name(scene->step));
    rig->timeout_ms = 8000; /* the locks are free: lock_timeout is never reached */
    if (scene->act->slot) {
        CHECK_ANSWER(why, rig_acquire(rig, group, 1, "next", 60000, 0, &lease), COORD_OK,
                     COORD_R_ACQUIRED);
    } else {
        (void)rig_remove(rig, key, COORD_ANY, NULL);
        CHECK_ANSWER(why, rig_create(rig, key, "next", 60000, "next", &lease), COORD_OK,
                     COORD_R_CREATED);
    }
    CHECK_ANSWER(why, rig_renew(rig, &lease), COORD_OK, COORD_R_RENEWED);
    if (scene->step == STEP_S8_DONE || scene->step == STEP_S10_LINKED) {
        (void)gc_run(rig->store,
                     NULL); /* reads every bucket there is: where something can be left */
        CHECK_I64("no temporary file is left", rig_count(dir, temps), 0);
    }
}

static void kill_at(const char *dir, const struct act *act, enum file_step step, bool named,
                    int *reached)
{
    struct scene scene = {.dir = dir, .act = act, .step = step, .named = named};
    struct rig rig;
    next_bucket();
    int ended = child_wait(child_start(die_acting, &scene));
    CHECK("killed, or done without coming there", ended == -SIGKILL || ended == 0);
    if (ended != 0) { ++*reached; }
    file_hooks.no_collector = true;
    rig_open(&rig, scene.dir, "");
    if (!act->slot) { check_value(&rig, &scene, ended != 0); }
    check_next(&rig, &scene, scene.dir);
    rig_close(&rig);
}

static void kill_everywhere(bool named)
{
    const char *dir = rig_memory_dir(); /* a kill leaves the same files on every medium */
    for (int round = 0; round < rounds(1); round++) {
        for (size_t a = 0; a < ARRAY_LEN(acts); a++) {
            int reached = 0;
            for (enum file_step step = STEP_S1; step <= STEP_LOST_RAISED; step++) {
                kill_at(dir, &acts[a], step, named, &reached);
            }
            CHECK(acts[a].name, reached >= 3); /* the steps are in the act */
        }
    }
}

TEST(I01_killed_at_every_step_the_next_finds_the_old_state_or_the_new)
{
    kill_everywhere(false);
}

TEST(I01_the_same_with_temporary_files_that_have_names)
{
    kill_everywhere(true);
}

TEST(I02_a_lease_record_without_a_head_is_collected_once_it_is_over)
{
    struct scene scene = {.dir = rig_dir(), .act = &acts[4], .step = STEP_S7_DONE};
    struct rig rig;
    next_bucket();
    CHECK_I64("killed", child_wait(child_start(die_acting, &scene)), -SIGKILL);
    file_hooks.no_collector = true;
    rig_open(&rig, scene.dir, "");
    CHECK_I64("a record", rig_count(scene.dir, "s"), 1);
    CHECK_ANSWER("no entry", rig_get(&rig, key, NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    (void)gc_run(rig.store, NULL);
    CHECK_I64("kept while it may live", rig_count(scene.dir, "s"), 1);
    rig_close(&rig);
    static const uint8_t other_boot[16] = {1, 2, 3};
    file_hooks.boot_id = other_boot;
    rig_open(&rig, scene.dir, "");
    (void)gc_run(rig.store, NULL);
    CHECK_I64("collected", rig_count(scene.dir, "s"), 0);
    rig_close(&rig);
    file_hooks.boot_id = NULL;
}

TEST(I20_a_release_that_was_interrupted_leaves_the_claim_to_its_end)
{
    struct rig holder, other;
    struct rig_lease lease, next;
    const char *dir = rig_dir();
    next_bucket();
    file_hooks.no_collector = true;
    rig_open(&holder, dir, "");
    rig_open(&other, dir, "");
    CHECK_ANSWER("held", rig_create(&holder, key, "1", 1500, "a", &lease), COORD_OK,
                 COORD_R_CREATED);
    step_arm(STEP_S8, 28 /* ENOSPC */);
    CHECK_ANSWER("not released", rig_release(&holder, &lease, NULL), COORD_UNAVAILABLE,
                 COORD_R_STORAGE);
    step_disarm();
    CHECK_ANSWER("still held", rig_create(&other, key, "2", 300, "b", &next), COORD_EXISTS,
                 COORD_R_HELD);
    rig_sleep_ms(1600);
    CHECK_ANSWER("ended", rig_create(&other, key, "2", 300, "b", &next), COORD_OK, COORD_R_CREATED);
    rig_close(&holder);
    rig_close(&other);
}
