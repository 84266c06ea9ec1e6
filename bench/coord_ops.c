/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a claim on each store: acquire+release, compare and set, renew, and check(), one
 * caller, every URL in one run. Beside it the least that the store could do for the same promise,
 * measured in the same run:
 *   mem:    a mutex, locked and unlocked, and one look at the clock
 *   file:   renew: lock a record, write 128 bytes, unlock. set: a synced file renamed into a synced
 *           directory. acquire+release: two files renamed into place, unsynced
 *   others: nothing here; bench_etcd.py sends the same transaction with a bare client
 * check() is compared with one look at the clock. For file: also the time until another client has
 * the slot of a killed holder.
 *
 *   coord_ops URL...            (%t in a URL: a directory of this run)
 *   coord_ops --hold URL GROUP  holds a slot until it is killed */
#include <fcntl.h>
#include <ftw.h>
#include <muster/coord.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "latency.h"

enum { SECONDS_EACH_MS = 1200, ROUNDS_MAX = 400000, TTL_MS = 60000, KILLS = 12 };

struct figures {
    double per_second, cpu_us;
    uint64_t p50_ns, p99_ns;
};
typedef void op_fn(void *arg);

static uint64_t now_ns(void)
{
    return (uint64_t)clock_ns(CLOCK_BOOTTIME);
}

/* As many as fit into the time, each timed. */
static struct figures measure(op_fn *op, void *arg)
{
    static struct latency latency;
    latency = (struct latency){.count = 0};
    for (int i = 0; i < 20; i++) { op(arg); }
    uint64_t began = now_ns(), until = began + SECONDS_EACH_MS * 1000000ull, at = began;
    double cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; at < until && i < ROUNDS_MAX; i++) {
        uint64_t start = at;
        op(arg);
        at = now_ns();
        latency_add(&latency, at - start);
    }
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    double count = (double)latency.count;
    return (struct figures){count * 1e9 / (double)(at - began), cpu / count / 1e3,
                            latency_at(&latency, 0.50), latency_at(&latency, 0.99)};
}

static void print_row(const char *what, const struct figures *f, const struct figures *least)
{
    printf("  %-16s %9.0f /s   p50 %9.1f us   p99 %9.1f us   CPU %7.2f us", what, f->per_second,
           (double)f->p50_ns / 1e3, (double)f->p99_ns / 1e3, f->cpu_us);
    if (least != NULL) {
        printf("   least %9.0f /s, p50 %8.1f us: %.2f x", least->per_second,
               (double)least->p50_ns / 1e3, (double)f->p50_ns / (double)least->p50_ns);
    }
    printf("\n");
    (void)fflush(stdout);
}

/* -- through the library -- */

struct subject {
    coord_store *store;
    coord_lease *lease;
    char group[64], key[64];
    uint64_t revision;
};
static coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}
static coord_result acquire(coord_store *store, const char *group, const char *owner,
                            int64_t wait_ms, coord_lease **lease)
{
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = text(group);
    request.owner = owner;
    request.ttl_ms = TTL_MS;
    request.wait_ms = wait_ms;
    return coord_acquire_slot(store, &(coord_call){.timeout_ms = 30000}, &request, lease);
}
static void do_acquire(void *arg)
{
    struct subject *s = arg;
    coord_lease *lease = NULL;
    MUST(acquire(s->store, s->group, "bench", 0, &lease).code == COORD_OK);
    MUST(coord_release(lease, NULL).code == COORD_OK);
    coord_lease_unref(lease);
}
static void do_cas(void *arg)
{
    struct subject *s = arg;
    static const char value[128];
    coord_result r =
        coord_compare_and_set(s->store, NULL, text(s->key), s->revision,
                              (coord_str){value, sizeof value}, COORD_TTL_KEEP, NULL, NULL, NULL);
    MUST(r.code == COORD_OK);
    s->revision = r.revision;
}
static void do_renew(void *arg)
{
    struct subject *s = arg;
    MUST(coord_renew(s->lease, NULL).code == COORD_OK);
}

/* -- the least -- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void least_mem(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&mutex);
    (void)now_ns();
    (void)pthread_mutex_unlock(&mutex);
}
static void least_mem_twice(void *arg)
{
    least_mem(arg);
    least_mem(arg);
}

struct bare_file {
    int dir, record;
};
static void set_lock(int fd, short kind)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_len = 1};
    MUST(fcntl(fd, F_OFD_SETLK, &lock) == 0);
}
static void least_renew(void *arg)
{
    struct bare_file *b = arg;
    static const char record[128];
    set_lock(b->record, F_WRLCK);
    MUST(pwrite(b->record, record, sizeof record, 0) == sizeof record);
    set_lock(b->record, F_UNLCK);
}
static void publish(struct bare_file *b, bool durable)
{
    static const char head[300];
    int fd = openat(b->dir, "temp", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, head, sizeof head) == sizeof head);
    if (durable) { MUST(fdatasync(fd) == 0); }
    MUST(renameat(b->dir, "temp", b->dir, "head") == 0);
    if (durable) { MUST(fsync(b->dir) == 0); }
    (void)close(fd);
}
static void least_cas(void *arg)
{
    publish(arg, true);
}
static void least_acquire(void *arg)
{
    publish(arg, false);
    publish(arg, false);
}

/* -- check() -- */

static void bench_check(const struct subject *s)
{
    enum { CALLS = 5000000 };
    double best = 1e9, least = 1e9;
    for (int round = 0; round < 3; round++) {
        double start = clock_ns(CLOCK_MONOTONIC);
        int live = 0;
        for (int i = 0; i < CALLS; i++) { live += coord_check(s->lease) == COORD_OK; }
        double took = (clock_ns(CLOCK_MONOTONIC) - start) / CALLS;
        MUST(live == CALLS);
        if (took < best) { best = took; }
        struct timespec now;
        start = clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < CALLS; i++) { MUST(clock_gettime(CLOCK_BOOTTIME, &now) == 0); }
        took = (clock_ns(CLOCK_MONOTONIC) - start) / CALLS;
        if (took < least) { least = took; }
    }
    printf("  check()          %.1f ns a call; one look at the clock %.1f ns: %.2f x\n", best,
           least, best / least);
}

/* -- a killed holder -- */

static int hold(const char *url, const char *group)
{
    coord_store *store = NULL;
    coord_lease *lease = NULL;
    if (coord_open(url, NULL, &store).code != COORD_OK ||
        acquire(store, group, "holder", 0, &lease).code != COORD_OK) {
        return 1;
    }
    MUST(write(1, "h", 1) == 1);
    for (;;) { (void)pause(); } /* until it is killed */
}

/* Waiting: one call that may wait. Else the next asks again and again. */
static void bench_takeover(const char *program, const char *url, const struct subject *s,
                           bool waiting)
{
    uint64_t worst = 0, sum = 0;
    for (int i = 0; i < KILLS; i++) {
        int out[2];
        char byte;
        coord_lease *lease = NULL;
        MUST(pipe2(out, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
            (void)dup2(out[1], 1);
            (void)execl(program, program, "--hold", url, "bench-killed", (char *)NULL);
            _exit(127);
        }
        (void)close(out[1]);
        MUST(read(out[0], &byte, 1) == 1);
        (void)close(out[0]);
        uint64_t start = now_ns();
        MUST(kill(pid, SIGKILL) == 0);
        while (acquire(s->store, "bench-killed", "next", waiting ? 20000 : 0, &lease).code !=
               COORD_OK) {
            MUST(!waiting && now_ns() - start < 20000000000ull);
            (void)usleep(1000);
        }
        uint64_t took = now_ns() - start;
        MUST(waitpid(pid, NULL, 0) == pid);
        MUST(coord_release(lease, NULL).code == COORD_OK);
        coord_lease_unref(lease);
        sum += took;
        if (took > worst) { worst = took; }
    }
    printf("  killed holder    mean %.1f ms, worst of %d %.1f ms until another has its slot, %s\n",
           (double)sum / KILLS / 1e6, KILLS, (double)worst / 1e6,
           waiting ? "one call that waits" : "asked again every ms");
}

/* -- a run -- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void bench_url(const char *program, const char *given)
{
    struct subject s = {.store = NULL};
    char url[4096], dir[64] = "", bare[4200] = "";
    const char *mark = strstr(given, "%t");
    (void)snprintf(url, sizeof url, "%s", given);
    if (mark != NULL) {
        (void)snprintf(dir, sizeof dir, "%s", "/tmp/bench-coord-XXXXXX");
        MUST(mkdtemp(dir) != NULL);
        (void)snprintf(url, sizeof url, "%.*s%s%s", (int)(mark - given), given, dir, mark + 2);
    }
    coord_result opened = coord_open(url, NULL, &s.store);
    if (opened.code != COORD_OK) {
        printf("%s: %s\n", given, opened.text);
        exit(1);
    }
    coord_caps caps = coord_capabilities(s.store);
    printf("%s (%s)\n", given, caps.server);
    (void)snprintf(s.group, sizeof s.group, "bench-%d/group", (int)getpid());
    (void)snprintf(s.key, sizeof s.key, "bench-%d/key", (int)getpid());
    coord_result made = coord_create_if_absent(s.store, NULL, text(s.key), text(""), 0, NULL, NULL);
    MUST(made.code == COORD_OK);
    s.revision = made.revision;
    MUST(acquire(s.store, "bench-renew", "renew", 0, &s.lease).code == COORD_OK);

    bool memory = strncmp(given, "mem:", 4) == 0, file = strncmp(given, "file:", 5) == 0;
    struct bare_file b = {-1, -1};
    if (file) { /* on the same disk */
        (void)snprintf(bare, sizeof bare, "%s-bare", url + strlen("file://"));
        MUST(mkdir(bare, 0700) == 0);
        b.dir = open(bare, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        b.record = openat(b.dir, "record", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        MUST(b.dir >= 0 && b.record >= 0);
    }
    const struct {
        const char *what;
        op_fn *op, *least_memory, *least_file;
    } rows[] = {{"acquire+release", do_acquire, least_mem_twice, least_acquire},
                {"compare and set", do_cas, least_mem, least_cas},
                {"renew", do_renew, least_mem, least_renew}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct figures f = measure(rows[i].op, &s), least = {0};
        if (memory) { least = measure(rows[i].least_memory, NULL); }
        if (file) { least = measure(rows[i].least_file, &b); }
        print_row(rows[i].what, &f, memory || file ? &least : NULL);
    }
    bench_check(&s);
    if (file) {
        bench_takeover(program, url, &s, false);
        bench_takeover(program, url, &s, true);
        (void)close(b.record);
        (void)close(b.dir);
        (void)nftw(bare, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    (void)coord_release(s.lease, NULL);
    coord_lease_unref(s.lease);
    (void)coord_delete(s.store, NULL, text(s.key), COORD_ANY, NULL);
    coord_close(s.store);
    if (dir[0] != '\0') { (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--hold") == 0) { return hold(argv[2], argv[3]); }
    if (argc < 2) {
        (void)fputs("coord_ops URL...\n", stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++) { bench_url(argv[0], argv[i]); }
    return 0;
}
