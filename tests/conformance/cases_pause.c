/* SPDX-License-Identifier: Apache-2.0 */
/* The part of D10 that needs no control over the server, and F03: holders that are stopped. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

/* Stops a holder whose slot `next` then takes. False: the case failed. */
static bool overtake(struct suite *s, bool keep, struct helper *h, uint64_t *ret_old_token,
                     coord_lease **next)
{
    char line[128];
    int64_t ttl_ms = suite_short_ttl(s) * 2;
    if (!helper_start(s, "hold", (long)ttl_ms, h)) { return false; }
    if (!helper_line(s, h, line, sizeof line)) { return false; }
    *ret_old_token = strtoull(line + strcspn(line, " "), NULL, 10);
    if (keep) {
        helper_say(h, "keep");
        if (!helper_line(s, h, line, sizeof line)) { return false; }
    }
    helper_kill(h, SIGSTOP);
    coord_result r = acquire_when_free(s, N("g"), 1, "next", suite_long_ttl(s), next);
    return suite_want(s, __FILE__, __LINE__, r, COORD_OK, COORD_R_ACQUIRED);
}

static void f03(struct suite *s)
{
    struct helper h = {0};
    coord_lease *next = NULL;
    coord_fence fence = {0};
    uint64_t old_token = 0;
    char line[128] = "";
    if (!overtake(s, false, &h, &old_token, &next)) {
        if (h.pid > 0) { helper_end(&h); }
        return;
    }
    bool admitted = coord_fence_admit(&fence, coord_lease_token(next)) == 1;
    helper_kill(&h, SIGCONT);
    helper_say(&h, "check");
    bool fine = helper_line(s, &h, line, sizeof line);
    char renewed[128] = "";
    helper_say(&h, "renew");
    fine = fine && helper_line(s, &h, renewed, sizeof renewed);
    helper_end(&h);
    if (!fine) { return; }
    EXPECT(admitted, "the new holder writes");
    EXPECT(strcmp(line, "EXPIRED") == 0, "T9: the first check sees it, got %s", line);
    EXPECT(coord_fence_admit(&fence, old_token) == 0, "the resource refuses the old one");
    EXPECT(strncmp(renewed, "EXPIRED/", 8) == 0, "got %s", renewed);
    WANT(coord_renew(next, NULL), COORD_OK, COORD_R_RENEWED);
    (void)coord_release(next, NULL);
    coord_lease_unref(next);
}

static void l03(struct suite *s)
{
    struct helper h = {0};
    coord_lease *next = NULL;
    uint64_t old_token = 0;
    char line[128] = "";
    if (!overtake(s, true, &h, &old_token, &next)) {
        if (h.pid > 0) { helper_end(&h); }
        return;
    }
    helper_kill(&h, SIGCONT);
    bool fine = helper_line(s, &h, line, sizeof line);
    helper_end(&h);
    if (!fine) { return; }
    EXPECT(strncmp(line, "lost ", 5) == 0, "reported on resume, got %s", line);
    WANT(coord_renew(next, NULL), COORD_OK, COORD_R_RENEWED);
    EXPECT(coord_lease_token(next) > old_token, "F2");
    (void)coord_release(next, NULL);
    coord_lease_unref(next);
}

static void l04(struct suite *s)
{
    enum { HOLDERS = 3 };
    struct helper helpers[HOLDERS] = {{0}};
    coord_lease *leases[HOLDERS] = {0};
    char prefix[sizeof s->prefix], line[128];
    bool fine = true;
    (void)snprintf(prefix, sizeof prefix, "%s", s->prefix);
    for (int i = 0; i < HOLDERS && fine; i++) { /* a group each: helpers know one slot */
        (void)snprintf(s->prefix, sizeof s->prefix, "%.20s-%d", prefix, i);
        fine = helper_start(s, "hold", (long)suite_short_ttl(s) * 2, &helpers[i]) &&
               helper_line(s, &helpers[i], line, sizeof line);
        if (fine) { helper_say(&helpers[i], "keep"); }
        fine = fine && helper_line(s, &helpers[i], line, sizeof line);
        if (fine) { helper_kill(&helpers[i], SIGSTOP); }
    }
    for (int i = 0; i < HOLDERS && fine; i++) {
        (void)snprintf(s->prefix, sizeof s->prefix, "%.20s-%d", prefix, i);
        coord_result r = acquire_when_free(s, N("g"), 1, "next", suite_long_ttl(s), &leases[i]);
        fine = suite_want(s, __FILE__, __LINE__, r, COORD_OK, COORD_R_ACQUIRED);
    }
    for (int i = 0; i < HOLDERS; i++) {
        if (helpers[i].pid > 0) { helper_kill(&helpers[i], SIGCONT); }
    }
    for (int i = 0; i < HOLDERS && fine; i++) { /* each is reported, none takes its slot back */
        fine = helper_line(s, &helpers[i], line, sizeof line) && strncmp(line, "lost ", 5) == 0;
        fine = fine && coord_renew(leases[i], NULL).code == COORD_OK;
    }
    for (int i = 0; i < HOLDERS; i++) {
        if (helpers[i].pid > 0) { helper_end(&helpers[i]); }
        if (leases[i] != NULL) { (void)coord_release(leases[i], NULL); }
        coord_lease_unref(leases[i]);
    }
    EXPECT(fine, "each slot is taken once");
}

#define SLOT (COORD_CAP_CREATE | COORD_CAP_TTL | COORD_CAP_SLOTS)
const struct test_case cases_pause[] = {
    {"F03", "a stopped holder wakes up: the fence refuses it", SLOT, f03,
     CASE_REAL | CASE_PROCESSES, 0},
    {"L03", "a stopped holder learns it before it renews", SLOT, l03, CASE_REAL | CASE_PROCESSES,
     0},
    {"L04", "all holders stopped: each slot is taken once", SLOT, l04, CASE_REAL | CASE_PROCESSES,
     0},
    {0},
};
