/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous calls, answered later in the caller's own loop. */
#include <poll.h>
#include <unistd.h>

#include "lib/test.h"
#include "prim/answer.h"
#include "unit/prim/fake_backend.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})

struct seen {
    int count, code, reason;
    pthread_t thread;
    coord_lease *lease;
    coord_entry *entry;
    coord_holders *holders;
    coord_store *again; /* start another from done() */
};

static void on_done(void *arg, coord_done *done)
{
    struct seen *seen = arg;
    seen->count++;
    seen->code = done->result.code;
    seen->reason = done->result.reason;
    seen->thread = pthread_self();
    seen->lease = done->lease;
    seen->entry = done->entry;
    seen->holders = done->holders;
    if (seen->again != NULL && seen->count < 5) {
        coord_request request = {.op = COORD_OP_GET, .key = TEXT("a")};
        coord_entry_free(done->entry);
        (void)coord_start(seen->again, &request, on_done, seen);
    }
}

static void wait_readable(coord_store *store)
{
    struct pollfd ready = {.fd = coord_fd(store), .events = POLLIN};
    CHECK_I64("becomes readable", poll(&ready, 1, -1), 1);
}

static bool is_readable(coord_store *store)
{
    struct pollfd ready = {.fd = coord_fd(store), .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

static struct seen run_one(coord_store *store, const coord_request *request)
{
    struct seen seen = {.count = 0};
    CHECK_I64("taken", coord_start(store, request, on_done, &seen).code, COORD_OK);
    while (seen.count == 0) {
        wait_readable(store);
        (void)coord_dispatch(store);
    }
    CHECK_I64("once", seen.count, 1);
    CHECK("from dispatch, on the caller's thread", pthread_equal(seen.thread, pthread_self()));
    return seen;
}

TEST(every_operation_has_an_asynchronous_twin)
{
    struct fake fake;
    coord_store *store;
    char key[] = "a", owner[] = "me";
    fake_init(&fake);
    (void)fake_open(&fake, NULL, &store);
    coord_request request = {
        .op = COORD_OP_CREATE, .key = {key, 1}, .owner = owner, .ttl_ms = 60000};
    struct seen seen = {.count = 0};
    CHECK_I64("taken", coord_start(store, &request, on_done, &seen).code, COORD_OK);
    key[0] = '/'; /* strings are copied: this would be refused */
    owner[0] = ' ';
    while (seen.count == 0) {
        wait_readable(store);
        (void)coord_dispatch(store);
    }
    CHECK_I64("created", seen.reason, COORD_R_CREATED);
    coord_lease *lease = seen.lease;
    CHECK("with a lease that is ours", lease != NULL && coord_check(lease) == COORD_OK);
    request = (coord_request){.op = COORD_OP_CREATE_UNDER, .key = TEXT("b"), .lease = lease};
    CHECK_I64("under it", run_one(store, &request).reason, COORD_R_CREATED);
    request = (coord_request){.op = COORD_OP_CAS, .key = TEXT("c"), .ttl_ms = COORD_TTL_KEEP};
    CHECK_I64("cas", run_one(store, &request).reason, COORD_R_UPDATED);
    request = (coord_request){.op = COORD_OP_DELETE, .key = TEXT("c"), .expected = COORD_ANY};
    CHECK_I64("delete", run_one(store, &request).reason, COORD_R_DELETED);
    request = (coord_request){.op = COORD_OP_GET, .key = TEXT("c")};
    seen = run_one(store, &request);
    CHECK("get", seen.entry != NULL);
    coord_entry_free(seen.entry);
    request = (coord_request){.op = COORD_OP_ACQUIRE};
    request.slot = (coord_slot_request)COORD_SLOT_REQUEST_INIT;
    request.slot.group = TEXT("g");
    request.slot.owner = "me";
    request.slot.ttl_ms = 60000;
    seen = run_one(store, &request);
    CHECK("acquire", seen.lease != NULL && coord_lease_slot(seen.lease) == 0);
    coord_lease_unref(seen.lease);
    request =
        (coord_request){.op = COORD_OP_RESIZE, .key = TEXT("g"), .expected = 9, .slot_count = 4};
    CHECK_I64("resize", run_one(store, &request).reason, COORD_R_RESIZED);
    request = (coord_request){.op = COORD_OP_HOLDERS, .key = TEXT("g")};
    seen = run_one(store, &request);
    CHECK("holders", seen.holders != NULL);
    coord_holders_free(seen.holders);
    request = (coord_request){.op = COORD_OP_RENEW, .lease = lease};
    CHECK_I64("renew", run_one(store, &request).reason, COORD_R_RENEWED);
    request = (coord_request){.op = COORD_OP_RELEASE_KEY, .key = TEXT("b"), .lease = lease};
    CHECK_I64("release of a key", run_one(store, &request).reason, COORD_R_RELEASED);
    request = (coord_request){.op = COORD_OP_RELEASE, .lease = lease};
    CHECK_I64("release", run_one(store, &request).reason, COORD_R_RELEASED);
    CHECK("nothing left to do", !is_readable(store));
    request = (coord_request){.op = 99};
    CHECK_I64("an unknown operation", coord_start(store, &request, on_done, &seen).code,
              COORD_INVALID);
    request = (coord_request){.op = COORD_OP_GET, .key = TEXT("//")};
    CHECK_I64("a refusal of the synchronous call is answered", run_one(store, &request).code,
              COORD_INVALID);
    coord_lease_unref(lease);
    coord_close(store);
}

static coord_result wait_for_leave(struct fake *fake, enum fault_op op,
                                   const struct prim_call *call)
{
    atomic_bool *leave = fake->arg;
    (void)op;
    (void)call;
    while (!atomic_load(leave)) { (void)usleep(200); }
    return prim_ok(COORD_R_NONE);
}

TEST(a_full_queue_refuses_and_done_makes_room)
{
    struct fake fake;
    coord_store *store;
    atomic_bool leave = false;
    coord_options options = {.async_threads = 2, .async_max = 3};
    struct seen seen = {.count = 0};
    coord_request request = {.op = COORD_OP_DELETE, .key = TEXT("a"), .expected = COORD_ANY};
    fake_init(&fake);
    fake.act = wait_for_leave;
    fake.arg = &leave;
    (void)fake_open(&fake, &options, &store);
    for (int i = 0; i < 3; i++) {
        CHECK_I64("taken", coord_start(store, &request, on_done, &seen).code, COORD_OK);
    }
    coord_result result = coord_start(store, &request, on_done, &seen);
    CHECK_I64("full", result.reason, COORD_R_OVERLOADED);
    CHECK_HAS("the message", result.text, "async_max");
    CHECK_SIZE("nothing to dispatch", coord_dispatch(store), 0);
    atomic_store(&leave, true);
    while (seen.count < 3) {
        wait_readable(store);
        (void)coord_dispatch(store);
    }
    CHECK_I64("room again", coord_start(store, &request, on_done, &seen).code, COORD_OK);
    coord_close(store);
    CHECK_I64("each once, the last from close", seen.count, 4);
}

TEST(closing_answers_calls_that_never_began)
{
    struct fake fake;
    coord_store *store;
    atomic_bool leave = false;
    coord_options options = {.async_threads = 1};
    struct seen running = {.count = 0}, waiting = {.count = 0};
    coord_request request = {.op = COORD_OP_DELETE, .key = TEXT("a"), .expected = COORD_ANY};
    fake_init(&fake);
    fake.act = wait_for_leave;
    fake.arg = &leave;
    (void)fake_open(&fake, &options, &store);
    (void)coord_start(store, &request, on_done, &running);
    while (fake_calls(&fake, FAULT_DELETE) == 0) { (void)usleep(200); }
    for (int i = 0; i < 10; i++) { (void)coord_start(store, &request, on_done, &waiting); }
    atomic_store(&leave, true);
    coord_close(store);
    CHECK_I64("the one that ran", running.count, 1);
    CHECK_I64("all others", waiting.count, 10);
    CHECK("done, or closed before", waiting.code == COORD_OK || waiting.reason == COORD_R_CLOSED);
}

TEST(done_may_start_the_next)
{
    struct fake fake;
    coord_store *store;
    fake_init(&fake);
    coord_options options = {.async_max = 1};
    (void)fake_open(&fake, &options, &store);
    struct seen seen = {.again = store};
    coord_request request = {.op = COORD_OP_GET, .key = TEXT("a")};
    CHECK_I64("taken", coord_start(store, &request, on_done, &seen).code, COORD_OK);
    while (seen.count < 5) {
        wait_readable(store);
        (void)coord_dispatch(store);
    }
    coord_entry_free(seen.entry);
    coord_close(store);
}

struct many {
    coord_store *store;
    atomic_int done;
};

static void count_done(void *arg, coord_done *done)
{
    struct many *many = arg;
    coord_entry_free(done->entry);
    atomic_fetch_add(&many->done, 1);
}

static void *start_many(void *arg)
{
    struct many *many = arg;
    coord_request request = {.op = COORD_OP_GET, .key = TEXT("a")};
    for (int i = 0; i < 500; i++) {
        while (coord_start(many->store, &request, count_done, many).code != COORD_OK) {
            (void)coord_dispatch(many->store);
        }
    }
    return NULL;
}

TEST(many_threads_start_and_dispatch_at_once)
{
    struct fake fake;
    struct many many = {.done = 0};
    pthread_t threads[4];
    fake_init(&fake);
    coord_options options = {.async_max = 64};
    (void)fake_open(&fake, &options, &many.store);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        (void)pthread_create(&threads[i], NULL, start_many, &many);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) { (void)pthread_join(threads[i], NULL); }
    coord_close(many.store);
    CHECK_I64("each once", many.done, 2000);
}

/* A reused request keeps the fields of its last call. */
TEST(fields_that_an_operation_does_not_use_are_never_read)
{
    struct fake fake;
    coord_store *store;
    static const char *const nowhere = (const char *)8;
    fake_init(&fake);
    CHECK_I64("opens", fake_open(&fake, NULL, &store).code, COORD_OK);
    coord_request request = {.op = COORD_OP_GET,
                             .key = TEXT("a"),
                             .value = {nowhere, 5},
                             .owner = nowhere,
                             .lease = (coord_lease *)(uintptr_t)nowhere,
                             .slot = {.group = {nowhere, 5}, .owner = nowhere}};
    request.slot.value = request.value;
    struct seen seen = run_one(store, &request);
    CHECK_I64("read", seen.code, COORD_OK);
    coord_entry_free(seen.entry);
    coord_close(store);
}
