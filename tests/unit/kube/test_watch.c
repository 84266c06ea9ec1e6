/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube.h: watches that continue at their last revision, and watches that cannot. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kube/kube.h"
#include "lib/test.h"
#include "unit/kube/server.h"

enum { LONG_MS = 20000, SHORT_MS = 150 };

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
#define EVENT(type, version)                                                                       \
    "{\"type\":\"" type "\",\"object\":{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":"     \
    "\"" version "\"}}}\n"

static const struct kube_path leases = {"coordination.k8s.io", "v1", "ns", "leases", NULL, NULL};

struct scene {
    struct server *server;
    struct kube *kube;
    struct kube_watch *watch;
    struct note note;
};

static struct scene begin(uint64_t idle_ms)
{
    struct scene s = {.server = server_start()};
    struct kube_config config = {.server = (char *)(uintptr_t)server_url(s.server)};
    struct kube_watch_options options = {
        .label_selector = "a=b", .resource_version = "10", .idle_timeout_ms = idle_ms};

    CHECK_OK("opens", kube_open(&config, &s.kube, NULL));
    CHECK_OK("a watch", kube_watch_open(s.kube, &leases, &options, &s.watch, NULL));
    return s;
}

static void end(struct scene *s)
{
    kube_watch_close(s->watch);
    kube_close(s->kube);
    server_stop(s->server);
}

static void expect(struct scene *s, const char *why, enum kube_event_kind kind, const char *version)
{
    struct kube_event event;

    CHECK_OK(why, kube_watch_next(s->watch, LONG_MS, &event, &s->note));
    CHECK_U32(why, event.kind, kind);
    CHECK_TEXT(why, event.resource_version, version);
    CHECK("an object", json_kind(event.object) == JSON_KIND_OBJECT);
    kube_event_deinit(&event);
}

static enum err next_err(struct scene *s, uint64_t wait_ms)
{
    struct kube_event event = {0};
    enum err err = kube_watch_next(s->watch, wait_ms, &event, &s->note);

    kube_event_deinit(&event);
    return err;
}

TEST(events_come_in_order_and_a_stream_that_ends_goes_on_where_it_was)
{
    struct scene s = begin(0);

    server_answer_and_close(s.server, OK_HEAD EVENT("ADDED", "11") EVENT("MODIFIED", "12"));
    server_answer_and_close(s.server, OK_HEAD EVENT("BOOKMARK", "20") "{\"type\":\"ADD");
    server_answer_and_hang(s.server, OK_HEAD EVENT("DELETED", "21"));
    expect(&s, "first", KUBE_ADDED, "11");
    expect(&s, "second", KUBE_MODIFIED, "12");
    expect(&s, "a bookmark from a new stream", KUBE_BOOKMARK, "20");
    expect(&s, "half a line was asked for again", KUBE_DELETED, "21");
    CHECK_ERR("then silence", next_err(&s, SHORT_MS), ERR_TIMEOUT);
    CHECK_HAS("begins where the list was", server_request(s.server, 0),
              "leases?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&labelSelector=a%3Db"
              "&resourceVersion=10 HTTP");
    CHECK_HAS("goes on", server_request(s.server, 1), "&resourceVersion=12 HTTP");
    CHECK_HAS("a bookmark counts", server_request(s.server, 2), "&resourceVersion=20 HTTP");
    end(&s);
}

#define GONE                                                                                       \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\","     \
    "\"message\":\"too old\"}}\n"
static const struct {
    const char *why, *bytes;
    enum err want;
    const char *note;
} endings[] = {
    {"gone, in the stream", OK_HEAD GONE, ERR_PRECONDITION, "410 Expired: too old"},
    {"gone, as an answer",
     "HTTP/1.1 410 Gone\r\nContent-Length: 33\r\n\r\n{\"kind\":\"Status\",\"reason\":\"Gone\"}\n",
     ERR_PRECONDITION, "410 Gone"},
    {"not allowed", "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}", ERR_DENIED, "403"},
    {"unknown", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", ERR_UNAUTHENTICATED,
     "401"},
    {"no such kind", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", ERR_NOT_FOUND, "404"},
    {"not JSON", OK_HEAD "<html>\n", ERR_PARSE, "watch: "},
    {"an event of no type", OK_HEAD "{\"object\":{}}\n", ERR_PARSE, "type"},
    {"an event of a new type", OK_HEAD "{\"type\":\"RENAMED\",\"object\":{}}\n", ERR_PARSE,
     "RENAMED"},
    {"an object without a version", OK_HEAD "{\"type\":\"ADDED\",\"object\":{}}\n", ERR_PARSE,
     "resourceVersion"},
    {"an object that is none", OK_HEAD "{\"type\":\"ADDED\",\"object\":[]}\n", ERR_PARSE, "object"},
};

TEST(a_watch_that_cannot_continue_ends_for_good_with_the_reason)
{
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        struct scene s = begin(0);
        server_answer_and_close(s.server, endings[i].bytes);
        CHECK_ERR(endings[i].why, next_err(&s, LONG_MS), endings[i].want);
        CHECK_HAS(endings[i].why, s.note.text, endings[i].note);
        s.note = (struct note){""};
        CHECK_ERR("the same ever after", next_err(&s, LONG_MS), endings[i].want);
        CHECK_HAS("with its reason", s.note.text, endings[i].note);
        CHECK_SIZE("nothing more was asked", server_requests(s.server), 1);
        end(&s);
    }
}

TEST(a_server_in_trouble_is_asked_again)
{
    struct scene s = begin(0);

    server_answer_json(s.server, "503 Service Unavailable", "", "{}");
    server_answer_and_close(s.server, "");
    server_answer_and_close(s.server, OK_HEAD "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
                                              "\"code\":500,\"reason\":\"InternalError\"}}\n");
    server_answer_and_hang(s.server, OK_HEAD "\n" EVENT("ADDED", "11"));
    expect(&s, "in the end", KUBE_ADDED, "11");
    CHECK_SIZE("four streams", server_requests(s.server), 4);
    end(&s);
}

TEST(a_wish_to_wait_is_granted)
{
    struct scene s = begin(0);

    server_answer_json(s.server, "429 Too Many Requests", "Retry-After: 3600\r\n", "{}");
    server_answer_and_hang(s.server, OK_HEAD EVENT("ADDED", "11"));
    CHECK_ERR("waits", next_err(&s, 4 * SHORT_MS), ERR_TIMEOUT);
    CHECK_HAS("the reason", s.note.text, "429");
    CHECK_SIZE("and asks nothing", server_requests(s.server), 1);
    end(&s);
}

TEST(a_silent_stream_counts_as_dead)
{
    struct scene s = begin(SHORT_MS);

    server_answer_and_hang(s.server, OK_HEAD);
    server_answer_and_hang(s.server, OK_HEAD EVENT("ADDED", "11"));
    expect(&s, "over a new connection", KUBE_ADDED, "11");
    CHECK_SIZE("two streams", server_requests(s.server), 2);
    end(&s);
}

TEST(a_line_without_end_meets_its_bound)
{
    struct scene s = begin(0);
    struct buf big;
    char *room;

    buf_init(&big, KUBE_WATCH_LINE_MAX + 4096);
    buf_append_c(&big, OK_HEAD);
    CHECK_OK("room", buf_reserve(&big, KUBE_WATCH_LINE_MAX + 1, &room));
    memset(room, 'x', KUBE_WATCH_LINE_MAX + 1);
    buf_commit(&big, KUBE_WATCH_LINE_MAX + 1);
    server_answer_bytes(s.server, buf_peek(&big));
    CHECK_ERR("too large", next_err(&s, LONG_MS), ERR_TOO_LARGE);
    buf_deinit(&big);
    end(&s);
}

/* More than the buffer holds, in lines of all sizes: nothing is lost or repeated. */
TEST(a_flood_is_held_back_and_read_whole)
{
    enum { EVENTS = 600, PAD = 20000 };
    struct scene s = begin(0);
    struct buf big;

    buf_init(&big, 32 << 20);
    buf_append_c(&big, OK_HEAD);
    for (int i = 0; i < EVENTS; i++)
        buf_appendf(&big,
                    "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"resourceVersion\":\"%d\"},"
                    "\"pad\":\"%0*d\"}}\n",
                    100 + i, 1 + i * 7919 % PAD, 7);
    server_answer_bytes(s.server, buf_peek(&big));
    for (int i = 0; i < EVENTS; i++) {
        char version[16];
        snprintf(version, sizeof version, "%d", 100 + i);
        expect(&s, "in order", KUBE_MODIFIED, version);
    }
    buf_deinit(&big);
    end(&s);
}

static void *cancel_soon(void *context)
{
    struct scene *s = context;

    server_await(s->server, 1);
    usleep(50 * 1000);
    kube_watch_cancel(s->watch);
    return NULL;
}

TEST(another_thread_can_end_the_wait)
{
    for (int silent = 0; silent < 2; silent++) {
        struct scene s = begin(0);
        pthread_t thread;

        if (silent)
            server_answer_and_hang(s.server, OK_HEAD);
        else
            server_answer_json(s.server, "429 Too Many Requests", "Retry-After: 3600\r\n", "{}");
        CHECK("starts", pthread_create(&thread, NULL, cancel_soon, &s) == 0);
        CHECK_ERR("long before its time", next_err(&s, 600 * 1000), ERR_CANCELLED);
        pthread_join(thread, NULL);
        CHECK_ERR("for good", next_err(&s, LONG_MS), ERR_CANCELLED);
        end(&s);
    }
}

TEST(a_watch_needs_to_know_where_to_begin)
{
    struct kube_config config = {.server = (char *)(uintptr_t) "http://127.0.0.1:1"};
    struct kube_watch_options options = {.resource_version = ""};
    struct kube_watch *watch = NULL;
    struct kube *kube = NULL;
    struct note note = {""};

    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    CHECK_ERR("no version", kube_watch_open(kube, &leases, &options, &watch, &note), ERR_INVALID);
    kube_close(kube);
}
