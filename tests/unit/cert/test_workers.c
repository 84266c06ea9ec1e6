/* SPDX-License-Identifier: Apache-2.0 */
/* cert/workers.h: the cases of workers.md 24.13, by number. The content of certificates is tested
 * in tests/unit/cert/test_cert.c. */
#include "cert/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cert/cert.h"
#include "lib/test.h"
#include "unit/io/tls_pair.h"

#define DAY_MS (86400ull * 1000)
static const struct ulid workers[] = {{{1, 2, 3}}, {{4, 5, 6}}};

static const char *new_dir(void)
{
    static char dir[4200];
    static int count;

    snprintf(dir, sizeof dir, "%s/tls-%d", test_dir(), count++);
    return dir;
}

static wall_time now(void)
{
    return (wall_time){(uint64_t)time(NULL) * MS_PER_SECOND};
}

static struct cert_workers *opened(const char *dir, const struct ulid *worker, wall_time at)
{
    struct cert_workers_options options = {.tls_dir = dir, .worker = worker};
    struct cert_workers *ca = NULL;
    struct note note = {""};

    CHECK_OK(note.text, cert_workers_open(fs_real(), &options, at, &ca, &note));
    return ca;
}

static char *content(const char *dir, const char *name)
{
    char path[4300], *text;
    struct buf bytes;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    buf_init(&bytes, CERT_FILE_MAX);
    CHECK_OK(path, fs_read_whole(fs_real(), path, CERT_FILE_MAX, &bytes));
    CHECK_OK(path, buf_detach(&bytes, &text));
    buf_deinit(&bytes);
    return text;
}

/* The outcome of a worker's connection; `who`: does the certificate name this worker? */
struct meeting {
    bool both_open, is_who;
};
static struct meeting meet(struct cert_workers *listener, struct cert_workers *worker,
                           const struct ulid *who)
{
    struct tls_end client, server;
    struct meeting meeting = {0};

    tls_end_open(&client, cert_workers_context(worker), "localhost");
    tls_end_open(&server, cert_workers_context(listener), NULL);
    tls_converse(&client, &server, SIZE_MAX);
    meeting.both_open = client.open && server.open && !client.err && !server.err;
    if (meeting.both_open && who)
        meeting.is_who = cert_is_worker(tls_session_identity(server.session), who);
    tls_end_close(&client);
    tls_end_close(&server);
    return meeting;
}

TEST(case_189_the_first_start_makes_the_ca_and_says_where)
{
    const char *dir = new_dir();
    char wanted[4300], path[4300];
    struct cert_workers *ca = opened(dir, NULL, now());
    struct stat info;

    snprintf(wanted, sizeof wanted, "Generated dev CA at %s/ca.pem", dir);
    CHECK_TEXT("one line", cert_workers_notice(ca), wanted);
    CHECK_TEXT("nothing else", cert_workers_warning(ca), "");
    snprintf(path, sizeof path, "%s/ca.key.pem", dir);
    CHECK("there", stat(path, &info) == 0);
    CHECK_U64("the key is its owner's", info.st_mode & 0777, 0600);
    CHECK("there", stat(dir, &info) == 0);
    CHECK_U64("the directory too", info.st_mode & 0777, 0700);
    cert_workers_close(ca);
    struct cert_description *roots;
    size_t count;
    snprintf(path, sizeof path, "%s/ca.pem", dir);
    CHECK_OK("described", cert_describe(fs_real(), path, now(), &roots, &count, NULL));
    CHECK_SIZE("one root", count, 1);
    CHECK_TEXT("17.1: rollout's", roots[0].subject, "CN=rollout-dev-ca");
    cert_descriptions_free(roots, count);
}

TEST(case_190_later_starts_find_the_same_bytes_and_log_nothing)
{
    static const char *const files[] = {"ca.pem", "ca.key.pem"};
    const char *dir = new_dir();
    char *before[2];

    cert_workers_close(opened(dir, &workers[0], now())); /* a worker may be first */
    for (size_t i = 0; i < ARRAY_LEN(files); i++) before[i] = content(dir, files[i]);
    struct cert_workers *ca = opened(dir, NULL, now());
    CHECK_TEXT("silent", cert_workers_notice(ca), "");
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char *after = content(dir, files[i]);
        CHECK_TEXT(files[i], after, before[i]);
        free(after);
        free(before[i]);
    }
    cert_workers_close(ca);
}

TEST(case_191_workers_and_the_listener_know_each_other_by_the_ca)
{
    const char *dir = new_dir();
    struct cert_workers *listener = opened(dir, NULL, now());
    struct cert_workers *worker = opened(dir, &workers[0], now());

    CHECK("they meet", meet(listener, worker, NULL).both_open);
    CHECK("28: the certificate proves its id", meet(listener, worker, &workers[0]).is_who);
    CHECK("28: and nobody else", !meet(listener, worker, &workers[1]).is_who);
    cert_workers_close(worker);
    cert_workers_close(listener);
}

TEST(case_27_a_certificate_of_another_ca_is_refused_by_both)
{
    const char *dir = new_dir();
    struct cert_workers *listener = opened(dir, NULL, now());
    struct cert_workers *stranger = opened(new_dir(), &workers[0], now());

    CHECK("refused", !meet(listener, stranger, NULL).both_open);
    cert_workers_close(stranger);
    cert_workers_close(listener);
}

TEST(case_192_coordinator_and_workers_that_start_together_agree)
{
    enum { TOGETHER = 4, ROUNDS = 3 };

    for (int round = 0; round < ROUNDS; round++) {
        const char *dir = new_dir();
        pid_t children[TOGETHER];

        for (int i = 0; i < TOGETHER; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                struct cert_workers_options options = {.tls_dir = dir,
                                                       .worker = i ? &workers[0] : NULL};
                struct cert_workers *ca;
                _exit(cert_workers_open(fs_real(), &options, now(), &ca, NULL) ? 1 : 0);
            }
            CHECK("begun", children[i] > 0);
        }
        for (int i = 0; i < TOGETHER; i++) {
            int status = 0;
            CHECK("ended", waitpid(children[i], &status, 0) == children[i]);
            CHECK_I64("each has it", status, 0);
        }
        struct cert_workers *listener = opened(dir, NULL, now());
        struct cert_workers *worker = opened(dir, &workers[1], now());
        CHECK_TEXT("one CA", cert_workers_notice(listener), "");
        CHECK("it serves", meet(listener, worker, NULL).both_open);
        cert_workers_close(listener);
        cert_workers_close(worker);
    }
}

TEST(case_193_half_a_ca_is_refused_with_the_missing_file)
{
    static const char *const files[] = {"ca.pem", "ca.key.pem"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        const char *dir = new_dir();
        struct cert_workers_options options = {.tls_dir = dir};
        struct cert_workers *ca = NULL;
        struct note note = {""};
        char path[4300];

        cert_workers_close(opened(dir, NULL, now()));
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        CHECK("removed", unlink(path) == 0);
        CHECK_ERR("refused", cert_workers_open(fs_real(), &options, now(), &ca, &note),
                  ERR_CONFLICT);
        CHECK_HAS("which", note.text, files[i]);
        CHECK("nothing was made", access(path, F_OK) != 0);
    }
}

TEST(case_194_a_key_that_others_may_read_is_reported_or_refused)
{
    const char *dir = new_dir();
    struct cert_workers_options strict = {.tls_dir = dir, .strict_permissions = true};
    struct cert_workers *ca;
    mode_t before = umask(0);
    char path[4300];
    struct stat info;

    cert_workers_close(opened(dir, NULL, now()));
    umask(before);
    snprintf(path, sizeof path, "%s/ca.key.pem", dir);
    CHECK("there", stat(path, &info) == 0);
    CHECK_U64("an open umask opens nothing", info.st_mode & 0777, 0600);
    CHECK("opened by hand", chmod(path, 0644) == 0);
    ca = opened(dir, NULL, now());
    CHECK_HAS("reported", cert_workers_warning(ca), "may be read by others");
    cert_workers_close(ca);
    CHECK_ERR("refused", cert_workers_open(fs_real(), &strict, now(), &ca, NULL), ERR_DENIED);
}

TEST(case_195_a_leaf_is_renewed_before_it_expires)
{
    const char *dir = new_dir();
    wall_time start = now();
    struct cert_workers *ca = opened(dir, NULL, start), *worker = opened(dir, &workers[0], start);
    struct tls_info first = tls_context_info(cert_workers_context(ca)), next;
    bool changed = true;

    CHECK("90 days", first.not_after.ms - start.ms == 90 * DAY_MS);
    CHECK_OK("young",
             cert_workers_refresh(ca, (wall_time){start.ms + 50 * DAY_MS}, &changed, NULL));
    CHECK("kept", !changed);
    CHECK_OK("old", cert_workers_refresh(ca, (wall_time){start.ms + 61 * DAY_MS}, &changed, NULL));
    next = tls_context_info(cert_workers_context(ca));
    CHECK("renewed", changed);
    CHECK("for another 90 days", next.not_after.ms == start.ms + 151 * DAY_MS);
    CHECK("a new one would not be good today, were its root not older",
          next.not_before.ms > start.ms);
    cert_workers_close(ca);
    cert_workers_close(worker);
}

TEST(files_of_ones_own_take_the_place_of_the_development_ca)
{
    char dir[4200], cert[4300], key[4300], root[4300];
    struct cert_request request = {.kind = CERT_WORKER_SERVICE};
    struct cert_report report;
    bool changed = true;

    snprintf(dir, sizeof dir, "%s", new_dir());
    snprintf(cert, sizeof cert, "%s/s.pem", dir);
    snprintf(key, sizeof key, "%s/s.key.pem", dir);
    snprintf(root, sizeof root, "%s/ca.pem", dir);
    struct cert_workers *worker = opened(dir, &workers[0], now());
    struct cert_leaf_options leaf = {.ca_dir = dir, .cert_file = cert, .key_file = key};
    CHECK_OK("a pair", cert_leaf_ensure(fs_real(), &leaf, &request, now(), &report, NULL));
    struct cert_workers_options options = {
        .tls_dir = "/nowhere/at/all", .ca_file = root, .cert_file = cert, .key_file = key};
    struct cert_workers *ca = NULL;
    CHECK_OK("opened", cert_workers_open(fs_real(), &options, now(), &ca, NULL));
    CHECK_TEXT("nothing was made", cert_workers_notice(ca), "");
    CHECK("they meet", meet(ca, worker, &workers[0]).is_who);
    CHECK_OK("looked at", cert_workers_refresh(ca, now(), &changed, NULL));
    CHECK("as it was", !changed);
    cert_workers_close(ca);
    options.key_file = NULL;
    struct note note = {""};
    CHECK_ERR("two of three", cert_workers_open(fs_real(), &options, now(), &ca, &note),
              ERR_INVALID);
    CHECK_HAS("the message", note.text, "2 of 3");
    cert_workers_close(worker);
}
