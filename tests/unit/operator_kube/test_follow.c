/* SPDX-License-Identifier: Apache-2.0 */
/* operator/kube/follow.h: the events of a list that ends, is interrupted or is forgotten, in order.
 * */
#include <stdio.h>
#include <stdlib.h>

#include "io/real.h"
#include "lib/test.h"
#include "operator/kube/follow.h"
#include "unit/kube/server.h"

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
#define POD(name)                                                                                  \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"7\"},\"kind\":\"Pod\"}"
#define PAGE(items, more)                                                                          \
    "{\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"" more "\"},\"items\":[" items "]}"
#define EXPIRED "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}"

static struct real_io *real;
static struct server *server;
static struct kube *kube;
static struct follow *follow;
static char reported[512];

static void report(const char *word, const struct json *object)
{
    size_t len = strlen(reported);
    struct str name = STR_EMPTY;

    if (object) CHECK_OK("a name", json_get_string(object, "metadata.name", &name, NULL));
    (void)snprintf(reported + len, sizeof reported - len, "%s%.*s ", word, STR_ARG(name));
}

static void on_begin(void *owner)
{
    (void)owner;
    report("begin", NULL);
}
static void on_seen(void *owner, const struct json *object)
{
    (void)owner;
    report("", object);
}
static void on_end(void *owner)
{
    (void)owner;
    report("end", NULL);
}
static void on_give_up(void *owner)
{
    (void)owner;
    report("give-up", NULL);
}
static void on_gone(void *owner, const struct json *object)
{
    (void)owner;
    report("-", object);
}

static void opened(void)
{
    static const struct follow_events events = {on_begin, on_end, on_give_up, on_seen, on_gone};
    static const struct log_source log;
    struct kube_config config = {.server = (char *)(uintptr_t)server_url(server)};
    struct follow_options options = {.log = &log,
                                     .path = {"", "v1", NULL, "pods", NULL, NULL},
                                     .thread_name = "follow",
                                     .events = &events};

    reported[0] = '\0';
    CHECK_OK("io", real_io_open(&real));
    CHECK_OK("kube", kube_open(&config, &kube, NULL));
    options.io = real_io_io(real);
    options.kube = kube;
    CHECK_OK("follow", follow_open(&options, &follow));
}

static void closed(void)
{
    kube_cancel(kube);
    follow_close(follow);
    kube_close(kube);
    real_io_close(real);
    server_stop(server);
}

TEST(an_interrupted_list_is_dropped_and_reported_again)
{
    server = server_start();
    server_answer_json(server, "200 OK", "", PAGE(POD("a"), "more"));
    server_answer_json(server, "410 Gone", "", EXPIRED); /* the token became too old */
    server_answer_json(server, "200 OK", "", PAGE(POD("b"), "more"));
    server_answer_json(server, "200 OK", "", PAGE(POD("c"), ""));
    server_answer_and_hang(server, OK_HEAD "{\"type\":\"DELETED\",\"object\":" POD("b") "}\n");
    opened();
    while (!strstr(reported, "-b")) real_io_turn(real, true);
    CHECK_TEXT("in order", reported, "begin a give-up begin b c end -b ");
    CHECK("whole", follow_whole(follow, NULL));
    closed();
}

TEST(a_list_with_an_expired_token_starts_again)
{
    server = server_start();
    server_answer_json(server, "200 OK", "", PAGE(POD("a"), ""));
    server_answer_json(server, "410 Gone", "", EXPIRED); /* of the watch */
    server_answer_json(server, "200 OK", "", PAGE(POD("b"), ""));
    server_answer_and_hang(server, OK_HEAD "{\"type\":\"ADDED\",\"object\":" POD("c") "}\n");
    opened();
    while (!strstr(reported, " c ")) real_io_turn(real, true);
    CHECK_TEXT("nothing is given up: the first was reported whole", reported,
               "begin a end begin b end c ");
    closed();
}

TEST(a_silent_server_does_not_delay_the_end)
{
    struct note reason = {""};

    server = server_start();
    server_answer_and_hang(server, "HTTP/1.1 200 OK\r\n");
    opened();
    server_await(server, 1);
    CHECK("not whole", !follow_whole(follow, &reason));
    CHECK_HAS("and the message", reason.text, "pods are not known yet");
    closed();
    CHECK_TEXT("nothing was reported", reported, "");
}
