/* SPDX-License-Identifier: Apache-2.0 */
/* R01-R10 of the specification, with a real nats-server of 2.11 or newer, the program that
 * MUSTER_NATS_SERVER names. Times are the server's: the shortest TTL is 2 s. */
#include <muster/coord.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/test.h"
#include "server.h"

static struct nats_server server;
static natsConnection *other;

static void need_server(void)
{
    if (other != NULL) { return; }
    const char *program = nats_program("MUSTER_NATS_SERVER", "/usr/local/bin/nats-server");
    if (program == NULL) { SKIP("no nats-server of 2.11; scripts/peers/nats-server makes one"); }
    nats_server_start(&server, program, "new");
    other = foreign_open(&server);
}

static coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}

static void sleep_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static coord_result try_open(const char *bucket, const char *params, coord_store **ret_store)
{
    char url[256];
    (void)snprintf(url, sizeof url, "nats://%s/%s%s", server.url, bucket, params);
    return coord_open(url, NULL, ret_store);
}

static coord_store *opened(const char *bucket)
{
    need_server();
    coord_store *store = NULL;
    coord_result result = try_open(bucket, "?create=1", &store);
    CHECK_TEXT("opened", result.text, "");
    CHECK_I64("opened", result.code, COORD_OK);
    return store;
}

/* A stream as a careless operator makes it: `with` replaces parts of a good configuration. */
static void make_stream(const char *bucket, const char *verb, const char *with)
{
    char subject[128], body[1024];
    (void)snprintf(subject, sizeof subject, "$JS.API.STREAM.%s.KV_%s", verb, bucket);
    (void)snprintf(body, sizeof body,
                   "{\"name\":\"KV_%s\",\"subjects\":[\"$KV.%s.>\"],\"retention\":\"limits\","
                   "\"discard\":\"new\",\"storage\":\"file\",\"num_replicas\":1,"
                   "\"deny_delete\":true,\"allow_rollup_hdrs\":true%s}",
                   bucket, bucket, with);
    const char *answer = foreign_ask(other, subject, body);
    CHECK(answer, strstr(answer, "\"error\"") == NULL);
}

static const char *last_of(const char *bucket, const char *subject)
{
    char api[128], body[256];
    (void)snprintf(api, sizeof api, "$JS.API.STREAM.MSG.GET.KV_%s", bucket);
    (void)snprintf(body, sizeof body, "{\"last_by_subj\":\"$KV.%s.%s\"}", bucket, subject);
    return foreign_ask(other, api, body);
}

static coord_result create(coord_store *store, const char *key, const char *value, int64_t ttl_ms,
                           coord_lease **lease)
{
    return coord_create_if_absent(store, NULL, text(key), text(value), ttl_ms,
                                  ttl_ms > 0 ? "me" : NULL, lease);
}

TEST(an_open_store_reports_its_capabilities)
{
    coord_store *store = opened("caps");
    coord_caps caps = coord_capabilities(store);
    CHECK_U32("it ends claims", caps.bits & (COORD_CAP_TTL | COORD_CAP_SLOTS | COORD_CAP_CAS),
              COORD_CAP_TTL | COORD_CAP_SLOTS | COORD_CAP_CAS);
    CHECK_U32("one replica, not asserted, no shrink, no multi-key",
              caps.bits & (COORD_CAP_HA | COORD_CAP_DURABLE | COORD_CAP_SHRINK |
                           COORD_CAP_MULTI_KEY | COORD_CAP_LIST_ATOMIC),
              0);
    CHECK_I64("scope", caps.scope, COORD_SCOPE_CLUSTER);
    CHECK_HAS("server", caps.server, "nats-server 2.");
    coord_close(store);
    CHECK_I64("a wrong parameter", try_open("caps", "?typo=1", &store).code, COORD_INVALID);
    CHECK_I64("asserted", try_open("caps", "?durable=asserted", &store).code, COORD_OK);
    CHECK("durable", coord_capabilities(store).bits & COORD_CAP_DURABLE);
    coord_close(store);
    CHECK_HAS("no bucket", try_open("none", "", &store).text, "create=1");
}

TEST(R01_a_stream_without_message_ttl_serves_no_claims)
{
    need_server();
    coord_store *store = NULL;
    coord_lease *lease = NULL;
    make_stream("r01", "CREATE", ",\"max_msgs_per_subject\":1");
    CHECK_TEXT("opens", try_open("r01", "", &store).text, "");
    CHECK_U32("no TTL", coord_capabilities(store).bits & (COORD_CAP_TTL | COORD_CAP_SLOTS), 0);
    CHECK_I64("a claim is refused", create(store, "a", "v", 5000, &lease).code, COORD_UNSUPPORTED);
    CHECK("and nothing was written", strstr(last_of("r01", "a"), "10037") != NULL);
    CHECK_I64("an entry is not", create(store, "a", "v", 0, NULL).code, COORD_OK);
    CHECK_I64("nor its end", coord_delete(store, NULL, text("a"), COORD_ANY, NULL).code, COORD_OK);
    CHECK_I64("nor another", create(store, "a", "w", 0, NULL).code, COORD_OK);
    coord_close(store);
}

TEST(R02_an_unfit_stream_is_refused_at_open)
{
    static const struct {
        const char *bucket, *with, *says;
    } cases[] = {
        {"r02a", ",\"max_msgs_per_subject\":5", "max_msgs_per_subject"},
        {"r02b", ",\"max_msgs_per_subject\":1,\"max_age\":60000000000", "max_age"},
        {"r02c", ",\"max_msgs_per_subject\":1,\"no_ack\":true", "no_ack"},
    };
    need_server();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        coord_store *store = NULL;
        make_stream(cases[i].bucket, "CREATE", cases[i].with);
        coord_result result = try_open(cases[i].bucket, "", &store);
        CHECK_I64(cases[i].with, result.code, COORD_UNSUPPORTED);
        CHECK_HAS(cases[i].with, result.text, cases[i].says);
    }
}

TEST(R03_R10_an_expired_key_leaves_a_marker_which_is_absence)
{
    coord_store *store = opened("r03");
    coord_lease *lease = NULL, *again = NULL;
    coord_entry *entry = NULL;
    coord_result first = create(store, "a/b", "v", 2000, &lease);
    CHECK_I64("created", first.reason, COORD_R_CREATED);
    CHECK_U64("token is revision", first.token, first.revision);
    sleep_ms(3500);
    const char *stored = last_of("r03", "a.b");
    CHECK("the server put its marker there",
          strstr(stored, "\"data\"") == NULL && strstr(stored, "\"hdrs\"") != NULL);
    CHECK_I64("absent", coord_get(store, NULL, text("a/b"), COORD_LATEST, &entry).code,
              COORD_NOT_FOUND);
    CHECK_I64("over here", coord_check(lease), COORD_EXPIRED);
    coord_result second = create(store, "a/b", "w", 2000, &again);
    CHECK_I64("created", second.reason, COORD_R_CREATED);
    CHECK("larger", second.revision > first.revision && second.token > first.token);
    CHECK_I64("renewed", coord_renew(again, NULL).reason, COORD_R_RENEWED);
    coord_lease_unref(lease);
    coord_lease_unref(again);
    coord_close(store);
}

TEST(R04_a_marker_that_is_gone_itself)
{
    need_server();
    coord_store *store = NULL;
    coord_lease *lease = NULL;
    make_stream("r04", "CREATE",
                ",\"max_msgs_per_subject\":1,\"allow_msg_ttl\":true,"
                "\"subject_delete_marker_ttl\":1000000000");
    CHECK_TEXT("opens", try_open("r04", "", &store).text, "");
    coord_result first = create(store, "a", "v", 2000, &lease);
    CHECK_I64("created", first.reason, COORD_R_CREATED);
    for (int i = 0; i < 100 && strstr(last_of("r04", "a"), "10037") == NULL; i++) { sleep_ms(100); }
    CHECK("no trace is left", strstr(last_of("r04", "a"), "10037") != NULL);
    coord_result second = create(store, "a", "v", 0, NULL);
    CHECK_I64("created", second.reason, COORD_R_CREATED);
    CHECK("larger all the same", second.revision > first.revision);
    coord_lease_unref(lease);
    coord_close(store);
}

static atomic_int lost_reason;
static void on_lost(void *arg, coord_lease *lease, int reason)
{
    (void)arg, (void)lease;
    atomic_store(&lost_reason, reason);
}

TEST(R05_another_client_deletes_without_a_condition)
{
    coord_store *store = opened("r05");
    coord_lease *lease = NULL, *kept = NULL;
    CHECK_I64("held", create(store, "a", "v", 60000, &lease).code, COORD_OK);
    CHECK_I64("renewed", coord_renew(lease, NULL).reason, COORD_R_RENEWED);
    (void)foreign_publish(other, "$KV.r05.a", "KV-Operation", "DEL", "");
    coord_result result = coord_renew(lease, NULL);
    CHECK_I64("over", result.code, COORD_EXPIRED);
    CHECK_I64("revoked", result.reason, COORD_R_REVOKED);
    CHECK_I64("and final", coord_renew(lease, NULL).code, COORD_EXPIRED);

    CHECK_I64("held", create(store, "b", "v", 60000, &kept).code, COORD_OK);
    atomic_store(&lost_reason, 0);
    CHECK_I64("kept", coord_keep(kept, on_lost, NULL).code, COORD_OK);
    sleep_ms(300);
    CHECK_I64("not lost yet", atomic_load(&lost_reason), 0);
    (void)foreign_publish(other, "$KV.r05.b", "KV-Operation", "PURGE", "");
    for (int i = 0; i < 100 && atomic_load(&lost_reason) == 0; i++) { sleep_ms(50); }
    CHECK_I64("reported by the server, long before the next renewal", atomic_load(&lost_reason),
              COORD_R_REVOKED);
    CHECK_I64("and it knows", coord_check(kept), COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_lease_unref(kept);
    coord_close(store);
}

TEST(R06_a_renewal_changes_the_sequence_and_not_the_revision)
{
    coord_store *store = opened("r06");
    coord_lease *lease = NULL;
    coord_entry *entry = NULL;
    coord_result made = create(store, "a", "v", 60000, &lease);
    for (int i = 0; i < 5; i++) { CHECK_I64("renewed", coord_renew(lease, NULL).code, COORD_OK); }
    CHECK_I64("read", coord_get(store, NULL, text("a"), COORD_LATEST, &entry).code, COORD_OK);
    CHECK_U64("the same revision", entry->revision, made.revision);
    CHECK_U64("the same token", entry->token, made.token);
    coord_entry_free(entry);
    coord_result updated = coord_compare_and_set(store, NULL, text("a"), made.revision, text("w"),
                                                 COORD_TTL_KEEP, NULL, lease, NULL);
    CHECK_I64("compared by it", updated.reason, COORD_R_UPDATED);
    CHECK("a new one", updated.revision > made.revision);
    CHECK_I64("still ours", coord_renew(lease, NULL).reason, COORD_R_RENEWED);
    CHECK_U64("token stays", coord_lease_token(lease), made.token);
    CHECK_I64("the old one is gone",
              coord_compare_and_set(store, NULL, text("a"), made.revision, text("x"),
                                    COORD_TTL_KEEP, NULL, lease, NULL)
                  .reason,
              COORD_R_REVISION);
    CHECK_I64("released", coord_release(lease, NULL).reason, COORD_R_RELEASED);
    CHECK_I64("once", coord_release(lease, NULL).reason, COORD_R_ALREADY);
    coord_lease_unref(lease);
    coord_close(store);
}

static void count_one(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                      void *arg)
{
    (void)connection;
    (void)subscription;
    natsMsg_Destroy(message);
    atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(R07_no_decision_is_made_on_what_a_replica_has)
{
    need_server();
    /* A stream that would answer direct gets, from any of its replicas. */
    make_stream("r07", "CREATE",
                ",\"max_msgs_per_subject\":1,\"allow_msg_ttl\":true,"
                "\"subject_delete_marker_ttl\":900000000000,\"allow_direct\":true");
    natsSubscription *direct = NULL, *leader = NULL;
    static atomic_int direct_gets, leader_gets;
    CHECK_I64("listens",
              natsConnection_Subscribe(&direct, other, "$JS.API.DIRECT.GET.KV_r07.>", count_one,
                                       &direct_gets),
              NATS_OK);
    natsSubscription *bare = NULL;
    CHECK_I64("listens",
              natsConnection_Subscribe(&bare, other, "$JS.API.DIRECT.GET.KV_r07", count_one,
                                       &direct_gets),
              NATS_OK);
    CHECK_I64("listens",
              natsConnection_Subscribe(&leader, other, "$JS.API.STREAM.MSG.GET.KV_r07", count_one,
                                       &leader_gets),
              NATS_OK);
    CHECK_I64("the server knows", natsConnection_Flush(other), NATS_OK);
    coord_store *store = NULL;
    CHECK_I64("opens", try_open("r07", "", &store).code, COORD_OK);
    coord_lease *lease = NULL, *slot = NULL;
    coord_entry *entry = NULL;
    coord_holders *holders = NULL;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = text("g");
    request.slot_count = 2;
    request.owner = "me";
    request.ttl_ms = 60000;
    coord_result made = create(store, "a", "v", 60000, &lease);
    CHECK_I64("created", made.reason, COORD_R_CREATED);
    CHECK_I64("held", create(store, "a", "v", 0, NULL).reason, COORD_R_HELD);
    CHECK_I64("renewed", coord_renew(lease, NULL).reason, COORD_R_RENEWED);
    CHECK_I64("changed",
              coord_compare_and_set(store, NULL, text("a"), made.revision, text("w"),
                                    COORD_TTL_KEEP, NULL, lease, NULL)
                  .reason,
              COORD_R_UPDATED);
    for (int consistency = COORD_LATEST; consistency <= COORD_STALE_OK; consistency++) {
        CHECK_I64("read", coord_get(store, NULL, text("a"), consistency, &entry).code, COORD_OK);
        coord_entry_free(entry);
    }
    CHECK_I64("slot", coord_acquire_slot(store, NULL, &request, &slot).reason, COORD_R_ACQUIRED);
    CHECK_I64("holders", coord_list_holders(store, NULL, text("g"), &holders).code, COORD_OK);
    coord_holders_free(holders);
    CHECK_I64("released", coord_release(slot, NULL).reason, COORD_R_RELEASED);
    CHECK_I64("released", coord_release(lease, NULL).reason, COORD_R_RELEASED);
    coord_lease_unref(slot);
    coord_lease_unref(lease);
    coord_close(store);
    CHECK_I64("all has come", natsConnection_Flush(other), NATS_OK);
    sleep_ms(200); /* for the library's own threads; a late one only hides a fault */
    CHECK("the leader was asked", atomic_load(&leader_gets) >= 4);
    CHECK_I64("and no replica", atomic_load(&direct_gets), 0);
    natsSubscription_Destroy(direct);
    natsSubscription_Destroy(bare);
    natsSubscription_Destroy(leader);
}

TEST(R08_an_edit_of_the_stream_degrades_the_store)
{
    coord_store *store = opened("r08");
    coord_lease *lease = NULL, *second = NULL;
    CHECK_I64("held", create(store, "a", "v", 60000, &lease).code, COORD_OK);
    atomic_store(&lost_reason, 0);
    CHECK_I64("kept", coord_keep(lease, on_lost, NULL).code, COORD_OK);
    make_stream("r08", "UPDATE",
                ",\"max_msgs_per_subject\":5,\"allow_msg_ttl\":true,"
                "\"subject_delete_marker_ttl\":900000000000");
    for (int i = 0; i < 200 && atomic_load(&lost_reason) == 0; i++) { sleep_ms(50); }
    CHECK("its holder receives the loss", atomic_load(&lost_reason) != 0);
    CHECK_I64("degraded", coord_capabilities(store).degraded, 1);
    CHECK_I64("no new claims", create(store, "b", "v", 60000, &second).code, COORD_UNSUPPORTED);
    coord_lease_unref(lease);
    coord_close(store);
}

TEST(a_bucket_made_anew_is_another_store)
{
    coord_store *store = opened("anew"), *again;
    coord_lease *lease = NULL, *imported = NULL;
    char blob[512];
    coord_id before = coord_store_id(store), after;
    CHECK_I64("held", create(store, "a", "v", 60000, &lease).code, COORD_OK);
    size_t len = coord_lease_export(lease, blob, sizeof blob);
    CHECK("exported", len > 0 && len <= sizeof blob);
    atomic_store(&lost_reason, 0);
    CHECK_I64("kept", coord_keep(lease, on_lost, NULL).code, COORD_OK);
    (void)foreign_ask(other, "$JS.API.STREAM.DELETE.KV_anew", "");
    again = opened("anew");
    after = coord_store_id(again);
    CHECK("another id", memcmp(&before, &after, sizeof before) != 0);
    for (int i = 0; i < 200 && atomic_load(&lost_reason) == 0; i++) { sleep_ms(50); }
    CHECK("its holder receives the loss", atomic_load(&lost_reason) != 0);
    CHECK_I64("degraded", coord_capabilities(store).degraded, 1);
    CHECK_I64("a handle of the old one",
              coord_lease_import(again, NULL, blob, len, &imported).reason, COORD_R_OTHER_STORE);
    coord_lease_unref(lease);
    coord_close(again);
    coord_close(store);
}

TEST(a_foreign_entry_is_corrupt_and_never_a_value)
{
    coord_store *store = opened("foreign");
    coord_entry *entry = NULL;
    (void)foreign_publish(other, "$KV.foreign.a", NULL, NULL, "hello");
    (void)foreign_publish(other, "$KV.foreign.b", NULL, NULL, "");
    static const char *const keys[] = {"a", "b"};
    for (size_t i = 0; i < 2; i++) {
        CHECK_I64("read", coord_get(store, NULL, text(keys[i]), COORD_LATEST, &entry).reason,
                  COORD_R_CORRUPT);
        CHECK_I64("nor absence", create(store, keys[i], "v", 0, NULL).reason, COORD_R_CORRUPT);
    }
    coord_close(store);
}

TEST(a_request_made_twice_is_done_once)
{
    coord_store *store = opened("twice");
    coord_lease *one = NULL, *two = NULL;
    coord_call call = {.request_id = {{7, 7, 7}}};
    coord_result a = coord_create_if_absent(store, &call, text("a"), text("v"), 60000, "me", &one);
    coord_result b = coord_create_if_absent(store, &call, text("a"), text("v"), 60000, "me", &two);
    CHECK_I64("created", a.reason, COORD_R_CREATED);
    CHECK_I64("replayed", b.reason, COORD_R_REPLAYED);
    CHECK_U64("the same", b.revision, a.revision);
    CHECK_U64("the same", b.token, a.token);
    CHECK_I64("both handles hold", coord_renew(two, NULL).code, COORD_OK);
    coord_lease_unref(one);
    coord_lease_unref(two);
    coord_slot_request slot = COORD_SLOT_REQUEST_INIT;
    slot.group = text("g");
    slot.slot_count = 3;
    slot.owner = "me";
    slot.ttl_ms = 60000;
    a = coord_acquire_slot(store, &call, &slot, &one);
    b = coord_acquire_slot(store, &call, &slot, &two);
    CHECK_I64("acquired", a.reason, COORD_R_ACQUIRED);
    CHECK_I64("replayed", b.reason, COORD_R_REPLAYED);
    CHECK_U64("one slot", a.slot + b.slot, 0);
    coord_holders *holders = NULL;
    CHECK_I64("listed", coord_list_holders(store, NULL, text("g"), &holders).code, COORD_OK);
    CHECK_SIZE("one", holders->count, 1);
    CHECK_TEXT("by", holders->rows[0].owner, "me");
    coord_holders_free(holders);
    coord_lease_unref(one);
    coord_lease_unref(two);
    coord_close(store);
}

static void expect(coord_watch *watch, int type, const char *key, uint64_t revision)
{
    coord_event event;
    CHECK_I64("an event comes", coord_watch_next(watch, 10000, &event), 1);
    CHECK_I64("of this type", event.type, type);
    if (key != NULL) {
        CHECK_STR("key", str_of(event.key.at, event.key.len), str_from(key));
        if (revision > 0) { CHECK_U64("revision", event.revision, revision); }
    }
}

TEST(a_watch_shows_changes_and_neither_renewals_nor_markers)
{
    coord_store *store = opened("watch");
    coord_watch *watch = NULL;
    coord_lease *lease = NULL, *brief = NULL;
    coord_slot_request slot = COORD_SLOT_REQUEST_INIT;
    coord_result a = create(store, "w/a", "1", 0, NULL);
    coord_result gone = create(store, "w/gone", "1", 0, NULL);
    CHECK_I64("deleted", coord_delete(store, NULL, text("w/gone"), gone.revision, NULL).code,
              COORD_OK);
    (void)create(store, "w/deeper/x", "1", 0, NULL);
    CHECK_I64("opened", coord_watch_open(store, NULL, text("w"), COORD_WATCH_BUCKET, &watch).code,
              COORD_OK);
    expect(watch, COORD_SNAPSHOT_BEGIN, NULL, 0);
    expect(watch, COORD_ENTRY, "w/a", a.revision);
    expect(watch, COORD_SNAPSHOT_END, NULL, 0);
    coord_result b = create(store, "w/b", "2", 60000, &lease);
    for (int i = 0; i < 3; i++) { CHECK_I64("renewed", coord_renew(lease, NULL).code, COORD_OK); }
    (void)create(store, "w/deeper/y", "1", 0, NULL);
    slot.group = text("w");
    slot.owner = "me";
    slot.ttl_ms = 2000;
    CHECK_I64("a slot", coord_acquire_slot(store, NULL, &slot, &brief).code, COORD_OK);
    coord_result d = coord_delete(store, NULL, text("w/a"), COORD_ANY, NULL);
    expect(watch, COORD_PUT, "w/b", b.revision);
    expect(watch, COORD_PUT, "w/slot-0000", 0);
    expect(watch, COORD_DELETE, "w/a", d.revision);
    expect(watch, COORD_EXPIRE, "w/slot-0000", 0);
    coord_watch_close(watch);
    coord_lease_unref(lease);
    coord_lease_unref(brief);
    coord_close(store);
}

TEST(slots_are_won_lost_and_taken_over)
{
    coord_store *store = opened("slots"), *second = opened("slots");
    coord_lease *leases[4] = {NULL};
    coord_slot_request slot = COORD_SLOT_REQUEST_INIT;
    slot.group = text("g/h");
    slot.slot_count = 2;
    slot.ttl_ms = 60000;
    slot.owner = "one";
    CHECK_U64("slot 0", coord_acquire_slot(store, NULL, &slot, &leases[0]).slot, 0);
    coord_result result = coord_acquire_slot(second, NULL, &slot, &leases[1]);
    CHECK_I64("the same owner", result.reason, COORD_R_ALREADY_HOLDER);
    CHECK_U64("its token", result.token, coord_lease_token(leases[0]));
    slot.owner = "two";
    CHECK_U64("slot 1", coord_acquire_slot(second, NULL, &slot, &leases[1]).slot, 1);
    slot.owner = "three";
    result = coord_acquire_slot(second, NULL, &slot, &leases[2]);
    CHECK_I64("full", result.reason, COORD_R_FULL);
    CHECK_U64("live", result.live, 2);
    slot.slot_count = 3;
    result = coord_acquire_slot(second, NULL, &slot, &leases[2]);
    CHECK_I64("another count", result.reason, COORD_R_SLOT_COUNT);
    CHECK_U64("the real one", result.slot_count, 2);
    coord_holders *holders = NULL;
    CHECK_I64("listed", coord_list_holders(store, NULL, text("g/h"), &holders).code, COORD_OK);
    uint64_t revision = holders->revision;
    coord_holders_free(holders);
    CHECK_I64("no shrink", coord_resize_group(store, NULL, text("g/h"), revision, 1).code,
              COORD_UNSUPPORTED);
    CHECK_I64("resized", coord_resize_group(store, NULL, text("g/h"), revision, 3).reason,
              COORD_R_RESIZED);
    CHECK_U64("slot 2", coord_acquire_slot(second, NULL, &slot, &leases[2]).slot, 2);
    slot.owner = "one";
    slot.flags = COORD_TAKEOVER_SAME_OWNER;
    result = coord_acquire_slot(second, NULL, &slot, &leases[3]);
    CHECK_I64("taken over", result.reason, COORD_R_ACQUIRED);
    CHECK_U64("the same slot", result.slot, 0);
    CHECK("a larger token", result.token > coord_lease_token(leases[0]));
    result = coord_renew(leases[0], NULL);
    CHECK_I64("the first is over", result.reason, COORD_R_SUPERSEDED);
    CHECK_I64("released", coord_release(leases[1], NULL).reason, COORD_R_RELEASED);
    for (size_t i = 0; i < 4; i++) { coord_lease_unref(leases[i]); }
    coord_close(second);
    coord_close(store);
}

/* The seed's race: two start the same singleton at once. */
struct racer {
    pthread_t thread;
    coord_store *store;
    pthread_barrier_t *barrier;
    int rounds;
    atomic_int *won; /* by round */
};
static void *race(void *arg)
{
    struct racer *racer = arg;
    char key[32];
    for (int i = 0; i < racer->rounds; i++) {
        coord_lease *lease = NULL;
        (void)snprintf(key, sizeof key, "race/%d", i);
        (void)pthread_barrier_wait(racer->barrier);
        coord_result result = create(racer->store, key, "v", 60000, &lease);
        if (result.code == COORD_OK) { atomic_fetch_add(&racer->won[i], 1); }
        coord_lease_unref(lease);
    }
    return NULL;
}

TEST(exactly_one_of_two_simultaneous_starts_wins)
{
    enum { ROUNDS = 1000 };
    static atomic_int won[ROUNDS];
    pthread_barrier_t barrier;
    struct racer racers[2];
    (void)pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) {
        racers[i] = (struct racer){
            .store = opened("race"), .barrier = &barrier, .rounds = ROUNDS, .won = won};
        (void)pthread_create(&racers[i].thread, NULL, race, &racers[i]);
    }
    for (int i = 0; i < 2; i++) { (void)pthread_join(racers[i].thread, NULL); }
    for (int i = 0; i < ROUNDS; i++) { CHECK_I64("exactly one", atomic_load(&won[i]), 1); }
    for (int i = 0; i < 2; i++) { coord_close(racers[i].store); }
    (void)pthread_barrier_destroy(&barrier);
}

TEST(a_restart_of_the_server_is_outlived_by_a_watch_and_by_claims)
{
    coord_store *store = opened("restart");
    coord_watch *watch = NULL;
    coord_lease *lease = NULL;
    CHECK_I64("held", create(store, "r/a", "v", 60000, &lease).code, COORD_OK);
    CHECK_I64("opened", coord_watch_open(store, NULL, text("r"), COORD_WATCH_BUCKET, &watch).code,
              COORD_OK);
    expect(watch, COORD_SNAPSHOT_BEGIN, NULL, 0);
    expect(watch, COORD_ENTRY, "r/a", 0);
    expect(watch, COORD_SNAPSHOT_END, NULL, 0);
    char port[16];
    (void)snprintf(port, sizeof port, "%d", server.port);
    const char *program = nats_program("MUSTER_NATS_SERVER", "/usr/local/bin/nats-server");
    proc_end(&server.proc);
    coord_call brief = {.timeout_ms = 300};
    CHECK_I64("not decided now", coord_renew(lease, &brief).code, COORD_UNAVAILABLE);
    const char *argv[] = {program, "-a", "127.0.0.1", "-p", port, "-js", "-sd", server.dir, NULL};
    CHECK("it starts", proc_start(&server.proc, argv, NULL));
    CHECK("it serves", proc_wait_output(&server.proc, "Server is ready", PROC_DEADLINE_MS));
    coord_call patient = {.timeout_ms = 15000};
    CHECK_I64("renewed", coord_renew(lease, &patient).reason, COORD_R_RENEWED);
    expect(watch, COORD_RESYNC, NULL, 0);
    expect(watch, COORD_SNAPSHOT_BEGIN, NULL, 0);
    expect(watch, COORD_ENTRY, "r/a", 0);
    expect(watch, COORD_SNAPSHOT_END, NULL, 0);
    coord_watch_close(watch);
    coord_lease_unref(lease);
    coord_close(store);
    natsConnection_Destroy(other);
    other = NULL;
    nats_server_end(&server);
}
