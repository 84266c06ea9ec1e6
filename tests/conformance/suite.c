/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "stall.h"

/* -- judging -- */

static void complain(struct suite *s, const char *file, int line, const char *text_)
{
    const char *slash = strrchr(file, '/');
    if (s->failed) { return; }
    s->failed = true;
    (void)snprintf(s->why, sizeof s->why, "%s:%d: %s", slash != NULL ? slash + 1 : file, line,
                   text_);
}

void suite_fail(struct suite *s, const char *file, int line, const char *what, const char *format,
                ...)
{
    char why[256], all[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    (void)snprintf(all, sizeof all, "%s (%s)", why, what);
    complain(s, file, line, all);
}

void suite_fail_numbers(struct suite *s, const char *file, int line, long long got, long long want,
                        const char *format, ...)
{
    char why[256], all[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    (void)snprintf(all, sizeof all, "%s: got %lld, want %lld", why, got, want);
    complain(s, file, line, all);
}

bool suite_want(struct suite *s, const char *file, int line, coord_result got, int code, int reason)
{
    char all[400];
    if (got.code == code && (reason == ANY_REASON || got.reason == reason)) { return true; }
    /* Asked again, and found done. */
    if (got.code == code && code == COORD_OK && patience_outage_ms() > 0 &&
        (got.reason == COORD_R_REPLAYED || got.reason == COORD_R_ALREADY)) {
        return true;
    }
    (void)snprintf(all, sizeof all, "got %s/%s (%s), want %s/%s", coord_code_name(got.code),
                   coord_reason_name(got.reason), got.text, coord_code_name(code),
                   reason == ANY_REASON ? "any" : coord_reason_name(reason));
    complain(s, file, line, all);
    return false;
}

void suite_skip(struct suite *s, const char *format, ...)
{
    va_list args;
    if (s->failed) { return; }
    s->skipped = true;
    va_start(args, format);
    (void)vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
}

/* -- names -- */

struct name suite_name(const struct suite *s, const char *leaf)
{
    struct name name;
    (void)snprintf(name.text, sizeof name.text, "%s/%s", s->prefix, leaf);
    return name;
}

coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}

coord_id suite_id(void)
{
    coord_id id;
    if (getrandom(&id, sizeof id, 0) != sizeof id) { abort(); }
    return id;
}

/* -- time -- */

static _Atomic int64_t stepped_ns;

static int64_t stepped_now(void *arg)
{
    (void)arg;
    return atomic_load(&stepped_ns);
}

int64_t real_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void real_sleep_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&pause, &pause) != 0) {}
}

void suite_pass_ms(struct suite *s, int64_t ms)
{
    if (s->stepped) {
        atomic_fetch_add(&stepped_ns, ms * MSEC);
    } else {
        real_sleep_ms(ms);
    }
}

int64_t suite_long_ttl(const struct suite *s)
{
    (void)s;
    return 60000;
}

int64_t suite_short_ttl(const struct suite *s)
{
    /* Longer than a loaded machine needs between a grant and the next line of a case. */
    int64_t least = s->stepped ? s->limits.ttl_min_ms : 500;
    return (s->limits.ttl_min_ms > least ? s->limits.ttl_min_ms : least) + patience_outage_ms();
}

void suite_pass_ttl(struct suite *s, int64_t ttl_ms)
{
    /* A server's clock may stop during outages, for at most half of the time. */
    int64_t more_ms = patience_outage_ms() > 0 ? ttl_ms + patience_outage_ms() : 50;
    suite_pass_ms(s, ttl_ms + (s->stepped ? 1 : more_ms));
}

bool suite_has(const struct suite *s, uint32_t bits)
{
    return (s->caps.bits & bits) == bits;
}

int suite_scale(const struct suite *s, int full, int quick)
{
    int scale = s->full ? full : quick;
    return s->caps.scope == COORD_SCOPE_PROCESS || s->full || scale < 6 ? scale : scale / 3;
}

/* -- stores -- */

/* The URL with `more` parameters, and the name of the shared store of mem: */
static void url_with(const struct suite *s, const char *scheme, const char *name, const char *more,
                     char *url, size_t cap)
{
    bool memory = strncmp(s->url, "mem:", 4) == 0;
    const char *mark = strchr(s->url, '?') != NULL ? "&" : "?";
    char named[64] = "";
    if (memory && name[0] != '\0') {
        (void)snprintf(named, sizeof named, "%sname=%s", mark, name);
        mark = "&";
    }
    (void)snprintf(url, cap, "%s%s%s%s%s", scheme, s->url, named, more[0] != '\0' ? mark : "",
                   more);
}

static coord_store *open_one(struct suite *s, const char *url, bool step)
{
    coord_store *store = NULL;
    coord_options options = {0};
    if (step) { options.now = stepped_now; }
    coord_result r = coord_open(url, &options, &store);
    if (r.code != COORD_OK) {
        (void)suite_want(s, __FILE__, __LINE__, r, COORD_OK, COORD_R_NONE);
        return NULL;
    }
    return store;
}

static coord_store *open_other(struct suite *s, const char *scheme, const char *more)
{
    char url[4096], name[48];
    if (s->other_count == sizeof s->others / sizeof s->others[0]) {
        suite_fail(s, __FILE__, __LINE__, "others", "too many stores in one case");
        return NULL;
    }
    (void)snprintf(name, sizeof name, "%s%s", s->name, s->stepped ? "-stepped" : "-real");
    url_with(s, scheme, name, more, url, sizeof url);
    coord_store *store = open_one(s, url, s->stepped);
    if (store != NULL) { s->others[s->other_count++] = store; }
    return store;
}

coord_store *suite_open(struct suite *s)
{
    return s->faults != NULL ? open_other(s, "fault+", s->faults) : open_other(s, "", "");
}

coord_store *suite_open_faulty(struct suite *s, const char *faults)
{
    return open_other(s, "fault+", faults);
}

coord_store *suite_open_elsewhere(struct suite *s)
{
    if (strncmp(s->url, "mem:", 4) != 0) { return NULL; }
    coord_store *store = open_one(s, s->url, s->stepped);
    if (store != NULL) { s->others[s->other_count++] = store; }
    return store;
}

void suite_close_now(struct suite *s, coord_store *store)
{
    for (size_t i = 0; i < s->other_count; i++) {
        if (s->others[i] == store) {
            s->others[i] = s->others[--s->other_count];
            break;
        }
    }
    coord_close(store);
}

/* -- short words -- */

coord_result create(coord_store *store, const char *key, const char *value, int64_t ttl_ms,
                    const char *owner, coord_lease **lease)
{
    return coord_create_if_absent(store, NULL, text(key), text(value), ttl_ms, owner, lease);
}

coord_result acquire(coord_store *store, const char *group, uint32_t slot_count, const char *owner,
                     int64_t ttl_ms, uint32_t flags, coord_lease **lease)
{
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = text(group);
    request.slot_count = slot_count;
    request.owner = owner;
    request.ttl_ms = ttl_ms;
    request.flags = flags;
    return coord_acquire_slot(store, NULL, &request, lease);
}

coord_result cas(coord_store *store, const char *key, uint64_t expected, const char *value,
                 int64_t ttl_ms, coord_lease *lease)
{
    return coord_compare_and_set(store, NULL, text(key), expected, text(value), ttl_ms, NULL, lease,
                                 NULL);
}

uint64_t value_is(coord_store *store, const char *key, const char *want)
{
    coord_entry *entry = NULL;
    uint64_t revision = UINT64_MAX;
    coord_result r = coord_get(store, NULL, text(key), COORD_LATEST, &entry);
    if (r.code == COORD_NOT_FOUND) { return 0; }
    if (r.code == COORD_OK &&
        (want == NULL || (entry->value.len == strlen(want) &&
                          memcmp(entry->value.at, want, entry->value.len) == 0))) {
        revision = entry->revision;
    }
    if (r.code == COORD_OK) { coord_entry_free(entry); }
    return revision;
}

enum { TRY_EVERY_MS = 20, TRY_FOR_MS = 60000 };

coord_result create_when_free(struct suite *s, const char *key, int64_t ttl_ms, const char *owner,
                              coord_lease **lease)
{
    int64_t until_ns = real_now_ns() + TRY_FOR_MS * MSEC;
    for (;;) { /* ends: TRY_FOR_MS */
        coord_result r = create(s->store, key, "v", ttl_ms, owner, lease);
        if (r.code != COORD_EXISTS || real_now_ns() > until_ns) { return r; }
        suite_pass_ms(s, TRY_EVERY_MS);
    }
}

coord_result acquire_when_free(struct suite *s, const char *group, uint32_t slot_count,
                               const char *owner, int64_t ttl_ms, coord_lease **lease)
{
    int64_t until_ns = real_now_ns() + TRY_FOR_MS * MSEC;
    for (;;) { /* ends: TRY_FOR_MS */
        coord_result r = acquire(s->store, group, slot_count, owner, ttl_ms, 0, lease);
        if (r.code != COORD_EXISTS || real_now_ns() > until_ns) { return r; }
        suite_pass_ms(s, TRY_EVERY_MS);
    }
}

void suite_check(struct suite *s, struct history *history)
{
    char why[CHECKER_TEXT_CAP];
    if (!checker_run(history, why)) { suite_fail(s, __FILE__, __LINE__, "checker", "%s", why); }
}

/* -- a run -- */

static bool open_stores(struct suite *s)
{
    char url[4096], name[48];
    atomic_store(&stepped_ns, 1000 * MSEC);
    (void)snprintf(name, sizeof name, "%s-real", s->name);
    url_with(s, "", name, "", url, sizeof url);
    s->real_store = open_one(s, url, false);
    if (s->real_store == NULL) { return false; }
    s->stepped_store = s->real_store;
    if (strncmp(s->url, "mem:", 4) == 0) {
        (void)snprintf(name, sizeof name, "%s-stepped", s->name);
        url_with(s, "", name, "", url, sizeof url);
        s->stepped_store = open_one(s, url, true);
    }
    return s->stepped_store != NULL;
}

static void run_once(struct suite *s, const struct test_case *c, const char *run_id, int attempt)
{
    bool memory = s->stepped_store != s->real_store;
    s->id = c->id;
    s->failed = s->skipped = false;
    s->why[0] = '\0';
    s->other_count = 0;
    s->faults = NULL;
    s->stepped = memory && (c->flags & CASE_REAL) == 0;
    s->store = s->stepped ? s->stepped_store : s->real_store;
    s->caps = coord_capabilities(s->store);
    s->limits = coord_store_limits(s->store);
    (void)snprintf(s->prefix, sizeof s->prefix, "cf%s%.*s/%s", run_id, attempt, "xxxx", c->id);
    uint32_t missing = c->needs & ~s->caps.bits;
    if ((c->flags & CASE_PROCESSES) != 0 && s->caps.scope == COORD_SCOPE_PROCESS) {
        suite_skip(s, "needs two processes; this store is one process's own");
    } else if (missing != 0) {
        refuse(s, missing);
    } else if (s->caps.watch < c->watch) {
        if (s->caps.watch == COORD_WATCH_NONE) {
            refuse_watch(s);
        } else {
            suite_skip(s, "this store's watch does not promise it");
        }
    } else if (c->run == NULL) {
        suite_skip(s, "needs a hand on the server; the store's own tests have it");
    } else {
        c->run(s);
    }
    while (s->other_count > 0) { coord_close(s->others[--s->other_count]); }
}

/* A failure while the machine or a real server was stopped does not count: the case is repeated, at
 * most ATTEMPTS times, and each repeat is reported. */
static void run_case(struct suite *s, const struct test_case *c, const char *run_id)
{
    enum { ATTEMPTS = 4, STALLED_MS = 100 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        stall_begin();
        patience_begin();
        run_once(s, c, run_id, attempt);
        if (!s->failed || s->stepped) { return; }
        int unanswered = s->faults == NULL ? patience_unanswered() : 0;
        if (stall_longest_ms() < STALLED_MS && unanswered == 0) { return; }
        s->repeated = true;
        printf("# %s stopped for %" PRId64 " ms, %d calls without an answer: %s\n", c->id,
               stall_longest_ms(), unanswered, s->why);
    }
}

static int list_cases(void)
{
    for (size_t i = 0; case_lists[i] != NULL; i++) {
        for (const struct test_case *c = case_lists[i]; c->id != NULL; c++) {
            printf("%s %s\n", c->id, c->text);
        }
    }
    return 0;
}

/* `only` is a list of beginnings: "A,B,C03". */
static bool is_wanted(const char *id, const char *only)
{
    while (only != NULL) {
        size_t len = strcspn(only, ",");
        if (len > 0 && strncmp(id, only, len) == 0) { return true; }
        if (only[len] == '\0') { return false; }
        only += len + 1;
    }
    return true;
}

static int run_suite(struct suite *s, const char *only)
{
    char run_id[20];
    coord_id random = suite_id();
    int number = 0, failed = 0;
    (void)snprintf(run_id, sizeof run_id, "%02x%02x%02x%02x", random.b[0], random.b[1], random.b[2],
                   random.b[3]);
    (void)snprintf(s->name, sizeof s->name, "conf-%s", run_id);
    if (!open_stores(s)) {
        printf("not ok 1 - the store opens\n# %s\n1..1\n", s->why);
        return 1;
    }
    coord_caps caps = coord_capabilities(s->real_store);
    printf("# %s: %s, bits 0x%x, watch %d; names cf%s\n", s->url, caps.server, caps.bits,
           caps.watch, run_id);
    for (size_t i = 0; case_lists[i] != NULL; i++) {
        for (const struct test_case *c = case_lists[i]; c->id != NULL; c++) {
            if (!is_wanted(c->id, only)) { continue; }
            int64_t start_ns = real_now_ns();
            run_case(s, c, run_id);
            if (s->skipped) { /* not a test of this store: reported, not counted */
                printf("# %s %s: %s\n", c->id, c->text, s->why);
                continue;
            }
            printf("%s %d - %s %s\n", s->failed ? "not ok" : "ok", ++number, c->id, c->text);
            if (s->failed) { printf("# %s\n", s->why); }
            if (real_now_ns() - start_ns > 500 * MSEC) {
                printf("# took %" PRId64 " ms\n", (real_now_ns() - start_ns) / MSEC);
            }
            (void)fflush(stdout);
            failed += s->failed;
        }
    }
    if (s->stepped_store != s->real_store) { coord_close(s->stepped_store); }
    coord_close(s->real_store);
    printf("1..%d\n", number);
    return failed > 0 || number == 0;
}

static int usage(void)
{
    (void)fputs("coord_conformance --url URL [--only A03] [--list] [--processes] [--quick|--full] "
                "[--outages MS]\n",
                stderr);
    return 2;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

/* Puts a fresh directory where the URL says %t; *ret_dir is "" without. */
static const char *with_directory(const char *url, char *out, size_t cap, char *ret_dir,
                                  size_t dir_cap)
{
    const char *mark = strstr(url, "%t"), *base = getenv("TMPDIR");
    ret_dir[0] = '\0';
    if (mark == NULL) { return url; }
    (void)snprintf(ret_dir, dir_cap, "%s/conformance-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(ret_dir) == NULL) {
        (void)fprintf(stderr, "cannot make %s\n", ret_dir);
        exit(1);
    }
    (void)snprintf(out, cap, "%.*s%s%s", (int)(mark - url), url, ret_dir, mark + 2);
    return out;
}

int main(int argc, char **argv)
{
    char url[4096], dir[512];
    struct suite s = {.program = argv[0]};
    const char *only = NULL, *child = NULL, *helper = NULL, *prefix = "";
    long numbers[4] = {0};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--list") == 0) { return list_cases(); }
        if (strcmp(argv[i], "--full") == 0) {
            s.full = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            s.full = false;
        } else if (strcmp(argv[i], "--outages") == 0 && more) {
            patience_set(strtol(argv[++i], NULL, 10));
        } else if (strcmp(argv[i], "--processes") == 0) {
            s.processes = true;
        } else if (strcmp(argv[i], "--url") == 0 && more) {
            s.url = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && more) {
            only = argv[++i];
        } else if (strcmp(argv[i], "--child") == 0 && more) {
            child = argv[++i];
        } else if (strcmp(argv[i], "--helper") == 0 && more) {
            helper = argv[++i];
        } else if (strcmp(argv[i], "--prefix") == 0 && more) {
            prefix = argv[++i];
        } else if (strcmp(argv[i], "--numbers") == 0 && i + 4 < argc) {
            for (int n = 0; n < 4; n++) { numbers[n] = strtol(argv[++i], NULL, 10); }
        } else {
            return usage();
        }
    }
    if (s.url == NULL) { return usage(); }
    if (child != NULL) {
        return workers_child(&s, child, (uint32_t)numbers[0], (uint32_t)numbers[1], prefix,
                             numbers[2], numbers[3]);
    }
    if (helper != NULL) { return helper_child(&s, helper, numbers[0], prefix); }
    s.url = with_directory(s.url, url, sizeof url, dir, sizeof dir);
    int status = run_suite(&s, only);
    if (dir[0] != '\0') { (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
    if (!s.repeated) { return status; }
    (void)fflush(stdout);
    _exit(status); /* a failed case does not free its objects, which is no leak of the library */
}
