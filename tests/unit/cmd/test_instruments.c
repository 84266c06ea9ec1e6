/* SPDX-License-Identifier: Apache-2.0 */
/* cmd/common/instruments.h: a process that is still opening its parts never reports ready. The
 * health module is a double that records the order of calls. */
#include "common/instruments.h"

#include <stdlib.h>

#include "lib/test.h"

enum { ROOM = 4096 }; /* more than struct instruments has */

struct health_check {
    bool ready;
};
struct health {
    struct http_server *server;
    struct health_check checks[1];
    size_t count;
};
static struct health health;
static bool said_ready;

/* A client asks as soon as there is a page. */
static void ask(void)
{
    said_ready = said_ready || (health.server && (health.count == 0 || health.checks[0].ready));
}

enum err health_open(const struct health_options *options, struct health **ret_health,
                     struct note *note)
{
    (void)note;
    (void)options;
    health = (struct health){.count = 0};
    *ret_health = &health;
    ask();
    return ERR_OK;
}

enum err health_check_add(struct health *h, const char *name, const char *reason,
                          struct health_check **ret_check)
{
    (void)name, (void)reason;
    ask();
    *ret_check = &h->checks[h->count++];
    ask();
    return ERR_OK;
}

void health_check_set(struct health_check *check, bool ready, const char *reason)
{
    (void)reason;
    check->ready = ready;
    ask();
}

enum err health_serve(struct health *h, struct http_server *server, struct note *note)
{
    (void)note;
    h->server = server;
    ask();
    return ERR_OK;
}

void health_unserve(struct health *h)
{
    h->server = NULL;
}

void health_close(struct health *h)
{
    (void)h;
}

TEST(a_component_is_not_ready_before_it_reports_ready)
{
    struct instruments *instruments = calloc(1, ROOM);
    int server;
    struct note note = {""};

    CHECK_OK("serve", instruments_serve(instruments, (struct http_server *)&server, &note));
    CHECK("there is a page to ask", health.server == (struct http_server *)&server);
    CHECK("which never reported ready", !said_ready);
    instruments_set_ready(instruments, true);
    CHECK("until it was", said_ready);
    free(instruments);
}
