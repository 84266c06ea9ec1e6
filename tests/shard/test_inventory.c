/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory's rules (specification, shard.md 2.5 and 2.12), one by one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/shard_check.h"
#include "lib/test.h"
#include "shard/state/cohort.h"
#include "shard/world.h"

static const mono_time early = {1000}, late = {2000};

static enum err put(struct world *w, const char *id, enum machine_state state, mono_time now)
{
    struct machine m = world_machine(w, id, state);
    return inventory_insert(w->inventory, &m, now, &w->note);
}

static enum err move(struct world *w, const char *id, enum machine_state state,
                     enum inventory_source source, mono_time now, enum machine_edge *edge)
{
    struct machine m = world_machine(w, id, state);
    return inventory_apply(w->inventory, &m, source, now, edge, &w->note);
}

static struct inventory_entry entry_of(struct world *w, const char *id)
{
    struct inventory_entry entry = {0};

    CHECK_OK(id, inventory_get(w->inventory, str_from(id), &w->arena, &entry));
    CHECK(w->note.text, inventory_check(w->inventory, &w->note));
    return entry;
}

static void see(struct world *w, const char *id, enum listed_as want)
{
    struct machine m = world_machine(w, id, MACHINE_IDLE);

    CHECK_U32(id, inventory_list_record(w->inventory, &m), want);
    CHECK(w->note.text, inventory_check(w->inventory, &w->note));
}

TEST(an_insert_needs_a_sound_record_and_a_new_id)
{
    struct world w;
    struct machine bad;

    world_open(&w);
    bad = world_machine(&w, "m1", MACHINE_CONFIGURED);
    bad.cluster = STR_EMPTY;
    CHECK_ERR("Configured without a cluster", inventory_insert(w.inventory, &bad, early, &w.note),
              ERR_INVALID);
    bad = world_machine(&w, "m1", MACHINE_IDLE);
    bad.price_per_hour = -1;
    CHECK_ERR("a price below zero", inventory_insert(w.inventory, &bad, early, &w.note),
              ERR_INVALID);
    CHECK_OK("sound", put(&w, "m1", MACHINE_IDLE, early));
    CHECK_ERR("twice", put(&w, "m1", MACHINE_IDLE, late), ERR_EXISTS);
    CHECK_U64("the first stays", entry_of(&w, "m1").idle_since.ms, early.ms);
    CHECK_OK("remove", inventory_remove(w.inventory, STR("m1")));
    CHECK_ERR("gone", inventory_remove(w.inventory, STR("m1")), ERR_NOT_FOUND);
    CHECK_ERR("no such machine", move(&w, "m1", MACHINE_IDLE, INVENTORY_DRIVEN, late, NULL),
              ERR_NOT_FOUND);
    CHECK_U32("empty again", inventory_stats(w.inventory).cohorts, 0);
    world_close(&w);
}

TEST(a_full_inventory_refuses)
{
    struct inventory_options options = {.machines_max = 1, .seed = 1};
    struct inventory *small;
    struct machine m;
    struct world w;

    world_open(&w);
    CHECK_OK("open", inventory_open(&options, &small));
    m = world_machine(&w, "m1", MACHINE_IDLE);
    CHECK_OK("one", inventory_insert(small, &m, early, &w.note));
    m.id = STR("m2");
    CHECK_ERR("two", inventory_insert(small, &m, early, &w.note), ERR_FULL);
    inventory_close(small);
    world_close(&w);
}

static const struct {
    const char *why;
    enum machine_state from, to;
    mono_time want; /* idle since, after it went from -> to at `late`; 0: none */
} idle_cases[] = {
    {"entering Idle stamps it", MACHINE_DRAINING, MACHINE_IDLE, {2000}},
    {"staying Idle keeps the stamp", MACHINE_IDLE, MACHINE_IDLE, {1000}},
    {"leaving Idle drops it", MACHINE_IDLE, MACHINE_CONFIGURING, {0}},
    {"rolling back stamps it anew", MACHINE_CONFIGURING, MACHINE_IDLE, {2000}},
};
TEST(idle_since_follows_the_state)
{
    for (size_t i = 0; i < ARRAY_LEN(idle_cases); i++) {
        struct world w;
        world_open(&w);
        CHECK_OK("put", put(&w, "m1", idle_cases[i].from, early));
        CHECK_OK(idle_cases[i].why, move(&w, "m1", idle_cases[i].to, INVENTORY_DRIVEN, late, NULL));
        CHECK_U64(idle_cases[i].why, entry_of(&w, "m1").idle_since.ms, idle_cases[i].want.ms);
        world_close(&w);
    }
}

static const struct {
    const char *why;
    enum machine_state from, to;
    enum err driven, observed;
} move_cases[] = {
    {"ours", MACHINE_IDLE, MACHINE_CONFIGURING, ERR_OK, ERR_OK},
    {"a spot machine dies", MACHINE_CONFIGURED, MACHINE_FAILED, ERR_PRECONDITION, ERR_OK},
    {"no shortcut for us", MACHINE_SPECULATIVE, MACHINE_IDLE, ERR_PRECONDITION, ERR_OK},
    {"a host comes back", MACHINE_FAILED, MACHINE_IDLE, ERR_PRECONDITION, ERR_OK},
    {"same state, other fields", MACHINE_CONFIGURED, MACHINE_CONFIGURED, ERR_OK, ERR_OK},
};
TEST(we_make_only_our_moves_and_believe_what_a_provider_reports)
{
    for (size_t i = 0; i < ARRAY_LEN(move_cases); i++) {
        enum machine_edge edge = EDGE_FOREIGN;
        struct world w;
        world_open(&w);
        CHECK_OK("put", put(&w, "m1", move_cases[i].from, early));
        CHECK_ERR(move_cases[i].why, move(&w, "m1", move_cases[i].to, INVENTORY_DRIVEN, late, NULL),
                  move_cases[i].driven);
        if (move_cases[i].driven) {
            CHECK_U32("refused, so it is what it was", entry_of(&w, "m1").machine.state,
                      move_cases[i].from);
            CHECK_ERR(move_cases[i].why,
                      move(&w, "m1", move_cases[i].to, INVENTORY_OBSERVED, late, &edge),
                      move_cases[i].observed);
            CHECK_U32("the kind of move is returned", edge,
                      machine_edge(move_cases[i].from, move_cases[i].to));
        }
        CHECK_U32(move_cases[i].why, entry_of(&w, "m1").machine.state, move_cases[i].to);
        world_close(&w);
    }
}

TEST(a_queued_action_counts_as_begun_until_the_state_changes_or_it_is_dropped)
{
    struct plan plan = {.action = PLANNED_BOOTSTRAP, .cluster = STR("b")};
    struct plan drain = {.action = PLANNED_DRAIN};
    struct machine m;
    struct world w;

    world_open(&w);
    CHECK_OK("put", put(&w, "m1", MACHINE_IDLE, early));
    CHECK_ERR("no destination",
              inventory_plan(w.inventory, STR("m1"), &(struct plan){.action = PLANNED_BOOTSTRAP},
                             &w.note),
              ERR_INVALID);
    CHECK_ERR("not Configured", inventory_plan(w.inventory, STR("m1"), &drain, &w.note),
              ERR_PRECONDITION);
    CHECK_OK("plan", inventory_plan(w.inventory, STR("m1"), &plan, &w.note));
    CHECK_ERR("planned already", inventory_plan(w.inventory, STR("m1"), &plan, &w.note),
              ERR_PRECONDITION);
    CHECK_U32("it really is Idle", entry_of(&w, "m1").machine.state, MACHINE_IDLE);
    CHECK_U32("it counts as Configuring", entry_of(&w, "m1").planned_state, MACHINE_CONFIGURING);
    CHECK_U32("for b", inventory_cluster_count(w.inventory, STR("b"), MACHINE_CONFIGURING), 1);
    m = world_machine(&w, "m1", MACHINE_IDLE);
    m.price_per_hour = 7;
    CHECK_OK("a new price",
             inventory_apply(w.inventory, &m, INVENTORY_OBSERVED, late, NULL, &w.note));
    CHECK_U32("the plan goes on", entry_of(&w, "m1").planned, PLANNED_BOOTSTRAP);
    CHECK("with the new price", entry_of(&w, "m1").machine.price_per_hour == 7);
    CHECK_OK("unplan", inventory_unplan(w.inventory, STR("m1")));
    CHECK_U32("as if never planned", entry_of(&w, "m1").planned_state, MACHINE_IDLE);
    CHECK_U64("idle all the time", entry_of(&w, "m1").idle_since.ms, early.ms);
    CHECK_OK("plan", inventory_plan(w.inventory, STR("m1"), &plan, &w.note));
    CHECK_OK("begin", move(&w, "m1", MACHINE_DELETING, INVENTORY_DRIVEN, late, NULL));
    CHECK_U32("a new state ends the plan", entry_of(&w, "m1").planned, PLANNED_NOTHING);
    CHECK_U32("counts", inventory_counts(w.inventory).planned, 0);
    world_close(&w);
}

TEST(running_out_of_memory_changes_nothing)
{
    bool fired = true;

    for (uint64_t k = 1; fired && k < FAULT_SWEEP_MAX; k++) { /* only the changes are swept */
        struct world w;
        struct machine m;
        struct plan plan = {.action = PLANNED_PROVISION, .cluster = STR("c")};
        enum err err;

        world_open(&w);
        plan.stamp.fingerprint = STR("f");
        m = world_machine(&w, "m1", MACHINE_SPECULATIVE);
        fault_alloc_arm(k);
        err = inventory_insert(w.inventory, &m, early, &w.note);
        if (!err) err = inventory_plan(w.inventory, m.id, &plan, &w.note);
        if (!err) err = inventory_unplan(w.inventory, m.id);
        m.state = MACHINE_CREATING;
        m.destination = STR("d");
        m.stamp.fingerprint = STR("g");
        if (!err) { err = inventory_apply(w.inventory, &m, INVENTORY_DRIVEN, late, NULL, &w.note); }
        m.id = STR("m2");
        if (!err) err = inventory_insert(w.inventory, &m, late, &w.note);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        CHECK_ERR("done, or out of memory", err, fired ? ERR_NOMEM : ERR_OK);
        CHECK(w.note.text, inventory_check(w.inventory, &w.note));
        world_close(&w); /* asserts that nothing is left */
    }
}

/* A row that outgrows its place is another one; everything that knew it knows the new one. */
TEST(a_longer_host_ref_changes_nothing_else)
{
    static const uint32_t sizes[] = {1, 5, 40};
    struct plan plan = {.action = PLANNED_DELETE};

    for (size_t size = 0; size < ARRAY_LEN(sizes); size++) {
        struct inventory_entry entry;
        struct machine m;
        struct world w;

        world_open(&w);
        for (uint32_t i = 0; i < sizes[size]; i++) {
            char id[] = {'m', (char)('0' + i), '\0'};
            CHECK_OK("put", put(&w, id, MACHINE_IDLE, early));
        }
        if (size == 0) CHECK_OK("plan", inventory_plan(w.inventory, STR("m0"), &plan, &w.note));
        inventory_list_begin(w.inventory, true);
        see(&w, "m0", LISTED_SAME);
        m = entry_of(&w, "m0").machine; /* views of the row that goes */
        m.host_ref = STR("a much longer reference than the one it came with");
        CHECK_OK("apply", inventory_apply(w.inventory, &m, INVENTORY_OBSERVED, late, NULL, NULL));
        entry = entry_of(&w, "m0");
        CHECK_STR("the new one", entry.machine.host_ref, m.host_ref);
        CHECK_U64("idle since", entry.idle_since.ms, early.ms);
        CHECK_U32("still planned", entry.planned, size == 0 ? PLANNED_DELETE : PLANNED_NOTHING);
        CHECK_U32("named once", inventory_list_record(w.inventory, &entry.machine), LISTED_AGAIN);
        m = entry.machine;
        m.host_ref = STR("short");
        CHECK_OK("apply", inventory_apply(w.inventory, &m, INVENTORY_OBSERVED, late, NULL, NULL));
        CHECK_STR("a shorter one", entry_of(&w, "m0").machine.host_ref, m.host_ref);
        CHECK_OK("remove", inventory_remove(w.inventory, STR("m0")));
        world_close(&w);
    }
}

/* One, a few, many and back: after every step the members are in the order of their ids, and a
 * step that finds no memory leaves them as they were. */
TEST(a_cohort_of_any_size_keeps_its_order)
{
    enum { MEMBERS = 50, STRIDE = 37 }; /* no factor in common: every number comes once */
    struct world w;

    world_open(&w);
    for (uint32_t i = 0; i < 2 * MEMBERS; i++) {
        struct machine m = world_machine(&w, "", MACHINE_IDLE);
        char id[] = {'m', (char)('0' + i * STRIDE % MEMBERS), '\0'};
        m.id = str_from(id);
        for (uint64_t k = 1; i < MEMBERS; k++) {
            enum err err;
            fault_alloc_arm(k);
            err = inventory_insert(w.inventory, &m, early, &w.note);
            fault_alloc_arm(0);
            CHECK(w.note.text, inventory_check(w.inventory, &w.note));
            if (!err) break;
            CHECK_ERR("out of memory", err, ERR_NOMEM);
        }
        if (i >= MEMBERS) CHECK_OK("remove", inventory_remove(w.inventory, m.id));
        CHECK(w.note.text, inventory_check(w.inventory, &w.note));
        CHECK_U32("all alike", inventory_stats(w.inventory).cohorts, i < 2 * MEMBERS - 1);
    }
    world_close(&w);
}

/* --- what a List names --- */

static void nothing(struct machine *m)
{
    (void)m;
}
static void state(struct machine *m)
{
    m->state = MACHINE_DRAINING;
}
static void price(struct machine *m)
{
    m->price_per_hour = 2;
}
static void no_price(struct machine *m)
{
    m->price_per_hour = (double)NAN;
}
static void probability(struct machine *m)
{
    m->interruption_probability = 0.5;
}
static void capacity_type(struct machine *m)
{
    m->capacity_type = CAPACITY_SPOT;
}
static void cluster(struct machine *m)
{
    m->cluster = STR("b");
}
static void host(struct machine *m)
{
    m->host_ref = STR("host-2");
}
static void provider(struct machine *m)
{
    m->host_provider = STR("other");
}
static void last_error(struct machine *m)
{
    m->last_error = STR("slow");
}
static void resources(struct machine *m)
{
    m->resources.milli[0]++;
}
static void allocatable(struct machine *m)
{
    m->allocatable = m->resources;
}
static void type(struct machine *m)
{
    m->attributes.instance_type = STR("t1");
}
static void zone(struct machine *m)
{
    m->attributes.zone = STR("z1");
}
static void labels(struct machine *m)
{
    static const struct label rack = {{"rack", 4}, {"r1", 2}};
    m->attributes.labels = &rack;
    m->attributes.label_count = 1;
}
static void ours(struct machine *m)
{
    m->stamp.priority = 7; /* what is ours a List does not compare */
    m->promised.cluster = STR("b");
}
static const struct {
    const char *why;
    void (*change)(struct machine *m);
    enum listed_as want;
} sight_cases[] = {
    {"nothing", nothing, LISTED_SAME},
    {"the stamp and the promise", ours, LISTED_SAME},
    {"the state", state, LISTED_CHANGED},
    {"the price", price, LISTED_CHANGED},
    {"no number for a price", no_price, LISTED_CHANGED},
    {"the probability", probability, LISTED_CHANGED},
    {"the capacity type", capacity_type, LISTED_CHANGED},
    {"the cluster", cluster, LISTED_CHANGED},
    {"the host", host, LISTED_CHANGED},
    {"the host's provider", provider, LISTED_CHANGED},
    {"the last error", last_error, LISTED_CHANGED},
    {"the resources", resources, LISTED_CHANGED},
    {"what can be allocated", allocatable, LISTED_CHANGED},
    {"the type", type, LISTED_CHANGED},
    {"the zone", zone, LISTED_CHANGED},
    {"the labels", labels, LISTED_CHANGED},
};
TEST(a_list_is_compared_in_every_field_that_a_provider_owns)
{
    for (size_t i = 0; i < ARRAY_LEN(sight_cases); i++) {
        struct machine m;
        struct world w;
        world_open(&w);
        CHECK_OK("put", put(&w, "m1", MACHINE_CONFIGURED, early));
        m = world_machine(&w, "m1", MACHINE_CONFIGURED);
        sight_cases[i].change(&m);
        CHECK_U32("the first List", inventory_list_begin(w.inventory, true), 1);
        CHECK_U32(sight_cases[i].why, inventory_list_record(w.inventory, &m), sight_cases[i].want);
        CHECK_U32("twice in one List", inventory_list_record(w.inventory, &m), LISTED_AGAIN);
        CHECK_U32("the second List", inventory_list_begin(w.inventory, true), 2);
        CHECK_U32("once in each is fine", inventory_list_record(w.inventory, &m),
                  sight_cases[i].want);
        world_close(&w);
    }
}

TEST(what_no_list_named_is_found_by_id)
{
    static const char *const all[] = {"m3", "m1", "m2", "m4"};
    struct str *ids;
    struct world w;
    size_t count;

    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        CHECK_OK("put", put(&w, all[i], MACHINE_IDLE, early));
    inventory_list_begin(w.inventory, true);
    see(&w, "m1", LISTED_SAME);
    see(&w, "m9", LISTED_NEW);
    CHECK_U32("the others", inventory_unseen_count(w.inventory), 3);
    inventory_list_begin(w.inventory, true);
    CHECK_U32("nothing yet", inventory_unseen_count(w.inventory), 4);
    see(&w, "m4", LISTED_SAME);
    see(&w, "m3", LISTED_SAME);
    CHECK_OK("this List", inventory_unseen(w.inventory, 2, &w.arena, &ids, &count));
    CHECK_SIZE("two", count, 2);
    CHECK_STR("by id", ids[0], STR("m1"));
    CHECK_STR("by id", ids[1], STR("m2"));
    CHECK_OK("both Lists", inventory_unseen(w.inventory, 1, &w.arena, &ids, &count));
    CHECK_SIZE("one", count, 1);
    CHECK_STR("in neither", ids[0], STR("m2"));
    CHECK_OK("one that was named goes", inventory_remove(w.inventory, STR("m3")));
    CHECK_OK("and comes back", put(&w, "m3", MACHINE_IDLE, late));
    CHECK_U32("not named since", inventory_unseen_count(w.inventory), 3);
    see(&w, "m3", LISTED_SAME);
    world_close(&w);
}

TEST(the_machines_of_a_cluster_are_those_that_are_really_bound_to_it)
{
    static const struct {
        const char *id, *cluster;
        enum machine_state state;
    } all[] = {{"configured", "a", MACHINE_CONFIGURED},
               {"configuring", "a", MACHINE_CONFIGURING},
               {"draining", "a", MACHINE_DRAINING},
               {"to be drained", "a", MACHINE_CONFIGURED},
               {"failed", "a", MACHINE_FAILED},
               {"another's", "b", MACHINE_CONFIGURED},
               {"idle", "", MACHINE_IDLE},
               {"to be bound", "", MACHINE_IDLE}};
    struct plan drain = {.action = PLANNED_DRAIN};
    struct plan bootstrap = {.action = PLANNED_BOOTSTRAP, .cluster = STR("a")};
    struct str *ids;
    struct world w;
    size_t count;

    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct machine m = world_machine(&w, all[i].id, all[i].state);
        m.cluster = str_from(all[i].cluster);
        CHECK_OK(all[i].id, inventory_insert(w.inventory, &m, early, &w.note));
    }
    CHECK_OK("plan", inventory_plan(w.inventory, STR("to be drained"), &drain, &w.note));
    CHECK_OK("plan", inventory_plan(w.inventory, STR("to be bound"), &bootstrap, &w.note));
    CHECK(w.note.text, inventory_check(w.inventory, &w.note));
    CHECK_OK("bound", inventory_bound(w.inventory, STR("a"), &w.arena, &ids, &count));
    CHECK_SIZE("the first five", count, 5);
    for (size_t i = 0; i < count; i++) {
        struct inventory_entry entry = entry_of(&w, arena_dup(&w.arena, ids[i]));
        CHECK_STR("bound to it", entry.machine.cluster, STR("a"));
    }
    CHECK_OK("unknown", inventory_bound(w.inventory, STR("zz"), &w.arena, &ids, &count));
    CHECK_SIZE("none", count, 0);
    world_close(&w);
}

/* --- the order of Lists, which is only a guess --- */

enum { LISTED = 12 };

/* Lists the machines with these numbers, in this order; inserts what is not known, as reconciling
 * does. How many were where the guess said. */
static uint32_t list_in_order(struct world *w, const int *numbers, size_t count, bool full)
{
    uint32_t guessed = 0;

    inventory_list_begin(w->inventory, full);
    for (size_t i = 0; i < count; i++) {
        char *id = arena_alloc(&w->arena, 8);
        struct machine m;
        uint32_t before = w->inventory->order_cursor;
        snprintf(id, 8, "m%d", numbers[i]);
        m = world_machine(w, id, MACHINE_IDLE);
        if (inventory_list_record(w->inventory, &m) == LISTED_NEW) {
            CHECK_OK(id, inventory_insert(w->inventory, &m, early, &w->note));
            CHECK_U32(id, inventory_list_record(w->inventory, &m), LISTED_SAME);
        } else {
            guessed += before != SLOT_NONE && w->inventory->order_cursor == before + 1;
        }
        CHECK_U32(id, inventory_list_record(w->inventory, &m), LISTED_AGAIN);
        CHECK(w->note.text, inventory_check(w->inventory, &w->note));
    }
    CHECK_U32("all were named", inventory_unseen_count(w->inventory),
              w->inventory->rows.count - (uint32_t)count);
    inventory_list_end(w->inventory, true);
    CHECK(w->note.text, inventory_check(w->inventory, &w->note));
    return guessed;
}

TEST(a_machine_is_found_where_the_last_list_had_it)
{
    static const int all[] = {3, 1, 4, 5, 9, 2, 6};
    static const int inserted[] = {7, 3, 1, 8, 4, 5, 9, 2, 6};
    static const int left_out[] = {3, 4, 5, 9, 6};
    static const int turned[] = {6, 9, 5, 4, 3};
    struct machine m;
    struct world w;

    world_open(&w);
    CHECK_U32("the first", list_in_order(&w, all, 7, true), 0);
    CHECK_U32("as before", list_in_order(&w, all, 7, true), 7);
    CHECK_U32("new ones among them", list_in_order(&w, inserted, 9, true), 7);
    CHECK_U32("some left out", list_in_order(&w, left_out, 5, true), 2);
    CHECK("a few are guessed anyhow", list_in_order(&w, turned, 5, true) < 5);
    CHECK_U32("that order, then", list_in_order(&w, turned, 5, true), 5);
    CHECK_OK("one goes", inventory_remove(w.inventory, STR("m5")));
    m = world_machine(&w, "m9", MACHINE_IDLE);
    m.host_ref = STR("a host whose name is longer than that of the one it had");
    CHECK_OK("one moves", inventory_apply(w.inventory, &m, INVENTORY_OBSERVED, late, NULL, NULL));
    CHECK(w.note.text, inventory_check(w.inventory, &w.note));
    inventory_list_begin(w.inventory, true);
    see(&w, "m6", LISTED_SAME);
    CHECK_U32("found elsewhere", inventory_list_record(w.inventory, &m), LISTED_SAME);
    CHECK_OK("another goes while it is read", inventory_remove(w.inventory, STR("m4")));
    see(&w, "m4", LISTED_NEW);
    see(&w, "m3", LISTED_SAME);
    inventory_list_end(w.inventory, true);
    CHECK_U32("no row waits but what went meanwhile", w.inventory->dead_count, 1);
    CHECK_U32("a delta guesses nothing", list_in_order(&w, turned, 5, false), 0);
    CHECK_U32("and keeps nothing", w.inventory->dead_count, 0);
    world_close(&w);
}

TEST(lists_in_any_order_find_everybody)
{
    struct prng prng;
    struct world w;

    world_open(&w);
    prng_seed(&prng, 1);
    for (int round = 0; round < 200; round++) {
        int numbers[LISTED];
        size_t count = 0;
        for (int i = 0; i < LISTED; i++)
            if (prng_below(&prng, 5)) numbers[count++] = i;
        for (size_t i = 0; i + 1 < count && round % 3 == 0; i++) { /* else as they are */
            size_t other = i + prng_below(&prng, count - i);
            int swap = numbers[i];
            numbers[i] = numbers[other];
            numbers[other] = swap;
        }
        (void)list_in_order(&w, numbers, count, prng_below(&prng, 6) != 0);
        if (prng_below(&prng, 3) == 0) {
            char id[8];
            snprintf(id, sizeof id, "m%d", (int)prng_below(&prng, LISTED));
            (void)inventory_remove(w.inventory, str_from(id));
        }
        if (prng_below(&prng, 8) == 0) { /* a List that was cut */
            inventory_list_begin(w.inventory, true);
            inventory_list_end(w.inventory, false);
        }
    }
    world_close(&w);
}
