/* SPDX-License-Identifier: Apache-2.0 */
/* A service of one method over scripted replica calls. */
#include "leader/leader.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "rpc/forward.h"
#include "sim/sim.h"

enum { WAIT_MS = 1000, REQUESTS_MAX = 2 };

/* -- the replica -- */

static struct replica_status reported; /* the replica's status */
static struct read_ticket *reading;
static struct proposal *proposed;
static int cancelled, abandoned;

struct replica_status replica_status(const struct replica *replica)
{
    (void)replica;
    return reported;
}

void replica_read(struct replica *replica, struct read_ticket *ticket)
{
    (void)replica;
    reading = ticket;
}

void replica_read_cancel(struct replica *replica, struct read_ticket *ticket)
{
    (void)replica;
    CHECK("it reads", reading == ticket);
    reading = NULL;
    cancelled++;
}

void replica_propose(struct replica *replica, struct proposal *const *proposals, size_t count)
{
    (void)replica;
    CHECK_SIZE("one", count, 1);
    proposed = proposals[0];
}

static void applied(enum err err)
{
    struct proposal *one = proposed;

    proposed = NULL;
    one->done(one, err, STR("reply"));
}

void replica_abandon(struct replica *replica, struct proposal *proposal)
{
    (void)replica;
    CHECK("it is on its way", proposed == proposal);
    abandoned++;
    applied(ERR_UNKNOWN);
}

/* -- calls -- */

struct rpc_call {
    void *data;
    bool ended, applied_no, elsewhere;
    enum grpc_status status;
    char text[128], marks[64];
};
static const struct rpc_handler *handler;
static void *binding;
const struct rpc_handler rpc_forward_handler; /* this service has no gates */

enum err rpc_server_add(struct rpc_server *server, const struct rpc_method *method,
                        struct note *note)
{
    (void)server, (void)note;
    handler = method->handler;
    binding = method->service;
    return ERR_OK;
}

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
    return call->data;
}

void rpc_call_mark(struct rpc_call *call, const char *stage)
{
    size_t len = strlen(call->marks);

    snprintf(call->marks + len, sizeof call->marks - len, "%s ", stage);
}

enum err rpc_add_trailer(struct rpc_call *call, struct str name, struct str value)
{
    CHECK_STR("the one trailer", name, STR(RPC_APPLIED_TRAILER));
    CHECK_STR("which refuses", value, STR("no"));
    call->applied_no = true;
    return ERR_OK;
}

void rpc_finish(struct rpc_call *call, enum grpc_status status, struct str text, struct str details)
{
    (void)details;
    CHECK("once", !call->ended);
    call->ended = true;
    call->status = status;
    snprintf(call->text, sizeof call->text, "%.*s", STR_ARG(text));
}

void rpc_reply_bytes(struct rpc_call *call, struct str message)
{
    rpc_finish(call, GRPC_OK, message, STR_EMPTY);
}

void rpc_fail(struct rpc_call *call, enum err err, const struct note *note)
{
    (void)note;
    rpc_finish(call, err_grpc_status(err), STR_EMPTY, STR_EMPTY);
}

void rpc_fail_not_leader(struct rpc_call *call, const char *leader)
{
    rpc_finish(call, GRPC_FAILED_PRECONDITION, str_from(leader), STR_EMPTY);
    call->elsewhere = true;
}

/* -- the service -- */

enum way { READS, WRITES, KEEPS, ACTS };
struct mine {
    struct leader_request base;
    int number;
};
static struct sim *sim;
static struct leader leader;
static struct list kept;
static enum way way;
static int begun, gone, drained, freed, written;

static bool admit(struct leader_request *request)
{
    if (leader_here(request->leader)) return true;
    request_redirect(request);
    return false;
}

static void begin(struct leader_request *request)
{
    begun++;
    CHECK_I64("its own memory is there", CONTAINER_OF(request, struct mine, base)->number, 0);
    if (way == READS)
        request_read(request);
    else if (way == WRITES)
        request_propose(request, &(struct proposal){.machine = 7, .command = STR("do")});
    else if (way == KEEPS)
        request_keep(request, &kept);
    if (way != ACTS) return;
    request->acted = true;
    request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "half of it");
}

static void on_read(struct leader_request *request)
{
    request_reply(request, STR("rows"));
}

static void on_written(struct leader_request *request, enum err err, struct str reply)
{
    written++;
    if (!request_is_awaited(request))
        request_free(request);
    else if (err)
        request_log_failed(request, err);
    else
        request_reply(request, reply);
}

static void on_gone(struct leader_request *request)
{
    gone++;
    request_free(request);
}

static void on_drain(struct leader_request *request)
{
    drained++;
    request_fail(request, GRPC_UNAVAILABLE, "stops");
}

static void on_freed(struct leader_request *request)
{
    (void)request;
    freed++;
}

static const char *address(void *owner)
{
    return owner;
}

static void report(enum replica_role role, uint64_t term, bool ready)
{
    reported = (struct replica_status){.role = role, .term = term, .ready = ready};
    (void)leader_term_ended(&leader, &reported);
    (void)leader_term_began(&leader, &reported);
    (void)leader_ready(&leader, &reported);
    leader_resume(&leader);
}

static void start(enum way what)
{
    static const struct leader_method method = {.path = "/a.B/Do", .name = "Do"};
    static const struct leader_rules rules = {.request_size = sizeof(struct mine),
                                              .full = GRPC_RESOURCE_EXHAUSTED,
                                              .doubt = GRPC_UNKNOWN,
                                              .admit = admit,
                                              .begin = begin,
                                              .read = on_read,
                                              .written = on_written,
                                              .gone = on_gone,
                                              .drain = on_drain,
                                              .freed = on_freed};
    static char where[] = "h:1";
    struct sim_host *host;

    way = what;
    cancelled = abandoned = begun = gone = drained = freed = written = 0;
    reading = NULL;
    proposed = NULL;
    list_init(&kept);
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 1}, &sim));
    CHECK_OK("a host", sim_host_add(sim, &(struct sim_host_options){.name = "a"}, &host));
    CHECK_OK("opens", leader_open(&leader, &(struct leader_options){.rules = &rules,
                                                                    .loop = sim_host_io(host)->loop,
                                                                    .address = address,
                                                                    .owner = where,
                                                                    .wait_ms = WAIT_MS,
                                                                    .requests_max = REQUESTS_MAX}));
    CHECK_OK("is served", leader_add(&leader, NULL, &method, NULL));
    leader.replica = (struct replica *)&reported;
    report(REPLICA_LEADER, 3, true);
}

static void stop(int requests)
{
    CHECK_I64("every request is freed", freed, requests);
    leader_close(&leader);
    sim_close(sim);
}

static void ask(struct rpc_call *call)
{
    *call = (struct rpc_call){0};
    handler->on_message(binding, call, NULL, STR_EMPTY);
}

static void ends(struct rpc_call *call) /* by its caller */
{
    handler->on_done(binding, call);
}

static void is(const char *why, const struct rpc_call *call, enum grpc_status status,
               bool applied_no, const char *text)
{
    CHECK(why, call->ended);
    CHECK_I64(why, call->status, status);
    CHECK_I64(why, call->applied_no, applied_no);
    CHECK_HAS(why, call->text, text);
    CHECK(why, !call->data);
}

/* -- tests -- */

TEST(a_read_is_answered_once_leadership_is_proved)
{
    struct rpc_call call;

    start(READS);
    ask(&call);
    CHECK("not before", !call.ended && reading);
    reading->done(reading, ERR_OK);
    is("answered", &call, GRPC_OK, false, "rows");
    CHECK_TEXT("its stages", call.marks, "leads ");
    ends(&call);
    stop(1);
}

TEST(a_write_is_answered_once_it_is_applied)
{
    struct rpc_call call;

    start(WRITES);
    ask(&call);
    CHECK("not before", !call.ended && proposed);
    CHECK_U32("as it was given", proposed->machine, 7);
    applied(ERR_OK);
    is("answered", &call, GRPC_OK, false, "reply");
    CHECK_TEXT("its stages", call.marks, "proposed applied ");
    stop(1);
}

static enum grpc_status own_status;
static int own_answers;

static void on_own_answered(struct leader_caller *caller, enum grpc_status status, struct str text,
                            struct str message)
{
    (void)caller;
    own_answers++;
    own_status = status;
    CHECK_STR("the reply, or a text", status ? STR_EMPTY : message,
              status ? STR_EMPTY : STR("reply"));
    CHECK("a status has its text", !status == !text.len);
}

TEST(an_internal_call_uses_the_path_of_a_client_call)
{
    static const struct leader_method method = {.path = "/a.B/Do", .name = "Do"};
    struct leader_caller caller = {.answered = on_own_answered};

    start(WRITES);
    own_answers = 0;
    CHECK_OK("asked", leader_ask(&leader, &method, NULL, &caller));
    CHECK("not before", own_answers == 0 && proposed);
    applied(ERR_OK);
    CHECK("answered", own_answers == 1 && own_status == GRPC_OK);
    CHECK_OK("asked", leader_ask(&leader, &method, NULL, &caller));
    applied(ERR_UNKNOWN);
    CHECK("in doubt, as a client is", own_answers == 2 && own_status == GRPC_UNKNOWN);
    CHECK_OK("asked", leader_ask(&leader, &method, NULL, &caller));
    (void)sim_run_for(sim, WAIT_MS + 1);
    CHECK("not for longer than a client", own_answers == 3 && abandoned == 1);
    stop(3);
}

TEST(an_early_caller_waits_until_the_leader_is_ready)
{
    struct rpc_call call;

    start(READS);
    report(REPLICA_LEADER, 4, false);
    ask(&call);
    CHECK("waits", !call.ended && begun == 0);
    report(REPLICA_LEADER, 4, true);
    CHECK_I64("begins", begun, 1);
    reading->done(reading, ERR_OK);
    is("answered", &call, GRPC_OK, false, "rows");
    stop(1);
}

TEST(a_waiting_caller_is_redirected_when_another_leads)
{
    struct rpc_call call, late;

    start(READS);
    report(REPLICA_LEADER, 4, false);
    ask(&call);
    report(REPLICA_FOLLOWER, 5, false);
    is("sent on", &call, GRPC_FAILED_PRECONDITION, false, "h:1");
    CHECK("with where", call.elsewhere);
    ask(&late);
    CHECK("and later calls", late.elsewhere);
    CHECK_I64("nothing began", begun, 0);
    stop(2);
}

TEST(too_many_calls_are_refused)
{
    struct rpc_call calls[REQUESTS_MAX + 1];

    start(KEEPS);
    for (int i = 0; i <= REQUESTS_MAX; i++) ask(&calls[i]);
    is("the third", &calls[REQUESTS_MAX], GRPC_RESOURCE_EXHAUSTED, true, "Do: 2 calls");
    for (int i = 0; i < REQUESTS_MAX; i++) ends(&calls[i]);
    ask(&calls[0]);
    CHECK("there is room again", !calls[0].ended);
    ends(&calls[0]);
    stop(REQUESTS_MAX + 2);
}

TEST(each_caller_that_waits_too_long_is_refused_at_its_deadline)
{
    struct rpc_call first, second;

    start(READS);
    report(REPLICA_LEADER, 4, false);
    ask(&first);
    sim_run_for(sim, WAIT_MS / 2);
    ask(&second);
    sim_run_for(sim, WAIT_MS / 2 + 10);
    is("the first", &first, GRPC_UNAVAILABLE, true, "not ready");
    CHECK("the second is younger", !second.ended);
    sim_run_for(sim, WAIT_MS / 2);
    is("the second", &second, GRPC_UNAVAILABLE, true, "not ready");
    stop(2);
}

TEST(an_unconfirmed_read_is_refused)
{
    struct rpc_call call;

    start(READS);
    ask(&call);
    sim_run_for(sim, WAIT_MS + 10);
    is("refused", &call, GRPC_UNAVAILABLE, true, "no majority answered within 1000 ms");
    CHECK_I64("and no longer asked", cancelled, 1);
    stop(1);
}

TEST(an_unconfirmed_write_is_unknown)
{
    struct rpc_call call;

    start(WRITES);
    ask(&call);
    sim_run_for(sim, WAIT_MS + 10);
    CHECK_I64("abandoned", abandoned, 1);
    is("in doubt", &call, GRPC_UNKNOWN, false, "may or may not");
    stop(1);
}

TEST(a_kept_call_has_no_deadline)
{
    struct rpc_call call, other;

    start(KEEPS);
    ask(&call);
    CHECK("kept", !list_empty(&kept));
    sim_run_for(sim, 10 * WAIT_MS);
    CHECK("still", !call.ended);
    way = READS;
    ask(&other);
    sim_run_for(sim, WAIT_MS + 10);
    is("others are", &other, GRPC_UNAVAILABLE, true, "no majority");
    CHECK("still", !call.ended);
    handler->on_drain(binding, &call);
    is("drained", &call, GRPC_UNAVAILABLE, false, "stops");
    handler->on_drain(binding, &call);
    CHECK_I64("once", drained, 1);
    stop(2);
}

TEST(a_caller_that_leaves_during_a_call)
{
    struct rpc_call call;

    start(READS);
    ask(&call);
    ends(&call);
    CHECK_I64("a read is forgotten", cancelled, 1);
    way = WRITES;
    ask(&call);
    ends(&call);
    CHECK_I64("a write goes on", freed, 1);
    applied(ERR_OK);
    CHECK_I64("to its end", written, 1);
    way = KEEPS;
    ask(&call);
    ends(&call);
    CHECK_I64("the keeper is notified", gone, 1);
    report(REPLICA_LEADER, 4, false);
    ask(&call);
    ends(&call);
    sim_run_for(sim, 2 * WAIT_MS);
    CHECK("nobody is answered", !call.ended);
    stop(4);
}

TEST(results_of_the_log_without_an_answer)
{
    static const struct {
        enum err err;
        enum grpc_status status;
        bool applied_no;
        const char *text;
    } cases[] = {
        {ERR_NOT_LEADER, GRPC_FAILED_PRECONDITION, false, "h:1"},
        {ERR_UNKNOWN, GRPC_UNKNOWN, false, "may or may not have been applied"},
        {ERR_FULL, GRPC_RESOURCE_EXHAUSTED, true, "too much is under way"},
        {ERR_NO_SPACE, GRPC_RESOURCE_EXHAUSTED, true, "disk is full"},
        {ERR_TOO_LARGE, GRPC_UNAVAILABLE, true, "Do: "},
    };
    struct rpc_call call;

    start(WRITES);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ask(&call);
        applied(cases[i].err);
        is(cases[i].text, &call, cases[i].status, cases[i].applied_no, cases[i].text);
    }
    stop(ARRAY_LEN(cases));
}

TEST(a_call_that_has_written_does_not_report_not_done)
{
    struct rpc_call call;

    start(ACTS);
    ask(&call);
    is("in doubt", &call, GRPC_UNAVAILABLE, false, "half of it");
    stop(1);
}

TEST(an_answer_that_cannot_be_packed_is_refused)
{
    struct rpc_call call;
    struct pack pack = {NULL, ERR_NOMEM};

    start(KEEPS);
    ask(&call);
    request_reply_packed(CONTAINER_OF(kept.next, struct leader_request, link), &pack);
    is("refused", &call, err_grpc_status(ERR_NOMEM), true, "the answer");
    stop(1);
}

TEST(terms_begin_and_end_once)
{
    static const struct {
        const char *why;
        enum replica_role role;
        uint64_t term;
        bool ready, over, begun, now_ready;
    } cases[] = {
        {"of the same term nothing is new", REPLICA_LEADER, 3, true, false, false, false},
        {"lost", REPLICA_FOLLOWER, 4, false, true, false, false},
        {"once", REPLICA_FOLLOWER, 5, false, false, false, false},
        {"gained", REPLICA_LEADER, 6, false, false, true, false},
        {"ready", REPLICA_LEADER, 6, true, false, false, true},
        {"lost and gained between two words", REPLICA_LEADER, 8, true, true, true, true},
        {"a candidate does not lead", REPLICA_CANDIDATE, 9, false, true, false, false},
    };

    start(READS);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        reported = (struct replica_status){
            .role = cases[i].role, .term = cases[i].term, .ready = cases[i].ready};
        CHECK_I64(cases[i].why, leader_term_ended(&leader, &reported), cases[i].over);
        CHECK(cases[i].why, !cases[i].over || (!leader.led && !leader.ready));
        CHECK_I64(cases[i].why, leader_term_began(&leader, &reported), cases[i].begun);
        CHECK_I64(cases[i].why, leader_ready(&leader, &reported), cases[i].now_ready);
        CHECK_I64(cases[i].why, leader_here(&leader), cases[i].role == REPLICA_LEADER);
        CHECK_I64(cases[i].why, leader_leads(&leader), cases[i].ready);
    }
    stop(0);
}

TEST(a_term_is_not_led_before_its_event_arrives)
{
    start(READS);
    CHECK("leads", leader_leads(&leader));
    reported.term = 9;
    CHECK("the replica knows more", !leader_leads(&leader));
    leader.replica = NULL;
    CHECK("without a replica nobody leads", !leader_here(&leader));
    stop(0);
}
