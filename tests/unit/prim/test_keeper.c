/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's threads over a scripted backend. The test moves the clock, so that "before the
 * store's deadline" is exact; only the test's own limit bounds a wait for a thread. */
#include <stdio.h>
#include <unistd.h>

#include "lib/test.h"
#include "prim/answer.h"
#include "prim/lease.h"
#include "unit/prim/fake_backend.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})
#define MS            INT64_C(1000000)

struct world {
    struct fake fake;
    struct turned_clock clock;
    coord_store *store;
    /* The backend's answers to renewals. */
    atomic_bool hang;         /* renewals block until it is false */
    atomic_int hanging;       /* number of blocked renewals */
    _Atomic int64_t delay_ns; /* the clock moves this far during a renewal */
    atomic_int answer;        /* enum coord_code */
    atomic_int lost, reason;
    _Atomic int64_t lost_at_ns;
};

static coord_result renewals(struct fake *fake, enum fault_op op, const struct prim_call *call)
{
    struct world *world = fake->arg;
    (void)call;
    if (op != FAULT_RENEW) { return prim_ok(COORD_R_NONE); }
    atomic_fetch_add(&world->hanging, 1);
    while (atomic_load(&world->hang)) { (void)usleep(200); }
    atomic_fetch_sub(&world->hanging, 1);
    atomic_fetch_add(&world->clock.now_ns, atomic_load(&world->delay_ns));
    switch (atomic_load(&world->answer)) {
    case COORD_OK: return prim_ok(COORD_R_RENEWED);
    case COORD_EXPIRED: return prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "another");
    default: return prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED, "no");
    }
}

static void open_world(struct world *world)
{
    memset(world, 0, sizeof *world);
    fake_init(&world->fake);
    world->fake.act = renewals;
    world->fake.arg = world;
    world->clock.now_ns = 1000 * MS;
    coord_options options = {.now = turned_clock_now, .now_arg = &world->clock};
    CHECK_I64("opens", fake_open(&world->fake, &options, &world->store).code, COORD_OK);
}

static coord_lease *grant(struct world *world, coord_str key, int64_t ttl_ms)
{
    coord_lease *lease = NULL;
    coord_result result =
        coord_create_if_absent(world->store, NULL, key, TEXT(""), ttl_ms, "me", &lease);
    CHECK_I64("granted", result.code, COORD_OK);
    return lease;
}

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct world *world = arg;
    (void)lease;
    atomic_store(&world->lost_at_ns, turned_clock_now(&world->clock));
    atomic_store(&world->reason, reason);
    atomic_fetch_add(&world->lost, 1);
}

static coord_lease *keep(struct world *world, coord_str key, int64_t ttl_ms)
{
    coord_lease *lease = grant(world, key, ttl_ms);
    CHECK_I64("kept", coord_keep(lease, on_lost, world).code, COORD_OK);
    return lease;
}

#define WAIT_FOR(condition)                                                                        \
    while (!(condition)) { (void)usleep(200); }

static void turn_to(struct world *world, int64_t ms)
{
    atomic_store(&world->clock.now_ns, ms * MS);
}

TEST(a_kept_lease_lives_as_long_as_it_is_renewed)
{
    struct world world;
    open_world(&world);
    coord_lease *lease = keep(&world, TEXT("a"), 900);
    CHECK_I64("kept already", coord_keep(lease, on_lost, &world).code, COORD_INVALID);
    for (int i = 1; i <= 20; i++) { /* D01: renewed repeatedly, with one token */
        turn_to(&world, 1000 + 300 * i);
        WAIT_FOR(fake_calls(&world.fake, FAULT_RENEW) >= i);
        WAIT_FOR(coord_safe_for_ms(lease) == 800); /* 900 less 100 */
        CHECK_I64("and no more than one", fake_calls(&world.fake, FAULT_RENEW), i);
    }
    CHECK_I64("never lost", world.lost, 0);
    WAIT_FOR(fake_guarded(&world.fake) == 1);
    coord_close(world.store);
    CHECK_I64("closing is no loss", world.lost, 0);
    CHECK_I64("released", fake_calls(&world.fake, FAULT_RELEASE), 1);
    coord_lease_unref(lease);
}

TEST(more_renewals_than_the_store_takes_well_are_reported)
{
    struct world world;
    coord_lease *leases[3];
    coord_caps caps;
    open_world(&world);
    world.fake.ops.renewals_max = 5;
    (void)snprintf(world.fake.caps.note, sizeof world.fake.caps.note, "%0255d", 7);
    for (int i = 0; i < 3; i++) {
        leases[i] = grant(&world, TEXT("k"), 1000); /* three renewals a second each */
        caps = coord_capabilities(world.store);
        CHECK_TEXT("not for a lease that is not renewed", caps.note, world.fake.caps.note);
    }
    CHECK_I64("kept", coord_keep(leases[0], NULL, NULL).code, COORD_OK);
    caps = coord_capabilities(world.store);
    CHECK_TEXT("not for three", caps.note, world.fake.caps.note);
    CHECK_I64("kept", coord_keep(leases[1], NULL, NULL).code, COORD_OK);
    caps = coord_capabilities(world.store);
    CHECK("six are too many", strstr(caps.note, "make 6 renewals a second, more than 5 ") != NULL);
    CHECK("and the rest is there", strstr(caps.note, "; 000") != NULL);
    CHECK_I64("released", coord_release(leases[1], NULL).code, COORD_OK);
    caps = coord_capabilities(world.store);
    CHECK_TEXT("as before", caps.note, world.fake.caps.note);
    for (int i = 0; i < 3; i++) { coord_lease_unref(leases[i]); }
    coord_close(world.store);
}

TEST(on_lost_comes_at_safe_until_while_a_renewal_hangs)
{
    struct world world;
    open_world(&world);
    world.hang = true;
    coord_lease *lease = keep(&world, TEXT("a"), 900);
    turn_to(&world, 1300);
    WAIT_FOR(world.hanging == 1);
    turn_to(&world, 1799);
    (void)usleep(20000);
    CHECK_I64("not before", world.lost, 0);
    CHECK_I64("still held", coord_check(lease), COORD_OK);
    turn_to(&world, 1800);
    CHECK_I64("check turns by itself", coord_check(lease), COORD_EXPIRED);
    WAIT_FOR(world.lost == 1);
    CHECK("before the store would let another in", world.lost_at_ns < (1000 + 900) * MS);
    CHECK_I64("for this reason", world.reason, COORD_R_LOCAL);
    CHECK_I64("one renewal, and it still hangs", world.hanging, 1);
    world.hang = false; /* its answer, OK, arrives too late */
    WAIT_FOR(world.hanging == 0);
    turn_to(&world, 9000);
    (void)usleep(20000);
    CHECK_I64("exactly once", world.lost, 1);
    CHECK_I64("and no spinning", fake_calls(&world.fake, FAULT_RENEW), 1);
    CHECK_I64("over for good", coord_renew(lease, NULL).reason, COORD_R_LOCAL);
    CHECK_I64("check too", coord_check(lease), COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(world.store);
}

TEST(a_slow_answer_counts_from_the_send)
{
    struct world world;
    open_world(&world);
    coord_lease *lease = keep(&world, TEXT("a"), 3000); /* safe for 2,700 */
    world.delay_ns = 1600 * MS;
    turn_to(&world, 2000); /* sent at 2,000, answered at 3,600: good until 4,700 */
    WAIT_FOR(fake_calls(&world.fake, FAULT_RENEW) >= 1);
    WAIT_FOR(fake_calls(&world.fake, FAULT_RENEW) >= 2);
    /* Due at once: a third after the send has passed. Sent at 3,600, answered at 5,200, but the
     * first answer was valid until 4,700 only. */
    WAIT_FOR(world.lost == 1);
    CHECK_I64("from the send, not from the answer", world.reason, COORD_R_LOCAL);
    CHECK_I64("which alone would be good until 6,300", coord_check(lease), COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(world.store);
}

TEST(a_hanging_renewal_delays_no_other_lease)
{
    struct world world;
    open_world(&world);
    world.hang = true;
    coord_lease *slow = keep(&world, TEXT("slow"), 900);
    turn_to(&world, 1300);
    WAIT_FOR(world.hanging == 1);
    coord_lease *others[KEEPER_WORKERS_MAX - 1];
    for (size_t i = 0; i < ARRAY_LEN(others); i++) { others[i] = keep(&world, TEXT("b"), 600); }
    turn_to(&world, 1500); /* a third of theirs */
    WAIT_FOR(world.hanging == KEEPER_WORKERS_MAX);
    world.hang = false;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        WAIT_FOR(coord_safe_for_ms(others[i]) == 500);
        coord_lease_unref(others[i]);
    }
    WAIT_FOR(world.hanging == 0);
    CHECK_I64("none lost", world.lost, 0);
    coord_lease_unref(slow);
    coord_close(world.store);
}

TEST(more_hanging_renewals_than_threads_lose_their_leases_in_time)
{
    struct world world;
    coord_lease *leases[KEEPER_WORKERS_MAX * 2];
    open_world(&world);
    world.hang = true;
    for (size_t i = 0; i < ARRAY_LEN(leases); i++) { leases[i] = keep(&world, TEXT("a"), 900); }
    turn_to(&world, 1300);
    WAIT_FOR(world.hanging == KEEPER_WORKERS_MAX);
    turn_to(&world, 1800);
    WAIT_FOR(world.lost == (int)ARRAY_LEN(leases));
    CHECK_I64("never more threads than that", world.hanging, KEEPER_WORKERS_MAX);
    world.hang = false;
    coord_close(world.store);
    CHECK_I64("and those that waited were not sent late", fake_calls(&world.fake, FAULT_RENEW),
              KEEPER_WORKERS_MAX);
    CHECK_I64("each reported once", world.lost, (int)ARRAY_LEN(leases));
    for (size_t i = 0; i < ARRAY_LEN(leases); i++) { coord_lease_unref(leases[i]); }
}

TEST(a_renewal_that_waited_too_long_for_a_thread_is_not_sent)
{
    struct world world;
    coord_lease *leases[KEEPER_WORKERS_MAX + 1];
    open_world(&world);
    world.hang = true;
    for (size_t i = 0; i < KEEPER_WORKERS_MAX; i++) { leases[i] = keep(&world, TEXT("a"), 3000); }
    turn_to(&world, 2000);
    WAIT_FOR(world.hanging == KEEPER_WORKERS_MAX);
    leases[KEEPER_WORKERS_MAX] = keep(&world, TEXT("b"), 900); /* due at 2,300, for 225 ms */
    turn_to(&world, 2300);
    (void)usleep(20000);
    turn_to(&world, 2600);
    world.hang = false;
    WAIT_FOR(world.hanging == 0);
    (void)usleep(20000);
    CHECK_I64("its time was over", fake_calls(&world.fake, FAULT_RENEW), KEEPER_WORKERS_MAX);
    turn_to(&world, 2661);
    WAIT_FOR(fake_calls(&world.fake, FAULT_RENEW) == KEEPER_WORKERS_MAX + 1);
    WAIT_FOR(coord_safe_for_ms(leases[KEEPER_WORKERS_MAX]) == 800);
    CHECK_I64("and the next one saved it", world.lost, 0);
    for (size_t i = 0; i < ARRAY_LEN(leases); i++) { coord_lease_unref(leases[i]); }
    coord_close(world.store);
}

TEST(a_lease_that_the_store_refuses_is_lost_with_its_reason)
{
    struct world world;
    open_world(&world);
    world.answer = COORD_EXPIRED;
    coord_lease *lease = keep(&world, TEXT("a"), 900);
    WAIT_FOR(fake_guarded(&world.fake) == 1);
    turn_to(&world, 1300);
    WAIT_FOR(world.lost == 1);
    CHECK_I64("reason", world.reason, COORD_R_SUPERSEDED);
    CHECK_I64("and to all calls", coord_renew(lease, NULL).reason, COORD_R_SUPERSEDED);
    CHECK_I64("a release too", coord_release(lease, NULL).code, COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(world.store);
    CHECK_I64("guarded no more", fake_guarded(&world.fake), 0);
}

TEST(a_failed_renewal_is_retried_until_the_lease_is_lost)
{
    struct world world;
    open_world(&world);
    world.answer = COORD_UNAVAILABLE;
    coord_lease *lease = keep(&world, TEXT("a"), 900);
    int calls = 0;
    for (int64_t ms = 1300; ms < 1730; ms += 60) { /* 50 ms and a fifth: due by this time */
        turn_to(&world, ms);
        WAIT_FOR(fake_calls(&world.fake, FAULT_RENEW) > calls);
        (void)usleep(8000);
        CHECK_I64("one in each pause", fake_calls(&world.fake, FAULT_RENEW), ++calls);
    }
    world.answer = COORD_OK;
    turn_to(&world, 1799);
    WAIT_FOR(coord_safe_for_ms(lease) == 800);
    CHECK_I64("saved at the last moment", world.lost, 0);
    coord_lease_unref(lease);
    coord_close(world.store);
}

TEST(a_forced_removal_of_a_key_is_reported_unasked)
{
    struct world world;
    open_world(&world);
    coord_lease *lease = keep(&world, TEXT("a"), 60000);
    coord_id id = coord_lease_id(lease), other = prim_id_random();
    world.fake.host->lost(world.fake.host, &other, COORD_R_REVOKED, 0);
    world.fake.host->lost(world.fake.host, &id, COORD_R_REVOKED, 0);
    world.fake.host->lost(world.fake.host, &id, COORD_R_DEADLINE, 0);
    CHECK_I64("check knows at once", coord_check(lease), COORD_EXPIRED);
    WAIT_FOR(world.lost == 1);
    CHECK_I64("the first reason", world.reason, COORD_R_REVOKED);
    coord_close(world.store);
    CHECK_I64("once", world.lost, 1);
    coord_lease_unref(lease);
}

TEST(a_key_that_the_holder_dropped_itself_is_no_loss)
{
    struct world world;
    open_world(&world);
    coord_lease *lease = keep(&world, TEXT("a"), 60000);
    coord_id id = coord_lease_id(lease);
    CHECK_I64("two keys", coord_create_under(lease, NULL, TEXT("b"), TEXT("")).code, COORD_OK);
    CHECK_I64("one again", coord_release_key(lease, NULL, TEXT("a")).code, COORD_OK);
    world.fake.host->lost(world.fake.host, &id, COORD_R_REVOKED, 0);
    WAIT_FOR(fake_calls(&world.fake, FAULT_RENEW) == 1); /* the store decides instead */
    CHECK_SIZE("about the rest", world.fake.claim_count, 1);
    CHECK_I64("alive", coord_check(lease), COORD_OK);
    CHECK_I64("not lost", world.lost, 0);
    CHECK_I64("not its own", coord_release_key(lease, NULL, TEXT("a")).code, COORD_NOT_FOUND);
    CHECK_I64("the last one ends it",
              coord_delete(world.store, NULL, TEXT("b"), COORD_ANY, lease).code, COORD_OK);
    CHECK_I64("over", coord_check(lease), COORD_EXPIRED);
    CHECK_I64("as released", coord_renew(lease, NULL).reason, COORD_R_RELEASED);
    coord_close(world.store);
    CHECK_I64("and never reported", world.lost, 0);
    coord_lease_unref(lease);
}

TEST(a_degraded_store_loses_all_and_grants_nothing)
{
    struct world world;
    open_world(&world);
    coord_lease *kept = keep(&world, TEXT("a"), 60000), *bare = grant(&world, TEXT("b"), 60000);
    world.fake.host->degraded(world.fake.host, "the stream lost its TTL");
    WAIT_FOR(world.lost == 1);
    CHECK_I64("all", coord_check(kept) == COORD_EXPIRED && coord_check(bare) == COORD_EXPIRED, 1);
    coord_lease *lease = NULL;
    coord_result result =
        coord_create_if_absent(world.store, NULL, TEXT("c"), TEXT(""), 1000, "me", &lease);
    CHECK_I64("refused", result.code, COORD_UNSUPPORTED);
    CHECK_I64("because", result.reason, COORD_R_DEGRADED);
    CHECK_HAS("the reason", result.text, "lost its TTL");
    CHECK_I64("and it shows", coord_capabilities(world.store).degraded, 1);
    coord_lease_unref(kept);
    coord_lease_unref(bare);
    coord_close(world.store);
}

TEST(after_a_release_or_the_last_reference_nothing_is_reported)
{
    struct world world;
    open_world(&world);
    coord_lease *released = keep(&world, TEXT("a"), 900), *dropped = keep(&world, TEXT("b"), 900);
    CHECK_I64("released", coord_release(released, NULL).code, COORD_OK);
    coord_lease_unref(dropped);
    turn_to(&world, 5000);
    (void)usleep(20000);
    CHECK_I64("nothing", world.lost, 0);
    CHECK_I64("no renewal either", fake_calls(&world.fake, FAULT_RENEW), 0);
    coord_lease_unref(released);
    coord_close(world.store);
}

struct renewal {
    coord_lease *lease;
    coord_result result;
};

static void *renew_once(void *arg)
{
    struct renewal *renewal = arg;
    renewal->result = coord_renew(renewal->lease, NULL);
    return NULL;
}

TEST(a_renewal_answered_after_the_release_reports_released)
{
    struct world world;
    pthread_t thread;
    open_world(&world);
    world.hang = true;
    struct renewal renewal = {.lease = grant(&world, TEXT("a"), 900)};
    (void)pthread_create(&thread, NULL, renew_once, &renewal);
    WAIT_FOR(world.hanging == 1);
    CHECK_I64("released", coord_release(renewal.lease, NULL).code, COORD_OK);
    world.hang = false;
    (void)pthread_join(thread, NULL);
    CHECK_I64("although the store answered OK", renewal.result.code, COORD_EXPIRED);
    CHECK_I64("released", renewal.result.reason, COORD_R_RELEASED);
    CHECK_I64("and it stays so", coord_check(renewal.lease), COORD_EXPIRED);
    coord_lease_unref(renewal.lease);
    coord_close(world.store);
}

static void release_inside(void *arg, coord_lease *lease, int reason)
{
    struct world *world = arg;
    (void)reason;
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease); /* the caller's own and last reference */
    atomic_fetch_add(&world->lost, 1);
}

TEST(on_lost_may_release_and_unref)
{
    struct world world;
    open_world(&world);
    world.answer = COORD_UNAVAILABLE;
    coord_lease *lease = grant(&world, TEXT("a"), 900);
    CHECK_I64("kept", coord_keep(lease, release_inside, &world).code, COORD_OK);
    turn_to(&world, 1800);
    WAIT_FOR(world.lost == 1);
    coord_close(world.store);
    CHECK_I64("the waiting caller is woken", fake_calls(&world.fake, FAULT_RELEASE), 1);
}

static void block_in_lost(void *arg, coord_lease *lease, int reason)
{
    struct world *world = arg;
    (void)lease;
    (void)reason;
    atomic_fetch_add(&world->hanging, 1);
    while (atomic_load(&world->hang)) { (void)usleep(200); }
    atomic_fetch_sub(&world->hanging, 1);
}

TEST(a_loss_not_reported_yet_dies_with_the_last_reference)
{
    struct world world;
    open_world(&world);
    world.hang = true;
    coord_lease *first = grant(&world, TEXT("a"), 60000), *second = keep(&world, TEXT("b"), 60000);
    CHECK_I64("kept", coord_keep(first, block_in_lost, &world).code, COORD_OK);
    coord_id one = coord_lease_id(first), two = coord_lease_id(second);
    world.fake.host->lost(world.fake.host, &one, COORD_R_REVOKED, 0);
    WAIT_FOR(world.hanging == 1);
    world.fake.host->lost(world.fake.host, &two, COORD_R_REVOKED, 0);
    coord_lease_unref(second);
    world.hang = false;
    coord_close(world.store);
    CHECK_I64("nobody is left to report to", world.lost, 0);
    coord_lease_unref(first);
}

TEST(a_late_renewal_is_never_sent_to_a_server_that_would_take_it)
{
    struct world world;
    open_world(&world);
    world.fake.caps.bits |= COORD_CAP_LATE_RENEWAL;
    coord_lease *lease = grant(&world, TEXT("a"), 900);
    turn_to(&world, 1799);
    CHECK_I64("in time", coord_renew(lease, NULL).code, COORD_OK);
    turn_to(&world, 1799 + 800);
    coord_result result = coord_renew(lease, NULL);
    CHECK_I64("late", result.code, COORD_EXPIRED);
    CHECK_I64("here", result.reason, COORD_R_LOCAL);
    CHECK_I64("not sent", fake_calls(&world.fake, FAULT_RENEW), 1);
    turn_to(&world, 1800);
    CHECK_I64("final", coord_check(lease), COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(world.store);
}

TEST(a_late_renewal_is_the_servers_to_judge_elsewhere)
{
    struct world world;
    open_world(&world);
    coord_lease *lease = grant(&world, TEXT("a"), 900);
    turn_to(&world, 1850);
    CHECK_I64("over here", coord_check(lease), COORD_EXPIRED);
    CHECK_I64("not there", coord_renew(lease, NULL).code, COORD_OK);
    CHECK_I64("held again", coord_check(lease), COORD_OK);
    world.answer = COORD_EXPIRED;
    CHECK_I64("refused", coord_renew(lease, NULL).code, COORD_EXPIRED);
    world.answer = COORD_OK;
    CHECK_I64("for good", coord_renew(lease, NULL).code, COORD_EXPIRED);
    coord_lease_unref(lease);
    coord_close(world.store);
}

/* D13, D15, D16: real time; many leases that are renewed, fail, are refused and released at once.
 * */
struct counted {
    atomic_int lost;
    coord_lease *lease;
};

static void count_lost(void *arg, coord_lease *lease, int reason)
{
    struct counted *counted = arg;
    (void)lease;
    (void)reason;
    atomic_fetch_add(&counted->lost, 1);
}

static coord_result moody(struct fake *fake, enum fault_op op, const struct prim_call *call)
{
    (void)fake;
    (void)call;
    if (op != FAULT_RENEW) { return prim_ok(COORD_R_NONE); }
    int64_t mood = prim_random_below(10);
    if (mood == 0) { return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "over"); }
    if (mood < 4) { return prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED, "no"); }
    if (mood < 6) { (void)usleep(20000); }
    return prim_ok(COORD_R_NONE);
}

TEST(races_of_renewal_refusal_timer_and_release_report_at_most_once)
{
    enum { LEASES = 300 };
    static struct counted counted[LEASES];
    struct fake fake;
    coord_store *store;
    fake_init(&fake);
    fake.act = moody;
    CHECK_I64("opens", fake_open(&fake, NULL, &store).code, COORD_OK);
    for (int i = 0; i < LEASES; i++) {
        (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 40 + i, "me",
                                     &counted[i].lease);
        (void)coord_keep(counted[i].lease, count_lost, &counted[i]);
    }
    for (int round = 0; round < 20; round++) {
        (void)usleep(10000);
        for (int i = round; i < LEASES; i += 20) {
            if (i % 3 == 0) {
                int before = atomic_load(&counted[i].lost);
                coord_result result = coord_release(counted[i].lease, NULL);
                int after = atomic_load(&counted[i].lost);
                CHECK("lost or released", result.code == COORD_OK || result.code == COORD_EXPIRED);
                CHECK("known when release returns", before <= after && after <= 1);
                (void)usleep(100);
                CHECK_I64("nothing after", atomic_load(&counted[i].lost), after);
            } else if (i % 3 == 1) {
                (void)coord_renew(counted[i].lease, NULL);
            }
        }
    }
    for (int i = 0; i < LEASES; i++) {
        if (i % 3 != 0) {
            WAIT_FOR(atomic_load(&counted[i].lost) == 1);
        } /* random answers: in the end all leases are lost */
    }
    coord_close(store);
    for (int i = 0; i < LEASES; i++) {
        CHECK("at most once", atomic_load(&counted[i].lost) <= 1);
        coord_lease_unref(counted[i].lease);
    }
}

struct slow_end {
    atomic_bool begun, freed, used_after;
};

static void slow_on_lost(void *arg, coord_lease *lease, int reason)
{
    struct slow_end *end = arg;
    (void)lease, (void)reason;
    atomic_store(&end->begun, true);
    (void)usleep(50000);
    atomic_store(&end->used_after, atomic_load(&end->freed));
}

/* The caller may free the argument of on_lost after its last coord_lease_unref, even while a
 * blocked renewal holds a reference of its own. */
TEST(giving_back_the_last_reference_waits_for_on_lost)
{
    struct world world;
    struct slow_end end = {.begun = false};
    open_world(&world);
    world.hang = true;
    coord_lease *lease = grant(&world, TEXT("a"), 900);
    CHECK_I64("kept", coord_keep(lease, slow_on_lost, &end).code, COORD_OK);
    turn_to(&world, 1300);
    WAIT_FOR(world.hanging == 1);
    turn_to(&world, 1800);
    WAIT_FOR(end.begun);
    coord_lease_unref(lease);
    end.freed = true;
    world.hang = false;
    coord_close(world.store);
    CHECK("on_lost had ended by then", !end.used_after);
}

/* As above, before the loss: no callback comes, although a renewal is running and fails. */
TEST(after_the_last_reference_a_renewal_under_way_reports_nothing)
{
    struct world world;
    open_world(&world);
    world.hang = true;
    world.answer = COORD_EXPIRED;
    coord_lease *hung = keep(&world, TEXT("a"), 900), *refused = keep(&world, TEXT("b"), 900);
    turn_to(&world, 1300);
    WAIT_FOR(world.hanging == 2);
    coord_lease_unref(hung);
    coord_lease_unref(refused);
    turn_to(&world, 1800);
    (void)usleep(20000);
    world.hang = false;
    WAIT_FOR(world.hanging == 0);
    (void)usleep(20000);
    coord_close(world.store);
    CHECK_I64("reported nothing", world.lost, 0);
}
