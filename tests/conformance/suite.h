/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of the cases: a store through the public API, names of its own, a way to let time
 * pass, and workers.
 *
 * Time: mem: is opened with a clock that the suite steps, so that its cases take no time; with
 * other stores cases wait. A case marked REAL runs on the real clock everywhere (keepers, waiting).
 * Names: every key and group of a case starts with a prefix of its own, so that a store that keeps
 * its data can be used repeatedly. */
#ifndef TESTS_CONFORMANCE_SUITE_H
#define TESTS_CONFORMANCE_SUITE_H
#include <muster/coord.h>
#include <stdbool.h>
#include <stdio.h>

#include "checker.h"
#include "patience.h"

#define MSEC ((int64_t)1000000)

struct suite {
    const char *url;
    bool full, processes;
    const char *program;
    /* of the case that runs */
    const char *id;
    coord_store *store;
    coord_caps caps;
    coord_limits limits;
    bool stepped;
    bool repeated; /* a case was repeated, because the machine had stopped */
    bool failed, skipped;
    char why[512];
    char prefix[32];
    coord_store *others[64]; /* opened by the case, closed after it */
    size_t other_count;
    const char *faults; /* not NULL: suite_open gives disturbed stores */
    /* both kinds of store of mem: */
    coord_store *real_store, *stepped_store;
    char name[32]; /* of mem:?name= */
};
typedef void case_fn(struct suite *s);
enum { CASE_REAL = 1, CASE_PROCESSES = 2 };
struct test_case {
    const char *id, *text;
    uint32_t needs; /* COORD_CAP_*; if one is unset, the case checks that the store refuses */
    case_fn *run;
    uint32_t flags;
    int watch; /* at least this enum coord_watch_kind */
};
extern const struct test_case *const case_lists[]; /* each ends with an id of NULL */

/* -- checks: the first failure ends the case -- */
#define WANT(result, want_code, want_reason)                                                       \
    do {                                                                                           \
        if (!suite_want(s, __FILE__, __LINE__, (result), (want_code), (want_reason))) { return; }  \
    } while (0)
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            suite_fail(s, __FILE__, __LINE__, #condition, __VA_ARGS__);                            \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define EXPECT_EQ(got, want, ...)                                                                  \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_) {                                                                       \
            suite_fail_numbers(s, __FILE__, __LINE__, got_, want_, __VA_ARGS__);                   \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define SUB(call)                                                                                  \
    do {                                                                                           \
        call;                                                                                      \
        if (s->failed || s->skipped) { return; }                                                   \
    } while (0)
#define ANY_REASON (-1)
bool suite_want(struct suite *s, const char *file, int line, coord_result got, int code,
                int reason);
void suite_fail(struct suite *s, const char *file, int line, const char *what, const char *format,
                ...) __attribute__((format(printf, 5, 6)));
void suite_fail_numbers(struct suite *s, const char *file, int line, long long got, long long want,
                        const char *format, ...) __attribute__((format(printf, 6, 7)));
/* The case does not apply to this store. */
void suite_skip(struct suite *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -- names -- */
enum { NAME_CAP = 128 };
struct name {
    char text[NAME_CAP];
};
struct name suite_name(const struct suite *s, const char *leaf); /* "cf.../A01/leaf" */
coord_str text(const char *c_string);
/* Valid to the end of its expression. */
#define N(leaf) (suite_name(s, (leaf)).text)

/* -- time -- */
int64_t real_now_ns(void); /* CLOCK_BOOTTIME */
void real_sleep_ms(int64_t ms);
void suite_pass_ms(struct suite *s, int64_t ms); /* steps, or sleeps */
int64_t suite_long_ttl(const struct suite *s);   /* outlasts any case */
int64_t suite_short_ttl(const struct suite *s);  /* as short as is sensible here */
/* Waits until a lease of that TTL, granted or renewed now, is over for every contender. */
void suite_pass_ttl(struct suite *s, int64_t ttl_ms);
bool suite_has(const struct suite *s, uint32_t bits);
/* The count in full and in quick runs; quick is a third where each write costs a disk or a server.
 */
int suite_scale(const struct suite *s, int full, int quick);

/* -- short names for calls -- */
coord_result create(coord_store *store, const char *key, const char *value, int64_t ttl_ms,
                    const char *owner, coord_lease **lease);
coord_result acquire(coord_store *store, const char *group, uint32_t slot_count, const char *owner,
                     int64_t ttl_ms, uint32_t flags, coord_lease **lease);
coord_result cas(coord_store *store, const char *key, uint64_t expected, const char *value,
                 int64_t ttl_ms, coord_lease *lease);
/* Compares the value with `want` (NULL: any) and returns the revision; 0 absent; UINT64_MAX other.
 */
uint64_t value_is(coord_store *store, const char *key, const char *want);
coord_id suite_id(void); /* random */
/* Retries while EXISTS until `within_ms` of real time are over: how a contender waits. */
coord_result create_when_free(struct suite *s, const char *key, int64_t ttl_ms, const char *owner,
                              coord_lease **lease);
coord_result acquire_when_free(struct suite *s, const char *group, uint32_t slot_count,
                               const char *owner, int64_t ttl_ms, coord_lease **lease);

/* Another store object over the same data; closed after the case. NULL: the case failed. */
coord_store *suite_open(struct suite *s);
/* The same, disturbed: `faults` is "fault_ops=cas&fault_first=1&..." */
coord_store *suite_open_faulty(struct suite *s, const char *faults);
/* Over other data where the URL allows that (mem:); else NULL. */
coord_store *suite_open_elsewhere(struct suite *s);
void suite_close_now(struct suite *s, coord_store *store);

/* -- workers: threads with a store object each, or processes (--processes, if the store can be
 * shared by processes). Their calls come back as a history. -- */
struct worker {
    struct suite *s;
    coord_store *store;
    uint32_t index, count;
    const char *prefix;
    long a, b; /* arguments from the case */
    struct history history;
    uint64_t handles; /* of this worker so far */
    int failed;
};
typedef void worker_fn(struct worker *w);
struct worker_kind {
    const char *name;
    worker_fn *run;
};
extern const struct worker_kind worker_kinds[]; /* ends with a name of NULL */
/* All begin at once, when each has its store. False: the case failed. */
bool workers_threads(struct suite *s, const char *kind, uint32_t count, long a, long b,
                     struct history *history);
bool workers_processes(struct suite *s, const char *kind, uint32_t count, long a, long b,
                       struct history *history);
/* Processes when asked for by --processes, else threads. */
bool workers_run(struct suite *s, const char *kind, uint32_t count, long a, long b,
                 struct history *history);
int workers_child(struct suite *s, const char *kind, uint32_t index, uint32_t count,
                  const char *prefix, long a, long b);
/* For workers: makes the call and records it. */
coord_result noted_create(struct worker *w, const char *key, int64_t ttl_ms, const char *owner,
                          coord_lease **lease, uint64_t *handle);
coord_result noted_acquire(struct worker *w, const char *group, uint32_t slot_count,
                           uint32_t slots_max, const char *owner, int64_t ttl_ms, uint32_t flags,
                           coord_lease **lease, uint64_t *handle);
coord_result noted_renew(struct worker *w, coord_lease *lease, uint64_t handle);
coord_result noted_release(struct worker *w, coord_lease *lease, uint64_t handle);
void noted(struct worker *w, const struct history_op *op);
void suite_check(struct suite *s, struct history *history);

/* A program started by a case that holds claims, commanded by lines on its standard input. */
struct helper {
    int pid, in, out;
};
bool helper_start(struct suite *s, const char *kind, long a, struct helper *ret_helper);
bool helper_line(struct suite *s, struct helper *h, char *line, size_t cap); /* reads one */
void helper_say(struct helper *h, const char *line);
void helper_kill(struct helper *h, int signal);
void helper_end(struct helper *h); /* KILL, wait, close */
int helper_child(struct suite *s, const char *kind, long a, const char *prefix);

/* The case for a store without `bit`: its calls are refused. */
void refuse(struct suite *s, uint32_t missing);
void refuse_watch(struct suite *s);
#endif
