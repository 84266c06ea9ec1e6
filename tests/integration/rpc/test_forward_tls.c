/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarding from a follower to the leader over real sockets, with real certificates: the leader
 * judges the original caller, never the replica that forwards the call.
 *
 * A replica's certificate also names bigfleet://admin, so a leader that judged its peer would
 * accept every call. The follower has no access rules here: every verdict is the leader's. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cert/cert.h"
#include "rpc/forward.h"
#include "rpc/server.h"
#include "unit/io/rig.h"

enum { FOLLOWER, LEADER, NODES };
enum who { R1, R2, ADMIN, READONLY, SHARD, STORE, NOBODY, WHO_COUNT };

static const struct {
    const char *name, *id;
    enum cert_kind kind;
} people[WHO_COUNT] = {
    [R1] = {"r1", "r1", CERT_REPLICA},        [R2] = {"r2", "r2", CERT_REPLICA},
    [ADMIN] = {"admin", "", CERT_ADMIN},      [READONLY] = {"readonly", "", CERT_READONLY},
    [SHARD] = {"shard", "s-1", CERT_SHARD},   [STORE] = {"store", "billing", CERT_STORE},
    [NOBODY] = {NULL, NULL, CERT_KIND_COUNT}, /* no certificate at all */
};
static const struct {
    const char *path;
    enum rpc_access_kind access; /* at the leader */
    enum rpc_kind kind;
} methods[] = {
    {"/t.T/Admin", ACCESS_ADMIN, RPC_UNARY},     {"/t.T/Read", ACCESS_READ, RPC_UNARY},
    {"/t.T/Shard", ACCESS_SHARD, RPC_UNARY},     {"/t.T/Store", ACCESS_STORE, RPC_UNARY},
    {"/t.T/Replica", ACCESS_REPLICA, RPC_UNARY}, {"/t.T/Anyone", ACCESS_ANYONE, RPC_UNARY},
    {"/t.T/Stream", ACCESS_SHARD, RPC_BIDI},
};

struct node {
    struct rpc_server *server;
    struct rpc_forwarder *forwarder;
    struct rpc_forward_gate gates[ARRAY_LEN(methods)];
    bool leads, server_closed, forwarder_closed;
    unsigned served;
};
static struct rig rig;
static struct node nodes[NODES];
static struct {
    unsigned ended;
    enum err err;
    enum grpc_status status;
    char text[256], answer[256];
} heard;

/* -- certificates -- */

static wall_time now(void)
{
    return (wall_time){(uint64_t)time(NULL) * MS_PER_SECOND};
}

static const char *file(const char *name, const char *suffix)
{
    static char paths[4][400];
    static unsigned turn;
    char *path = paths[turn++ % ARRAY_LEN(paths)];

    snprintf(path, sizeof paths[0], "%s/%s%s", test_dir(), name, suffix);
    return path;
}

static void make_certificates(void)
{
    struct cert_report ca_report;

    CHECK_OK("an authority", cert_ca_ensure(fs_real(), &(struct cert_ca_options){.dir = test_dir()},
                                            now(), &ca_report, NULL));
    for (size_t i = 0; i < NOBODY; i++) {
        struct cert_leaf_options options = {.ca_dir = test_dir(),
                                            .cert_file = file(people[i].name, ".pem"),
                                            .key_file = file(people[i].name, ".key.pem")};
        struct cert_request request = {.kind = people[i].kind, .id = str_from(people[i].id)};
        struct cert_report report;
        struct note note = {0};
        enum err err = cert_leaf_ensure(fs_real(), &options, &request, now(), &report, &note);
        CHECK_ERR(note.text, err, ERR_OK);
    }
}

static struct tls_context *context(enum who who, enum tls_side side)
{
    struct tls_options options = {.side = side,
                                  .version_min = TLS_V1_3,
                                  .ca_files = {file("ca", ".pem")},
                                  .peer_optional = side == TLS_SERVER,
                                  .alpn = {"h2"}};
    struct tls_context *made = NULL;
    struct note note = {0};
    enum err err;

    if (who != NOBODY) {
        options.cert_file = file(people[who].name, ".pem");
        options.key_file = file(people[who].name, ".key.pem");
    }
    err = tls_context_open(fs_real(), &options, &made, &note);
    CHECK_ERR(note.text, err, ERR_OK);
    return made;
}

/* -- two replicas -- */

static bool stays(void *service, struct rpc_call *call)
{
    (void)call;
    return ((struct node *)service)->leads;
}

/* Answers with the handler's view of its caller. */
static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    const struct tls_identity *identity = rpc_call_identity(call);
    char text[256] = "plaintext";

    (void)message, (void)bytes;
    ((struct node *)service)->served++;
    if (identity)
        snprintf(text, sizeof text, "uris=%zu %.*s cn=%.*s", identity->uri_count,
                 identity->uri_count ? (int)identity->uris[0].len : 0,
                 identity->uri_count ? identity->uris[0].at : "", STR_ARG(identity->common_name));
    rpc_reply_bytes(call, str_from(text));
}

static const struct rpc_handler handler = {.on_message = on_message};

static void open_node(size_t i, bool tls)
{
    struct node *node = &nodes[i];
    struct tls_context *serves = tls ? context(i == LEADER ? R2 : R1, TLS_SERVER) : NULL;
    struct tls_context *dials = tls ? context(i == LEADER ? R2 : R1, TLS_CLIENT) : NULL;
    struct note note = {0};

    *node = (struct node){.leads = i == LEADER};
    CHECK_OK("a server",
             rpc_server_open(&(struct rpc_server_options){.io = rig.io}, &node->server, &note));
    CHECK_OK("a forwarder",
             rpc_forwarder_open(&(struct rpc_forwarder_options){.io = rig.io, .tls = dials},
                                &node->forwarder));
    for (size_t k = 0; k < ARRAY_LEN(methods); k++) {
        node->gates[k] = (struct rpc_forward_gate){
            .forwarder = node->forwarder, .handler = &handler, .service = node, .stays = stays};
        CHECK_OK("a method",
                 rpc_server_add(node->server,
                                &(struct rpc_method){
                                    .path = methods[k].path,
                                    .kind = methods[k].kind,
                                    .access = {node->leads ? methods[k].access : ACCESS_ANYONE},
                                    .handler = &rpc_forward_handler,
                                    .service = &node->gates[k]},
                                &note));
    }
    CHECK_OK("listen", rpc_server_listen(node->server, "127.0.0.1:0", serves, &note));
    tls_context_unref(serves);
    tls_context_unref(dials);
}

static void open_pair(bool tls)
{
    rig_open(&rig);
    open_node(LEADER, tls);
    open_node(FOLLOWER, tls);
    CHECK_OK("where the leader is",
             rpc_forwarder_set_leader(nodes[FOLLOWER].forwarder,
                                      rpc_server_address(nodes[LEADER].server, 0)));
}

static void mark(void *owner)
{
    *(bool *)owner = true;
}

static void close_pair(void)
{
    for (size_t i = 0; i < NODES; i++) {
        rpc_server_close(nodes[i].server, mark, &nodes[i].server_closed);
        RIG_UNTIL("the server is gone", &rig, nodes[i].server_closed);
        rpc_forwarder_close(nodes[i].forwarder, mark, &nodes[i].forwarder_closed);
        RIG_UNTIL("the forwarder is gone", &rig, nodes[i].forwarder_closed);
    }
    rig_close(&rig);
}

/* -- a caller -- */

static void on_answer(void *owner, struct rpc_client_call *call, struct str message)
{
    (void)owner, (void)call;
    snprintf(heard.answer, sizeof heard.answer, "%.*s", STR_ARG(message));
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)owner, (void)call;
    heard.ended++;
    heard.err = outcome->err;
    heard.status = outcome->status;
    snprintf(heard.text, sizeof heard.text, "%.*s", STR_ARG(outcome->text));
}

/* One call on a connection of its own. `claims`: whom the caller pretends to be; NULL: nobody. */
static void ask(enum who who, size_t node, const char *path, const struct tls_identity *claims,
                bool tls)
{
    static const struct rpc_call_events events = {on_answer, NULL, on_end};
    struct tls_context *dials = tls ? context(who, TLS_CLIENT) : NULL;
    const char *const addresses[] = {rpc_server_address(nodes[node].server, 0), NULL};
    struct rpc_channel *channel = NULL;
    struct rpc_client_call *call = NULL;
    struct buf claim;
    struct h2_header header = {STR(RPC_CALLER_HEADER), STR_EMPTY};
    bool closed = false;

    memset(&heard, 0, sizeof heard);
    buf_init(&claim, 4096);
    if (claims) CHECK_OK("claim", rpc_forward_caller_text(claims, &claim));
    header.value = buf_peek(&claim);
    CHECK_OK("channel",
             rpc_channel_open(
                 &(struct rpc_channel_options){.io = rig.io, .addresses = addresses, .tls = dials},
                 &channel, NULL));
    CHECK_OK("call", rpc_call_start(channel,
                                    &(struct rpc_call_options){.path = path,
                                                               .metadata = &header,
                                                               .metadata_count = claims != NULL,
                                                               .attempts_max = 1},
                                    &events, NULL, &call));
    CHECK_OK("request", rpc_call_send(call, STR("who am I?")));
    rpc_call_end(call);
    RIG_UNTIL("it ends", &rig, heard.ended > 0);
    CHECK_U64("once", heard.ended, 1);
    rpc_channel_close(channel, mark, &closed);
    RIG_UNTIL("closed", &rig, closed);
    tls_context_unref(dials);
    buf_deinit(&claim);
}

/* -- the leader's answers -- */

static const struct {
    const char *why;
    enum who who;
    const char *path;
    enum grpc_status status;
    const char *says; /* the answer, or part of the refusal */
} through_the_follower[] = {
    {"an administrator", ADMIN, "/t.T/Admin", GRPC_OK, "uris=1 bigfleet://admin cn=admin"},
    {"a shard is no administrator though the replica is", SHARD, "/t.T/Admin",
     GRPC_PERMISSION_DENIED, "bigfleet://shard/s-1 may not do this"},
    {"nor a reader", READONLY, "/t.T/Admin", GRPC_PERMISSION_DENIED, "bigfleet://readonly may not"},
    {"who showed nothing is nobody", NOBODY, "/t.T/Admin", GRPC_PERMISSION_DENIED,
     "no identity may not"},
    {"and may do what anyone may", NOBODY, "/t.T/Anyone", GRPC_OK, "uris=0  cn="},
    {"nobody is no store client", NOBODY, "/t.T/Store", GRPC_PERMISSION_DENIED, "no identity"},
    {"a reader reads", READONLY, "/t.T/Read", GRPC_OK, "uris=1 bigfleet://readonly cn=readonly"},
    {"a shard does not", SHARD, "/t.T/Read", GRPC_PERMISSION_DENIED, "shard/s-1 may not"},
    {"a shard reports, under its own id", SHARD, "/t.T/Shard", GRPC_OK,
     "uris=1 bigfleet://shard/s-1 cn=shard-s-1"},
    {"an administrator is no shard", ADMIN, "/t.T/Shard", GRPC_PERMISSION_DENIED, "admin may not"},
    {"a store client, by its common name", STORE, "/t.T/Store", GRPC_OK, "uris=0  cn=billing"},
    {"the replica that passes it on lends nobody its own", SHARD, "/t.T/Replica",
     GRPC_PERMISSION_DENIED, "muster://replica/<id> is needed"},
    {"a replica that calls is itself", R2, "/t.T/Replica", GRPC_OK, "uris=2"},
    {"an open stream", SHARD, "/t.T/Stream", GRPC_OK, "shard/s-1"},
    {"a stream of somebody else", ADMIN, "/t.T/Stream", GRPC_PERMISSION_DENIED, "admin may not"},
};

TEST(the_leader_judges_whom_a_forwarded_call_came_from)
{
    make_certificates();
    open_pair(true);
    for (size_t i = 0; i < ARRAY_LEN(through_the_follower); i++) {
        bool good = through_the_follower[i].status == GRPC_OK;
        unsigned served = nodes[LEADER].served;
        ask(through_the_follower[i].who, FOLLOWER, through_the_follower[i].path, NULL, true);
        CHECK_U64(through_the_follower[i].why, heard.status, through_the_follower[i].status);
        CHECK_HAS(through_the_follower[i].why, good ? heard.answer : heard.text,
                  through_the_follower[i].says);
        CHECK_U64("a refused call reaches no handler", nodes[LEADER].served - served, good);
    }
    CHECK_U64("none was answered by the follower", nodes[FOLLOWER].served, 0);
    close_pair();
}

/* -- callers that claim another identity -- */

static const struct str admin_uri = {"bigfleet://admin", 16};
static const struct tls_identity an_admin = {.uris = &admin_uri, .uri_count = 1};

TEST(only_a_replicas_certificate_makes_the_named_caller_believed)
{
    static const struct {
        const char *why;
        enum who who;
        size_t node;
        enum grpc_status status;
    } claims[] = {
        {"a shard, to the leader", SHARD, LEADER, GRPC_PERMISSION_DENIED},
        {"a shard, to the follower", SHARD, FOLLOWER, GRPC_PERMISSION_DENIED},
        {"nobody", NOBODY, LEADER, GRPC_PERMISSION_DENIED},
        {"even an administrator, who gains nothing", ADMIN, LEADER, GRPC_PERMISSION_DENIED},
        {"a replica is believed", R1, LEADER, GRPC_OK},
    };
    static const struct str shard_uri = {"bigfleet://shard/s-1", 20};
    static const struct tls_identity a_shard = {.uris = &shard_uri, .uri_count = 1}, none;

    make_certificates();
    open_pair(true);
    for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
        unsigned served = nodes[LEADER].served;
        ask(claims[i].who, claims[i].node, "/t.T/Admin", &an_admin, true);
        CHECK_U64(claims[i].why, heard.status, claims[i].status);
        if (claims[i].status != GRPC_OK) CHECK_HAS(claims[i].why, heard.text, "for replicas only");
        CHECK_U64(claims[i].why, nodes[LEADER].served - served, claims[i].status == GRPC_OK);
    }
    ask(R1, LEADER, "/t.T/Admin", &a_shard, true);
    CHECK_U64("a replica that names a shard is that shard", heard.status, GRPC_PERMISSION_DENIED);
    ask(R1, LEADER, "/t.T/Admin", &none, true);
    CHECK_U64("and one that names nobody is nobody", heard.status, GRPC_PERMISSION_DENIED);
    close_pair();
}

TEST(without_tls_nobody_has_an_identity_and_no_claim_gives_one)
{
    open_pair(false);
    ask(NOBODY, FOLLOWER, "/t.T/Admin", NULL, false);
    CHECK_ERR("passed on", heard.err, ERR_OK);
    CHECK_TEXT("as a plaintext caller", heard.answer, "plaintext");
    ask(NOBODY, LEADER, "/t.T/Admin", &an_admin, false);
    CHECK_TEXT("a claim is not looked at", heard.answer, "plaintext");
    ask(NOBODY, FOLLOWER, "/t.T/Stream", &an_admin, false);
    CHECK_TEXT("nor passed on", heard.answer, "plaintext");
    CHECK_U64("all by the leader", nodes[LEADER].served, 3);
    close_pair();
}
