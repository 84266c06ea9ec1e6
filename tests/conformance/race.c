/* SPDX-License-Identifier: Apache-2.0 */
/* The race that this library is for: two clients start the same singleton at once, repeatedly, and
 * each time exactly one wins.
 *
 *   coord_race --url URL [--rounds N]        prints TAP; %t in URL: a directory of this run
 *
 * Two processes live through all rounds (threads on a store of one process). In a round both
 * receive the same start time, wait for it without sleeping, and call: in turn for the slot of a
 * group of one, for a key that must be absent, and for the slot of a new group. The winner releases
 * before the next round. Tokens must rise from round to round. The number of pairs of calls that
 * overlapped is printed, because a race without overlap tests nothing. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <muster/coord.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RACERS = 2, TTL_MS = 60000 };
#define LEAD_NS 60000 /* between the message and the start time: both have woken by then */

struct order {
    int64_t at_ns;
    long round;
    enum { ASK_SLOT, ASK_KEY, ASK_NEW_GROUP, GIVE_BACK, END } kind;
};
struct report {
    int code, reason;
    uint64_t token;
    int64_t called_ns, replied_ns;
    char text[96];
};

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool transfer(int fd, void *bytes, size_t len, bool out)
{
    char *at = bytes;
    while (len > 0) {
        ssize_t moved = out ? send(fd, at, len, MSG_NOSIGNAL) : recv(fd, at, len, 0);
        if (moved < 0 && errno == EINTR) { continue; }
        if (moved <= 0) { return false; }
        at += moved;
        len -= (size_t)moved;
    }
    return true;
}

/* -- a racer -- */

struct racer {
    int fd;
    int index;
    const char *url, *name;
    pthread_t thread;
    pid_t pid;
};

static coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}

static coord_result ask(coord_store *store, const struct racer *r, const struct order *order,
                        coord_lease **lease)
{
    char owner[32], key[96];
    (void)snprintf(owner, sizeof owner, "racer-%d", r->index);
    if (order->kind == ASK_KEY) {
        (void)snprintf(key, sizeof key, "%s/key", r->name);
        return coord_create_if_absent(store, NULL, text(key), text(owner), TTL_MS, owner, lease);
    }
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    long group = order->kind == ASK_NEW_GROUP ? order->round : 0;
    (void)snprintf(key, sizeof key, "%s/group-%ld", r->name, group);
    request.group = text(key);
    request.owner = owner;
    request.ttl_ms = TTL_MS;
    return coord_acquire_slot(store, NULL, &request, lease);
}

static void *run_racer(void *arg)
{
    struct racer *r = arg;
    coord_store *store = NULL;
    coord_lease *lease = NULL;
    coord_result opened = coord_open(r->url, NULL, &store);
    struct report report = {.code = opened.code, .reason = opened.reason};
    (void)snprintf(report.text, sizeof report.text, "%.90s", opened.text);
    struct order order;
    if (!transfer(r->fd, &report, sizeof report, true) || opened.code != COORD_OK) { return NULL; }
    while (transfer(r->fd, &order, sizeof order, false) && order.kind != END) {
        coord_result result = {0};
        report = (struct report){0};
        if (order.kind == GIVE_BACK) {
            if (lease != NULL) { result = coord_release(lease, NULL); }
            coord_lease_unref(lease);
            lease = NULL;
        } else {
            while (now_ns() < order.at_ns) {}
            report.called_ns = now_ns();
            result = ask(store, r, &order, &lease);
            report.replied_ns = now_ns();
        }
        report.code = result.code;
        report.reason = result.reason;
        report.token = result.token;
        (void)snprintf(report.text, sizeof report.text, "%.90s", result.text);
        if (!transfer(r->fd, &report, sizeof report, true)) { break; }
    }
    coord_lease_unref(lease);
    coord_close(store);
    (void)close(r->fd);
    return NULL;
}

/* -- the judge -- */

static bool start(struct racer *r, char **argv)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) { return false; }
    if (strncmp(r->url, "mem:", 4) == 0) {
        static struct racer inside[RACERS]; /* the other ends, for the threads */
        inside[r->index] = *r;
        inside[r->index].fd = pair[1];
        r->fd = pair[0];
        return pthread_create(&r->thread, NULL, run_racer, &inside[r->index]) == 0;
    }
    char index[8], fd[16];
    (void)snprintf(index, sizeof index, "%d", r->index);
    r->pid = fork();
    if (r->pid == 0) {
        int kept = dup(pair[1]); /* not close-on-exec */
        (void)snprintf(fd, sizeof fd, "%d", kept);
        (void)execl(argv[0], argv[0], "--racer", index, fd, r->url, r->name, (char *)NULL);
        _exit(127);
    }
    (void)close(pair[1]);
    r->fd = pair[0];
    return r->pid > 0;
}

static bool racers_order(struct racer *racers, struct order order)
{
    for (int i = 0; i < RACERS; i++) {
        if (!transfer(racers[i].fd, &order, sizeof order, true)) { return false; }
    }
    return true;
}

static bool hear(struct racer *racers, struct report *reports)
{
    for (int i = 0; i < RACERS; i++) {
        if (!transfer(racers[i].fd, &reports[i], sizeof reports[i], false)) { return false; }
    }
    return true;
}

struct totals {
    long overlapped, won[RACERS];
    uint64_t last[2]; /* tokens of the slot and of the key; a new group has new tokens */
};

/* One round; false with a printed fault. */
static bool run_round(struct racer *racers, long round, struct totals *totals)
{
    struct report reports[RACERS];
    int kind = (int)(round % 3), winners = 0;
    if (!racers_order(racers, (struct order){now_ns() + LEAD_NS, round, kind}) ||
        !hear(racers, reports)) {
        printf("# round %ld: a racer is gone\n", round);
        return false;
    }
    if (reports[0].called_ns < reports[1].replied_ns &&
        reports[1].called_ns < reports[0].replied_ns) {
        totals->overlapped++;
    }
    for (int i = 0; i < RACERS; i++) {
        const struct report *r = &reports[i];
        if (r->code == COORD_OK) {
            winners++;
            totals->won[i]++;
            if (kind == ASK_NEW_GROUP) { continue; }
            if (r->token <= totals->last[kind]) {
                printf("# round %ld: token %" PRIu64 " after %" PRIu64 "\n", round, r->token,
                       totals->last[kind]);
                return false;
            }
            totals->last[kind] = r->token;
        } else if (r->code != COORD_EXISTS) {
            printf("# round %ld: %s/%s %s\n", round, coord_code_name(r->code),
                   coord_reason_name(r->reason), r->text);
            return false;
        }
    }
    if (winners != 1) {
        printf("# round %ld: %d winners\n", round, winners);
        return false;
    }
    if (!racers_order(racers, (struct order){0, round, GIVE_BACK}) || !hear(racers, reports)) {
        return false;
    }
    for (int i = 0; i < RACERS; i++) {
        if (reports[i].code != COORD_OK) {
            printf("# round %ld: release: %s\n", round, reports[i].text);
            return false;
        }
    }
    return true;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static int judge(const char *url, const char *name, long rounds, char **argv)
{
    struct racer racers[RACERS];
    struct report reports[RACERS];
    struct totals totals = {0};
    long round = 0;
    int64_t began_ns = now_ns();
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.index = i, .url = url, .name = name};
        if (!start(&racers[i], argv)) { return 1; }
    }
    bool fine = hear(racers, reports);
    for (int i = 0; fine && i < RACERS; i++) {
        fine = reports[i].code == COORD_OK;
        if (!fine) { printf("# open: %s\n", reports[i].text); }
    }
    while (fine && round < rounds) { fine = run_round(racers, round++, &totals); }
    (void)racers_order(racers, (struct order){0, round, END});
    for (int i = 0; i < RACERS; i++) {
        if (racers[i].pid > 0) {
            while (waitpid(racers[i].pid, NULL, 0) < 0 && errno == EINTR) {}
        } else {
            (void)pthread_join(racers[i].thread, NULL);
        }
        (void)close(racers[i].fd);
    }
    printf("# %ld rounds in %" PRId64
           " ms, %ld of them with both calls under way at once; won: %ld, "
           "%ld\n",
           round, (now_ns() - began_ns) / 1000000, totals.overlapped, totals.won[0], totals.won[1]);
    printf("%s 1 - two start the same singleton %ld times: one wins each time\n",
           fine ? "ok" : "not ok", rounds);
    /* When a call takes a microsecond, a busy machine may never run two at once. */
    bool raced = totals.overlapped > 0 || strncmp(url, "mem:", 4) == 0;
    printf("%s 2 - calls did overlap\n1..2\n", raced ? "ok" : "not ok");
    return fine && raced ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *url = NULL, *mark;
    long rounds = 1000;
    char name[40], with[4096], dir[512] = "";
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc == 6 && strcmp(argv[1], "--racer") == 0) {
        struct racer r = {
            .index = atoi(argv[2]), .fd = atoi(argv[3]), .url = argv[4], .name = argv[5]};
        (void)run_racer(&r);
        return 0;
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--url") == 0) { url = argv[i + 1]; }
        if (strcmp(argv[i], "--rounds") == 0) { rounds = strtol(argv[i + 1], NULL, 10); }
    }
    if (url == NULL || rounds < 1) {
        (void)fputs("coord_race --url URL [--rounds N]\n", stderr);
        return 2;
    }
    (void)snprintf(name, sizeof name, "race-%" PRIx64, (uint64_t)now_ns());
    if (strncmp(url, "mem:", 4) == 0) {
        (void)snprintf(with, sizeof with, "%s%cname=%s", url, strchr(url, '?') ? '&' : '?', name);
        url = with;
    } else if ((mark = strstr(url, "%t")) != NULL) {
        const char *base = getenv("TMPDIR");
        (void)snprintf(dir, sizeof dir, "%s/coord-race-XXXXXX", base != NULL ? base : "/tmp");
        if (mkdtemp(dir) == NULL) { return 1; }
        (void)snprintf(with, sizeof with, "%.*s%s%s", (int)(mark - url), url, dir, mark + 2);
        url = with;
    }
    int status = judge(url, name, rounds, argv);
    if (dir[0] != '\0') { (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
    return status;
}
