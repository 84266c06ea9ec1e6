/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas over real TLS: accepted certificates, and the refusal of all others. */
#include <string.h>

#include "io/tls.h"
#include "peers_rig.h"
#include "unit/io/tls_forge.h"

#define NAME FORGE_NAME

static struct forge_pair root, other_root;

static struct tls_context *context_of(enum tls_side side, const struct forge_pair *issuer,
                                      struct str uri)
{
    const struct forge_spec spec = {
        .names = {{uri.len ? FORGE_URI : FORGE_DNS, uri.len ? uri : STR("nobody.example")},
                  NAME(DNS, "localhost"),
                  NAME(IP, "\x7f\x00\x00\x01")}};
    struct forge_pair leaf;
    struct tls_context *context;

    forge(&leaf, issuer, &spec);
    CHECK_OK("context", tls_context_open(NULL,
                                         &(struct tls_options){.side = side,
                                                               .version_min = TLS_V1_3,
                                                               .cert_pem = forge_cert(&leaf),
                                                               .key_pem = forge_key(&leaf),
                                                               .ca_pem = forge_cert(&root)},
                                         &context, NULL));
    forge_free(&leaf);
    return context;
}

static struct tls_context *contexts[8];
static size_t context_count;

static struct tls_context *keep(struct tls_context *context)
{
    CHECK("room", context_count < ARRAY_LEN(contexts));
    contexts[context_count++] = context;
    return context;
}

/* Sets the certificate of the nodes that are opened next. */
static void use(const char *uri)
{
    rig.tls_server = uri ? keep(context_of(TLS_SERVER, &root, str_from(uri))) : NULL;
    rig.tls_client = uri ? keep(context_of(TLS_CLIENT, &root, str_from(uri))) : NULL;
}

static void close_all(void)
{
    rig_close();
    while (context_count > 0) tls_context_unref(contexts[--context_count]);
}

/* Two good nodes: one known by its name, one by its id. Strangers use the certificate `stranger`.
 * */
static void begin(struct tls_context *stranger)
{
    struct peer_where where;

    rig_open(true);
    use("muster://replica/n1");
    rig_node_open(0, RIG_CLUSTER);
    use("muster://replica/0000000000000002");
    rig_node_open(1, RIG_CLUSTER);
    rig.tls_stranger = stranger ? keep(stranger) : NULL;
    where = (struct peer_where){2, rig.nodes[1].address};
    CHECK_OK("set", peers_set(rig.nodes[0].peers, &where, 1));
    where = (struct peer_where){1, rig.nodes[0].address};
    CHECK_OK("set", peers_set(rig.nodes[1].peers, &where, 1));
    RIG_UNTIL("they meet",
              peers_connected(rig.nodes[0].peers, 2) && peers_connected(rig.nodes[1].peers, 1));
}

static void finish(uint64_t dials)
{
    struct peer_frame frame = {.kind = FRAME_HASH, .u.hash = {.index = 42, .term = 1, .hash = 1}};
    struct node *b = &rig.nodes[1];

    CHECK_OK("send", peers_send(rig.nodes[0].peers, 2, &frame));
    RIG_UNTIL("the good pair still exchanges frames", b->frames == 1);
    CHECK_U64("over the same connection",
              rig_node_counter(&rig.nodes[0], "dials", "result=\"connected\""), dials);
    close_all();
}

static void roots(void)
{
    context_count = 0;
    forge_root(&root, "root");
    forge_root(&other_root, "other root");
}

static void no_roots(void)
{
    forge_free(&root);
    forge_free(&other_root);
}

TEST(replicas_meet_and_a_file_arrives)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct frame_snap_begin start = {.term = 1, .index = 1, .bytes = 5 << 20, .id = 7};

    roots();
    begin(NULL);
    rig_write_file(0, rig_path(0, "snap"), 5 << 20);
    b->refuse = true;
    b->refuse_after = 4;
    CHECK_OK("send", peers_send_file(a->peers, 2, &start, rig_path(0, "snap"), a->worker));
    RIG_UNTIL("held", b->refused == 1);
    b->refuse = false;
    peers_resume(b->peers);
    RIG_UNTIL("sent", a->sent_count == 1);
    CHECK_OK("well", a->sent_err);
    CHECK_U64("whole", b->snaps_whole, 1);
    finish(2); /* one of them for the file lane */
    no_roots();
}

TEST(a_stranger_with_a_replica_identity_is_accepted)
{
    roots();
    begin(context_of(TLS_CLIENT, &root, STR("muster://replica/s")));
    stranger_meet(stranger_dial(0, &rig.nodes[1]), 9, &rig.nodes[1], LANE_CONTROL);
    finish(1);
    no_roots();
}

TEST(plaintext_to_a_tls_port_is_refused)
{
    struct node *b = &rig.nodes[1];
    struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);
    struct stranger *s;

    roots();
    begin(NULL);
    s = stranger_dial(0, b);
    stranger_send(s, &hello);
    RIG_UNTIL("hung up on", s->closed || s->ended);
    RIG_UNTIL("counted", rig_refused(b, "tls") == 1);
    CHECK("logged", rig_node_log_count(b, "reason=tls") == 1);
    CHECK_U64("nobody was notified", b->hellos, 2);
    finish(1);
    no_roots();
}

TEST(a_certificate_of_another_root_is_refused)
{
    struct node *b = &rig.nodes[1];
    struct stranger *s;

    roots();
    begin(context_of(TLS_CLIENT, &other_root, STR("muster://replica/s")));
    s = stranger_dial(0, b);
    RIG_UNTIL("hung up on", s->closed || s->ended);
    RIG_UNTIL("counted", rig_refused(b, "tls") == 1);
    finish(1);
    no_roots();
}

TEST(a_certificate_without_a_replica_identity_is_refused)
{
    static const struct {
        const char *uri, *words;
    } table[] = {
        {"", "no single replica identity"},
        {"bigfleet://admin", "no single replica identity"},
        {"muster://worker/s", "no single replica identity"},
        {"muster://replica/n1", "its certificate is for muster://replica/n1"},
        {"muster://replica/0000000000000001", "its certificate is for"},
    };
    struct node *b = &rig.nodes[1];

    roots();
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);
        struct stranger *s;
        begin(context_of(TLS_CLIENT, &root, str_from(table[i].uri)));
        s = stranger_dial(0, b);
        stranger_send(s, &hello);
        RIG_UNTIL("hung up on", s->closed || s->ended);
        CHECK_U64("counted", rig_refused(b, "identity"), 1);
        CHECK(table[i].words, rig_node_log_count(b, table[i].words) == 1);
        CHECK_SIZE("not answered", s->got.len, 0);
        finish(1);
    }
    no_roots();
}

TEST(a_dialer_under_tls_refuses_another_identity)
{
    struct node *a = &rig.nodes[0];

    roots();
    rig_open(true);
    use("muster://replica/n1");
    rig_node_open(0, RIG_CLUSTER);
    use("bigfleet://admin");
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    RIG_UNTIL("noticed", rig_node_log_count(a, "no single replica identity") > 0);
    CHECK("not connected", !peers_connected(a->peers, 2));
    close_all();
    no_roots();
}

TEST(a_dialer_under_tls_does_not_speak_plaintext)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    roots();
    rig_open(true);
    use("muster://replica/n1");
    rig_node_open(0, RIG_CLUSTER);
    use(NULL);
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    rig_node_set(1, 2, 1, 2);
    RIG_UNTIL("both refuse", rig_refused(a, "tls") > 0 && rig_refused(b, "frame") > 0);
    CHECK("not connected", !peers_connected(a->peers, 2) && !peers_connected(b->peers, 1));
    close_all();
    no_roots();
}
