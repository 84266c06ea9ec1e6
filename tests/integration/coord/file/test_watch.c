/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a file store: D7 and J15 to J17. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "lib/test.h"
#include "prim/feed.h"

enum { PATIENCE_MS = 60000 }; /* then an event counts as missing */

struct eye {
    struct rig *rig;
    struct prim_feed *feed;
    void *watch;
};

static void eye_open(struct eye *eye, struct rig *rig, const char *scope, bool bucket)
{
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS,
                             .request_id = prim_id_request()};
    eye->rig = rig;
    eye->feed = prim_feed_open((struct prim_scope){str_from(scope), bucket});
    CHECK("a feed", eye->feed != NULL);
    CHECK_ANSWER("watched", rig->backend->ops->watch(rig->backend, &call, eye->feed, &eye->watch),
                 COORD_OK, COORD_R_NONE);
}

static void eye_close(struct eye *eye)
{
    eye->rig->backend->ops->unwatch(eye->rig->backend, eye->watch);
    prim_feed_close(eye->feed);
}

static coord_event eye_next(struct eye *eye)
{
    coord_event event = {0};
    CHECK("an event in time", prim_feed_next(eye->feed, PATIENCE_MS, &event) == 1);
    return event;
}

static void see(struct eye *eye, const char *why, int type, const char *key)
{
    coord_event event = eye_next(eye);
    char got[600], want[600];
    (void)snprintf(got, sizeof got, "%d %.*s", event.type, (int)event.key.len, event.key.at);
    (void)snprintf(want, sizeof want, "%d %s", type, key);
    CHECK_TEXT(why, got, want);
}

static void see_empty_snapshot(struct eye *eye)
{
    see(eye, "begin", COORD_SNAPSHOT_BEGIN, "");
    see(eye, "end", COORD_SNAPSHOT_END, "");
}

static void watch_everything(const char *params)
{
    struct rig rig, other;
    struct rig_lease lease;
    struct eye bucket, single;
    const char *dir = rig_dir();
    rig_open(&rig, dir, params);
    rig_open(&other, dir, params);
    (void)rig_create(&other, "a/old", "1", 0, "", NULL);
    coord_result gone = rig_create(&other, "a/gone", "1", 0, "", NULL);
    (void)rig_remove(&other, "a/gone", gone.revision, NULL);
    eye_open(&bucket, &rig, "a", true);
    eye_open(&single, &rig, "a/k", false);
    see(&bucket, "begin", COORD_SNAPSHOT_BEGIN, "");
    see(&bucket, "what is there", COORD_ENTRY, "a/old");
    see(&bucket, "end, without what is gone", COORD_SNAPSHOT_END, "");
    see_empty_snapshot(&single);
    (void)rig_create(&other, "a/b/deeper", "1", 0, "", NULL); /* H11 */
    (void)rig_create(&other, "a2", "1", 0, "", NULL);
    coord_result made = rig_create(&other, "a/k", "1", 1500, "me", &lease);
    coord_event event = eye_next(&bucket);
    CHECK_I64("put", event.type, COORD_PUT);
    CHECK_U64("its revision", event.revision, made.revision);
    CHECK_U64("its token", event.token, made.token);
    CHECK_TEXT("its owner", event.owner, "me");
    see(&single, "put", COORD_PUT, "a/k");
    for (int i = 0; i < 10; i++) { /* H06: renewals are no events */
        int64_t before = prim_boottime_ns(NULL);
        rig_sleep_ms(40);
        coord_result renewed = rig_renew(&other, &lease);
        /* When the machine stopped for the whole TTL, the lease is over. */
        if (prim_boottime_ns(NULL) - before >= 1500 * NS_IN_MS && renewed.code != COORD_OK) break;
        CHECK_ANSWER("renewed", renewed, COORD_OK, COORD_R_RENEWED);
    }
    event = eye_next(&bucket); /* H12: nobody contends for it */
    CHECK_I64("expired", event.type, COORD_EXPIRE);
    CHECK_U64("under a revision of its own", event.revision, made.revision + 1);
    see(&single, "expired", COORD_EXPIRE, "a/k");
    coord_result again = rig_create(&other, "a/k", "2", 0, "", NULL);
    CHECK("larger than the expiry", again.revision > made.revision + 1);
    see(&bucket, "put", COORD_PUT, "a/k");
    see(&single, "put", COORD_PUT, "a/k");
    (void)rig_remove(&other, "a/k", again.revision, NULL);
    see(&bucket, "deleted", COORD_DELETE, "a/k");
    see(&single, "deleted", COORD_DELETE, "a/k");
    CHECK("and no more", prim_feed_next(bucket.feed, 300, &event) == 0);
    eye_close(&single);
    eye_close(&bucket);
    rig_close(&rig);
    rig_close(&other);
}

TEST(H05_H11_H12_every_change_of_a_bucket_in_order_and_nothing_of_others)
{
    file_hooks.no_collector = true;
    watch_everything("");
}

TEST(J17_without_inotify_the_same_is_found_by_looking)
{
    struct rig rig;
    file_hooks.no_collector = true;
    file_hooks.no_inotify = EMFILE;
    rig_open(&rig, rig_dir(), "");
    CHECK_I64("and is reported as polling", rig.backend->ops->capabilities(rig.backend).watch,
              COORD_WATCH_POLL);
    rig_close(&rig);
    watch_everything("");
    file_hooks.no_inotify = 0;
    rig_open(&rig, rig_dir(), "");
    CHECK_I64("else not", rig.backend->ops->capabilities(rig.backend).watch,
              COORD_WATCH_COALESCING);
    rig_close(&rig);
}

TEST(an_early_death_is_reported_although_nobody_contends)
{
    struct rig rig;
    struct eye eye;
    int pipes[2];
    char byte;
    const char *dir = rig_dir();
    file_hooks.look_ms = 3600000; /* nobody finds it by looking */
    CHECK("a pipe", pipe(pipes) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rig mine = {0};
        struct rig_lease lease;
        if (rig_try(&mine, dir, "").code != COORD_OK) { child_wrong("open"); }
        (void)rig_create(&mine, "a/k", "1", 3600000, "child", &lease);
        (void)!write(pipes[1], "x", 1);
        for (;;) { (void)pause(); }
    }
    CHECK("it holds", read(pipes[0], &byte, 1) == 1);
    rig_open(&rig, dir, "");
    eye_open(&eye, &rig, "a", true);
    see(&eye, "begin", COORD_SNAPSHOT_BEGIN, "");
    see(&eye, "it", COORD_ENTRY, "a/k");
    see(&eye, "end", COORD_SNAPSHOT_END, "");
    (void)kill(pid, SIGKILL);
    (void)child_wait(pid);
    see(&eye, "although an hour is left", COORD_EXPIRE, "a/k");
    CHECK_ANSWER("over", rig_get(&rig, "a/k", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    eye_close(&eye);
    rig_close(&rig);
    file_hooks.look_ms = 0;
}

/* Builds a state from the events, and checks W2 meanwhile. */
struct view {
    uint64_t revision[64];
    char value[64][24];
    bool live[64];
    int resyncs;
};

static void view_take(struct view *view, const coord_event *event, bool *snapshot)
{
    if (event->type == COORD_RESYNC) {
        view->resyncs++;
        return;
    }
    if (event->type == COORD_SNAPSHOT_BEGIN) {
        memset(view->live, 0, sizeof view->live);
        *snapshot = true;
        return;
    }
    if (event->type == COORD_SNAPSHOT_END) {
        *snapshot = false;
        return;
    }
    char key[64];
    int at = -1;
    (void)snprintf(key, sizeof key, "%.*s", (int)event->key.len, event->key.at);
    CHECK("only our keys", sscanf(key, "a/k%d", &at) == 1 && at >= 0 && at < 64);
    CHECK("revisions only grow",
          *snapshot ? event->revision >= view->revision[at] : event->revision > view->revision[at]);
    view->revision[at] = event->revision;
    view->live[at] = event->type == COORD_PUT || event->type == COORD_ENTRY;
    (void)snprintf(view->value[at], sizeof view->value[at], "%.*s", (int)event->value.len,
                   event->value.at);
}

static void write_much(void *arg)
{
    struct rig rig = {0};
    char key[32], value[32];
    unsigned seed = (unsigned)getpid();
    const char *dir = ((void **)arg)[0];
    int times = *(int *)((void **)arg)[1];
    file_hooks.no_collector = true;
    if (rig_try(&rig, dir, "").code != COORD_OK) { child_wrong("open"); }
    for (int i = 0; i < times; i++) {
        (void)snprintf(key, sizeof key, "a/k%d", rand_r(&seed) % 64);
        (void)snprintf(value, sizeof value, "%d-%d", (int)getpid(), i);
        coord_result now = rig_get(&rig, key, NULL, 0);
        if (now.code == COORD_OK && rand_r(&seed) % 3 == 0) {
            (void)rig_remove(&rig, key, now.revision, NULL);
        } else if (now.code == COORD_OK) {
            (void)rig_cas(&rig, key, now.revision, value, -1, NULL, NULL);
        } else {
            (void)rig_create(&rig, key, value, 0, "", NULL);
        }
    }
}

static bool view_holds(struct rig *rig, const struct view *view)
{
    for (int i = 0; i < 64; i++) {
        char key[32], value[32] = "";
        (void)snprintf(key, sizeof key, "a/k%d", i);
        coord_result now = rig_get(rig, key, value, sizeof value);
        if ((now.code == COORD_OK) != view->live[i]) return false;
        if (now.code == COORD_OK && strcmp(view->value[i], value) != 0) return false;
    }
    return true;
}

static void check_view(struct rig *rig, const struct view *view)
{
    for (int i = 0; i < 64; i++) {
        char key[32], value[32] = "";
        (void)snprintf(key, sizeof key, "a/k%d", i);
        coord_result now = rig_get(rig, key, value, sizeof value);
        CHECK("as it is", (now.code == COORD_OK) == view->live[i]);
        if (now.code == COORD_OK) { CHECK_TEXT("the last value", view->value[i], value); }
    }
}

/* Reads events until the watch is silent and the view equals the store. Silence alone is not
 * enough, because the reader may wake before the reporter. */
static void view_settle(struct eye *eye, struct view *view, bool *snapshot, int silence_ms)
{
    int64_t end = prim_boottime_ns(NULL) + PATIENCE_MS * NS_IN_MS;
    coord_event event;

    do {
        while (prim_feed_next(eye->feed, silence_ms, &event) == 1)
            view_take(view, &event, snapshot);
    } while (!view_holds(eye->rig, view) && prim_boottime_ns(NULL) < end);
    check_view(eye->rig, view);
}

TEST(H04_J15_snapshot_and_stream_make_the_final_state_and_show_nothing_else)
{
    struct rig rig;
    struct eye eye;
    struct view view = {0};
    bool snapshot = false;
    coord_event event;
    const char *dir = rig_memory_dir();
    int times = 400 * rounds(1);
    void *arg[] = {(void *)(uintptr_t)dir, &times};
    pid_t pids[3];
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    for (int i = 0; i < 3; i++) { pids[i] = child_start(write_much, arg); }
    rig_sleep_ms(50);
    eye_open(&eye, &rig, "a", true);
    int left = 3;
    while (left > 0) {
        while (prim_feed_next(eye.feed, 20, &event) == 1) { view_take(&view, &event, &snapshot); }
        while (left > 0 && waitpid(-1, NULL, WNOHANG) > 0) { left--; }
    }
    view_settle(&eye, &view, &snapshot, 500);
    (void)pids;
    eye_close(&eye);
    rig_close(&rig);
}

/* -- overflow: the watcher is held up while the kernel's queue runs over -- */

static atomic_bool held_up, waits_there;
static int hold_up(void *arg, enum file_step step)
{
    (void)arg;
    while (step == STEP_WATCH_WAIT && atomic_load(&held_up)) {
        atomic_store(&waits_there, true);
        rig_sleep_ms(2);
    }
    return 0;
}

static int queue_length(void)
{
    int length = 16384;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    if (file != NULL) {
        if (fscanf(file, "%d", &length) != 1) { length = 16384; }
        (void)fclose(file);
    }
    return length;
}

TEST(J16_when_the_kernels_queue_overflows_the_reader_gets_a_resync_and_then_the_truth)
{
    struct rig rig;
    struct eye eye;
    struct view view = {0};
    bool snapshot = false;
    coord_event event;
    char path[2][700];
    const char *dir = rig_memory_dir();
    int length = queue_length();
    if (length > 100000) { SKIP("the kernel's queue holds %d events", length); }
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/k0", "first", 0, "", NULL);
    eye_open(&eye, &rig, "a", true);
    do {
        CHECK("a snapshot", prim_feed_next(eye.feed, PATIENCE_MS, &event) == 1);
        view_take(&view, &event, &snapshot);
    } while (event.type != COORD_SNAPSHOT_END);
    atomic_store(&held_up, true);
    file_hooks.step = hold_up;
    while (!atomic_load(&waits_there)) { rig_sleep_ms(2); } /* a turn takes a second at most */
    /* Names in h/ that are no heads, so that the queue fills quickly. */
    (void)snprintf(path[0], sizeof path[0], "%s/b/a/h/.x", dir);
    (void)snprintf(path[1], sizeof path[1], "%s/b/a/h/.y", dir);
    int fd = open(path[0], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK("a file", fd >= 0);
    (void)close(fd);
    for (int i = 0; i < length + 100; i++) {
        CHECK("moved", rename(path[i % 2], path[1 - i % 2]) == 0);
    }
    (void)unlink(path[0]);
    (void)unlink(path[1]);
    coord_result now = rig_get(&rig, "a/k0", NULL, 0);
    (void)rig_cas(&rig, "a/k0", now.revision, "last", -1, NULL, NULL);
    (void)rig_create(&rig, "a/k1", "new", 0, "", NULL);
    atomic_store(&held_up, false);
    do {
        CHECK("it goes on", prim_feed_next(eye.feed, PATIENCE_MS, &event) == 1);
        view_take(&view, &event, &snapshot);
    } while (event.type != COORD_SNAPSHOT_END);
    file_hooks.step = NULL;
    CHECK_I64("one resync", view.resyncs, 1);
    check_view(&rig, &view);
    eye_close(&eye);
    rig_close(&rig);
}

TEST(H07_a_reader_that_lags_gets_a_resync_and_holds_nobody_up)
{
    struct rig rig;
    struct eye eye;
    struct view view = {0};
    bool snapshot = false;
    coord_event event;
    const char *dir = rig_memory_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    static char big[PRIM_VALUE_LARGE_MAX];
    memset(big, 'x', sizeof big - 1);
    eye_open(&eye, &rig, "a", true);
    CHECK("begun", prim_feed_next(eye.feed, PATIENCE_MS, &event) == 1);
    coord_result now = rig_create(&rig, "a/k0", big, 0, "", NULL);
    for (int i = 0; i < 80; i++) { /* more than the queue's 64 MiB */
        now = rig_cas(&rig, "a/k0", now.revision, big, -1, NULL, NULL);
        CHECK_ANSWER("writers go on", now, COORD_OK, COORD_R_UPDATED);
        rig_sleep_ms(5);
    }
    now = rig_cas(&rig, "a/k0", now.revision, "last", -1, NULL, NULL);
    view_settle(&eye, &view, &snapshot, 1500);
    (void)fprintf(stderr, "# %d resyncs\n", view.resyncs);
    eye_close(&eye);
    rig_close(&rig);
}

static int count_turns(void *arg, enum file_step step)
{
    if (step == STEP_WATCH_WAIT) { atomic_fetch_add((atomic_int *)arg, 1); }
    return 0;
}

TEST(H10_a_directory_that_is_removed_ends_the_stream)
{
    struct rig rig;
    struct eye eye;
    struct rig_lease lease;
    char command[800];
    coord_event event;
    atomic_int turns = 0;
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    file_hooks.step = count_turns;
    file_hooks.arg = &turns;
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/k", "1", 60000, "me", &lease);
    rig_guard(&rig, &lease);
    while (atomic_load(&turns) == 0) { rig_sleep_ms(10); }
    eye_open(&eye, &rig, "a", true);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK("removed", system(command) == 0);
    do {
        CHECK("an event", prim_feed_next(eye.feed, PATIENCE_MS, &event) == 1);
    } while (event.type != COORD_CLOSED);
    CHECK_I64("why", event.reason, COORD_R_STORAGE);
    rig_await(&rig.lost);
    CHECK_I64("its holder learns it", atomic_load(&rig.lost_reason), COORD_R_REVOKED);
    file_hooks.step = NULL;
    eye_close(&eye);
    rig_close(&rig);
}

TEST(O3_a_head_removed_by_hand_is_reported_to_its_holder)
{
    struct rig rig;
    struct rig_lease lease;
    char path[700];
    const char *dir = rig_dir();
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/k", "1", 60000, "me", &lease);
    rig_guard(&rig, &lease);
    (void)snprintf(path, sizeof path, "%s/b/a/h/k", dir);
    CHECK("removed", unlink(path) == 0);
    rig_await(&rig.lost);
    CHECK_I64("reported", atomic_load(&rig.lost_reason), COORD_R_REVOKED);
    CHECK_ANSWER("and by a renewal", rig_renew(&rig, &lease), COORD_EXPIRED, COORD_R_REVOKED);
    rig_unguard(&rig);
    rig_close(&rig);
}

/* W4: a change that could not be read must still be reported. */
TEST(a_change_that_could_not_be_read_is_reported_when_it_can)
{
    struct rig rig, other;
    struct eye eye;
    struct rlimit limit, none;
    atomic_int turns = 0;
    const char *dir = rig_dir();
    int start[2], status = -1;
    file_hooks.no_collector = true;
    CHECK_I64("a pipe", pipe(start), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        if (read(start[0], &byte, 1) != 1) { _exit(1); }
        rig_open(&other, dir, "");
        coord_result made = rig_create(&other, "a/k", "1", 0, "", NULL);
        rig_close(&other);
        _exit(made.code == COORD_OK ? 0 : 1);
    }
    file_hooks.step = count_turns;
    file_hooks.arg = &turns;
    rig_open(&rig, dir, "");
    eye_open(&eye, &rig, "a", true);
    see_empty_snapshot(&eye);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    CHECK_I64("no more descriptors here", setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_I64("go", write(start[1], "!", 1), 1);
    CHECK_I64("waited", waitpid(child, &status, 0), child);
    CHECK_I64("it was made", status, 0);
    int seen = atomic_load(&turns);
    while (atomic_load(&turns) < seen + 3) { rig_sleep_ms(10); }
    CHECK_I64("descriptors again", setrlimit(RLIMIT_NOFILE, &limit), 0);
    see(&eye, "something may be missing", COORD_RESYNC, "");
    see(&eye, "begin", COORD_SNAPSHOT_BEGIN, "");
    see(&eye, "the change", COORD_ENTRY, "a/k");
    see(&eye, "end", COORD_SNAPSHOT_END, "");
    file_hooks.step = NULL;
    eye_close(&eye);
    rig_close(&rig);
    (void)close(start[0]);
    (void)close(start[1]);
}

/* The process that created the lease is dead and not reaped; the one that imported it lives. The
 * watch must ignore the dead one, although its descriptor stays readable. */
TEST(a_watch_does_not_spin_over_a_dead_process_whose_lease_lives_on)
{
    struct rig rig, other;
    struct eye eye;
    atomic_int turns = 0;
    const char *dir = rig_dir();
    int64_t left_ms = 0;
    siginfo_t end;
    struct rig_lease *lease =
        mmap(NULL, sizeof *lease, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK("shared memory", lease != MAP_FAILED);
    file_hooks.no_collector = true;
    int ready[2];
    CHECK_I64("a pipe", pipe(ready), 0);
    rig_open(&rig, dir, "");
    pid_t child = fork();
    if (child == 0) {
        rig_open(&other, dir, "");
        bool made = rig_create(&other, "a/k", "1", 600000, "me", lease).code == COORD_OK;
        ssize_t reported = write(ready[1], made ? "!" : "?", 1);
        (void)reported;
        for (;;) { (void)pause(); } /* until it is killed */
    }
    char byte = 0;
    CHECK_I64("reported", read(ready[0], &byte, 1), 1);
    CHECK_I64("made", byte, '!');
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS,
                             .request_id = prim_id_request()};
    CHECK_ANSWER("imported", rig.backend->ops->adopt(rig.backend, &call, &lease->claim, &left_ms),
                 COORD_OK, COORD_R_RENEWED);
    CHECK_I64("killed", kill(child, SIGKILL), 0);
    CHECK_I64("dead, and not reaped", waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT), 0);
    file_hooks.step = count_turns;
    file_hooks.arg = &turns;
    eye_open(&eye, &rig, "a", true);
    see(&eye, "begin", COORD_SNAPSHOT_BEGIN, "");
    see(&eye, "it lives", COORD_ENTRY, "a/k");
    see(&eye, "end", COORD_SNAPSHOT_END, "");
    rig_sleep_ms(500);
    CHECK("the watch is at rest", atomic_load(&turns) < 100);
    file_hooks.step = NULL;
    eye_close(&eye);
    CHECK_ANSWER("renewed", rig_renew(&rig, lease), COORD_OK, COORD_R_RENEWED);
    rig_close(&rig);
    (void)waitpid(child, NULL, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    (void)munmap(lease, sizeof *lease);
}
