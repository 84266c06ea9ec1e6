/* SPDX-License-Identifier: Apache-2.0 */
/* Access control: every kind of identity against every rule, every method of every contract in the
 * table, and every registered method over a connection with each identity. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "rig.h"
#include "rpc/reflection.h"
#include "wire/descriptors.h"
#include "wire/field.h"

#define ULID        "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define ONE(text)   .uris = (const struct str[]){{text, sizeof(text) - 1}}, .uri_count = 1
#define ALLOW(kind) BIT(kind)

/* Each identity, and the rules that allow it (ACCESS_ANYONE always does). */
static const struct {
    const char *why;
    struct tls_identity identity;
    uint32_t may;
} identities[] = {
    {"admin",
     {ONE("bigfleet://admin")},
     ALLOW(ACCESS_ADMIN) | ALLOW(ACCESS_READ) | ALLOW(ACCESS_STORE)},
    {"readonly", {ONE("bigfleet://readonly")}, ALLOW(ACCESS_READ) | ALLOW(ACCESS_STORE)},
    {"a shard", {ONE("bigfleet://shard/s1")}, ALLOW(ACCESS_SHARD) | ALLOW(ACCESS_STORE)},
    {"a cluster", {ONE("bigfleet://cluster/c1")}, ALLOW(ACCESS_CLUSTER) | ALLOW(ACCESS_STORE)},
    {"a shard without id", {ONE("bigfleet://shard/")}, ALLOW(ACCESS_STORE)},
    {"almost admin", {ONE("bigfleet://administrator")}, ALLOW(ACCESS_STORE)},
    {"admin with a path", {ONE("bigfleet://admin/")}, ALLOW(ACCESS_STORE)},
    {"admin in capitals", {ONE("bigfleet://ADMIN")}, ALLOW(ACCESS_STORE)},
    {"a replica alone", {ONE("muster://replica/1")}, ALLOW(ACCESS_REPLICA) | ALLOW(ACCESS_STORE)},
    {"a replica, with what joining needs",
     {.uris = (const struct str[]){{"muster://replica/1", 18}, {"bigfleet://admin", 16}},
      .uri_count = 2},
     ALLOW(ACCESS_REPLICA) | ALLOW(ACCESS_ADMIN) | ALLOW(ACCESS_READ)},
    {"two of one scheme are none",
     {.uris = (const struct str[]){{"bigfleet://admin", 16}, {"bigfleet://shard/s1", 19}},
      .uri_count = 2},
     0},
    {"a worker by common name",
     {.common_name = {"worker-" ULID, 33}},
     ALLOW(ACCESS_WORKER) | ALLOW(ACCESS_STORE)},
    {"a worker by DNS name",
     {.dns_names = (const struct str[]){{"localhost", 9}, {"worker-" ULID, 33}}, .dns_count = 2},
     ALLOW(ACCESS_WORKER)},
    {"a worker that is no ULID", {.common_name = {"worker-17", 9}}, ALLOW(ACCESS_STORE)},
    {"a store client", {.common_name = {"app", 3}}, ALLOW(ACCESS_STORE)},
    {"nobody", {.serial_hex = {"01", 2}}, 0},
};

static bool may(size_t i, enum rpc_access_kind kind)
{
    return kind == ACCESS_ANYONE || (identities[i].may & ALLOW(kind));
}

TEST(every_identity_meets_every_rule)
{
    for (size_t i = 0; i < ARRAY_LEN(identities); i++) {
        for (unsigned kind = ACCESS_ANYONE; kind < ACCESS_KIND_COUNT; kind++) {
            struct note note = {0};
            enum err err =
                rpc_access_check((struct rpc_access){kind}, &identities[i].identity, &note);
            CHECK_ERR(identities[i].why, err, may(i, kind) ? ERR_OK : ERR_DENIED);
            if (err)
                CHECK_HAS("names the needed identity", note.text,
                          rpc_access_text((struct rpc_access){kind}));
        }
    }
}

TEST(without_tls_every_rule_passes_but_none_at_all)
{
    for (unsigned kind = ACCESS_ANYONE; kind < ACCESS_KIND_COUNT; kind++)
        CHECK_OK("plaintext", rpc_access_check((struct rpc_access){kind}, NULL, NULL));
    CHECK_ERR("no rule fails closed",
              rpc_access_check((struct rpc_access){ACCESS_UNSET}, NULL, NULL), ERR_DENIED);
    CHECK_ERR("nor one past the end",
              rpc_access_check((struct rpc_access){ACCESS_KIND_COUNT}, NULL, NULL), ERR_DENIED);
}

TEST(an_id_must_be_the_one_in_the_request)
{
    const struct tls_identity shard = {ONE("bigfleet://shard/s1")};
    struct note note = {0};

    CHECK_OK("its own", rpc_access_is(&shard, STR("bigfleet://shard/"), STR("s1"), &note));
    CHECK_ERR("another's", rpc_access_is(&shard, STR("bigfleet://shard/"), STR("s2"), &note),
              ERR_DENIED);
    CHECK_HAS("names both", note.text, "bigfleet://shard/s1");
    CHECK_HAS("names both", note.text, "bigfleet://shard/s2 is needed");
    CHECK_ERR("a prefix", rpc_access_is(&shard, STR("bigfleet://shard/"), STR("s"), NULL),
              ERR_DENIED);
    CHECK_ERR("nothing", rpc_access_is(&shard, STR("bigfleet://shard/"), STR(""), NULL),
              ERR_DENIED);
    CHECK_ERR("another kind", rpc_access_is(&shard, STR("bigfleet://cluster/"), STR("s1"), NULL),
              ERR_DENIED);
    CHECK_OK("plaintext", rpc_access_is(NULL, STR("bigfleet://shard/"), STR("s2"), NULL));
}

/* -- the table -- */

/* The next field with number `number` of an encoded message; field 1 of a declaration is its name.
 * */
static bool next_of(struct str message, uint32_t number, size_t *cursor, struct str *ret_payload)
{
    const uint8_t *at = (const uint8_t *)message.at + *cursor;
    const uint8_t *end = (const uint8_t *)message.at + message.len;
    struct field_head head = {0};
    const char *problem;

    for (; head.number != number; at += head.len + head.payload) {
        if (at == end) return false;
        CHECK("whole", head_read(at, end, &head, &problem) == HEAD_WHOLE);
        *ret_payload = str_of(at + head.len, head.payload);
    }
    *cursor = (size_t)(at - (const uint8_t *)message.at);
    return true;
}

static struct str name_of(struct str declaration)
{
    struct str name = STR_EMPTY;

    CHECK("named", next_of(declaration, 1, &(size_t){0}, &name));
    return name;
}

TEST(every_method_of_every_contract_is_in_the_table_once)
{
    enum {
        FILE_PACKAGE = 2,
        FILE_SERVICE = 6,
        SERVICE_METHOD = 2
    }; /* of google/protobuf/descriptor.proto */
    struct str set = descriptors_product(), file;
    const struct rpc_access_row *rows;
    size_t count = rpc_access_table(&rows), found = 0, files = 0;

    while (descriptors_next_file(set, &files, &file)) {
        struct str package, service, method;
        size_t services = 0;
        CHECK("package", next_of(file, FILE_PACKAGE, &(size_t){0}, &package));
        while (next_of(file, FILE_SERVICE, &services, &service)) {
            size_t methods = 0;
            while (next_of(service, SERVICE_METHOD, &methods, &method)) {
                char path[256];
                snprintf(path, sizeof path, "/%.*s.%.*s/%.*s", STR_ARG(package),
                         STR_ARG(name_of(service)), STR_ARG(name_of(method)));
                CHECK(path, rpc_access_for(str_from(path)).kind != ACCESS_UNSET);
                found++;
            }
        }
    }
    CHECK_SIZE("and nothing else is there, and nothing twice", count, found);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) CHECK(rows[i].path, strcmp(rows[i].path, rows[k].path) != 0);
}

TEST(the_table_says_what_the_specification_says)
{
    static const struct {
        const char *path;
        enum rpc_access_kind kind;
    } rules[] = {
        {"/bigfleet.v1alpha1.Coordinator/ReportShard", ACCESS_SHARD},
        {"/bigfleet.v1alpha1.Coordinator/AssignDomain", ACCESS_ADMIN},
        {"/bigfleet.v1alpha1.Coordinator/JoinRaftCluster", ACCESS_ADMIN},
        {"/bigfleet.v1alpha1.Coordinator/SnapshotSave", ACCESS_ADMIN},
        {"/bigfleet.v1alpha1.Coordinator/ListShards", ACCESS_READ},
        {"/bigfleet.v1alpha1.Coordinator/ListQuotas", ACCESS_READ},
        {"/bigfleet.v1alpha1.Shard/Session", ACCESS_CLUSTER},
        {"/bigfleet.v1alpha1.ShardRead/InspectNeeds", ACCESS_READ},
        {"/grpc.health.v1.Health/Check", ACCESS_ANYONE},
        {"/rollout.transport.v1.Heartbeat/Beat", ACCESS_WORKER},
        {"/rollout.transport.v1.Control/Subscribe", ACCESS_WORKER},
        {"/rollout.transport.v1.Work/Stream", ACCESS_WORKER},
        {"/etcdserverpb.KV/Put", ACCESS_STORE},
        {"/no.such/Method", ACCESS_UNSET},
    };

    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        CHECK_U64(rules[i].path, rpc_access_for(str_from(rules[i].path)).kind, rules[i].kind);
}

TEST(a_plugin_is_open_to_its_own_worker_and_to_no_worker_over_tls)
{
    static const char *const methods[] = {"Init", "Preflight", "Call", "Reload", "Shutdown"};

    for (size_t m = 0; m < ARRAY_LEN(methods); m++) {
        struct rpc_access access;
        char path[64];
        snprintf(path, sizeof path, "/rollout.plugin.v1.Plugin/%s", methods[m]);
        access = rpc_access_for(str_from(path));
        CHECK_OK("over its own socket", rpc_access_check(access, NULL, NULL));
        for (size_t i = 0; i < ARRAY_LEN(identities); i++)
            CHECK_ERR(identities[i].why, rpc_access_check(access, &identities[i].identity, NULL),
                      identities[i].may & ALLOW(ACCESS_ADMIN) ? ERR_OK : ERR_DENIED);
    }
}

/* -- over a connection -- */

static struct rig rig;
static unsigned handled;

static void on_message(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    (void)owner, (void)message, (void)bytes;
    handled++;
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}
static const struct rpc_handler handler = {.on_message = on_message};

/* One method per rule, beside echo and health: the test calls every registered method. */
static void add_methods(struct rig *r)
{
    static const char *const paths[] = {
        [ACCESS_ANYONE] = "/test.Rules/Anyone", [ACCESS_ADMIN] = "/test.Rules/Admin",
        [ACCESS_READ] = "/test.Rules/Read",     [ACCESS_REPLICA] = "/test.Rules/Replica",
        [ACCESS_SHARD] = "/test.Rules/Shard",   [ACCESS_CLUSTER] = "/test.Rules/Cluster",
        [ACCESS_WORKER] = "/test.Rules/Worker", [ACCESS_STORE] = "/test.Rules/Store",
    };
    struct rpc_method m = {.kind = RPC_UNARY, .handler = &handler};
    struct note note = {0};

    for (unsigned kind = ACCESS_ANYONE; kind < ACCESS_KIND_COUNT; kind++) {
        m.path = paths[kind];
        m.access.kind = kind;
        CHECK_OK("add", rpc_server_add(r->server, &m, &note));
        CHECK_ERR("once", rpc_server_add(r->server, &m, &note), ERR_EXISTS);
    }
    m.path = "/test.Rules/Forgotten";
    m.access.kind = ACCESS_UNSET;
    CHECK_ERR("a rule is needed", rpc_server_add(r->server, &m, &note), ERR_INVALID);
    CHECK_HAS("the message", note.text, "no access rule");
    m.path = "/bigfleet.v1alpha1.Coordinator/AssignDomain";
    m.access.kind = ACCESS_ANYONE;
    CHECK_ERR("the table's, not another", rpc_server_add(r->server, &m, &note), ERR_INVALID);
    m.access.kind = ACCESS_UNSET;
    CHECK_OK("taken from the table", rpc_server_add(r->server, &m, &note));
    for (size_t i = 0; i < 5; i++) {
        static const char *const bad[] = {"", "x", "/x", "/x/", "//y"};
        m.path = bad[i];
        m.access.kind = ACCESS_ANYONE;
        CHECK_ERR("a path", rpc_server_add(r->server, &m, &note), ERR_INVALID);
    }
}

static void walk(size_t i, struct client *c)
{
    for (size_t k = 0; k < rpc_server_methods(rig.server); k++) {
        const struct rpc_method *m = rpc_server_method(rig.server, k);
        bool allowed = may(i, m->access.kind);
        unsigned before = handled;
        int32_t stream = client_start(c, m->path, NULL, 0);
        char why[256];
        snprintf(why, sizeof why, "%s calls %s", identities[i].why, m->path);
        (void)client_send(c, stream, &ECHO_REQUEST());
        rig_run(&rig, 20);
        client_end(c, stream);
        rig_run(&rig, 20);
        if (allowed)
            CHECK(why, client_answer(c, stream)->grpc != GRPC_PERMISSION_DENIED);
        else
            CHECK_I64(why, client_answer(c, stream)->grpc, GRPC_PERMISSION_DENIED);
        if (str_starts(str_from(m->path), STR("/test.Rules/")))
            CHECK_U64(why, handled - before, allowed ? 1 : 0);
    }
}

TEST(every_registered_method_keeps_its_rule_against_every_identity)
{
    for (size_t i = 0; i < ARRAY_LEN(identities); i++) {
        const struct tls_identity *shown[RIG_CLIENTS] = {&identities[i].identity, NULL, NULL, NULL};
        handled = 0;
        rig_open(&rig, NULL, shown, add_methods);
        walk(i, client_connect(&rig, 0, false));
        rig_close(&rig);
    }
}

TEST(a_tls_peer_without_certificate_has_no_identity)
{
    const struct tls_identity *shown[RIG_CLIENTS] = {NULL};

    rig_open(&rig, NULL, shown, add_methods);
    walk(ARRAY_LEN(identities) - 1, client_connect(&rig, 0, false));
    rig_close(&rig);
}
