/* SPDX-License-Identifier: Apache-2.0 */
/* operator/kube/waits.c: the condition and the Events of a request that the shard cannot serve. */
#include <stdio.h>
#include <stdlib.h>

#include "io/real.h"
#include "lib/test.h"
#include "operator/kube/internal.h"
#include "unit/kube/server.h"

#define REQUEST(name, conditions)                                                                  \
    "{\"kind\":\"CapacityRequest\",\"metadata\":{\"namespace\":\"n\",\"name\":\"" name             \
    "\",\"uid\":\"r-" name "\",\"resourceVersion\":\"3\"},\"spec\":{\"podUID\":\"u-" name          \
    "\",\"resources\":{\"cpu\":\"1\"}},\"status\":{\"phase\":\"Acknowledged\"," conditions         \
    "\"message\":\"\"}}"
#define LACKS                                                                                      \
    "\"conditions\":[{\"type\":\"Supplied\",\"status\":\"False\",\"reason\":\"NoMatchingSupply\"}" \
    "],"
#define POD(name, spec)                                                                            \
    "{\"metadata\":{\"namespace\":\"n\",\"name\":\"" name "\",\"uid\":\"u-" name                   \
    "\"},\"spec\":{" spec "},\"status\":{\"phase\":\"Pending\"}}"
#define DENIED "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":\"may not\"}"

static struct kube_source source;
static struct operator_around around;
static struct server *server;
static struct real_io *real;

static void open_source(void)
{
    struct kube_config config = {0};

    server = server_start();
    config.server = (char *)(uintptr_t)server_url(server);
    source = (struct kube_source){.around = &around};
    source.pods.source = source.requests.source = &source;
    CHECK_OK("io", real_io_open(&real));
    around = (struct operator_around){.io = real_io_io(real)};
    CHECK_OK("demand", demand_open(1, &around.demand));
    CHECK_OK("kube", kube_open(&config, &source.kube, NULL));
    CHECK_OK("chores", chores_open(around.io, &source.chores));
    map_init(&source.places, KUBE_PLACES_MAX, 1);
}

static void close_source(void)
{
    struct map_entry *entry;
    size_t cursor = 0;

    kube_cancel(source.kube);
    chores_close(source.chores);
    while ((entry = map_next(&source.places, &cursor))) kube_place_free(entry->value);
    map_deinit(&source.places);
    kube_close(source.kube);
    demand_close(around.demand);
    real_io_close(real);
    server_stop(server);
}

static void seen(const struct follow_events *events, struct followed *followed, const char *text)
{
    struct json *object = NULL;

    CHECK_OK(text, json_open(str_from(text), 1 << 20, &object, NULL));
    events->seen(followed, object);
    json_close(object);
}

static void shard_says(const char *reason)
{
    struct supply supply = {.satisfied = !reason[0], .since.ms = 5000};
    size_t cursor = 0;
    const struct rollup_row *row = demand_next(around.demand, &cursor);
    char copy[FINGERPRINT_MAX];

    (void)snprintf(supply.reason, sizeof supply.reason, "%s", reason);
    memcpy(copy, row->profile.fingerprint.at, row->profile.fingerprint.len);
    CHECK_OK("put", demand_supply_put(around.demand, str_of(copy, row->profile.fingerprint.len),
                                      STR_EMPTY, &supply));
    (void)kube_supplies(&source.source, true);
}

static struct pod_place *place(const char *key)
{
    return map_get(&source.places, str_of(key, strlen(key) + 1));
}

/* Until no chore of the place is queued or runs. */
static void settle(const struct pod_place *p)
{
    while (p->report.state != CHORE_IDLE || p->event.state != CHORE_IDLE) real_io_turn(real, true);
}

static size_t requests_with(const char *text)
{
    size_t count = 0;

    for (size_t i = 0; i < server_requests(server); i++)
        count += strstr(server_request(server, i), text) != NULL;
    return count;
}

TEST(a_request_that_lacks_machines_says_why_and_so_does_its_pod)
{
    struct pod_place *p;

    open_source();
    for (int i = 0; i < 5; i++) server_answer_json(server, "200 OK", "", REQUEST("p", ""));
    seen(&kube_pod_events, &source.pods, POD("p", ""));
    seen(&kube_request_events, &source.requests, REQUEST("p", ""));
    p = place("n/p");
    shard_says("");
    settle(p);
    CHECK_SIZE("met at once: nothing is written", server_requests(server), 0);
    shard_says("NO_MATCHING_SUPPLY");
    settle(p);
    CHECK_SIZE("the condition",
               requests_with("PUT /apis/bigfleet.lucy.sh/v1alpha1/namespaces/n/capacityrequests/p/"
                             "status"),
               1);
    CHECK_SIZE("an event", requests_with("POST /api/v1/namespaces/n/events"), 1);
    CHECK_SIZE("both say why", requests_with("\"reason\":\"NoMatchingSupply\""), 2);
    shard_says("NO_MATCHING_SUPPLY");
    settle(p);
    CHECK_SIZE("nothing twice, even if the server drops conditions", server_requests(server), 3);
    shard_says("");
    settle(p);
    CHECK_SIZE("met", requests_with("\"reason\":\"Supplied\""), 1);
    shard_says("NO_MATCHING_SUPPLY");
    shard_says("");
    settle(p);
    CHECK_SIZE("one event for a reason in five minutes", requests_with("POST "), 1);
    close_source();
}

TEST(a_pod_that_runs_or_has_left_gets_no_event)
{
    open_source();
    for (int i = 0; i < 3; i++) server_answer_json(server, "200 OK", "", REQUEST("p", LACKS));
    seen(&kube_request_events, &source.requests, REQUEST("p", LACKS));
    shard_says("NO_MATCHING_SUPPLY");
    settle(place("n/p"));
    seen(&kube_pod_events, &source.pods, POD("p", "\"nodeName\":\"a\""));
    shard_says("NO_MATCHING_SUPPLY");
    settle(place("n/p"));
    CHECK_SIZE("neither condition nor event", server_requests(server), 0);
    close_source();
}

TEST(an_api_server_that_refuses_events_stops_nothing)
{
    struct pod_place *p;

    open_source();
    server_answer_json(server, "403 Forbidden", "", DENIED);
    seen(&kube_pod_events, &source.pods, POD("p", ""));
    seen(&kube_request_events, &source.requests, REQUEST("p", LACKS));
    p = place("n/p");
    shard_says("NO_MATCHING_SUPPLY");
    settle(p);
    CHECK("known", source.events_denied);
    CHECK_SIZE("once", requests_with("POST "), 1);
    shard_says("NO_MATCHING_SUPPLY");
    settle(p);
    CHECK_SIZE("not repeated", server_requests(server), 1);
    for (int i = 0; i < 3; i++) server_answer_json(server, "200 OK", "", REQUEST("p", LACKS));
    shard_says("PRIORITY_STARVED");
    settle(p);
    CHECK_SIZE("a request still gets its condition", requests_with("PUT "), 1);
    CHECK_SIZE("the next event is tried", requests_with("POST "), 2);
    close_source();
}

TEST(events_are_bounded)
{
    struct pod_place *p;

    open_source();
    seen(&kube_pod_events, &source.pods, POD("p", ""));
    seen(&kube_request_events, &source.requests, REQUEST("p", LACKS));
    p = place("n/p");
    source.events_since = loop_now(around.io->loop);
    source.events_left = 0;
    shard_says("NO_MATCHING_SUPPLY");
    settle(p);
    CHECK_SIZE("the thousand of these five minutes are written", server_requests(server), 0);
    close_source();
}

TEST(many_requests_are_looked_at_by_turns)
{
    enum { REQUESTS = 20 * 1000 + 1 };

    open_source();
    for (int i = 0; i < REQUESTS; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p%d\",\"uid\":\"r%d\"},"
                       "\"spec\":{\"resources\":{\"cpu\":\"1\"}}}",
                       i, i);
        seen(&kube_request_events, &source.requests, text);
    }
    CHECK("not all at once", kube_supplies(&source.source, true));
    CHECK("the last", !kube_supplies(&source.source, false));
    CHECK("nothing is left", !kube_supplies(&source.source, false));
    close_source();
}
