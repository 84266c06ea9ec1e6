/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube.h, one call at a time, against a server with unusual answers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kube/kube.h"
#include "lib/test.h"
#include "unit/kube/server.h"

enum { LONG_MS = 20000, SHORT_MS = 150, HOUR_MS = 3600 * 1000 };

static const struct kube_path lease = {"coordination.k8s.io", "v1", "ns", "leases", "one", NULL};
static const struct kube_path leases = {"coordination.k8s.io", "v1", "ns", "leases", NULL, NULL};

static struct kube *open_client(struct server *server, const char *token)
{
    struct kube_config config = {.server = (char *)(uintptr_t)server_url(server),
                                 .token = (char *)(uintptr_t)token};
    struct kube *kube = NULL;

    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    return kube;
}

TEST(a_get_asks_for_the_object_with_the_token_and_nothing_else)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, "tok");
    struct kube_answer answer;
    struct str name;

    server_answer_json(server, "200 OK", "", "{\"metadata\":{\"name\":\"one\"}}");
    CHECK_OK("answered", kube_get(kube, &lease, LONG_MS, &answer, NULL));
    CHECK_U32("status", answer.http_status, 200);
    CHECK_OK("an object", json_get_string(answer.object, "metadata.name", &name, NULL));
    CHECK_STR("that one", name, STR("one"));
    const char *request = server_request(server, 0);
    CHECK_HAS("path, without a version: from the store", request,
              "GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/one HTTP/1.1\r\n");
    CHECK_HAS("token", request, "Authorization: Bearer tok\r\n");
    CHECK_HAS("JSON", request, "Accept: application/json\r\n");
    kube_answer_deinit(&answer);
    kube_close(kube);
    server_stop(server);
}

TEST(calls_in_turn_share_a_connection)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);

    for (int i = 0; i < 5; i++) {
        struct kube_answer answer;
        server_answer_json(server, "200 OK", "", "{}");
        CHECK_OK("answered", kube_get(kube, &lease, LONG_MS, &answer, NULL));
        kube_answer_deinit(&answer);
    }
    CHECK_SIZE("one connection", server_connections(server), 1);
    kube_close(kube);
    server_stop(server);
}

#define STATUS(code, reason)                                                                       \
    "{\"kind\":\"Status\",\"code\":" code ",\"reason\":\"" reason "\",\"message\":\"because\"}"
static const struct {
    const char *why, *status, *headers, *body;
    enum err read, write;
    const char *reason;
    uint64_t retry_after_ms;
} answers[] = {
    {"not there", "404 Not Found", "", STATUS("404", "NotFound"), ERR_NOT_FOUND, ERR_NOT_FOUND,
     "NotFound", 0},
    {"taken", "409 Conflict", "", STATUS("409", "AlreadyExists"), ERR_EXISTS, ERR_EXISTS,
     "AlreadyExists", 0},
    {"changed", "409 Conflict", "", STATUS("409", "Conflict"), ERR_CONFLICT, ERR_CONFLICT,
     "Conflict", 0},
    {"too old", "410 Gone", "", STATUS("410", "Expired"), ERR_PRECONDITION, ERR_PRECONDITION,
     "Expired", 0},
    {"wrong", "422 Unprocessable Entity", "", STATUS("422", "Invalid"), ERR_INVALID, ERR_INVALID,
     "Invalid", 0},
    {"who are you", "401 Unauthorized", "", STATUS("401", "Unauthorized"), ERR_UNAUTHENTICATED,
     ERR_UNAUTHENTICATED, "Unauthorized", 0},
    {"not you", "403 Forbidden", "", STATUS("403", "Forbidden"), ERR_DENIED, ERR_DENIED,
     "Forbidden", 0},
    {"later, by header", "429 Too Many Requests", "Retry-After: 5\r\n",
     STATUS("429", "TooManyRequests"), ERR_FULL, ERR_FULL, "TooManyRequests", 5000},
    {"later, by body", "429 Too Many Requests", "",
     "{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":7}}", ERR_FULL, ERR_FULL, "", 7000},
    {"later, in a thousand years", "503 Service Unavailable", "Retry-After: 31556952000\r\n", "{}",
     ERR_UNAVAILABLE, ERR_UNKNOWN, "", KUBE_RETRY_AFTER_MAX_MS},
    {"broken", "500 Internal Server Error", "", STATUS("500", "InternalError"), ERR_UNAVAILABLE,
     ERR_UNKNOWN, "InternalError", 0},
    {"a gateway's page", "504 Gateway Timeout", "", "<html>late</html>", ERR_UNAVAILABLE,
     ERR_UNKNOWN, "", 0},
    {"elsewhere", "302 Found", "Location: http://127.0.0.1:1/\r\n", "{}", ERR_UNAVAILABLE,
     ERR_UNAVAILABLE, "", 0},
    {"a page instead of an object", "200 OK", "", "<html>hello</html>", ERR_PARSE, ERR_UNKNOWN, "",
     0},
    {"a list of nothing", "200 OK", "", "[]", ERR_PARSE, ERR_UNKNOWN, "", 0},
    {"nothing", "200 OK", "", "", ERR_PARSE, ERR_UNKNOWN, "", 0},
    {"a key twice", "200 OK", "", "{\"a\":1,\"a\":2}", ERR_PARSE, ERR_UNKNOWN, "", 0},
    {"a reason of the wrong kind", "403 Forbidden", "",
     "{\"kind\":\"Status\",\"reason\":[],\"message\":7,\"code\":\"x\"}", ERR_DENIED, ERR_DENIED, "",
     0},
};

TEST(every_answer_says_done_not_done_or_unknown)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct server *server = server_start();
        struct kube *kube = open_client(server, NULL);
        struct kube_answer answer;
        struct note note = {""};

        for (int write = 0; write < 2; write++) {
            server_answer_json(server, answers[i].status, answers[i].headers, answers[i].body);
            enum err err = write ? kube_create(kube, &leases, STR("{}"), LONG_MS, &answer, &note)
                                 : kube_get(kube, &lease, LONG_MS, &answer, &note);
            CHECK_ERR(answers[i].why, err, write ? answers[i].write : answers[i].read);
            CHECK_TEXT(answers[i].why, answer.reason, answers[i].reason);
            CHECK_U64(answers[i].why, answer.retry_after_ms, answers[i].retry_after_ms);
            CHECK("no object after an error", answer.object == NULL);
            CHECK("words", note.text[0] != '\0');
            kube_answer_deinit(&answer);
        }
        CHECK_SIZE("nothing was asked twice, nobody was followed", server_requests(server), 2);
        kube_close(kube);
        server_stop(server);
    }
}

static const struct {
    const char *why, *bytes;
    bool hang;
    enum err read, write;
} silences[] = {
    {"never a word", "", true, ERR_TIMEOUT, ERR_UNKNOWN},
    {"half a head", "HTTP/1.1 200 OK\r\nContent-Le", true, ERR_TIMEOUT, ERR_UNKNOWN},
    {"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"a\":", true, ERR_TIMEOUT,
     ERR_UNKNOWN},
    {"closed without a word", "", false, ERR_UNAVAILABLE, ERR_UNKNOWN},
    {"closed in the body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"a\":", false,
     ERR_UNAVAILABLE, ERR_UNKNOWN},
    {"not HTTP", "SSH-2.0-odd\r\n", false, ERR_UNAVAILABLE, ERR_UNKNOWN},
};

TEST(a_write_without_a_whole_answer_is_never_called_undone)
{
    for (size_t i = 0; i < ARRAY_LEN(silences); i++)
        for (int write = 0; write < 2; write++) {
            struct server *server = server_start();
            struct kube *kube = open_client(server, NULL);
            struct kube_answer answer;
            struct note note = {""};

            if (silences[i].hang)
                server_answer_and_hang(server, silences[i].bytes);
            else
                server_answer_and_close(server, silences[i].bytes);
            uint64_t limit = silences[i].hang ? SHORT_MS : LONG_MS;
            enum err err = write ? kube_update(kube, &lease, STR("{}"), limit, &answer, &note)
                                 : kube_get(kube, &lease, limit, &answer, &note);
            CHECK_ERR(silences[i].why, err, write ? silences[i].write : silences[i].read);
            kube_answer_deinit(&answer);
            kube_close(kube);
            server_stop(server);
        }
}

TEST(a_write_that_never_left_is_not_done)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);
    struct kube_answer answer;

    server_stop(server);
    CHECK_ERR("refused before a byte",
              kube_create(kube, &leases, STR("{}"), LONG_MS, &answer, NULL), ERR_UNAVAILABLE);
    kube_answer_deinit(&answer);
    kube_close(kube);
}

static void *get_for_hours(void *context)
{
    static enum err errs[2];
    struct kube_answer answer;

    errs[0] = kube_get(context, &lease, HOUR_MS, &answer, NULL);
    kube_answer_deinit(&answer);
    errs[1] = kube_create(context, &leases, STR("{}"), HOUR_MS, &answer, NULL);
    kube_answer_deinit(&answer);
    return errs;
}

TEST(calls_of_a_server_that_does_not_answer_can_be_ended)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);
    pthread_t thread;
    void *errs = NULL;

    server_answer_and_hang(server, "HTTP/1.1 200 OK\r\n");
    CHECK("a thread", pthread_create(&thread, NULL, get_for_hours, kube) == 0);
    server_await(server, 1);
    kube_cancel(kube);
    CHECK("it comes back", pthread_join(thread, &errs) == 0);
    CHECK_ERR("the one that ran", ((enum err *)errs)[0], ERR_CANCELLED);
    CHECK_ERR("the one after it", ((enum err *)errs)[1], ERR_CANCELLED);
    CHECK_SIZE("which was not sent", server_requests(server), 1);
    kube_close(kube);
    server_stop(server);
}

TEST(an_answer_without_end_meets_its_bound)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);
    struct kube_answer answer;
    struct note note = {""};
    struct buf big;

    buf_init(&big, KUBE_BODY_MAX + 4096);
    buf_appendf(&big, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n\"", KUBE_BODY_MAX + 1);
    size_t head = big.len;
    char *room;
    CHECK_OK("room", buf_reserve(&big, KUBE_BODY_MAX, &room));
    memset(room, 'x', KUBE_BODY_MAX);
    buf_commit(&big, KUBE_BODY_MAX);
    (void)head;
    server_answer_bytes(server, buf_peek(&big));
    CHECK_ERR("too large", kube_get(kube, &lease, LONG_MS, &answer, &note), ERR_TOO_LARGE);
    CHECK_HAS("the message", note.text, "16 MiB");
    kube_answer_deinit(&answer);
    /* The connection with unread bytes is not used again. */
    server_answer_json(server, "200 OK", "", "{}");
    CHECK_OK("the next call is served", kube_get(kube, &lease, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_SIZE("over a new connection", server_connections(server), 2);
    buf_deinit(&big);
    kube_close(kube);
    server_stop(server);
}

TEST(lists_are_asked_for_page_by_page)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);
    struct kube_answer answer;
    struct kube_list_head head;
    struct kube_list_options options = {.label_selector = "m/kind in (slot,group),a=b",
                                        .field_selector = "spec.nodeName=n",
                                        .limit = 2,
                                        .continue_ = STR("to&ken=")};

    server_answer_json(server, "200 OK", "",
                       "{\"metadata\":{\"resourceVersion\":\"12\",\"continue\":\"next\"},"
                       "\"items\":[{},{}]}");
    CHECK_OK("answered", kube_list(kube, &leases, &options, LONG_MS, &answer, NULL));
    CHECK_HAS(
        "every byte in its place", server_request(server, 0),
        "GET /apis/coordination.k8s.io/v1/namespaces/ns/leases"
        "?labelSelector=m%2Fkind%20in%20%28slot%2Cgroup%29%2Ca%3Db&fieldSelector=spec.nodeName%3Dn"
        "&limit=2"
        "&continue=to%26ken%3D HTTP");
    CHECK_OK("a list", kube_list_decode(answer.object, &head, NULL));
    CHECK_TEXT("version", head.resource_version, "12");
    CHECK_STR("more to come", head.continue_, STR("next"));
    CHECK_SIZE("items", json_count(head.items), 2);
    kube_answer_deinit(&answer);
    kube_close(kube);
    server_stop(server);
}

TEST(writes_carry_their_bodies_and_conditions)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);
    struct kube_path pod = {"", "v1", "ns", "pods", "p", NULL};
    struct kube_answer answer;

    server_answer_json(server, "201 Created", "", "{}");
    CHECK_OK("create", kube_create(kube, &leases, STR("{\"x\":1}"), LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_HAS("method", server_request(server, 0), "POST /apis/");
    CHECK_HAS("kind of body", server_request(server, 0), "Content-Type: application/json\r\n");
    CHECK_HAS("body", server_request(server, 0), "\r\n\r\n{\"x\":1}");
    server_answer_json(server, "200 OK", "", "{}");
    CHECK_OK("update", kube_update(kube, &lease, STR("{\"x\":2}"), LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_HAS("method", server_request(server, 1), "PUT /apis/");
    server_answer_json(server, "200 OK", "", "{}");
    CHECK_OK("delete", kube_delete(kube, &pod, "u-1", LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_HAS("core group", server_request(server, 2), "DELETE /api/v1/namespaces/ns/pods/p HTTP");
    CHECK_HAS("conditions", server_request(server, 2), "\"preconditions\":{\"uid\":\"u-1\"}}");
    server_answer_json(server, "201 Created", "", "{}");
    CHECK_OK("evict", kube_evict(kube, "ns", "p", NULL, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_HAS("subresource", server_request(server, 3),
              "POST /api/v1/namespaces/ns/pods/p/eviction HTTP");
    CHECK_HAS("body", server_request(server, 3),
              "\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\","
              "\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\"},\"deleteOptions\":{}}");
    kube_close(kube);
    server_stop(server);
}

static const char *const odd_names[] = {"", "..", ".", "a/b", "a b", "a%2fb", "a\r\nX: y", "a?b"};

TEST(a_name_cannot_leave_its_place)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, NULL);

    for (size_t i = 0; i < ARRAY_LEN(odd_names); i++) {
        struct kube_path path = lease;
        struct kube_answer answer;
        path.name = odd_names[i];
        CHECK_ERR(odd_names[i], kube_get(kube, &path, LONG_MS, &answer, NULL), ERR_INVALID);
        kube_answer_deinit(&answer);
    }
    CHECK_SIZE("nothing was sent", server_requests(server), 0);
    kube_close(kube);
    server_stop(server);
}

static void write_token(const char *path, const char *token)
{
    char other[600];
    FILE *file;

    /* Replaces the file by a new one, like the kubelet. */
    snprintf(other, sizeof other, "%s.new", path);
    file = fopen(other, "w");
    CHECK("opens", file != NULL);
    fputs(token, file);
    fclose(file);
    CHECK("replaces", rename(other, path) == 0);
}

TEST(a_token_file_is_read_again_when_it_changes)
{
    struct server *server = server_start();
    char path[512];
    struct kube_config config = {.server = (char *)(uintptr_t)server_url(server),
                                 .token_file = path};
    struct kube *kube = NULL;
    struct kube_answer answer;
    struct note note = {""};

    snprintf(path, sizeof path, "%s/token", test_dir());
    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    CHECK_ERR("no file yet", kube_get(kube, &lease, LONG_MS, &answer, &note), ERR_UNAUTHENTICATED);
    kube_answer_deinit(&answer);
    const char *steps[] = {"first\n", "second\n"};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        write_token(path, steps[i]);
        server_answer_json(server, "200 OK", "", "{}");
        CHECK_OK("answered", kube_get(kube, &lease, LONG_MS, &answer, NULL));
        kube_answer_deinit(&answer);
    }
    CHECK_HAS("first", server_request(server, 0), "Bearer first\r\n");
    CHECK_HAS("second", server_request(server, 1), "Bearer second\r\n");
    unlink(path);
    server_answer_json(server, "200 OK", "", "{}");
    CHECK_OK("the last one serves while the file is away",
             kube_get(kube, &lease, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_HAS("second", server_request(server, 2), "Bearer second\r\n");
    kube_close(kube);
    server_stop(server);
}

static const struct {
    const char *why, *server;
    enum err want;
} servers[] = {
    {"TLS", "https://10.0.0.1:6443", ERR_OK},
    {"a path before the API", "https://proxy/k8s/clusters/c-1", ERR_OK},
    {"this host without TLS", "http://[::1]:8080", ERR_OK},
    {"another host without TLS", "http://10.0.0.1:8080", ERR_INVALID},
    {"a name that only looks like this host", "http://127.example.com", ERR_INVALID},
    {"another protocol", "file:///etc/passwd", ERR_INVALID},
    {"a password in the address", "https://a:b@h", ERR_INVALID},
    {"a query", "https://h/?x=y", ERR_INVALID},
    {"nothing", "", ERR_INVALID},
};

TEST(a_token_is_never_sent_in_the_clear)
{
    for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
        struct kube_config config = {.server = (char *)(uintptr_t)servers[i].server};
        struct kube *kube = NULL;
        struct note note = {""};
        CHECK_ERR(servers[i].why, kube_open(&config, &kube, &note), servers[i].want);
        kube_close(kube);
    }
}

struct caller {
    pthread_t thread;
    struct kube *kube;
    uint32_t good;
};

static void *call_often(void *context)
{
    struct caller *caller = context;

    for (int i = 0; i < 4; i++) {
        struct kube_answer answer;
        if (!kube_get(caller->kube, &lease, LONG_MS, &answer, NULL)) caller->good++;
        kube_answer_deinit(&answer);
    }
    return NULL;
}

TEST(many_threads_call_at_once)
{
    struct server *server = server_start();
    struct kube *kube = open_client(server, "tok");
    struct caller callers[8];

    for (int i = 0; i < 32; i++) server_answer_json(server, "200 OK", "", "{\"a\":1}");
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        callers[i] = (struct caller){.kube = kube};
        CHECK("starts", pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) == 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_U32("all answered", callers[i].good, 4);
    }
    CHECK("a connection per caller at most", server_connections(server) <= 8);
    kube_close(kube);
    server_stop(server);
}
