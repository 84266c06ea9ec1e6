/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients at once: threads, or processes that are this same program with --child. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

extern char **environ;

/* -- writing down -- */

void noted(struct worker *w, const struct history_op *op)
{
    if (!history_add(&w->history, op)) { w->failed = 1; }
}

static void fill(struct history_op *op, coord_result r, const char *key)
{
    op->replied_ns = real_now_ns();
    op->code = r.code;
    op->reason = r.reason;
    op->revision = r.revision;
    op->token = r.token;
    op->slot = r.slot;
    op->ttl_ms = r.granted_ttl_ms;
    /* Keeps the end of a long key, which is its distinct part. */
    size_t len = strlen(key);
    (void)snprintf(op->key, sizeof op->key, "%s",
                   len < HISTORY_KEY_CAP ? key : key + len - HISTORY_KEY_CAP + 1);
}

static uint64_t next_handle(struct worker *w)
{
    return ((uint64_t)(w->index + 1) << 32) | ++w->handles;
}

coord_result noted_create(struct worker *w, const char *key, int64_t ttl_ms, const char *owner,
                          coord_lease **lease, uint64_t *handle)
{
    struct history_op op = {
        .op = COORD_OP_CREATE, .client = w->index, .called_ns = real_now_ns(), .slots_max = 1};
    coord_result r = create(w->store, key, "v", ttl_ms, owner, lease);
    fill(&op, r, key);
    if (r.code == COORD_OK && ttl_ms > 0) { op.handle = *handle = next_handle(w); }
    noted(w, &op);
    return r;
}

coord_result noted_acquire(struct worker *w, const char *group, uint32_t slot_count,
                           uint32_t slots_max, const char *owner, int64_t ttl_ms, uint32_t flags,
                           coord_lease **lease, uint64_t *handle)
{
    struct history_op op = {.op = COORD_OP_ACQUIRE,
                            .client = w->index,
                            .called_ns = real_now_ns(),
                            .slots_max = slots_max};
    coord_result r = acquire(w->store, group, slot_count, owner, ttl_ms, flags, lease);
    fill(&op, r, group);
    if (r.code == COORD_OK) { op.handle = *handle = next_handle(w); }
    noted(w, &op);
    return r;
}

coord_result noted_renew(struct worker *w, coord_lease *lease, uint64_t handle)
{
    struct history_op op = {
        .op = COORD_OP_RENEW, .client = w->index, .called_ns = real_now_ns(), .handle = handle};
    coord_result r = coord_renew(lease, NULL);
    fill(&op, r, "");
    noted(w, &op);
    return r;
}

coord_result noted_release(struct worker *w, coord_lease *lease, uint64_t handle)
{
    struct history_op op = {
        .op = COORD_OP_RELEASE, .client = w->index, .called_ns = real_now_ns(), .handle = handle};
    coord_result r = coord_release(lease, NULL);
    fill(&op, r, "");
    noted(w, &op);
    return r;
}

static worker_fn *kind_named(const char *name)
{
    for (const struct worker_kind *kind = worker_kinds; kind->name != NULL; kind++) {
        if (strcmp(kind->name, name) == 0) { return kind->run; }
    }
    return NULL;
}

/* -- threads -- */

struct thread {
    struct worker worker;
    worker_fn *run;
    pthread_barrier_t *barrier;
    pthread_t id;
};

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    (void)pthread_barrier_wait(t->barrier);
    t->run(&t->worker);
    return NULL;
}

static bool merge(struct history *into, const struct history *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!history_add(into, &from->ops[i])) { return false; }
    }
    return true;
}

bool workers_threads(struct suite *s, const char *kind, uint32_t count, long a, long b,
                     struct history *history)
{
    worker_fn *run = kind_named(kind);
    if (run == NULL) {
        suite_fail(s, __FILE__, __LINE__, "kind", "no worker %s", kind);
        return false;
    }
    struct thread *threads = calloc(count, sizeof *threads);
    pthread_barrier_t barrier;
    bool fine = threads != NULL && pthread_barrier_init(&barrier, NULL, count) == 0;
    enum { STORES = 8 };
    coord_store *stores[STORES] = {0};
    for (uint32_t i = 0; fine && i < STORES && i < count; i++) {
        stores[i] = suite_open(s);
        fine = stores[i] != NULL;
    }
    for (uint32_t i = 0; fine && i < count; i++) {
        threads[i] = (struct thread){.run = run,
                                     .barrier = &barrier,
                                     .worker = {.s = s,
                                                .store = stores[i % STORES],
                                                .index = i,
                                                .count = count,
                                                .prefix = s->prefix,
                                                .a = a,
                                                .b = b}};
        if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0) { abort(); }
    }
    for (uint32_t i = 0; fine && i < count; i++) { (void)pthread_join(threads[i].id, NULL); }
    for (uint32_t i = 0; fine && i < count; i++) {
        if (threads[i].worker.failed || !merge(history, &threads[i].worker.history)) {
            suite_fail(s, __FILE__, __LINE__, "worker", "worker %u failed: %d", i,
                       (int)threads[i].worker.failed);
        }
        history_deinit(&threads[i].worker.history);
    }
    for (uint32_t i = 0; i < STORES; i++) {
        if (stores[i] != NULL) { suite_close_now(s, stores[i]); }
    }
    free(threads);
    if (fine && !s->failed) { return true; }
    history_deinit(history);
    return false;
}

/* -- processes -- */

static bool read_all(int fd, void *out, size_t len)
{
    char *at = out;
    while (len > 0) {
        ssize_t got = read(fd, at, len);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0) { return false; }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t put = write(fd, at, len);
        if (put < 0 && errno == EINTR) { continue; }
        if (put <= 0) { return false; }
        at += put;
        len -= (size_t)put;
    }
    return true;
}

/* A child with pipes as its standard input and output. */
static bool spawn(char *const argv[], int *ret_pid, int *ret_in, int *ret_out)
{
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(in, O_CLOEXEC) != 0) { return false; }
    if (pipe2(out, O_CLOEXEC) != 0) {
        (void)close(in[0]);
        (void)close(in[1]);
        return false;
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    int error = posix_spawn(ret_pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    if (error != 0) {
        (void)close(in[1]);
        (void)close(out[0]);
        return false;
    }
    *ret_in = in[1];
    *ret_out = out[0];
    return true;
}

static bool spawn_self(struct suite *s, const char *role, const char *kind, const char *prefix,
                       const long numbers[4], struct helper *ret_helper)
{
    char text_[4][24], outages[24];
    (void)snprintf(outages, sizeof outages, "%lld", (long long)patience_outage_ms());
    for (int i = 0; i < 4; i++) { (void)snprintf(text_[i], sizeof text_[i], "%ld", numbers[i]); }
    char *argv[] = {(char *)s->program,
                    "--url",
                    (char *)s->url,
                    (char *)role,
                    (char *)kind,
                    "--prefix",
                    (char *)prefix,
                    "--numbers",
                    text_[0],
                    text_[1],
                    text_[2],
                    text_[3],
                    s->full ? "--full" : "--quick",
                    "--outages",
                    outages,
                    NULL};
    return spawn(argv, &ret_helper->pid, &ret_helper->in, &ret_helper->out);
}

bool workers_processes(struct suite *s, const char *kind, uint32_t count, long a, long b,
                       struct history *history)
{
    struct helper *children = calloc(count, sizeof *children);
    uint32_t started = 0;
    bool fine = children != NULL;
    for (; fine && started < count; started++) {
        fine = spawn_self(s, "--child", kind, s->prefix,
                          (const long[]){(long)started, (long)count, a, b}, &children[started]);
        if (!fine) { break; }
    }
    char byte;
    for (uint32_t i = 0; fine && i < count; i++) { /* each child reports when its store is open */
        fine = read_all(children[i].out, &byte, 1);
    }
    for (uint32_t i = 0; fine && i < count; i++) { fine = write_all(children[i].in, "g", 1); }
    for (uint32_t i = 0; fine && i < count; i++) {
        uint64_t ops;
        fine = read_all(children[i].out, &ops, sizeof ops);
        for (uint64_t n = 0; fine && n < ops; n++) {
            struct history_op op;
            fine = read_all(children[i].out, &op, sizeof op) && history_add(history, &op);
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        int status = 0;
        (void)close(children[i].in);
        (void)close(children[i].out);
        if (!fine) { (void)kill(children[i].pid, SIGKILL); }
        while (waitpid(children[i].pid, &status, 0) < 0 && errno == EINTR) {}
        if (fine && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) { fine = false; }
    }
    free(children);
    if (!fine) { suite_fail(s, __FILE__, __LINE__, "process", "a worker process failed"); }
    return fine;
}

bool workers_run(struct suite *s, const char *kind, uint32_t count, long a, long b,
                 struct history *history)
{
    return s->processes && s->caps.scope != COORD_SCOPE_PROCESS
               ? workers_processes(s, kind, count, a, b, history)
               : workers_threads(s, kind, count, a, b, history);
}

/* Without the parent a write must fail instead of killing the child. */
static coord_store *child_open(struct suite *s, const char *prefix, const coord_options *options)
{
    coord_store *store = NULL;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(s->prefix, sizeof s->prefix, "%s", prefix);
    coord_result r = coord_open(s->url, options, &store);
    if (r.code != COORD_OK) {
        (void)fprintf(stderr, "child: open: %s\n", r.text);
        return NULL;
    }
    s->store = store;
    s->caps = coord_capabilities(store);
    s->limits = coord_store_limits(store);
    return store;
}

int workers_child(struct suite *s, const char *kind, uint32_t index, uint32_t count,
                  const char *prefix, long a, long b)
{
    worker_fn *run = kind_named(kind);
    coord_store *store = child_open(s, prefix, NULL);
    if (store == NULL || run == NULL) { return 1; }
    struct worker w = {.s = s,
                       .store = store,
                       .index = index,
                       .count = count,
                       .prefix = s->prefix,
                       .a = a,
                       .b = b};
    char byte;
    bool fine = write_all(1, "r", 1) && read_all(0, &byte, 1);
    if (fine) { run(&w); }
    uint64_t ops = w.history.count;
    fine = fine && !w.failed && write_all(1, &ops, sizeof ops) &&
           write_all(1, w.history.ops, ops * sizeof *w.history.ops);
    history_deinit(&w.history);
    coord_close(store);
    return fine ? 0 : 1;
}

/* -- helpers -- */

bool helper_start(struct suite *s, const char *kind, long a, struct helper *ret_helper)
{
    if (spawn_self(s, "--helper", kind, s->prefix, (const long[]){a, 0, 0, 0}, ret_helper)) {
        return true;
    }
    suite_fail(s, __FILE__, __LINE__, "spawn", "cannot start a helper");
    return false;
}

bool helper_line(struct suite *s, struct helper *h, char *line, size_t cap)
{
    size_t len = 0;
    while (len + 1 < cap && read_all(h->out, line + len, 1)) {
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
        len++;
    }
    suite_fail(s, __FILE__, __LINE__, "line", "the helper ended");
    return false;
}

void helper_say(struct helper *h, const char *line)
{
    (void)write_all(h->in, line, strlen(line));
    (void)write_all(h->in, "\n", 1);
}

void helper_kill(struct helper *h, int signal_)
{
    (void)kill(h->pid, signal_);
}

void helper_end(struct helper *h)
{
    (void)kill(h->pid, SIGKILL);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) {}
    (void)close(h->in);
    (void)close(h->out);
}

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    (void)lease;
    (void)arg;
    /* One short line: below PIPE_BUF, so it cannot mix with the others. */
    char line[64];
    int len = snprintf(line, sizeof line, "lost %s\n", coord_reason_name(reason));
    (void)!write(1, line, (size_t)len);
}

/* Holds the slot of the group "g" and runs commands, a line each: export, keep, check, renew, quit.
 * "outlive": the claim must live on when this process is killed. */
int helper_child(struct suite *s, const char *kind, long a, const char *prefix)
{
    coord_lease *lease = NULL;
    char line[64];
    coord_options options = {.no_early_death = strcmp(kind, "outlive") == 0};
    coord_store *store = child_open(s, prefix, &options);
    if (store == NULL) { return 1; }
    char owner[32];
    (void)snprintf(owner, sizeof owner, "helper-%d", (int)getpid());
    coord_result r = acquire(store, N("g"), 1, owner, a, 0, &lease);
    printf("%s %llu\n", coord_reason_name(r.reason), (unsigned long long)r.token);
    (void)fflush(stdout);
    while (r.code == COORD_OK && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "keep") == 0) {
            printf("%s\n", coord_code_name(coord_keep(lease, on_lost, NULL).code));
        } else if (strcmp(line, "check") == 0) {
            printf("%s\n", coord_code_name(coord_check(lease)));
        } else if (strcmp(line, "renew") == 0) {
            coord_result renewed = coord_renew(lease, NULL);
            printf("%s/%s\n", coord_code_name(renewed.code), coord_reason_name(renewed.reason));
        } else if (strcmp(line, "export") == 0) {
            unsigned char blob[2048];
            size_t len = coord_lease_export(lease, blob, sizeof blob);
            for (size_t i = 0; i < len && len <= sizeof blob; i++) { printf("%02x", blob[i]); }
            printf("\n");
        } else if (strcmp(line, "quit") == 0) {
            break;
        }
        (void)fflush(stdout);
    }
    coord_lease_unref(lease);
    coord_close(store);
    return 0;
}
