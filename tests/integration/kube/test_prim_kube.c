/* SPDX-License-Identifier: Apache-2.0 */
/* k8s:// with a real kube-apiserver: D11, Q01 to Q11. One second is the backend's grain, so each
 * wait here is a few seconds long; times have lower bounds only. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <muster/coord.h>

#include "kube/kube.h"
#include "lib/http_client.h"
#include "lib/test.h"
#include "prim/kube/store.h"
#include "prim/stores.h"
#include "prim/url.h"

enum { TTL_MS = 2000, GRACE_MS = 1000, LONG_MS = 30000, LEASE_PATIENCE_MS = 60000 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms)
{
    usleep((useconds_t)(ms * 1000));
}

/* -- the store, and foreign edits of its objects -- */

static coord_store *open_store(const char *variable)
{
    char url[512];
    coord_store *store = NULL;

    snprintf(url, sizeof url, "k8s://default?kubeconfig=%s", getenv(variable));
    coord_result result = coord_open(url, NULL, &store);
    CHECK_TEXT("opens", result.text, "");
    CHECK_I64("opens", result.code, COORD_OK);
    return store;
}

static void check_code(const char *why, coord_result got, int code, int reason)
{
    if (got.code != code || got.reason != reason)
        fprintf(stderr, "%s/%s: %s\n", coord_code_name(got.code), coord_reason_name(got.reason),
                got.text);
    CHECK_TEXT(why, coord_code_name(got.code), coord_code_name(code));
    CHECK_TEXT(why, coord_reason_name(got.reason), coord_reason_name(reason));
}

static coord_str view(const char *text)
{
    return (coord_str){text, strlen(text)};
}

static coord_result create(coord_store *store, const char *key, int64_t ttl_ms, const char *owner,
                           coord_lease **ret_lease)
{
    return coord_create_if_absent(store, NULL, view(key), view("value"), ttl_ms, owner, ret_lease);
}

static struct kube *hand(void)
{
    struct kube_config_options options = {.kubeconfig = getenv("KUBE_ADMIN")};
    struct kube_config config = {0};
    struct kube *kube = NULL;

    CHECK_OK("credentials", kube_config_find(&options, &config, NULL));
    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    kube_config_deinit(&config);
    return kube;
}

static struct kube_path object_of(const char *key, char name[LEASE_NAME_CAP])
{
    kube_lease_name(str_from(key), name);
    return (struct kube_path){"coordination.k8s.io", "v1", "default", "leases", name, NULL};
}

/* The object as text, "" when it is not there; the caller frees. */
static char *read_object(const char *key)
{
    struct kube *kube = hand();
    char name[LEASE_NAME_CAP], *text = NULL;
    struct kube_path path = object_of(key, name);
    struct kube_answer answer;
    struct buf out;

    buf_init(&out, 1 << 20);
    if (!kube_get(kube, &path, LONG_MS, &answer, NULL))
        CHECK_OK("writes", json_write(answer.object, NDJSON_LINE, &out));
    CHECK_OK("ends", buf_append_byte(&out, '\0'));
    CHECK_OK("text", buf_detach(&out, &text));
    kube_answer_deinit(&answer);
    kube_close(kube);
    return text;
}

/* Puts `text` behind the first `mark` of the object. */
static void edit_object(const char *key, const char *mark, const char *text)
{
    struct kube *kube = hand();
    char name[LEASE_NAME_CAP], *before = read_object(key), *at = strstr(before, mark);
    struct kube_path path = object_of(key, name);
    struct kube_answer answer;
    struct note note = {""};
    struct buf body;

    CHECK("there is a place", at != NULL);
    at += strlen(mark);
    buf_init(&body, 1 << 20);
    buf_append(&body, str_of(before, (size_t)(at - before)));
    buf_append_c(&body, text);
    buf_append_c(&body, at);
    enum err err = kube_update(kube, &path, buf_peek(&body), LONG_MS, &answer, &note);
    if (err) fprintf(stderr, "%s\n", note.text);
    CHECK_OK("edited by hand", err);
    kube_answer_deinit(&answer);
    buf_deinit(&body);
    free(before);
    kube_close(kube);
}

static void delete_object(const char *key)
{
    struct kube *kube = hand();
    char name[LEASE_NAME_CAP];
    struct kube_path path = object_of(key, name);
    struct kube_answer answer;

    CHECK_OK("deleted by hand", kube_delete(kube, &path, NULL, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    kube_close(kube);
}

/* -- the proxy -- */

static long control(const char *method, const char *word, const char *body)
{
    char request[1024], *text = NULL;
    long number;

    snprintf(request, sizeof request,
             "%s /_control/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
             "%zu\r\n\r\n%s",
             method, word, strlen(body), body);
    CHECK_I64(word, client_ask(getenv("KUBE_PROXY"), request, &text), 200);
    const char *answer = text ? strstr(text, "\r\n\r\n") : NULL;
    number = answer ? strtol(answer + 4, NULL, 10) : 0;
    free(text);
    return number;
}

/* Tries until the key is ours; how long that took. */
static int64_t take(coord_store *store, const char *key, coord_lease **ret_lease,
                    coord_result *ret_result)
{
    int64_t began = now_ms();

    while ((*ret_result = create(store, key, TTL_MS, "contender", ret_lease)).code ==
           COORD_EXISTS) {
        CHECK("in the end it is free", now_ms() - began < LEASE_PATIENCE_MS);
        sleep_ms(100);
    }
    check_code("taken over", *ret_result, COORD_OK, COORD_R_CREATED);
    return now_ms() - began;
}

/* -- Q01 -- */

struct pod {
    pthread_t thread;
    coord_store *store;
    pthread_barrier_t *start;
    coord_result result;
    coord_lease *lease;
};

static void *race(void *context)
{
    struct pod *pod = context;

    pthread_barrier_wait(pod->start);
    pod->result = create(pod->store, "q01/singleton", 30000, "pod", &pod->lease);
    return NULL;
}

TEST(q01_of_twenty_pods_that_post_at_once_one_wins)
{
    enum { PODS = 20 };
    static struct pod pods[PODS];
    pthread_barrier_t start;
    uint32_t won = 0;
    uint64_t revision = 0;

    pthread_barrier_init(&start, NULL, PODS);
    for (int i = 0; i < PODS; i++)
        pods[i] = (struct pod){.store = open_store("KUBE_ADMIN"), .start = &start};
    for (int i = 0; i < PODS; i++)
        CHECK("starts", pthread_create(&pods[i].thread, NULL, race, &pods[i]) == 0);
    for (int i = 0; i < PODS; i++) pthread_join(pods[i].thread, NULL);
    for (int i = 0; i < PODS; i++) {
        if (pods[i].result.code == COORD_OK)
            won++;
        else
            check_code("the rest", pods[i].result, COORD_EXISTS, COORD_R_HELD);
        if (!revision) revision = pods[i].result.revision;
        CHECK_U64("all saw the same", pods[i].result.revision, revision);
        coord_lease_unref(pods[i].lease);
        coord_close(pods[i].store);
    }
    CHECK_U32("one", won, 1);
    pthread_barrier_destroy(&start);
}

/* -- Q02, Q08 -- */

TEST(q02_a_fresh_contender_waits_a_whole_ttl_and_grace_of_its_own_watching)
{
    coord_store *holder = open_store("KUBE_ADMIN"), *fresh = NULL;
    coord_lease *lease = NULL, *taken = NULL;
    coord_result first = create(holder, "q02/key", TTL_MS, "holder", &lease), second;

    check_code("held", first, COORD_OK, COORD_R_CREATED);
    CHECK_U64("the token is the revision", first.token, first.revision);
    sleep_ms(TTL_MS + GRACE_MS + 500); /* expired long ago, and no client observed it */
    fresh = open_store("KUBE_ADMIN");
    int64_t took = take(fresh, "q02/key", &taken, &second);
    CHECK("not before its own observation ends", took >= TTL_MS + GRACE_MS);
    CHECK("a larger token", second.token > first.token);
    CHECK_I64("the old one", coord_renew(lease, NULL).code, COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_lease_unref(taken);
    coord_close(fresh);
    coord_close(holder);
}

TEST(q08_a_clock_that_is_off_by_a_year_changes_nothing)
{
    static const char *const when[] = {"2001-01-01T00:00:00.000000Z",
                                       "2099-01-01T00:00:00.000000Z"};
    static const char *const keys[] = {"q08/past", "q08/future"};
    coord_store *holder = open_store("KUBE_ADMIN"), *fresh = open_store("KUBE_ADMIN");

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        coord_lease *lease = NULL;
        char *before, *at, mark[64];
        check_code("held", create(holder, keys[i], TTL_MS, "holder", &lease), COORD_OK,
                   COORD_R_CREATED);
        coord_lease_unref(lease);
        /* Both times of the spec are its last two strings; the hand writes over renewTime. */
        before = read_object(keys[i]);
        at = strstr(before, "\"renewTime\":\"");
        CHECK("a time", at != NULL);
        snprintf(mark, sizeof mark, "%.40s", at); /* whole: it is this object's alone */
        free(before);
        struct kube *kube = hand();
        char name[LEASE_NAME_CAP], *text = read_object(keys[i]);
        struct kube_path path = object_of(keys[i], name);
        struct kube_answer answer;
        memcpy(strstr(text, mark) + strlen("\"renewTime\":\""), when[i], strlen(when[i]));
        CHECK_OK("edited by hand",
                 kube_update(kube, &path, str_from(text), LONG_MS, &answer, NULL));
        kube_answer_deinit(&answer);
        free(text);
        kube_close(kube);
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        coord_lease *taken = NULL;
        coord_result result;
        int64_t took = take(fresh, keys[i], &taken, &result);
        if (i == 0) CHECK("neither sooner nor never", took >= TTL_MS + GRACE_MS);
        coord_lease_unref(taken);
    }
    coord_close(fresh);
    coord_close(holder);
}

/* -- Q03 -- */

struct taker {
    coord_store *store;
    coord_lease *lease;
    coord_result result;
};

static void *take_once(void *context)
{
    struct taker *taker = context;
    coord_call call = {.timeout_ms = LONG_MS};

    taker->result = coord_create_if_absent(taker->store, &call, view("q03/key"), view("v"), TTL_MS,
                                           "contender", &taker->lease);
    return NULL;
}

TEST(q03_a_holder_that_writes_between_look_and_takeover_keeps_its_claim)
{
    coord_store *holder = open_store("KUBE_ADMIN");
    struct taker taker = {.store = open_store("KUBE_PROXIED")};
    coord_lease *lease = NULL;
    pthread_t thread;

    check_code("held", create(holder, "q03/key", TTL_MS, "holder", &lease), COORD_OK,
               COORD_R_CREATED);
    check_code("seen", create(taker.store, "q03/key", TTL_MS, "contender", &taker.lease),
               COORD_EXISTS, COORD_R_HELD);
    sleep_ms(TTL_MS + GRACE_MS + 200);
    control("POST", "rule", "{\"method\":\"PUT\",\"count\":1,\"action\":\"hold\"}");
    CHECK("starts", pthread_create(&thread, NULL, take_once, &taker) == 0);
    for (int i = 0; i < 300 && control("GET", "held", "") == 0; i++) sleep_ms(50);
    edit_object("q03/key", "\"annotations\":{", "\"alive\":\"yes\",");
    control("POST", "go", "");
    pthread_join(thread, NULL);
    check_code("it backs off", taker.result, COORD_EXISTS, COORD_R_HELD);
    CHECK_TEXT("the holder is still there", taker.result.owner, "holder");
    coord_lease_unref(lease);
    coord_close(taker.store);
    coord_close(holder);
}

/* -- Q04, Q05 -- */

TEST(q04_an_edit_of_a_label_costs_a_holder_nothing_and_survives)
{
    coord_store *store = open_store("KUBE_ADMIN");
    coord_lease *lease = NULL;
    coord_result made = create(store, "q04/key", 20000, "holder", &lease), renewed;
    char *object;

    check_code("held", made, COORD_OK, COORD_R_CREATED);
    edit_object("q04/key", "\"labels\":{", "\"team\":\"red\",");
    renewed = coord_renew(lease, NULL);
    check_code("renewed", renewed, COORD_OK, COORD_R_RENEWED);
    CHECK_U64("the token stays", renewed.token, made.token);
    object = read_object("q04/key");
    CHECK_HAS("and so does the label", object, "\"team\":\"red\"");
    free(object);
    check_code("and again, in one write", coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    coord_entry *entry = NULL;
    check_code("read", coord_get(store, NULL, view("q04/key"), COORD_LATEST, &entry), COORD_OK,
               COORD_R_NONE);
    CHECK_U64("a renewal is no change", entry->revision, made.revision);
    coord_entry_free(entry);
    check_code("released", coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    coord_lease_unref(lease);
    coord_close(store);
}

TEST(q05_an_object_deleted_by_hand_ends_the_claim_and_comes_back_larger)
{
    coord_store *store = open_store("KUBE_ADMIN");
    coord_lease *lease = NULL;
    coord_result first = create(store, "q05/key", 20000, "holder", &lease), second;

    check_code("held", first, COORD_OK, COORD_R_CREATED);
    delete_object("q05/key");
    check_code("the holder learns it", coord_renew(lease, NULL), COORD_EXPIRED, COORD_R_REVOKED);
    coord_lease_unref(lease);
    second = create(store, "q05/key", 20000, "holder", &lease);
    check_code("made anew", second, COORD_OK, COORD_R_CREATED);
    CHECK("with a larger revision", second.revision > first.revision);
    CHECK("and token", second.token > first.token);
    coord_lease_unref(lease);
    coord_close(store);
}

/* -- Q06 -- */

static void post(struct kube *kube, const struct kube_path *path, const char *body)
{
    struct kube_answer answer;
    struct note note = {""};
    enum err err = kube_create(kube, path, str_from(body), LONG_MS, &answer, &note);

    if (err) fprintf(stderr, "%s\n", note.text);
    CHECK("made", err == ERR_OK || err == ERR_EXISTS);
    kube_answer_deinit(&answer);
}

static const struct kube_path roles = {
    "rbac.authorization.k8s.io", "v1", "default", "roles", NULL, NULL};
static const struct kube_path bindings = {
    "rbac.authorization.k8s.io", "v1", "default", "rolebindings", NULL, NULL};

static void let_in(struct kube *kube)
{
    post(
        kube, &roles,
        "{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"Role\",\"metadata\":{\"name\":"
        "\"coord\"},\"rules\":[{\"apiGroups\":[\"coordination.k8s.io\"],\"resources\":[\"leases\"],"
        "\"verbs\":[\"get\",\"list\",\"watch\",\"create\",\"update\"]}]}");
    post(kube, &bindings,
         "{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"RoleBinding\",\"metadata\":{"
         "\"name\":\"coord\"},\"subjects\":[{\"kind\":\"User\",\"name\":\"limited\",\"apiGroup\":"
         "\"rbac.authorization.k8s.io\"}],\"roleRef\":{\"kind\":\"Role\",\"name\":\"coord\","
         "\"apiGroup\":\"rbac.authorization.k8s.io\"}}");
}

static void shut_out(struct kube *kube)
{
    struct kube_path path = bindings;
    struct kube_answer answer;

    path.name = "coord";
    CHECK_OK("rights are gone", kube_delete(kube, &path, NULL, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
}

static atomic_int lost_count;
static void on_lost(void *arg, coord_lease *lease, int reason)
{
    (void)lease;
    (void)reason;
    atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(q06_without_the_right_nothing_is_absent_and_the_holder_stops_in_time)
{
    struct kube *kube = hand();
    coord_store *store = NULL;
    coord_lease *lease = NULL;
    coord_entry *entry = NULL;
    char url[512];
    coord_result result;
    int64_t began;

    snprintf(url, sizeof url, "k8s://default?kubeconfig=%s", getenv("KUBE_LIMITED"));
    result = coord_open(url, NULL, &store);
    check_code("without rights it does not open", result, COORD_UNAVAILABLE, COORD_R_FORBIDDEN);
    CHECK_HAS("and says which", result.text, "no right to get leases");
    let_in(kube);
    /* The server's own view of rights lags a moment. */
    for (began = now_ms(); coord_open(url, NULL, &store).code != COORD_OK;) {
        CHECK("accepted in time", now_ms() - began < LONG_MS);
        sleep_ms(100);
    }
    atomic_store(&lost_count, 0);
    check_code("held", create(store, "q06/key", 4000, "holder", &lease), COORD_OK, COORD_R_CREATED);
    check_code("kept", coord_keep(lease, on_lost, &lost_count), COORD_OK, COORD_R_NONE);
    shut_out(kube);
    coord_call quick = {.timeout_ms = 2000};
    for (began = now_ms();; sleep_ms(50)) {
        result = coord_get(store, &quick, view("q06/key"), COORD_LATEST, &entry);
        CHECK("never absent", result.code != COORD_NOT_FOUND);
        coord_entry_free(entry);
        entry = NULL;
        if (result.code == COORD_UNAVAILABLE && result.reason == COORD_R_FORBIDDEN) break;
        CHECK("shut out", now_ms() - began < LONG_MS);
    }
    for (began = now_ms(); atomic_load(&lost_count) == 0 && now_ms() - began < LONG_MS;)
        sleep_ms(20);
    CHECK_I64("reported once", atomic_load(&lost_count), 1);
    CHECK_I64("and it knows", coord_check(lease), COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(store);
    kube_close(kube);
}

TEST(o3_a_kept_claim_that_is_deleted_or_taken_by_hand_is_reported_long_before_its_renewal)
{
    coord_store *store = open_store("KUBE_ADMIN");
    coord_lease *lease = NULL;
    int64_t began;

    atomic_store(&lost_count, 0);
    check_code("held", create(store, "o3/key", 3600000, "holder", &lease), COORD_OK,
               COORD_R_CREATED);
    check_code("kept", coord_keep(lease, on_lost, &lost_count), COORD_OK, COORD_R_NONE);
    delete_object("o3/key");
    for (began = now_ms(); atomic_load(&lost_count) == 0 && now_ms() - began < LONG_MS;)
        sleep_ms(20);
    CHECK_I64("reported once", atomic_load(&lost_count), 1);
    CHECK_I64("and it knows", coord_check(lease), COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(store);
}

/* -- Q07 -- */

TEST(q07_a_write_whose_answer_was_lost_is_recognised)
{
    coord_store *store = open_store("KUBE_PROXIED"), *other = open_store("KUBE_ADMIN");
    coord_call call = {.timeout_ms = 3000};
    coord_lease *lease = NULL, *none = NULL;
    coord_result result;

    control("POST", "rule", "{\"method\":\"POST\",\"count\":1,\"action\":\"hang\"}");
    result =
        coord_create_if_absent(store, &call, view("q07/key"), view("v"), 30000, "holder", &lease);
    check_code("a new object", result, COORD_OK, COORD_R_REPLAYED);
    CHECK_I64("it is held", coord_check(lease), COORD_OK);
    check_code("others see it", create(other, "q07/key", TTL_MS, "other", &none), COORD_EXISTS,
               COORD_R_HELD);
    control("POST", "rule", "{\"method\":\"PUT\",\"count\":1,\"action\":\"hang\"}");
    result = coord_release(lease, &call);
    check_code("a release", result, COORD_OK, COORD_R_ALREADY);
    coord_lease_unref(lease);
    control("POST", "rule", "{\"method\":\"PUT\",\"count\":1,\"action\":\"hang\"}");
    result =
        coord_compare_and_set(store, &call, view("q07/key"), 0, view("w"), 0, NULL, NULL, NULL);
    check_code("a write over the tombstone", result, COORD_OK, COORD_R_REPLAYED);
    uint64_t revision = result.revision;
    control("POST", "rule", "{\"method\":\"PUT\",\"count\":1,\"action\":\"hang\"}");
    result = coord_compare_and_set(store, &call, view("q07/key"), revision, view("x"),
                                   COORD_TTL_KEEP, NULL, NULL, NULL);
    check_code("a compare", result, COORD_OK, COORD_R_REPLAYED);
    CHECK_U64("one revision was used", result.revision, revision + 1);
    coord_close(other);
    coord_close(store);
}

/* With an open outcome the call must not go on to the next slot. */
TEST(q07_a_slot_whose_answer_was_lost_is_the_only_one_taken)
{
    coord_store *store = open_store("KUBE_PROXIED");
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_call call = {.timeout_ms = 3000};
    coord_lease *first = NULL, *second = NULL;
    coord_holders *holders = NULL;
    coord_result result;

    request.group = view("q07/group");
    request.slot_count = 3;
    request.ttl_ms = 30000;
    request.owner = "first";
    check_code("the group is there", coord_acquire_slot(store, NULL, &request, &first), COORD_OK,
               COORD_R_ACQUIRED);
    control("POST", "rule", "{\"method\":\"POST\",\"count\":1,\"action\":\"hang\"}");
    request.owner = "second";
    result = coord_acquire_slot(store, &call, &request, &second);
    check_code("recognised", result, COORD_OK, COORD_R_REPLAYED);
    CHECK_U32("the slot of the lost answer", result.slot, 1);
    check_code("holders", coord_list_holders(store, NULL, view("q07/group"), &holders), COORD_OK,
               COORD_R_NONE);
    CHECK_SIZE("one each", holders->count, 2);
    coord_holders_free(holders);
    coord_lease_unref(first);
    coord_lease_unref(second);
    coord_close(store);
}

/* -- Q09 -- */

static int next_event(coord_watch *watch, coord_event *event)
{
    CHECK_I64("an event comes", coord_watch_next(watch, LONG_MS, event), 1);
    return event->type;
}

TEST(q09_a_watch_that_is_too_old_begins_anew_and_says_so)
{
    coord_store *store = open_store("KUBE_PROXIED"), *other = open_store("KUBE_ADMIN");
    coord_watch *watch = NULL;
    coord_event event;

    check_code("one", create(other, "q09/a", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    check_code("watched", coord_watch_open(store, NULL, view("q09"), COORD_WATCH_BUCKET, &watch),
               COORD_OK, COORD_R_NONE);
    CHECK_I64("begins", next_event(watch, &event), COORD_SNAPSHOT_BEGIN);
    CHECK_I64("one entry", next_event(watch, &event), COORD_ENTRY);
    CHECK_I64("ends", next_event(watch, &event), COORD_SNAPSHOT_END);
    check_code("two", create(other, "q09/b", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    CHECK_I64("seen", next_event(watch, &event), COORD_PUT);
    control("POST", "rule",
            "{\"method\":\"GET\",\"watch\":true,\"count\":1,\"action\":\"status\",\"status\":410,"
            "\"body\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}");
    control("POST", "cut", "");
    check_code("gone meanwhile", coord_delete(other, NULL, view("q09/a"), COORD_ANY, NULL),
               COORD_OK, COORD_R_DELETED);
    /* The deletion may have come through before the cut. */
    if (next_event(watch, &event) == COORD_DELETE) next_event(watch, &event);
    CHECK_I64("a resync", event.type, COORD_RESYNC);
    CHECK_I64("begins", next_event(watch, &event), COORD_SNAPSHOT_BEGIN);
    size_t entries = 0;
    bool deleted = false;
    while (next_event(watch, &event) == COORD_ENTRY) entries++;
    CHECK_I64("ends", event.type, COORD_SNAPSHOT_END);
    if (entries == 2) deleted = next_event(watch, &event) == COORD_DELETE;
    CHECK("the remaining entries", entries == 1 || deleted);
    check_code("three", create(other, "q09/c", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    CHECK_I64("and on it goes", next_event(watch, &event), COORD_PUT);
    coord_watch_close(watch);
    coord_close(other);
    coord_close(store);
}

/* -- Q10 -- */

TEST(q10_an_object_that_another_controller_coordinates_by_is_left_alone)
{
    coord_store *store = open_store("KUBE_ADMIN");
    coord_result made = create(store, "q10/key", 0, NULL, NULL), result;
    char *object;

    check_code("made", made, COORD_OK, COORD_R_CREATED);
    edit_object("q10/key", "\"spec\":{",
                "\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":\"x\",");
    check_code("create", create(store, "q10/key", 0, NULL, NULL), COORD_CONFLICT,
               COORD_R_NOT_OWNER);
    result = coord_compare_and_set(store, NULL, view("q10/key"), made.revision, view("w"),
                                   COORD_TTL_KEEP, NULL, NULL, NULL);
    check_code("compare and set", result, COORD_CONFLICT, COORD_R_NOT_OWNER);
    check_code("delete", coord_delete(store, NULL, view("q10/key"), COORD_FORCE, NULL),
               COORD_CONFLICT, COORD_R_NOT_OWNER);
    object = read_object("q10/key");
    CHECK_HAS("untouched", object, "\"muster/n\":\"1\"");
    free(object);
    coord_close(store);
}

/* -- Q11 -- */

TEST(q11_a_wish_to_wait_is_kept_and_the_claim_is_lost_rather)
{
    coord_store *store = open_store("KUBE_PROXIED");
    coord_lease *lease = NULL;
    int64_t began;
    long before = 0;

    atomic_store(&lost_count, 0);
    check_code("held", create(store, "q11/key", 9000, "holder", &lease), COORD_OK, COORD_R_CREATED);
    check_code("kept", coord_keep(lease, on_lost, &lost_count), COORD_OK, COORD_R_NONE);
    /* Its watch has begun; the first renewal comes after three seconds. */
    for (long now = -1; now != before; sleep_ms(300)) {
        now = before;
        before = control("GET", "count", "");
    }
    control("POST", "rule",
            "{\"method\":\"PUT\",\"count\":1000,\"action\":\"status\",\"status\":429,"
            "\"headers\":{\"Retry-After\":\"30\"}}");
    for (began = now_ms(); atomic_load(&lost_count) == 0 && now_ms() - began < LONG_MS;)
        sleep_ms(20);
    CHECK_I64("reported once", atomic_load(&lost_count), 1);
    CHECK_I64("one request, no more", control("GET", "count", "") - before, 1);
    coord_call quick = {.timeout_ms = 1000};
    coord_entry *entry = NULL;
    check_code("others of this store wait, too",
               coord_get(store, &quick, view("q11/other"), COORD_LATEST, &entry), COORD_UNAVAILABLE,
               COORD_R_OVERLOADED);
    CHECK_I64("without a request", control("GET", "count", "") - before, 1);
    coord_lease_unref(lease);
    coord_close(store);
}

/* -- a server that stops -- */

TEST(l06_while_the_server_stops_the_holder_stops_and_nobody_takes_over_before)
{
    coord_store *store = open_store("KUBE_ADMIN"), *other = open_store("KUBE_ADMIN");
    coord_lease *lease = NULL, *taken = NULL;
    pid_t server = (pid_t)strtol(getenv("KUBE_PID"), NULL, 10);
    coord_result first, second;
    int64_t began;

    atomic_store(&lost_count, 0);
    first = create(store, "l06/key", 3000, "holder", &lease);
    check_code("held", first, COORD_OK, COORD_R_CREATED);
    check_code("kept", coord_keep(lease, on_lost, &lost_count), COORD_OK, COORD_R_NONE);
    check_code("seen", create(other, "l06/key", TTL_MS, "contender", &taken), COORD_EXISTS,
               COORD_R_HELD);
    CHECK("stopped", kill(server, SIGSTOP) == 0);
    for (began = now_ms(); atomic_load(&lost_count) == 0 && now_ms() - began < LONG_MS;)
        sleep_ms(20);
    int reported = atomic_load(&lost_count), checked = coord_check(lease);
    coord_call quick = {.timeout_ms = 1000};
    second = coord_create_if_absent(other, &quick, view("l06/key"), view("v"), TTL_MS, "contender",
                                    &taken);
    CHECK("goes on", kill(server, SIGCONT) == 0); /* before any check can end the test */
    CHECK_I64("reported once", reported, 1);
    CHECK_I64("and it knows", checked, COORD_EXPIRED);
    CHECK_I64("nobody takes over unseen", second.code, COORD_UNAVAILABLE);
    take(other, "l06/key", &taken, &second);
    CHECK("a larger token", second.token > first.token);
    coord_lease_unref(lease);
    coord_lease_unref(taken);
    coord_close(other);
    coord_close(store);
}

/* -- ownership, asked of the backend itself: no handle can be forged through the library -- */

static coord_result open_backend(struct prim_backend **ret_backend)
{
    static const coord_options options;
    struct prim_url url;
    char text[512];

    snprintf(text, sizeof text, "k8s://default?kubeconfig=%s", getenv("KUBE_ADMIN"));
    coord_result result = prim_url_parse(text, &url);
    struct prim_open in = {.url = &url,
                           .options = &options,
                           .clock = {.now = prim_boottime_ns},
                           .deadline_ns = prim_boottime_ns(NULL) + LONG_MS * 1000000ll};
    if (result.code == COORD_OK) result = prim_kube_open(&in, ret_backend);
    prim_url_deinit(&url);
    return result;
}

static struct prim_call call_now(void)
{
    return (struct prim_call){.deadline_ns = prim_boottime_ns(NULL) + LONG_MS * 1000000ll,
                              .request_id = prim_id_request()};
}

TEST(o1_a_claim_needs_both_lease_id_and_token)
{
    struct prim_backend *backend = NULL;
    struct prim_grant grant = {0};
    char key[] = "o1/key";
    int64_t sent_ns;

    check_code("opens", open_backend(&backend), COORD_OK, COORD_R_NONE);
    struct prim_create in = {.key = str_from(key),
                             .value = STR("v"),
                             .owner = STR("me"),
                             .ttl_ms = 30000,
                             .lease_id = prim_id_random()};
    struct prim_call call = call_now();
    check_code("held", backend->ops->create(backend, &call, &in, &grant), COORD_OK,
               COORD_R_CREATED);
    struct prim_held held = {.key = key, .token = grant.token, .slot = COORD_NO_SLOT};
    struct prim_claim claim = {
        .lease_id = grant.lease_id, .owner = "me", .ttl_ms = 30000, .held = &held, .count = 1};
    struct prim_claim forged = claim;
    forged.lease_id = prim_id_random();
    call = call_now();
    check_code("the right token, another lease",
               backend->ops->renew(backend, &call, &forged, &sent_ns), COORD_EXPIRED,
               COORD_R_SUPERSEDED);
    check_code("nor is it released", backend->ops->release(backend, &call, &forged, NULL),
               COORD_EXPIRED, COORD_R_SUPERSEDED);
    held.token--;
    check_code("the right lease, another token",
               backend->ops->renew(backend, &call, &claim, &sent_ns), COORD_EXPIRED,
               COORD_R_SUPERSEDED);
    held.token++;
    call = call_now();
    check_code("both", backend->ops->renew(backend, &call, &claim, &sent_ns), COORD_OK,
               COORD_R_RENEWED);
    call = call_now();
    check_code("released", backend->ops->release(backend, &call, &claim, NULL), COORD_OK,
               COORD_R_RELEASED);
    call = call_now();
    check_code("a second time", backend->ops->release(backend, &call, &claim, NULL), COORD_OK,
               COORD_R_ALREADY);
    check_code("it was a release", backend->ops->renew(backend, &call, &claim, &sent_ns),
               COORD_EXPIRED, COORD_R_RELEASED);
    backend->ops->close(backend);
}

/* -- a takeover as a watch reports it -- */

TEST(a_watch_that_showed_an_expiry_shows_the_next_holder_too)
{
    coord_store *holder = open_store("KUBE_ADMIN"), *watcher = open_store("KUBE_ADMIN");
    coord_lease *lease = NULL, *taken = NULL;
    coord_watch *watch = NULL;
    coord_event event;
    coord_result result;

    check_code("held", create(holder, "expiry/key", TTL_MS, "holder", &lease), COORD_OK,
               COORD_R_CREATED);
    check_code("watched", coord_watch_open(watcher, NULL, view("expiry/key"), 0, &watch), COORD_OK,
               COORD_R_NONE);
    CHECK_I64("begins", next_event(watch, &event), COORD_SNAPSHOT_BEGIN);
    CHECK_I64("held", next_event(watch, &event), COORD_ENTRY);
    CHECK_I64("ends", next_event(watch, &event), COORD_SNAPSHOT_END);
    CHECK_I64("nobody else looked", next_event(watch, &event), COORD_EXPIRE);
    uint64_t expired = event.revision;
    take(watcher, "expiry/key", &taken, &result);
    CHECK_I64("the next holder", next_event(watch, &event), COORD_PUT);
    CHECK("with a larger revision", event.revision > expired);
    CHECK_U64("its own", event.revision, result.revision);
    coord_watch_close(watch);
    coord_lease_unref(lease);
    coord_lease_unref(taken);
    coord_close(watcher);
    coord_close(holder);
}

/* -- more than one page -- */

TEST(a_group_larger_than_a_page_of_the_server_is_seen_whole)
{
    enum { SLOTS = STORE_PAGE + 4 };
    coord_store *store = open_store("KUBE_ADMIN");
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_lease *leases[SLOTS] = {NULL}, *none = NULL;
    coord_holders *holders = NULL;

    request.group = view("pages/group");
    request.slot_count = SLOTS;
    request.ttl_ms = 60000;
    for (int i = 0; i < SLOTS; i++) {
        char owner[16];
        snprintf(owner, sizeof owner, "o%d", i);
        request.owner = owner;
        check_code("a slot", coord_acquire_slot(store, NULL, &request, &leases[i]), COORD_OK,
                   COORD_R_ACQUIRED);
        CHECK_U32("the lowest", coord_lease_slot(leases[i]), i);
    }
    request.owner = "late";
    check_code("full", coord_acquire_slot(store, NULL, &request, &none), COORD_EXISTS,
               COORD_R_FULL);
    check_code("holders", coord_list_holders(store, NULL, view("pages/group"), &holders), COORD_OK,
               COORD_R_NONE);
    CHECK_SIZE("all of them", holders->count, SLOTS);
    coord_holders_free(holders);
    for (int i = 0; i < SLOTS; i++) coord_lease_unref(leases[i]);
    coord_close(store);
}

/* -- A14 and damage -- */

/* Replaces the text between the quotes of an annotation. */
static void replace_annotation(const char *key, const char *name, const char *value)
{
    struct kube *kube = hand();
    char object[LEASE_NAME_CAP], mark[64], *text = read_object(key), *at, *end;
    struct kube_path path = object_of(key, object);
    struct kube_answer answer;
    struct buf body;

    snprintf(mark, sizeof mark, "\"%s\":\"", name);
    at = strstr(text, mark);
    CHECK("there it is", at != NULL);
    at += strlen(mark);
    end = strchr(at, '"');
    buf_init(&body, 1 << 20);
    buf_append(&body, str_of(text, (size_t)(at - text)));
    buf_append_c(&body, value);
    buf_append_c(&body, end);
    CHECK_OK("edited by hand", kube_update(kube, &path, buf_peek(&body), LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    buf_deinit(&body);
    free(text);
    kube_close(kube);
}

TEST(a14_an_object_of_another_key_or_a_damaged_one_is_corrupt_and_never_absent)
{
    static const struct {
        const char *why, *key, *annotation, *value;
    } cases[] = {
        {"another key under this name", "a14/key", "muster/key", "a14/other"},
        {"a damaged envelope", "a14/envelope", "muster/env", "Q1JEMQ=="},
        {"a counter that is none", "a14/counter", "muster/n", "many"},
    };
    coord_store *store = open_store("KUBE_ADMIN");

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        coord_entry *entry = NULL;
        coord_result made = create(store, cases[i].key, 0, NULL, NULL);
        char *before, *after;
        check_code("made", made, COORD_OK, COORD_R_CREATED);
        replace_annotation(cases[i].key, cases[i].annotation, cases[i].value);
        before = read_object(cases[i].key);
        check_code(cases[i].why, create(store, cases[i].key, 0, NULL, NULL), COORD_UNAVAILABLE,
                   COORD_R_CORRUPT);
        check_code(cases[i].why, coord_get(store, NULL, view(cases[i].key), COORD_LATEST, &entry),
                   COORD_UNAVAILABLE, COORD_R_CORRUPT);
        check_code(cases[i].why, coord_delete(store, NULL, view(cases[i].key), COORD_FORCE, NULL),
                   COORD_UNAVAILABLE, COORD_R_CORRUPT);
        after = read_object(cases[i].key);
        CHECK_TEXT("untouched", after, before);
        free(before);
        free(after);
    }
    coord_close(store);
}

/* -- the rest of the contract in short: the conformance suite has it in full -- */

TEST(entries_slots_and_watches_work_together)
{
    coord_store *store = open_store("KUBE_ADMIN"), *other = open_store("KUBE_ADMIN");
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_lease *first = NULL, *second = NULL, *third = NULL;
    coord_holders *holders = NULL;
    coord_watch *watch = NULL;
    coord_event event;
    coord_result result;

    request.group = view("all/group");
    request.slot_count = 2;
    request.ttl_ms = TTL_MS;
    request.owner = "one";
    check_code("a slot", coord_acquire_slot(store, NULL, &request, &first), COORD_OK,
               COORD_R_ACQUIRED);
    check_code("the same owner", coord_acquire_slot(other, NULL, &request, &second), COORD_EXISTS,
               COORD_R_ALREADY_HOLDER);
    request.owner = "two";
    result = coord_acquire_slot(other, NULL, &request, &second);
    check_code("the other slot", result, COORD_OK, COORD_R_ACQUIRED);
    CHECK_U32("its number", result.slot, 1);
    request.owner = "three";
    result = coord_acquire_slot(other, NULL, &request, &third);
    check_code("full", result, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("live", result.live, 2);
    request.slot_count = 3;
    check_code("another count", coord_acquire_slot(other, NULL, &request, &third), COORD_CONFLICT,
               COORD_R_SLOT_COUNT);
    check_code("holders", coord_list_holders(other, NULL, view("all/group"), &holders), COORD_OK,
               COORD_R_NONE);
    CHECK_SIZE("two rows", holders->count, 2);
    CHECK_TEXT("by slot", holders->rows[0].owner, "one");
    CHECK_I64("by observation", holders->certainty, COORD_BY_OBSERVATION);
    uint64_t revision = holders->revision;
    coord_holders_free(holders);
    check_code("shrinking", coord_resize_group(store, NULL, view("all/group"), revision, 1),
               COORD_UNSUPPORTED, COORD_R_CAPABILITY);
    check_code("growing", coord_resize_group(store, NULL, view("all/group"), revision, 3), COORD_OK,
               COORD_R_RESIZED);
    check_code("room for one more", coord_acquire_slot(other, NULL, &request, &third), COORD_OK,
               COORD_R_ACQUIRED);
    check_code("watched",
               coord_watch_open(store, NULL, view("all/group"), COORD_WATCH_BUCKET, &watch),
               COORD_OK, COORD_R_NONE);
    CHECK_I64("begins", next_event(watch, &event), COORD_SNAPSHOT_BEGIN);
    for (int i = 0; i < 3; i++) CHECK_I64("a slot", next_event(watch, &event), COORD_ENTRY);
    CHECK_I64("ends", next_event(watch, &event), COORD_SNAPSHOT_END);
    check_code("released", coord_release(second, NULL), COORD_OK, COORD_R_RELEASED);
    /* The others run out unseen by anybody but the watch; the released one learns it meanwhile. */
    int released = 0, expired = 0;
    for (int i = 0; i < 3; i++) {
        int type = next_event(watch, &event);
        released += type == COORD_DELETE;
        expired += type == COORD_EXPIRE;
    }
    CHECK_I64("one was released", released, 1);
    CHECK_I64("two ran out", expired, 2);
    coord_watch_close(watch);
    coord_lease_unref(first);
    coord_lease_unref(second);
    coord_lease_unref(third);
    coord_close(other);
    coord_close(store);
}

/* -- the program's signals -- */

enum { TASKS_MAX = 256 };

static size_t tasks(long ids[TASKS_MAX])
{
    size_t count = 0;
    const struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");

    CHECK("a list of threads", dir != NULL);
    while ((entry = readdir(dir)) && count < TASKS_MAX)
        if (entry->d_name[0] != '.') ids[count++] = strtol(entry->d_name, NULL, 10);
    (void)closedir(dir);
    return count;
}

static bool takes_signals(long id)
{
    char path[64], line[256];
    uint64_t blocked = UINT64_MAX; /* one that has ended takes none */
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/status", id);
    FILE *file = fopen(path, "re");

    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "SigBlk:", 7) == 0) blocked = strtoull(line + 7, NULL, 16);
    if (file) (void)fclose(file);
    return !(blocked >> (SIGUSR1 - 1) & 1);
}

TEST(threads_of_a_watch_take_none_of_the_programs_signals)
{
    long before[TASKS_MAX], after[TASKS_MAX];
    size_t count = tasks(before), taking = 0;
    coord_store *store = open_store("KUBE_ADMIN");
    coord_watch *watch = NULL;

    check_code("watched",
               coord_watch_open(store, NULL, view("signals"), COORD_WATCH_BUCKET, &watch), COORD_OK,
               COORD_R_NONE);
    size_t now = tasks(after);
    for (size_t i = 0; i < now; i++) {
        bool old = false;
        for (size_t j = 0; j < count; j++) old |= before[j] == after[i];
        if (!old && takes_signals(after[i])) taking++;
    }
    CHECK("it has a thread", now > count);
    CHECK_SIZE("that runs no handler", taking, 0);
    coord_watch_close(watch);
    coord_close(store);
}
