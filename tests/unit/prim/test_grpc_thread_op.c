/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC thread over a channel with scripted answers. */
#include "prim/grpc_thread/op.h"

#include <string.h>

#include "lib/test.h"

enum { START_NS = 1000000000 };

/* -- below the gRPC thread -- */

static int64_t now_ns;
static rpc_unary_fn *answer_fn;
static void *answer_owner;
static struct rpc_call_options sent;
static int sends, moves, cancels;
static enum err send_err;

void grpc_loop_call(struct grpc_thread *grpc_thread, void (*fn)(void *owner), void *owner)
{
    (void)grpc_thread;
    fn(owner);
}

void latch_init(struct latch *latch)
{
    latch->open = false;
}

void latch_wait(struct latch *latch)
{
    CHECK("open", latch->open);
}

void latch_open(struct latch *latch)
{
    latch->open = true;
}

enum err rpc_unary(struct rpc_channel *channel, const struct rpc_call_options *options,
                   struct str request, rpc_unary_fn *done, void *owner,
                   struct rpc_client_call **ret_call)
{
    (void)channel, (void)request;
    if (send_err) return send_err;
    sends++;
    sent = *options;
    answer_fn = done;
    answer_owner = owner;
    *ret_call = (struct rpc_client_call *)&sent;
    return ERR_OK;
}

void rpc_channel_next_address(struct rpc_channel *channel)
{
    (void)channel;
    moves++;
}

void rpc_call_cancel(struct rpc_client_call *call)
{
    (void)call;
    cancels++;
}

static int64_t clock_now(void *unused)
{
    (void)unused;
    return now_ns;
}

/* -- a store -- */

static struct grpc_thread grpc_thread;
static struct grpc_thread_op op;
static int dones, resets;
static bool is_prepared, understands;

static void done(struct grpc_thread_op *one)
{
    CHECK("this one", one == &op);
    dones++;
}

void grpc_streams_reset(struct grpc_thread *one)
{
    CHECK("this one", one == &grpc_thread);
    resets++;
}

static bool prepare(struct grpc_thread_op *one, struct rpc_call_options *options)
{
    (void)one;
    options->untraced = true;
    return is_prepared;
}

static bool refused(struct grpc_thread_op *one, const struct rpc_outcome *outcome)
{
    (void)one, (void)outcome;
    return understands;
}

static const struct grpc_hooks plain = {.attempts_max = 3};
static const struct grpc_hooks careful = {
    .attempts_max = 3, .prepare = prepare, .refused = refused};

static void start(size_t addresses, int64_t left_ms)
{
    now_ns = START_NS;
    sends = moves = cancels = dones = resets = 0;
    send_err = ERR_OK;
    is_prepared = true;
    understands = false;
    grpc_thread = (struct grpc_thread){.ways = &plain, .address_count = addresses};
    grpc_thread.clock.now = clock_now;
    list_init(&grpc_thread.waiting);
    grpc_op_init(&op, "/a.B/Do", START_NS + left_ms * 1000000, 1024, 64);
    op.idempotent = true;
    op.done = done;
}

static void answers(struct rpc_outcome outcome, const char *message)
{
    answer_fn(answer_owner, NULL, &outcome, str_from(message));
}

/* The slice ends without an answer; `err` says whether the server may have received the call. */
static void silence(enum err err)
{
    now_ns += (int64_t)sent.timeout_ms * 1000000;
    answers((struct rpc_outcome){.err = err, .status = GRPC_DEADLINE_EXCEEDED, .attempts = 1}, "");
}

static void ends(const char *why, enum err err, int sends_wanted, int moves_wanted)
{
    CHECK_I64(why, dones, 1);
    CHECK_ERR(why, op.err, err);
    CHECK_I64(why, sends, sends_wanted);
    CHECK_I64(why, moves, moves_wanted);
    CHECK_I64(why, resets, moves_wanted);
    grpc_op_deinit(&op);
}

/* -- tests -- */

TEST(an_answer_is_kept)
{
    start(1, 6000);
    grpc_op_begin(&grpc_thread, &op);
    CHECK_U64("half of the time", sent.timeout_ms, 3000);
    CHECK_SIZE("as much as it may be", sent.response_max, 64);
    CHECK_U32("the store's number of attempts", sent.attempts_max, 3);
    CHECK("waits for a server", sent.wait_for_ready && sent.idempotent);
    CHECK("without a number", !sent.dedups_by_request_id);
    answers((struct rpc_outcome){.answered = true, .text = STR("a\nb\x7f")}, "rows");
    CHECK_STR("whole", buf_peek(&op.response), STR("rows"));
    CHECK_TEXT("for people", op.text, "a?b?");
    ends("done", ERR_OK, 1, 0);
}

TEST(a_change_is_sent_with_its_request_id)
{
    start(3, 9000);
    memcpy(op.request_id, "me-7", 5);
    grpc_op_begin(&grpc_thread, &op);
    CHECK_STR("which the server knows", sent.request_id, STR("me-7"));
    CHECK("and so a repeat is the first", sent.dedups_by_request_id && !sent.idempotent);
    silence(ERR_UNKNOWN);
    CHECK_I64("and yet repeated", sends, 2);
    answers((struct rpc_outcome){.answered = true}, "rows");
    ends("done", ERR_OK, 2, 1);
}

TEST(an_answer_without_room_leaves_the_result_unknown)
{
    char message[66] = "";

    memset(message, 'x', sizeof message - 1);
    start(1, 6000);
    grpc_op_begin(&grpc_thread, &op);
    answers((struct rpc_outcome){.answered = true}, message);
    CHECK("the result is unknown", !op.answered);
    ends("unknown", ERR_UNKNOWN, 1, 0);
}

TEST(a_silent_server_is_left_and_the_next_one_asked)
{
    start(3, 9000);
    grpc_op_begin(&grpc_thread, &op);
    CHECK_U64("a third", sent.timeout_ms, 3000);
    silence(ERR_UNKNOWN);
    CHECK_U64("of the remaining time", sent.timeout_ms, 2000);
    silence(ERR_UNKNOWN);
    answers((struct rpc_outcome){.answered = true}, "rows");
    ends("done", ERR_OK, 3, 2);
}

TEST(an_unsafe_request_is_not_repeated)
{
    start(3, 9000);
    op.idempotent = false;
    grpc_op_begin(&grpc_thread, &op);
    silence(ERR_UNKNOWN);
    ends("in doubt", ERR_UNKNOWN, 1, 1);
}

TEST(a_doubt_stays)
{
    start(3, 9000);
    grpc_op_begin(&grpc_thread, &op);
    silence(ERR_UNKNOWN);
    answers(
        (struct rpc_outcome){.answered = true, .err = ERR_DENIED, .status = GRPC_PERMISSION_DENIED},
        "");
    CHECK_I64("the last result is kept", op.status, GRPC_PERMISSION_DENIED);
    CHECK("of a server", op.answered);
    ends("an earlier slice may have reached the server", ERR_UNKNOWN, 2, 1);
    start(3, 4000);
    grpc_op_begin(&grpc_thread, &op);
    silence(ERR_UNKNOWN);
    now_ns = START_NS + (int64_t)4000 * 1000000;
    silence(ERR_TIMEOUT);
    CHECK_I64("why", grpc_op_silence(&op), COORD_R_TIMEOUT);
    ends("in doubt without time, too", ERR_UNKNOWN, 2, 2);
    start(3, 9000);
    grpc_op_begin(&grpc_thread, &op);
    send_err = ERR_FULL;
    silence(ERR_UNKNOWN);
    ends("and when the next slice cannot even begin", ERR_UNKNOWN, 1, 1);
}

TEST(without_a_doubt_it_was_not_done)
{
    start(3, 9000);
    grpc_op_begin(&grpc_thread, &op);
    silence(ERR_TIMEOUT);
    answers(
        (struct rpc_outcome){.answered = true, .err = ERR_DENIED, .status = GRPC_PERMISSION_DENIED},
        "");
    ends("answered", ERR_DENIED, 2, 1);
}

TEST(hurry_proves_nothing_about_a_server)
{
    start(3, 200);
    grpc_op_begin(&grpc_thread, &op);
    CHECK_U64("all there is", sent.timeout_ms, 200);
    silence(ERR_TIMEOUT);
    ends("late", ERR_TIMEOUT, 1, 0);
    start(3, 0);
    grpc_op_begin(&grpc_thread, &op);
    CHECK_HAS("the message", op.text, "no time left");
    ends("too late", ERR_TIMEOUT, 0, 0);
}

TEST(a_server_without_a_leader_is_left_if_there_is_another)
{
    for (size_t addresses = 1; addresses <= 2; addresses++) {
        start(addresses, 6000);
        grpc_op_begin(&grpc_thread, &op);
        answers((struct rpc_outcome){.answered = true,
                                     .err = ERR_UNAVAILABLE,
                                     .status = GRPC_UNAVAILABLE},
                "");
        ends("reported", ERR_UNAVAILABLE, 1, addresses == 2);
    }
}

TEST(one_failure_moves_the_caller_once)
{
    start(3, 9000);
    grpc_server_trouble(&grpc_thread, 0);
    grpc_server_trouble(&grpc_thread, 0);
    CHECK_I64("once", moves, 1);
    grpc_server_trouble(&grpc_thread, 1);
    CHECK_I64("the next", moves, 2);
    grpc_thread.closing = true;
    grpc_server_trouble(&grpc_thread, 2);
    CHECK_I64("not while it closes", moves, 2);
    grpc_op_deinit(&op);
}

TEST(a_waiting_call_moves_to_the_next_server_and_can_be_stopped)
{
    struct rpc_outcome cancelled = {.err = ERR_CANCELLED, .status = GRPC_CANCELLED};

    start(3, 9000);
    op.waits = true;
    grpc_op_begin(&grpc_thread, &op);
    CHECK_U64("all of its time", sent.timeout_ms, 9000);
    CHECK("it is known", !list_empty(&grpc_thread.waiting));
    grpc_server_trouble(&grpc_thread, 0);
    CHECK_I64("called back", cancels, 1);
    answers(cancelled, "");
    CHECK_I64("and asked again", sends, 2);
    grpc_stop_waiting(&grpc_thread);
    CHECK_I64("called back", cancels, 2);
    answers(cancelled, "");
    CHECK("stopped", op.stopped && list_empty(&grpc_thread.waiting));
    CHECK_I64("why", grpc_op_silence(&op), COORD_R_CLOSED);
    ends("not again", ERR_CANCELLED, 2, 1);
}

TEST(a_call_stopped_in_a_callback_does_not_move)
{
    start(3, 9000);
    op.waits = true;
    grpc_op_begin(&grpc_thread, &op);
    grpc_server_trouble(&grpc_thread, 0);
    grpc_stop_waiting(&grpc_thread);
    answers((struct rpc_outcome){.err = ERR_CANCELLED, .status = GRPC_CANCELLED}, "");
    ends("stopped", ERR_CANCELLED, 1, 1);
}

TEST(a_call_that_waits_to_its_deadline_does_not_blame_the_server)
{
    start(3, 9000);
    op.waits = true;
    grpc_op_begin(&grpc_thread, &op);
    silence(ERR_UNKNOWN);
    ends("over", ERR_UNKNOWN, 1, 0);
}

TEST(the_store_may_keep_a_call_and_help_it)
{
    start(1, 6000);
    grpc_thread.ways = &careful;
    is_prepared = false;
    grpc_op_begin(&grpc_thread, &op);
    CHECK("kept", sends == 0 && dones == 0);
    is_prepared = true;
    grpc_op_begin(&grpc_thread, &op);
    CHECK("with the prepared option", sent.untraced);
    understands = true;
    answers((struct rpc_outcome){.answered = true, .status = GRPC_UNAUTHENTICATED}, "");
    CHECK("understood", dones == 0);
    understands = false;
    grpc_op_begin(&grpc_thread, &op);
    answers((struct rpc_outcome){.answered = true}, "rows");
    ends("done", ERR_OK, 2, 0);
}
