/* SPDX-License-Identifier: Apache-2.0 */
/* The client of a provider, against a scripted server: the content of each call, the effect of each
 * answer, where calls wait, and a List in chunks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../rpc/scripted.h"
#include "lib/test.h"
#include "model/machine.h"
#include "provider/client.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

static struct world world;
static struct provider *provider;
static bool closed;

struct answered {
    unsigned count;
    enum provider_end end;
    enum grpc_status status;
    char text[200];
    char bytes[200];
    size_t len;
    bool again; /* sends one more request when it ends */
};
static struct answered heard, many[200];

static void on_done(void *context, const struct provider_answer *answer)
{
    struct answered *a = context;

    a->count++;
    a->end = answer->end;
    a->status = answer->status;
    snprintf(a->text, sizeof a->text, "%.*s", STR_ARG(answer->text));
    a->len = min_size(answer->bytes.len, sizeof a->bytes);
    if (a->len > 0) memcpy(a->bytes, answer->bytes.at, a->len);
}

static void silent(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    (void)r;
}

static void open_with(scripted_fn *script, struct provider_options options)
{
    struct note note = {""};

    world_open(&world, 11);
    world.servers[0].on_request = script;
    world.servers[0].streams_max = 1000;
    options.io = sim_host_io(world.client);
    options.address = world_addresses[0];
    options.shard_id = "shard-a";
    options.epoch = 7;
    closed = false;
    memset(&heard, 0, sizeof heard);
    memset(many, 0, sizeof many);
    CHECK_OK("a client", provider_open(&options, &provider, &note));
}

static void on_closed(void *owner)
{
    *(bool *)owner = true;
}

static bool is_true(void *context)
{
    return *(bool *)context;
}

static void close_all(void)
{
    provider_close(provider, on_closed, &closed);
    CHECK("closed", world_wait(&world, is_true, &closed));
    world_close(&world);
}

static bool is_answered(void *context)
{
    return ((struct answered *)context)->count > 0;
}

static void call(struct answered *a, struct provider_request request)
{
    if (request.machine.len == 0) request.machine = STR("m-1");
    CHECK_OK("asked", provider_call(provider, &request, on_done, a));
    CHECK_U64("not from inside", a->count, 0);
}

static void call_and_wait(struct answered *a, struct provider_request request)
{
    *a = (struct answered){0};
    call(a, request);
    CHECK("ends", world_wait(&world, is_answered, a));
    CHECK_U64("once", a->count, 1);
}

/* --- opening --- */

TEST(without_address_shard_or_epoch_there_is_no_client)
{
    static const struct {
        const char *why, *address, *shard_id;
        int64_t epoch;
        const char *says;
    } cases[] = {
        {"no address", NULL, "s", 1, "address"},       {"an empty one", "", "s", 1, "address"},
        {"one that is none", "here", "s", 1, "here"},  {"no shard", "h:1", NULL, 1, "shard id"},
        {"an empty shard", "h:1", "", 1, "shard id"},  {"no epoch", "h:1", "s", 0, "epoch"},
        {"a negative epoch", "h:1", "s", -1, "epoch"},
    };

    world_open(&world, 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct provider_options options = {.io = sim_host_io(world.client),
                                           .address = cases[i].address,
                                           .shard_id = cases[i].shard_id,
                                           .epoch = cases[i].epoch};
        struct note note = {""};
        CHECK_ERR(cases[i].why, provider_open(&options, &provider, &note), ERR_INVALID);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
    }
    world_close(&world);
}

/* --- requests --- */

static const ProtobufCMessage *request_of(size_t index, const ProtobufCMessageDescriptor *type,
                                          struct arena *arena)
{
    const struct scripted_request *r = &world.servers[0].requests[index];
    ProtobufCMessage *message = NULL;

    CHECK("it came", world.servers[0].count > index && r->body.len >= GRPC_FRAME_BYTES);
    CHECK_OK("and is one", message_read(type, str_tail(buf_peek(&r->body), GRPC_FRAME_BYTES), NULL,
                                        arena, &message, NULL));
    return message;
}

TEST(each_call_has_its_fields_and_its_own_token)
{
    static const struct label metadata[] = {{{"g", 1}, {"rack\0gang", 9}}, {{"e", 1}, {"", 0}}};
    const Bigfleet__V1alpha1__CreateRequest *create;
    const Bigfleet__V1alpha1__ConfigureRequest *configure;
    const Bigfleet__V1alpha1__DrainRequest *drain;
    const Bigfleet__V1alpha1__DeleteRequest *delete;
    const Bigfleet__V1alpha1__MachineRef *get;
    struct scripted *s = &world.servers[0];
    struct arena arena;

    arena_init(&arena, 1 << 20);
    open_with(scripted_echo, (struct provider_options){0});
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CREATE});
    CHECK_U64("done", heard.end, PROVIDER_DONE);
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CONFIGURE,
                                                    .cluster = STR("prod"),
                                                    .blob = STR("\0blob\xff"),
                                                    .metadata = metadata,
                                                    .metadata_count = 2,
                                                    .timeout_ms = 5000});
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_DRAIN, .grace_seconds = 90});
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_DELETE});
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_GET});
    CHECK_STR("bytes as they came", str_of(heard.bytes, heard.len), STR("\x0a\x03m-1"));

    CHECK_HAS("path", scripted_header(&s->requests[0], ":path"), "CapacityProvider/Create");
    CHECK_TEXT("30 s", scripted_header(&s->requests[0], "grpc-timeout"), "30000000u");
    create = (const void *)request_of(0, &bigfleet__v1alpha1__create_request__descriptor, &arena);
    CHECK_TEXT("machine", create->machine_id, "m-1");
    CHECK_TEXT("shard", create->shard_id, "shard-a");
    CHECK_I64("epoch", create->shard_epoch, 7);
    CHECK_I64("the first number is 1", create->sequence_number, 1);

    CHECK_TEXT("5 s", scripted_header(&s->requests[1], "grpc-timeout"), "5000000u");
    configure =
        (const void *)request_of(1, &bigfleet__v1alpha1__configure_request__descriptor, &arena);
    CHECK_TEXT("cluster", configure->cluster_id, "prod");
    CHECK_STR("blob", str_of(configure->bootstrap_blob.data, configure->bootstrap_blob.len),
              STR("\0blob\xff"));
    CHECK_SIZE("metadata", configure->n_shard_metadata, 2);
    CHECK_STR(
        "with its NUL",
        str_of(configure->shard_metadata[0]->value.data, configure->shard_metadata[0]->value.len),
        STR("rack\0gang"));
    CHECK_I64("epoch", configure->shard_epoch, 7);
    CHECK_I64("the next number", configure->sequence_number, 2);

    drain = (const void *)request_of(2, &bigfleet__v1alpha1__drain_request__descriptor, &arena);
    CHECK_I64("grace", drain->grace_period_seconds, 90);
    CHECK_TEXT("shard", drain->shard_id, "shard-a");
    CHECK_I64("epoch", drain->shard_epoch, 7);
    CHECK_I64("number", drain->sequence_number, 3);
    delete = (const void *)request_of(3, &bigfleet__v1alpha1__delete_request__descriptor, &arena);
    CHECK_TEXT("machine", delete->machine_id, "m-1");
    CHECK_TEXT("shard", delete->shard_id, "shard-a");
    CHECK_I64("epoch", delete->shard_epoch, 7);
    CHECK_I64("number", delete->sequence_number, 4);
    get = (const void *)request_of(4, &bigfleet__v1alpha1__machine_ref__descriptor, &arena);
    CHECK_TEXT("a Get", get->id, "m-1");
    CHECK_I64("takes no number", provider_stats(provider).sequence, 4);
    CHECK_ERR("a call of no machine",
              provider_call(provider, &(struct provider_request){0}, on_done, &heard), ERR_INVALID);
    close_all();
    arena_deinit(&arena);
}

TEST(a_provider_test_brings_a_token_and_may_name_no_machine)
{
    const struct provider_token token = {STR("nobody"), 3, 99}, none = {.shard = STR_EMPTY};
    const Bigfleet__V1alpha1__DeleteRequest *first, *second;
    struct arena arena;

    arena_init(&arena, 1 << 16);
    open_with(scripted_echo, (struct provider_options){0});
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_DELETE, .token = &token});
    heard = (struct answered){0};
    const struct provider_request nameless = {.verb = PROVIDER_DELETE, .token = &none};
    CHECK_OK("asked", provider_call(provider, &nameless, on_done, &heard));
    CHECK("ends", world_wait(&world, is_answered, &heard));
    first = (const void *)request_of(0, &bigfleet__v1alpha1__delete_request__descriptor, &arena);
    CHECK_TEXT("machine", first->machine_id, "m-1");
    CHECK_TEXT("shard", first->shard_id, "nobody");
    CHECK_I64("epoch", first->shard_epoch, 3);
    CHECK_I64("number", first->sequence_number, 99);
    second = (const void *)request_of(1, &bigfleet__v1alpha1__delete_request__descriptor, &arena);
    CHECK_TEXT("no machine", second->machine_id, "");
    CHECK_TEXT("no shard", second->shard_id, "");
    CHECK_I64("no number", second->sequence_number, 0);
    CHECK_I64("none of ours was used", provider_stats(provider).sequence, 0);
    close_all();
    arena_deinit(&arena);
}

/* --- how it ends --- */

static char status_text[4];
static void say_status(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, status_text, "because");
}

TEST(the_provider_s_answer_decides_the_result_of_a_call)
{
    static const struct {
        enum grpc_status status;
        enum provider_end mutating, get;
    } cases[] = {
        {GRPC_CANCELLED, PROVIDER_UNKNOWN, PROVIDER_UNKNOWN},
        {GRPC_UNKNOWN, PROVIDER_UNKNOWN, PROVIDER_UNKNOWN},
        {GRPC_INVALID_ARGUMENT, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_DEADLINE_EXCEEDED, PROVIDER_UNKNOWN, PROVIDER_UNKNOWN},
        {GRPC_NOT_FOUND, PROVIDER_NOT_FOUND, PROVIDER_NOT_FOUND},
        {GRPC_ALREADY_EXISTS, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_PERMISSION_DENIED, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_RESOURCE_EXHAUSTED, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_FAILED_PRECONDITION, PROVIDER_FENCED, PROVIDER_REFUSED},
        {GRPC_ABORTED, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_OUT_OF_RANGE, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_UNIMPLEMENTED, PROVIDER_NOT_SUPPORTED, PROVIDER_NOT_SUPPORTED},
        {GRPC_INTERNAL, PROVIDER_REFUSED, PROVIDER_REFUSED},
        {GRPC_UNAVAILABLE, PROVIDER_UNKNOWN, PROVIDER_UNKNOWN},
        {GRPC_DATA_LOSS, PROVIDER_UNKNOWN, PROVIDER_UNKNOWN},
        {GRPC_UNAUTHENTICATED, PROVIDER_REFUSED, PROVIDER_REFUSED},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_with(say_status, (struct provider_options){0});
        snprintf(status_text, sizeof status_text, "%u", (unsigned)cases[i].status);
        call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_DRAIN});
        CHECK_U64(status_text, heard.end, cases[i].mutating);
        CHECK_U64("its status", heard.status, cases[i].status);
        CHECK_TEXT("its message", heard.text, "because");
        CHECK_SIZE("no bytes", heard.len, 0);
        CHECK_U64("a mutating call is asked once, a fence that names no epoch again",
                  world.servers[0].count, cases[i].status == GRPC_FAILED_PRECONDITION ? 2 : 1);
        call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_GET});
        CHECK_U64(status_text, heard.end, cases[i].get);
        close_all();
    }
}

static void http_404(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("404")}};
    (void)s;
    scripted_respond_with(r, headers, 1, true);
}
static void http_503(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("503")}};
    (void)s;
    scripted_respond_with(r, headers, 1, true);
}
static void reset_it(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_reset(r, H2_INTERNAL_ERROR);
}
static void ok_without_message(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, "0", NULL);
}
static void ok_with(struct scripted_request *r, struct str bytes)
{
    scripted_respond(r);
    scripted_bytes(r, bytes);
    scripted_trailers(r, "0", NULL);
}
static void ok_too_large(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    ok_with(r, STR("\0\x7f\xff\xff\xff the rest would follow"));
}
static void ok_unreadable(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    ok_with(r, STR("\xff\xff\0\0\0\0"));
}
static void ok_cut(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    ok_with(r, STR("\0\0\0\0\x09"
                   "half"));
}
static void ok_twice(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    ok_with(r, STR("\0\0\0\0\0"
                   "\0\0\0\0\0"));
}
static void refuse_first(struct scripted *s, struct scripted_request *r)
{
    if (s->count <= 2)
        scripted_reset(r, H2_REFUSED_STREAM);
    else
        scripted_echo(s, r);
}
static void refuse_all(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_reset(r, H2_REFUSED_STREAM);
}

TEST(a_sent_call_without_an_answer_is_unknown_and_not_sent_again)
{
    static const struct {
        const char *why;
        scripted_fn *script;
        enum provider_end end;
        size_t asked;
    } cases[] = {
        {"a deadline", silent, PROVIDER_UNKNOWN, 1},
        {"a reset", reset_it, PROVIDER_UNKNOWN, 1},
        {"OK without an ack", ok_without_message, PROVIDER_UNKNOWN, 1},
        {"an ack larger than any", ok_too_large, PROVIDER_UNKNOWN, 1},
        {"an ack that is no frame", ok_unreadable, PROVIDER_UNKNOWN, 1},
        {"an ack that is cut", ok_cut, PROVIDER_UNKNOWN, 1},
        {"two acks", ok_twice, PROVIDER_UNKNOWN, 1},
        {"a proxy without its server", http_503, PROVIDER_UNKNOWN, 1},
        {"a proxy that knows no such path", http_404, PROVIDER_REFUSED, 1},
        {"refused unseen, then taken", refuse_first, PROVIDER_DONE, 3},
        {"refused unseen for ever", refuse_all, PROVIDER_UNSENT, PROVIDER_ATTEMPTS_MAX},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena arena;
        open_with(cases[i].script, (struct provider_options){0});
        arena_init(&arena, 1 << 16);
        call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CREATE});
        CHECK_U64(cases[i].why, heard.end, cases[i].end);
        CHECK_SIZE(cases[i].why, world.servers[0].count, cases[i].asked);
        for (size_t k = 0; k < cases[i].asked; k++) {
            const Bigfleet__V1alpha1__CreateRequest *create = (const void *)request_of(
                k, &bigfleet__v1alpha1__create_request__descriptor, &arena);
            CHECK_I64("each attempt has a number of its own", create->sequence_number,
                      (int64_t)k + 1);
            CHECK_SIZE("and no other", world.servers[0].requests[k].body.len,
                       world.servers[0].requests[0].body.len);
        }
        close_all();
        arena_deinit(&arena);
    }
}

static const char *fence_text;
static size_t fence_times;
static const char *fence_then;

static void fence_first(struct scripted *s, struct scripted_request *r)
{
    if (s->count <= fence_times)
        scripted_only(r, "9", fence_text);
    else if (fence_then)
        scripted_only(r, fence_then, "no");
    else
        scripted_echo(s, r);
}

/* A proxy that sends a call twice gets a refusal for the copy. */
TEST(a_fence_is_believed_when_it_names_a_newer_epoch_or_is_said_twice)
{
    static const char none[] = "go away", own[] = "token (7, 1) is not newer than (7, 1): shard a",
                      newer[] = "token (7, 1) is not newer than (8, *), the newest epoch";
    static const struct {
        const char *why, *text;
        size_t times;
        const char *then; /* a status; NULL: OK */
        size_t blob;
        enum provider_end end;
        size_t asked;
    } cases[] = {
        {"no epoch, once", none, 1, NULL, 0, PROVIDER_DONE, 2},
        {"no epoch, twice", none, 2, NULL, 0, PROVIDER_FENCED, 2},
        {"its own epoch, once", own, 1, NULL, 0, PROVIDER_DONE, 2},
        {"its own epoch, twice", own, 2, NULL, 0, PROVIDER_FENCED, 2},
        {"a newer epoch", newer, 1, NULL, 0, PROVIDER_FENCED, 1},
        {"the first copy may have been carried out", none, 1, "13", 0, PROVIDER_UNKNOWN, 2},
        {"a blob is kept", none, 1, NULL, 10000, PROVIDER_DONE, 2},
        {"a blob that is too large is not", none, 1, NULL, 50000, PROVIDER_UNKNOWN, 1},
    };
    static char blob[50000];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const Bigfleet__V1alpha1__ConfigureRequest *first, *second;
        struct arena arena;

        memset(blob, 'x', sizeof blob);
        fence_text = cases[i].text;
        fence_times = cases[i].times;
        fence_then = cases[i].then;
        open_with(fence_first, (struct provider_options){.kept_max = 40000});
        call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CONFIGURE,
                                                        .blob = str_of(blob, cases[i].blob)});
        CHECK_U64(cases[i].why, heard.end, cases[i].end);
        CHECK_SIZE(cases[i].why, world.servers[0].count, cases[i].asked);
        CHECK_U64("nothing runs", provider_stats(provider).running, 0);
        arena_init(&arena, 1 << 20);
        if (cases[i].asked == 2) {
            first = (const void *)request_of(0, &bigfleet__v1alpha1__configure_request__descriptor,
                                             &arena);
            second = (const void *)request_of(1, &bigfleet__v1alpha1__configure_request__descriptor,
                                              &arena);
            CHECK_I64("a number of its own", second->sequence_number, first->sequence_number + 1);
            CHECK_SIZE("the same otherwise", second->bootstrap_blob.len, cases[i].blob);
        }
        arena_deinit(&arena);
        close_all();
    }
}

TEST(a_large_request_is_not_kept_to_be_sent_again)
{
    static char blob[10000];

    open_with(refuse_first, (struct provider_options){.kept_max = sizeof blob});
    memset(blob, 'x', sizeof blob);
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CONFIGURE,
                                                    .blob = str_of(blob, sizeof blob)});
    CHECK_U64("nothing was done, the shard repeats the call", heard.end, PROVIDER_UNSENT);
    CHECK_SIZE("asked once", world.servers[0].count, 1);
    close_all();
}

TEST(without_a_provider_calls_end_as_unsent)
{
    open_with(silent, (struct provider_options){0});
    scripted_close(&world.servers[0]);
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CREATE});
    CHECK_U64("nothing left", heard.end, PROVIDER_UNSENT);
    CHECK("the reason", heard.text[0] != '\0');
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_GET});
    CHECK_U64("nor a Get", heard.end, PROVIDER_UNSENT);
    CHECK_U64("nothing runs", provider_stats(provider).running, 0);
    close_all();
}

TEST(a_connection_that_breaks_leaves_its_calls_unknown)
{
    open_with(silent, (struct provider_options){0});
    for (int i = 0; i < 10; i++) call(&many[i], (struct provider_request){.verb = PROVIDER_CREATE});
    world_run(&world, 1000);
    CHECK_U64("all run", provider_stats(provider).running, 10);
    stream_close(world.servers[0].peers[0].stream); /* whichever is the calls' */
    stream_close(world.servers[0].peers[1].stream);
    for (int i = 0; i < 10; i++) {
        CHECK("ends", world_wait(&world, is_answered, &many[i]));
        CHECK_U64("nobody knows", many[i].end, PROVIDER_UNKNOWN);
    }
    world.servers[0].on_request = scripted_echo;
    call_and_wait(&heard, (struct provider_request){.verb = PROVIDER_CREATE});
    CHECK_U64("a new one goes to a new connection", heard.end, PROVIDER_DONE);
    close_all();
}

/* --- many at once --- */

TEST(a_provider_with_few_calls_per_connection_gets_several_connections_and_the_rest_waits)
{
    struct scripted *s = &world.servers[0];
    unsigned ended = 0;

    open_with(silent, (struct provider_options){.connections_max = 3});
    s->streams_max = 4;
    for (int i = 0; i < 40; i++)
        call(&many[i], (struct provider_request){.verb = PROVIDER_CREATE, .timeout_ms = 10 * 1000});
    world_run(&world, 5000);
    CHECK_U64("three connections", provider_stats(provider).connections, 3);
    CHECK_U64("all full", provider_stats(provider).running, 12);
    CHECK_U64("the rest waits", provider_stats(provider).waiting, 28);
    CHECK_SIZE("here, not there", s->count, 12);
    world_run(&world, 10000);
    for (int i = 0; i < 40; i++) ended += many[i].count;
    CHECK_U64("the first dozen ran out of time, and no other", ended, 12);
    s->on_request = scripted_echo;
    for (size_t i = 12; i < s->count; i++) {
        scripted_echo(s, &s->requests[i]);
        scripted_flush(s->requests[i].peer);
    }
    world_run(&world, 5000);
    for (int i = 0; i < 40; i++) {
        CHECK_U64("each ended once", many[i].count, 1);
        CHECK_U64("in order, each with its whole time", many[i].end,
                  i < 12 ? PROVIDER_UNKNOWN : PROVIDER_DONE);
    }
    CHECK_U64("nothing waits", provider_stats(provider).waiting, 0);
    close_all();
}

TEST(a_held_client_sends_no_mutating_call_any_more)
{
    struct scripted *s = &world.servers[0];

    open_with(silent, (struct provider_options){.connections_max = 1});
    s->streams_max = 2;
    for (int i = 0; i < 6; i++)
        call(&many[i], (struct provider_request){.verb = i == 5 ? PROVIDER_GET : PROVIDER_CREATE});
    world_run(&world, 100);
    CHECK_SIZE("two are sent", s->count, 2);
    provider_stop_mutating(provider, "not now");
    call(&many[6], (struct provider_request){.verb = PROVIDER_DELETE});
    world_run(&world, 100);
    for (int i = 2; i < 7; i++) {
        if (i == 5) continue;
        CHECK_U64("each ended once", many[i].count, 1);
        CHECK_U64("as unsent", many[i].end, PROVIDER_UNSENT);
    }
    CHECK_SIZE("nothing more is sent", s->count, 2);
    s->on_request = scripted_echo;
    for (size_t i = 0; i < 2; i++) {
        scripted_echo(s, &s->requests[i]);
        scripted_flush(s->requests[i].peer);
    }
    world_run(&world, 100);
    CHECK_U64("sent calls end with their answer", many[0].end, PROVIDER_DONE);
    CHECK_U64("and so does a Get", many[5].end, PROVIDER_DONE);
    CHECK_SIZE("that alone was sent after the hold", s->count, 3);
    close_all();
}

TEST(a_refusal_names_the_epoch)
{
    static const struct {
        const char *text;
        bool named;
        int64_t epoch;
    } cases[] = {
        {"token (1, 2) is not newer than (9, 9): shard s1 on machine a", true, 9},
        {"token (1, 2) is not newer than (41, *), the newest epoch of shard s1 (machine a)", true,
         41},
        {"shard s1 on a: token (1, 2) is not newer than (9, 9)", true, 9},
        {"token (-3, 2) is not newer than (-2, 9): x", true, -2},
        {"fenced", false, 0},
        {"", false, 0},
        {"(1, 2) is not newer than (", false, 0},
        {"(1, 2) is not newer than (many, 3)", false, 0},
        {"(1, 2) is not newer than (99999999999999999999, 3)", false, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t epoch = 0;

        CHECK(cases[i].text,
              provider_fence_epoch(str_from(cases[i].text), &epoch) == cases[i].named);
        if (cases[i].named) CHECK_I64(cases[i].text, epoch, cases[i].epoch);
    }
}

TEST(a_call_that_waited_too_long_is_not_sent)
{
    open_with(silent, (struct provider_options){.connections_max = 1});
    world.servers[0].streams_max = 1;
    for (int i = 0; i < 4; i++)
        call(&many[i], (struct provider_request){.verb = PROVIDER_DRAIN, .timeout_ms = 20 * 1000});
    world_run(&world, 120 * 1000);
    for (int i = 0; i < 4; i++) {
        CHECK_U64("each ended once", many[i].count, 1);
        CHECK_U64("two had their turn", many[i].end, i < 2 ? PROVIDER_UNKNOWN : PROVIDER_UNSENT);
    }
    CHECK_SIZE("the others never reached the provider", world.servers[0].count, 2);
    CHECK_U64("nothing waits", provider_stats(provider).waiting, 0);
    close_all();
}

TEST(a_call_without_room_ends_at_its_deadline)
{
    open_with(silent, (struct provider_options){.connections_max = 1});
    world.servers[0].streams_max = 1;
    call(&many[0], (struct provider_request){.verb = PROVIDER_CREATE, .timeout_ms = 600 * 1000});
    for (int i = 1; i < 3; i++) call(&many[i], (struct provider_request){.verb = PROVIDER_CREATE});
    world_run(&world, 70 * 1000);
    CHECK_U64("the first runs", many[0].count, 0);
    for (int i = 1; i < 3; i++) {
        CHECK_U64("those behind it do not wait for it", many[i].count, 1);
        CHECK_U64("and are known not to be sent", many[i].end, PROVIDER_UNSENT);
    }
    close_all();
}

static void answer_gets(struct scripted *s, struct scripted_request *r)
{
    if (strstr(scripted_header(r, ":path"), "Get")) scripted_echo(s, r);
}

TEST(a_connection_that_is_silent_for_a_whole_call_is_replaced)
{
    static const struct {
        const char *why;
        scripted_fn *script;
        size_t connections;
    } cases[] = {
        {"silence: new calls get another one", silent, 3},
        {"slow, but something was answered meanwhile", answer_gets, 2},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_with(cases[i].script, (struct provider_options){.list_timeout_ms = 1000 * 1000});
        call(&many[0], (struct provider_request){.verb = PROVIDER_CREATE, .timeout_ms = 5000});
        call(&many[1], (struct provider_request){.verb = PROVIDER_CREATE, .timeout_ms = 5000});
        world_run(&world, 1000);
        call(&heard, (struct provider_request){.verb = PROVIDER_GET});
        world_run(&world, 9000);
        CHECK_U64("the time of both is up", many[0].count + many[1].count, 2);
        CHECK_SIZE(cases[i].why, world.servers[0].accepted, cases[i].connections);
        world.servers[0].on_request = scripted_echo;
        call_and_wait(&many[2], (struct provider_request){.verb = PROVIDER_CREATE});
        CHECK_U64("and the next is done", many[2].end, PROVIDER_DONE);
        close_all();
    }
}

/* A provider that does not read: the bytes on one connection are bounded, too. */
TEST(large_requests_wait_for_their_turn_and_are_counted)
{
    enum { LARGE = 12 << 20 };
    char *blob = calloc(1, LARGE);
    struct provider_request request = {
        .verb = PROVIDER_CONFIGURE, .cluster = STR("c"), .blob = str_of(blob, LARGE)};

    CHECK("memory", blob != NULL);
    open_with(silent, (struct provider_options){.connections_max = 1});
    for (int i = 0; i < 5; i++) call(&many[i], request);
    world_run(&world, 2000);
    CHECK_U64("36 MiB", provider_stats(provider).running, 3);
    CHECK_U64("the others wait", provider_stats(provider).waiting, 2);
    CHECK("and their bytes are known", provider_stats(provider).waiting_bytes > 2 * (size_t)LARGE);
    world_run(&world, 61 * 1000);
    CHECK_U64("nothing waits for ever", provider_stats(provider).waiting, 0);
    CHECK_SIZE("nor does it count", provider_stats(provider).waiting_bytes, 0);
    close_all();
    free(blob);
}

TEST(past_the_bound_a_call_is_refused_at_once)
{
    open_with(silent, (struct provider_options){.calls_max = 5});
    for (int i = 0; i < 5; i++) call(&many[i], (struct provider_request){.verb = PROVIDER_CREATE});
    CHECK_ERR("one more",
              provider_call(provider,
                            &(struct provider_request){.verb = PROVIDER_GET, .machine = STR("m")},
                            on_done, &heard),
              ERR_FULL);
    close_all();
    for (int i = 0; i < 5; i++) CHECK_U64("the end of each was reported", many[i].count, 1);
}

TEST(closing_separates_sent_from_unsent)
{
    open_with(silent, (struct provider_options){.connections_max = 1});
    world.servers[0].streams_max = 2;
    for (int i = 0; i < 5; i++) call(&many[i], (struct provider_request){.verb = PROVIDER_CREATE});
    world_run(&world, 2000);
    close_all();
    for (int i = 0; i < 5; i++) {
        CHECK_U64("reported once", many[i].count, 1);
        CHECK_U64("rightly", many[i].end, i < 2 ? PROVIDER_UNKNOWN : PROVIDER_UNSENT);
    }
}

/* --- List --- */

enum { LIST_MAX = 1 << 20, CHUNKS_KEPT = 64 };
struct received {
    struct provider_fetch *fetch;
    struct buf bytes;
    struct provider_chunk *held[CHUNKS_KEPT];
    unsigned chunks, held_count, ends;
    bool hold; /* keeps chunks until the test returns them */
    struct answered end;
};
static struct received got;

static void on_chunk(void *context, struct provider_chunk *chunk)
{
    struct received *r = context;

    CHECK_U64("no chunk after the end", r->ends, 0);
    r->chunks++;
    CHECK_OK("room", buf_append(&r->bytes, chunk->bytes));
    if (r->hold)
        r->held[r->held_count++] = chunk;
    else
        provider_chunk_done(chunk);
}

static void on_list_end(void *context, const struct provider_answer *answer)
{
    struct received *r = context;

    r->ends++;
    on_done(&r->end, answer);
}

static bool is_over(void *context)
{
    return ((struct received *)context)->ends > 0;
}

static void fetch(struct provider_fetch_request request, bool hold)
{
    static const struct provider_fetch_events events = {on_chunk, on_list_end};

    buf_deinit(&got.bytes);
    got = (struct received){.hold = hold};
    buf_init(&got.bytes, 4 * LIST_MAX);
    CHECK_OK("asked", provider_fetch_start(provider, &request, &events, &got, &got.fetch));
}

static char list[LIST_MAX];
static void send_some(struct scripted_request *r, size_t *at, size_t until)
{
    for (int idle = 0; *at < until && idle < 20;) {
        size_t n = min_size(until - *at, h2_send_room(r->peer->h2, r->stream));
        if (n > 0) scripted_bytes(r, str_of(list + *at, n));
        idle = n > 0 ? 0 : idle + 1;
        *at += n;
        scripted_flush(r->peer);
        world_run(&world, 10);
    }
}

static void begin_list(struct scripted_request *r, uint32_t len)
{
    char head[GRPC_FRAME_BYTES];

    for (size_t i = 0; i < LIST_MAX; i++) list[i] = (char)(i * 7 >> 3);
    world_run(&world, 1000);
    grpc_frame_write(len, false, head);
    scripted_respond(r);
    scripted_bytes(r, str_of(head, sizeof head));
}

TEST(a_list_comes_in_chunks_and_waits_for_its_reader)
{
    struct scripted_request *r = &world.servers[0].requests[0];
    static const uint32_t states[] = {0, MACHINE_IDLE, 77};
    const Bigfleet__V1alpha1__ListFilter *filter;
    struct arena arena;
    size_t at = 0;

    arena_init(&arena, 1 << 16);
    open_with(silent, (struct provider_options){0});
    fetch((struct provider_fetch_request){.cursor = STR("rev\0 1"),
                                          .page_size = 500,
                                          .page_token = STR("p"),
                                          .states = states,
                                          .state_count = ARRAY_LEN(states),
                                          .max_results = 9,
                                          .chunk_bytes = 50000,
                                          .chunks_max = 3},
          true);
    begin_list(r, LIST_MAX);
    CHECK_HAS("2 min, about", scripted_header(r, "grpc-timeout"), "11999");
    filter = (const void *)request_of(0, &bigfleet__v1alpha1__list_filter__descriptor, &arena);
    CHECK_SIZE("cursor", filter->since_revision.len, 6);
    CHECK_I64("page size", filter->page_size, 500);
    CHECK_SIZE("page token", filter->page_token.len, 1);
    CHECK_SIZE("states", filter->n_states, ARRAY_LEN(states));
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        CHECK_I64("any number", filter->states[i], states[i]);
    CHECK_I64("at most", filter->max_results, 9);
    send_some(r, &at, LIST_MAX);
    CHECK_U64("three are out", got.chunks, 3);
    CHECK("and the provider waits", at < LIST_MAX);
    while (got.held_count > 0 && at < LIST_MAX) {
        unsigned before = got.chunks;
        provider_chunk_done(got.held[--got.held_count]);
        send_some(r, &at, LIST_MAX);
        CHECK("never more than it may", got.chunks - before <= 1 && got.held_count <= 3);
    }
    scripted_trailers(r, "0", NULL);
    scripted_flush(r->peer);
    got.hold = false;
    while (got.held_count > 0) provider_chunk_done(got.held[--got.held_count]);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("well", got.end.end, PROVIDER_DONE);
    CHECK_STR("all of it", buf_peek(&got.bytes), str_of(list, LIST_MAX));
    close_all();
    buf_deinit(&got.bytes);
    arena_deinit(&arena);
}

TEST(a_list_that_is_cut_is_not_done_and_its_chunks_outlive_it)
{
    static const struct {
        const char *why;
        enum { CUT, LIE, TWICE, STATUS, CANCEL } how;
        enum provider_end end;
    } cases[] = {
        {"the provider dies in the middle", CUT, PROVIDER_UNKNOWN},
        {"OK in the middle", LIE, PROVIDER_UNKNOWN},
        {"two lists", TWICE, PROVIDER_UNKNOWN},
        {"a status in the middle", STATUS, PROVIDER_REFUSED},
        {"we have had enough", CANCEL, PROVIDER_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scripted_request *r = &world.servers[0].requests[0];
        size_t at = 0;
        open_with(silent, (struct provider_options){0});
        fetch((struct provider_fetch_request){.chunk_bytes = 1000}, true);
        begin_list(r, cases[i].how == TWICE ? 3000 : 5000);
        send_some(r, &at, 3000);
        if (cases[i].how == CUT) stream_close(r->peer->stream);
        if (cases[i].how == LIE) scripted_trailers(r, "0", NULL);
        if (cases[i].how == TWICE) {
            scripted_message(r, STR("again"));
            scripted_trailers(r, "0", NULL);
        }
        if (cases[i].how == STATUS) scripted_trailers(r, "13", "broke");
        if (cases[i].how == CANCEL) provider_fetch_cancel(got.fetch);
        if (cases[i].how != CUT) scripted_flush(r->peer);
        CHECK("ends", world_wait(&world, is_over, &got));
        CHECK_U64(cases[i].why, got.end.end, cases[i].end);
        CHECK_U64("once", got.ends, 1);
        CHECK_SIZE("the received part was passed on", got.bytes.len, 3000);
        CHECK_SIZE("and asked for once", world.servers[0].count, 1);
        close_all(); /* chunks are still out */
        while (got.held_count > 0) provider_chunk_done(got.held[--got.held_count]);
        buf_deinit(&got.bytes);
    }
}

TEST(a_list_that_is_refused_or_empty_says_so)
{
    open_with(say_status, (struct provider_options){0});
    snprintf(status_text, sizeof status_text, "%d", GRPC_PERMISSION_DENIED);
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("refused", got.end.end, PROVIDER_REFUSED);
    CHECK_TEXT("why", got.end.text, "because");
    world.servers[0].on_request = ok_without_message;
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("no message is no list", got.end.end, PROVIDER_UNKNOWN);
    world.servers[0].on_request = scripted_echo; /* the echo of an empty request is an empty list */
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("an empty list is one", got.end.end, PROVIDER_DONE);
    CHECK_U64("without chunks", got.chunks, 0);
    close_all();
    buf_deinit(&got.bytes);
}

static void announce_much(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\0\0\1\0\0x", 6));
}

TEST(a_list_over_its_limit_is_dropped_before_it_arrives)
{
    open_with(announce_much, (struct provider_options){.list_max = 65535});
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("not done", got.end.end, PROVIDER_UNKNOWN);
    CHECK_U64("because", got.end.status, GRPC_RESOURCE_EXHAUSTED);
    CHECK_SIZE("nothing of it was handed on", got.bytes.len, 0);
    close_all();
    buf_deinit(&got.bytes);
}

TEST(a_list_of_which_nothing_came_is_asked_for_elsewhere_the_next_time)
{
    open_with(silent, (struct provider_options){.list_timeout_ms = 3000});
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("not known", got.end.end, PROVIDER_UNKNOWN);
    world_run(&world, 1000);
    CHECK_SIZE("another connection", world.servers[0].accepted, 3);
    world.servers[0].on_request = announce_much;
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("not known", got.end.end, PROVIDER_UNKNOWN);
    world_run(&world, 1000);
    CHECK_SIZE("something had come: it is kept", world.servers[0].accepted, 3);
    world.servers[0].on_request = scripted_echo;
    fetch((struct provider_fetch_request){0}, false);
    CHECK("ends", world_wait(&world, is_over, &got));
    CHECK_U64("done", got.end.end, PROVIDER_DONE);
    close_all();
    buf_deinit(&got.bytes);
}
