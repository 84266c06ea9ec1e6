/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/nats/decode.h"

#include <stdio.h>

#include "lib/test.h"
#include "text/base64.h"

TEST(the_level_of_the_api_shows_the_server)
{
    struct jet_account account;
    CHECK_OK("2.11",
             jet_decode_account(STR("{\"api\":{\"level\":1,\"total\":7}}"), &account, NULL));
    CHECK_U64("level", account.level, 1);
    CHECK_OK("2.9",
             jet_decode_account(STR("{\"api\":{\"total\":7,\"errors\":0}}"), &account, NULL));
    CHECK_U64("none", account.level, 0);
    CHECK_OK("refused", jet_decode_account(STR("{\"error\":{\"code\":503,\"err_code\":10076,"
                                               "\"description\":\"JetStream not enabled\"}}"),
                                           &account, NULL));
    CHECK_U32("number", account.error.number, 10076);
    CHECK_TEXT("text", account.error.text, "JetStream not enabled");
    struct note note = {""};
    CHECK_ERR("no answer", jet_decode_account(STR("{}"), &account, &note), ERR_PARSE);
    CHECK_HAS("the note", note.text, "api");
    CHECK_ERR("not an object", jet_decode_account(STR("[]"), &account, &note), ERR_PARSE);
    CHECK_ERR("nothing", jet_decode_account(STR(""), &account, &note), ERR_PARSE);
}

/* A valid configuration with one part replaced. */
static struct jet_stream stream_with(const char *instead_of, const char *with)
{
    static const char good[] =
        "{\"config\":{\"name\":\"KV_b\",\"subjects\":[\"$KV.b.\\u003e\"],\"retention\":\"limits\","
        "\"max_age\":0,\"max_msgs_per_subject\":1,\"max_msg_size\":-1,\"discard\":\"new\","
        "\"storage\":\"file\",\"num_replicas\":3,\"deny_delete\":true,\"allow_rollup_hdrs\":true,"
        "\"allow_msg_ttl\":true,\"subject_delete_marker_ttl\":900000000000,"
        "\"metadata\":{\"_nats.ver\":\"2.11.10\"}},\"created\":\"2026-11-15T20:47:38.7Z\","
        "\"ts\":\"2026-11-15T20:47:39.25Z\"}";
    char text[2048];
    const char *at = instead_of == NULL ? NULL : strstr(good, instead_of);
    if (instead_of != NULL) {
        CHECK(instead_of, at != NULL);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, with,
                       at + strlen(instead_of));
    } else {
        (void)snprintf(text, sizeof text, "%s", good);
    }
    struct jet_stream stream;
    struct note note = {""};
    enum err err = jet_decode_stream(str_from(text), STR("b"), &stream, &note);
    CHECK_TEXT("no complaint", note.text, "");
    CHECK_OK("decoded", err);
    return stream;
}

TEST(a_stream_is_suitable_or_the_reason_is_reported)
{
    struct jet_stream stream = stream_with(NULL, NULL);
    CHECK_TEXT("fit", stream.fault, "");
    CHECK("with TTL", stream.message_ttl);
    CHECK_U64("replicas", stream.replicas, 3);
    CHECK("file", stream.on_disk);
    CHECK_TEXT("version", stream.version, "2.11.10");
    CHECK_I64("its time", stream.now_ms, INT64_C(1794775659250));
    static const struct {
        const char *instead_of, *with, *says;
    } cases[] = {
        {"\"$KV.b.\\u003e\"", "\"$KV.c.>\"", "subjects"},
        {"\"$KV.b.\\u003e\"", "\"$KV.b.>\",\"x\"", "subjects"},
        {"[\"$KV.b.\\u003e\"]", "null", "subjects"},
        {"\"max_age\":0", "\"mirror\":{\"name\":\"x\"}", "mirrors"},
        {"\"max_age\":0", "\"sources\":[{\"name\":\"x\"}]", "sources"},
        {"\"max_age\":0", "\"subject_transform\":{\"src\":\"x\"}", "transforms"},
        {"\"max_age\":0", "\"max_age\":5", "max_age"},
        {"\"max_age\":0", "\"no_ack\":true", "no_ack"},
        {"\"max_age\":0", "\"sealed\":true", "sealed"},
        {"\"max_age\":0", "\"discard_new_per_subject\":true", "discard_new_per_subject"},
        {"\"max_age\":0", "\"allow_msg_counter\":true", "counters"},
        {"subject\":1", "subject\":5", "max_msgs_per_subject"},
        {"\"deny_delete\":true", "\"deny_delete\":false", "deny_delete"},
        {"\"allow_rollup_hdrs\":true,", "", "allow_rollup_hdrs"},
        {"\"new\"", "\"old\"", "discard"},
        {"\"limits\"", "\"interest\"", "retention"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        stream = stream_with(cases[i].instead_of, cases[i].with);
        CHECK_HAS(cases[i].with, stream.fault, cases[i].says);
    }
    CHECK("no TTL", !stream_with("\"allow_msg_ttl\":true,", "").message_ttl);
    CHECK("markers too short", !stream_with("900000000000", "999999999").message_ttl);
    CHECK("memory", !stream_with("\"file\"", "\"memory\"").on_disk);
    CHECK("lazily", !stream_with("\"max_age\":0", "\"persist_mode\":\"async\"").on_disk);
    CHECK_U64("size", stream_with(":-1", ":1000").message_max, 1000);
}

TEST(an_acknowledgement_has_a_sequence_or_proves_nothing)
{
    struct jet_ack ack;
    CHECK_OK("done", jet_decode_ack(STR("{\"stream\":\"KV_b\", \"seq\":7}"), &ack, NULL));
    CHECK_U64("sequence", ack.sequence, 7);
    CHECK_OK("refused",
             jet_decode_ack(STR("{\"error\":{\"code\":400,\"err_code\":10071,\"description\":"
                                "\"wrong last sequence: 1\"},\"stream\":\"KV_b\",\"seq\":0}"),
                            &ack, NULL));
    CHECK_U32("number", ack.error.number, JET_E_WRONG_LAST);
    static const char *const others[] = {
        "{}", "{\"seq\":0}", "{\"seq\":-1}", "{\"seq\":\"7\"}", "+OK", "{\"seq\":7", "", "7"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        CHECK_ERR(others[i], jet_decode_ack(str_from(others[i]), &ack, NULL), ERR_PARSE);
    }
    CHECK_OK("an error without a code",
             jet_decode_ack(STR("{\"error\":{}, \"seq\":7}"), &ack, NULL));
    CHECK_OK("an empty error is none",
             jet_decode_ack(STR("{\"error\":null,\"seq\":7}"), &ack, NULL));
    CHECK_U64("done", ack.sequence, 7);
    CHECK_OK("odd", jet_decode_ack(STR("{\"error\":\"x\",\"seq\":7}"), &ack, NULL));
    CHECK_U32("an error all the same", ack.error.code, 500);
    CHECK_U64("no sequence then", ack.sequence, 0);
}

static struct jet_state state_of(const char *marker, const char *operation,
                                 const struct claim_envelope *envelope, uint64_t sequence,
                                 struct buf *memory)
{
    struct jet_state state;
    buf_clear(memory);
    if (envelope != NULL) { CHECK_OK("encoded", envelope_encode(envelope, memory)); }
    jet_state_of(sequence, str_from(marker), str_from(operation), buf_peek(memory), &state);
    return state;
}

TEST(what_the_last_message_says_about_the_key)
{
    struct claim_envelope put = {.owner = STR("me"), .value = STR("v")};
    struct claim_envelope renewed = {.revision = 5, .token = 3, .value = STR("v")};
    struct claim_envelope gone = {.flags = ENVELOPE_TOMBSTONE};
    struct claim_envelope future = {.revision = 8};
    struct buf memory;
    buf_init(&memory, 4096);
    struct jet_state got = state_of("", "", &put, 7, &memory);
    CHECK_I64("live", got.seen.kind, PRIM_SEEN_LIVE);
    CHECK_U64("revision is the sequence", got.seen.revision, 7);
    CHECK_U64("so is the token", got.seen.create_revision, 7);
    got = state_of("", "", &renewed, 7, &memory);
    CHECK_U64("revision is the envelope's", got.seen.revision, 5);
    CHECK_U64("token is the envelope's", got.seen.create_revision, 3);
    CHECK_U64("sequence is the message's", got.seen.sequence, 7);
    CHECK_I64("tombstone", state_of("", "", &gone, 7, &memory).seen.kind, PRIM_SEEN_TOMBSTONE);
    CHECK_I64("expired", state_of("MaxAge", "", NULL, 7, &memory).seen.kind, PRIM_SEEN_EXPIRED);
    CHECK_I64("purged by the server", state_of("Purge", "", NULL, 7, &memory).seen.kind,
              PRIM_SEEN_DELETED);
    CHECK_I64("deleted by a client", state_of("", "DEL", NULL, 7, &memory).seen.kind,
              PRIM_SEEN_DELETED);
    CHECK_I64("purged by a client", state_of("", "PURGE", NULL, 7, &memory).seen.kind,
              PRIM_SEEN_DELETED);
    CHECK_I64("empty is no marker", state_of("", "", NULL, 7, &memory).seen.kind,
              PRIM_SEEN_FOREIGN);
    CHECK_I64("of a future", state_of("", "", &future, 7, &memory).seen.kind, PRIM_SEEN_FOREIGN);
    struct claim_envelope short_lived = {
        .flags = ENVELOPE_LEASED, .ttl_ms = 1999, .owner = STR("me")};
    CHECK_I64("a lease this store never grants",
              state_of("", "", &short_lived, 7, &memory).seen.kind, PRIM_SEEN_FOREIGN);
    short_lived.ttl_ms = 2000;
    CHECK_I64("one it does", state_of("", "", &short_lived, 7, &memory).seen.kind, PRIM_SEEN_LIVE);
    buf_deinit(&memory);
}

TEST(headers_are_found_whatever_their_case)
{
    struct str block = STR("NATS/1.0 100 x: y\r\nA: 1\r\nnats-marker-reason:  MaxAge \r\n\r\n");
    CHECK_STR("found", jet_header(block, STR("Nats-Marker-Reason")), STR("MaxAge"));
    CHECK_STR("not in the first line", jet_header(block, STR("NATS/1.0 100 x")), STR_EMPTY);
    CHECK_STR("not there", jet_header(block, STR("B")), STR_EMPTY);
    CHECK_STR("nothing", jet_header(STR_EMPTY, STR("B")), STR_EMPTY);
}

TEST(a_message_as_the_server_sends_it)
{
    struct buf memory, envelope, text;
    struct jet_error error;
    struct jet_state got;
    buf_init(&memory, 4096);
    buf_init(&envelope, 4096);
    buf_init(&text, 4096);
    CHECK_OK("encoded", envelope_encode(&(struct claim_envelope){.value = STR("v")}, &envelope));
    CHECK_OK("text", buf_append_c(&text, "{\"message\":{\"subject\":\"$KV.b.a\",\"seq\":9,\"hdrs\":"
                                         "\"TkFUUy8xLjANCk5hdHMtVFRMOiAxcw0KDQo=\",\"data\":\""));
    CHECK_OK("data", base64_encode(buf_peek(&envelope), &text));
    CHECK_OK("text", buf_append_c(&text, "\",\"time\":\"2026-11-15T20:47:39.762046398Z\"}}"));
    CHECK_OK("decoded", jet_decode_message(buf_peek(&text), &memory, &error, &got, NULL));
    CHECK_I64("live", got.seen.kind, PRIM_SEEN_LIVE);
    CHECK_STR("value", got.seen.envelope.value, STR("v"));
    CHECK_U64("sequence", got.seen.sequence, 9);
    CHECK_I64("time", got.stored_ms, 1794775659762);
    CHECK_OK("marker",
             jet_decode_message(STR("{\"message\":{\"seq\":2,\"hdrs\":"
                                    "\"TkFUUy8xLjANCk5hdHMtTWFya2VyLVJlYXNvbjogTWF4QWdlDQoNCg==\","
                                    "\"time\":\"yesterday\"}}"),
                                &memory, &error, &got, NULL));
    CHECK_I64("expired", got.seen.kind, PRIM_SEEN_EXPIRED);
    CHECK_I64("no time", got.stored_ms, 0);
    CHECK_OK("none", jet_decode_message(STR("{\"error\":{\"code\":404,\"err_code\":10037}}"),
                                        &memory, &error, &got, NULL));
    CHECK_U32("number", error.number, JET_E_NO_MESSAGE);
    CHECK_I64("nothing", got.seen.kind, PRIM_SEEN_NOTHING);
    static const char *const others[] = {"{}", "{\"message\":{}}", "{\"message\":{\"seq\":0}}",
                                         "{\"message\":{\"seq\":1,\"data\":\"!\"}}",
                                         "{\"message\":{\"seq\":1,\"hdrs\":\"x\"}}"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        CHECK_ERR(others[i], jet_decode_message(str_from(others[i]), &memory, &error, &got, NULL),
                  ERR_PARSE);
    }
    buf_deinit(&memory);
    buf_deinit(&envelope);
    buf_deinit(&text);
}

TEST(deliveries_old_and_new)
{
    struct jet_delivery delivery;
    CHECK_OK("old", jet_decode_delivery(STR("$JS.ACK.KV_b.c.1.42.7.1794775659762.3"), &delivery));
    CHECK_U64("stream", delivery.stream_sequence, 42);
    CHECK_U64("consumer", delivery.consumer_sequence, 7);
    CHECK_U64("pending", delivery.pending, 3);
    CHECK_OK("new", jet_decode_delivery(STR("$JS.ACK._.acc.KV_b.c.1.42.7.1794.3.tok"), &delivery));
    CHECK_U64("stream", delivery.stream_sequence, 42);
    static const char *const others[] = {"",
                                         "$JS.ACK.KV_b.c.1.42.7.1794",
                                         "$JS.ACK.KV_b.c.1.0.7.1794.3",
                                         "$JS.NAK.KV_b.c.1.42.7.1794.3",
                                         "$JS.ACK.KV_b.c.1.x.7.1794.3",
                                         "$JS.ACK._.acc.KV_b.c.1.42.7.1794",
                                         "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        CHECK_ERR(others[i], jet_decode_delivery(str_from(others[i]), &delivery), ERR_PARSE);
    }
}

TEST(consumers)
{
    struct jet_consumer consumer;
    CHECK_OK("made", jet_decode_consumer(STR("{\"name\":\"07X5E7pp\",\"num_pending\":3}"),
                                         &consumer, NULL));
    CHECK_TEXT("name", consumer.name, "07X5E7pp");
    CHECK_U64("pending", consumer.pending, 3);
    CHECK_ERR("a name that is a subject",
              jet_decode_consumer(STR("{\"name\":\"a.>\"}"), &consumer, NULL), ERR_PARSE);
    CHECK_ERR("no name", jet_decode_consumer(STR("{}"), &consumer, NULL), ERR_PARSE);
}
