/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a header field on the wire, first and later: which fields enter the peer's header
 * table whole, which by name, and which never. Each field arrives unchanged. */
#include <string.h>

#include "h2_pair.h"
#include "lib/test.h"

static struct h2_pair pair;
static struct h2_header expected; /* of the request in flight */
static unsigned arrived;

static void look(struct h2_peer *p, int32_t stream, const struct h2_header *headers, size_t count,
                 bool trailers, bool end)
{
    (void)p, (void)stream, (void)trailers, (void)end;
    for (size_t i = 0; i < count; i++)
        arrived += str_equal(headers[i].name, expected.name) &&
                   str_equal(headers[i].value, expected.value);
}

static void answer(struct h2_peer *p, int32_t stream, const struct h2_header *headers, size_t count,
                   bool trailers, bool end)
{
    const struct h2_header status = {STR(":status"), STR("200")};

    look(p, stream, headers, count, trailers, end);
    CHECK_OK("answer", h2_respond(p->h2, stream, &status, 1, true));
}

/* Size of a request with this field beside four fields that are in the table. The caller's texts
 * are overwritten before the request is sent. */
static size_t request(struct str name, struct str value)
{
    char own_name[64], own_value[64];
    struct h2_header headers[] = {
        {STR(":method"), STR("POST")},
        {STR(":scheme"), STR("http")},
        {STR(":path"), STR("/")},
        {STR(":authority"), STR("fleet")},
        {{own_name, name.len}, {own_value, value.len}},
    };
    struct buf out;
    int32_t stream;
    size_t len;

    memcpy(own_name, name.at, name.len);
    memcpy(own_value, value.at, value.len);
    expected = (struct h2_header){name, value};
    arrived = 0;
    CHECK_OK("request", h2_request(pair.client.h2, headers, 5, true, &stream));
    memset(own_name, '?', sizeof own_name);
    memset(own_value, '?', sizeof own_value);
    buf_init(&out, 1 << 16);
    CHECK_OK("gathered", h2_take_output(pair.client.h2, SIZE_MAX, &out));
    len = out.len;
    CHECK_OK("fed", h2_pair_feed(&pair, &pair.server, buf_peek(&out)));
    buf_deinit(&out);
    CHECK_U64("arrived as it was given", arrived, 1);
    CHECK("the two come to rest", h2_pair_pump(&pair));
    return len - 9 - 4; /* minus the frame's head and the four indexed fields */
}

static void start(void)
{
    CHECK_OK("both open", h2_pair_open(&pair, NULL, NULL));
    CHECK("the two come to rest", h2_pair_pump(&pair));
    pair.server.on_headers = answer;
    request(STR("te"), STR("trailers")); /* puts the authority into the table */
}

enum kept { WHOLE, BY_NAME, NOT };
static const struct {
    const char *why;
    struct str name, value;
    enum kept kept;
} fields[] = {
    {"a usual value", {"content-type", 12}, {"application/grpc", 16}, WHOLE},
    {"a known name, another value", {"content-type", 12}, {"application/grpc+proto", 22}, WHOLE},
    {"a name that nobody knows", {"x-tenant-of-call", 16}, {"blue", 4}, WHOLE},
    {"who asks", {"user-agent", 10}, {"grpc-c-muster/1", 15}, WHOLE},
    {"new in every call", {"traceparent", 11}, {"00-4bf92f3577b34da6", 19}, BY_NAME},
    {"new in every call", {"x-muster-trace", 14}, {"4bf92f3577b34da6", 16}, BY_NAME},
    {"new in every call", {"x-request-id", 12}, {"4bf92f3577b34da6", 16}, BY_NAME},
    {"new in every call", {"grpc-timeout", 12}, {"99999999u", 9}, BY_NAME},
    {"rare", {"grpc-message", 12}, {"nothing%20there", 15}, NOT},
    {"rare", {"grpc-status-details-bin", 23}, {"CAUSBG5vcGU", 11}, NOT},
    {"a secret", {"authorization", 13}, {"Bearer hunter2", 14}, NOT},
};

TEST(fields_enter_the_peers_table_by_their_kind)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        size_t first, second, third;
        start();
        first = request(fields[i].name, fields[i].value);
        second = request(fields[i].name, fields[i].value);
        third = request(fields[i].name, fields[i].value);
        CHECK_SIZE(fields[i].why, third, second);
        if (fields[i].kept == WHOLE) CHECK_SIZE(fields[i].why, second, 1);
        if (fields[i].kept == NOT) CHECK_SIZE(fields[i].why, second, first);
        if (fields[i].kept == BY_NAME) {
            CHECK(fields[i].why, second + fields[i].name.len / 2 < first); /* Huffman: over half */
            CHECK(fields[i].why, second > fields[i].value.len / 2);        /* the value is there */
        }
        h2_pair_close(&pair);
    }
}

TEST(a_name_that_was_pushed_out_of_the_table_comes_back)
{
    char value[60];
    size_t whole, by_name, now = 0;

    start();
    whole = request(STR("traceparent"), STR("00-4bf92f3577b34da6"));
    by_name = request(STR("traceparent"), STR("00-4bf92f3577b34da6"));
    memset(value, 'v', sizeof value);
    for (unsigned i = 0; i < 64; i++) { /* 64 of over 100 bytes: more than the table's 4,096 */
        value[0] = (char)('A' + i % 26);
        value[1] = (char)('A' + i / 26);
        request(STR("x-new"), str_of(value, sizeof value));
    }
    CHECK("it was pushed out",
          request(STR("traceparent"), STR("00-4bf92f3577b34da6")) + 1 >= whole);
    for (unsigned i = 0; i < 1100; i++)
        now = request(STR("traceparent"), STR("00-4bf92f3577b34da6"));
    CHECK_SIZE("it came back", now, by_name);
    h2_pair_close(&pair);
}

TEST(trailers_do_not_borrow_the_callers_text)
{
    char name[] = "x-plain", value[] = "as given", status[] = "0";
    struct h2_header all[] = {{STR("grpc-status"), {status, 1}}, {{name, 7}, {value, 8}}};
    struct str part = STR("x");
    int32_t stream = 0;

    CHECK_OK("both open", h2_pair_open(&pair, NULL, NULL));
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    CHECK("the two come to rest", h2_pair_pump(&pair));
    expected = (struct h2_header){STR("x-plain"), STR("as given")};
    arrived = 0;
    pair.client.on_headers = look;
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    CHECK_OK("message", h2_send(pair.server.h2, stream, &part, 1));
    CHECK_OK("trailers", h2_send_trailers(pair.server.h2, stream, all, 2));
    memset(name, '?', sizeof name);
    memset(value, '?', sizeof value);
    memset(status, '?', sizeof status);
    CHECK("the two come to rest", h2_pair_pump(&pair));
    CHECK_TEXT("status", h2_peer_seen(&pair.client, stream)->grpc_status, "0");
    CHECK_U64("arrived as it was given", arrived, 1);
    CHECK_U64("well", h2_peer_seen(&pair.client, stream)->code, 0);
    h2_pair_close(&pair);
}
