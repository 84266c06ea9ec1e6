/* SPDX-License-Identifier: Apache-2.0 */
#include "model/machine.h"

#include <math.h>
#include <stdlib.h>

#include "lib/test.h"
#include "model/profile.h"

TEST(states_and_capacity_types_have_the_words_of_the_wire)
{
    static const char *const states[] = {"Unspecified", "Speculative", "Creating", "Idle",
                                         "Configuring", "Configured",  "Draining", "Deleting",
                                         "Failed",      "State(9)"};
    static const char *const types[] = {"CapacityType(0)", "BareMetal", "Reserved",
                                        "OnDemand",        "Spot",      "CapacityType(5)"};
    char text[MACHINE_NAME_CAP];

    for (uint32_t i = 0; i < ARRAY_LEN(states); i++)
        CHECK_TEXT("state", machine_state_name(i, text), states[i]);
    for (uint32_t i = 0; i < ARRAY_LEN(types); i++)
        CHECK_TEXT("type", capacity_type_name(i, text), types[i]);
    CHECK_TEXT("the largest number fits", capacity_type_name(UINT32_MAX, text),
               "CapacityType(4294967295)");
}

TEST(idle_machines_are_held_by_what_they_cost)
{
    CHECK_U64("unspecified", capacity_type_idle_hold_ms(CAPACITY_UNSPECIFIED), IDLE_HOLD_FOREVER);
    CHECK_U64("bare metal", capacity_type_idle_hold_ms(CAPACITY_BARE_METAL), IDLE_HOLD_FOREVER);
    CHECK_U64("reserved", capacity_type_idle_hold_ms(CAPACITY_RESERVED), IDLE_HOLD_FOREVER);
    CHECK_U64("on demand", capacity_type_idle_hold_ms(CAPACITY_ON_DEMAND), 600000);
    CHECK_U64("spot", capacity_type_idle_hold_ms(CAPACITY_SPOT), 60000);
}

TEST(three_states_are_stable_and_three_keep_the_stamp)
{
    for (enum machine_state s = MACHINE_UNSPECIFIED; s < MACHINE_STATE_COUNT; s++) {
        CHECK("stable", machine_state_stable(s) == (s == MACHINE_SPECULATIVE || s == MACHINE_IDLE ||
                                                    s == MACHINE_CONFIGURED));
        CHECK("stamp",
              machine_state_keeps_stamp(s) ==
                  (s == MACHINE_CONFIGURING || s == MACHINE_CONFIGURED || s == MACHINE_DRAINING));
    }
}

TEST(thirteen_moves_are_ours_and_no_other)
{
    static const enum machine_state legal[][2] = {
        {MACHINE_SPECULATIVE, MACHINE_CREATING}, {MACHINE_CREATING, MACHINE_IDLE},
        {MACHINE_CREATING, MACHINE_FAILED},      {MACHINE_IDLE, MACHINE_CONFIGURING},
        {MACHINE_IDLE, MACHINE_DELETING},        {MACHINE_CONFIGURING, MACHINE_CONFIGURED},
        {MACHINE_CONFIGURING, MACHINE_IDLE},     {MACHINE_CONFIGURING, MACHINE_FAILED},
        {MACHINE_CONFIGURED, MACHINE_DRAINING},  {MACHINE_DRAINING, MACHINE_IDLE},
        {MACHINE_DRAINING, MACHINE_FAILED},      {MACHINE_DELETING, MACHINE_SPECULATIVE},
        {MACHINE_DELETING, MACHINE_FAILED},
    };
    int ours = 0;

    for (enum machine_state from = MACHINE_UNSPECIFIED; from < MACHINE_STATE_COUNT; from++)
        for (enum machine_state to = MACHINE_UNSPECIFIED; to < MACHINE_STATE_COUNT; to++)
            ours += machine_edge(from, to) == EDGE_DRIVEN;
    CHECK_I64("so many", ours, (int)ARRAY_LEN(legal));
    for (size_t i = 0; i < ARRAY_LEN(legal); i++)
        CHECK("and these", machine_edge(legal[i][0], legal[i][1]) == EDGE_DRIVEN);
    CHECK("Speculative to Idle", machine_edge(MACHINE_SPECULATIVE, MACHINE_IDLE) != EDGE_DRIVEN);
    CHECK("Configured to Configuring",
          machine_edge(MACHINE_CONFIGURED, MACHINE_CONFIGURING) != EDGE_DRIVEN);
    CHECK("Idle to Speculative", machine_edge(MACHINE_IDLE, MACHINE_SPECULATIVE) != EDGE_DRIVEN);
    CHECK("Failed to Idle", machine_edge(MACHINE_FAILED, MACHINE_IDLE) != EDGE_DRIVEN);
    CHECK("no state fails while stable",
          machine_edge(MACHINE_CONFIGURED, MACHINE_FAILED) != EDGE_DRIVEN &&
              machine_edge(MACHINE_IDLE, MACHINE_FAILED) != EDGE_DRIVEN);
}

TEST(a_provider_is_believed)
{
    static const struct {
        const char *why;
        enum machine_state from, to;
        enum machine_edge want;
    } cases[] = {
        {"a spot machine died", MACHINE_CONFIGURED, MACHINE_FAILED, EDGE_OBSERVED},
        {"its slot is free again", MACHINE_CONFIGURED, MACHINE_SPECULATIVE, EDGE_OBSERVED},
        {"drained, and the reply was lost", MACHINE_CONFIGURED, MACHINE_IDLE, EDGE_OBSERVED},
        {"an idle one died", MACHINE_IDLE, MACHINE_FAILED, EDGE_OBSERVED},
        {"an idle one was taken back", MACHINE_IDLE, MACHINE_SPECULATIVE, EDGE_OBSERVED},
        {"configured, and the reply was lost", MACHINE_IDLE, MACHINE_CONFIGURED, EDGE_OBSERVED},
        {"created, and the reply was lost", MACHINE_SPECULATIVE, MACHINE_IDLE, EDGE_OBSERVED},
        {"repaired", MACHINE_FAILED, MACHINE_IDLE, EDGE_OBSERVED},
        {"cleaned up", MACHINE_FAILED, MACHINE_SPECULATIVE, EDGE_OBSERVED},
        {"a drain was undone", MACHINE_DRAINING, MACHINE_CONFIGURED, EDGE_OBSERVED},
        {"a delete was undone", MACHINE_DELETING, MACHINE_IDLE, EDGE_OBSERVED},
        {"the list lags", MACHINE_CONFIGURED, MACHINE_CONFIGURING, EDGE_OBSERVED},
        {"somebody configured what we never created", MACHINE_SPECULATIVE, MACHINE_CONFIGURED,
         EDGE_FOREIGN},
        {"somebody configures what we delete", MACHINE_DELETING, MACHINE_CONFIGURING, EDGE_FOREIGN},
        {"ours", MACHINE_CREATING, MACHINE_IDLE, EDGE_DRIVEN},
        {"no move", MACHINE_IDLE, MACHINE_IDLE, EDGE_REFUSED},
        {"no state", MACHINE_IDLE, MACHINE_UNSPECIFIED, EDGE_REFUSED},
        {"out of no state", MACHINE_UNSPECIFIED, MACHINE_IDLE, EDGE_REFUSED},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_U64(cases[i].why, machine_edge(cases[i].from, cases[i].to), cases[i].want);
    for (enum machine_state from = MACHINE_SPECULATIVE; from < MACHINE_STATE_COUNT; from++)
        for (enum machine_state to = MACHINE_SPECULATIVE; to < MACHINE_STATE_COUNT; to++)
            CHECK("any state may be reported",
                  (machine_edge(from, to) == EDGE_REFUSED) == (from == to));
}

static struct machine sound(enum machine_state state)
{
    struct machine m = {
        .id = STR("m"), .state = state, .price_per_hour = 1, .capacity_type = CAPACITY_SPOT};

    if (state >= MACHINE_IDLE && state <= MACHINE_DELETING) m.host_ref = STR("i-1");
    if (state >= MACHINE_CONFIGURING && state <= MACHINE_DRAINING) m.cluster = STR("c");
    if (state == MACHINE_FAILED) m.last_error = STR("create: no capacity");
    return m;
}

TEST(what_each_state_demands)
{
    /* y: must be set, n: must be empty, -: ignored */
    static const struct {
        char host, cluster, error;
        const char *name;
    } rules[MACHINE_STATE_COUNT] = {
        [MACHINE_SPECULATIVE] = {'n', 'n', '-', "Speculative"},
        [MACHINE_CREATING] = {'n', 'n', '-', "Creating"},
        [MACHINE_IDLE] = {'y', '-', '-', "Idle"},
        [MACHINE_CONFIGURING] = {'y', '-', '-', "Configuring"},
        [MACHINE_CONFIGURED] = {'y', 'y', '-', "Configured"},
        [MACHINE_DRAINING] = {'y', 'y', '-', "Draining"},
        [MACHINE_DELETING] = {'y', '-', '-', "Deleting"},
        [MACHINE_FAILED] = {'-', '-', 'y', "Failed"},
    };

    for (enum machine_state at = MACHINE_SPECULATIVE; at < MACHINE_STATE_COUNT; at++) {
        for (int set = 0; set < 2; set++) {
            struct machine m = sound(at);
            char refused = set ? 'n' : 'y';
            CHECK_U64(rules[at].name, machine_invariant(&m, NULL), MACHINE_SOUND);
            m.host_ref = STR_EMPTY;
            m.host_provider = set ? STR("aws") : STR_EMPTY;
            CHECK(rules[at].name,
                  (machine_invariant(&m, NULL) != 0) == (rules[at].host == refused));
            m = sound(at);
            m.cluster = set ? STR("c") : STR_EMPTY;
            CHECK(rules[at].name,
                  (machine_invariant(&m, NULL) != 0) == (rules[at].cluster == refused));
            m = sound(at);
            m.last_error = set ? STR("why") : STR_EMPTY;
            CHECK(rules[at].name,
                  (machine_invariant(&m, NULL) != 0) == (rules[at].error == refused));
        }
    }
    struct machine m = sound(MACHINE_CREATING);
    m.destination = STR("c");
    m.stamp.fingerprint = STR("p=1");
    CHECK_U64("Creating carries its destination and stamp", machine_invariant(&m, NULL),
              MACHINE_SOUND);
}

TEST(the_first_violation_is_reported)
{
    static const double nan = (double)NAN, infinite = (double)INFINITY;
    static const struct {
        const char *why;
        bool clusterless;
        double probability, price;
        enum machine_fault fault;
        const char *label, *note;
    } cases[] = {
        {"all three", true, nan, nan, MACHINE_FAULT_STRUCTURAL, "structural",
         "cluster: must not be empty in state Configured"},
        {"two", false, nan, nan, MACHINE_FAULT_PROBABILITY, "interruption_probability",
         "interruption_probability: nan is not between 0 and 1"},
        {"negative", false, -0.1, 1, MACHINE_FAULT_PROBABILITY, "interruption_probability",
         "interruption_probability: -0.1 is not between 0 and 1"},
        {"more than certain", false, 1.01, 1, MACHINE_FAULT_PROBABILITY, "interruption_probability",
         "interruption_probability: 1.01 is not between 0 and 1"},
        {"infinite", false, infinite, 1, MACHINE_FAULT_PROBABILITY, "interruption_probability",
         "interruption_probability: inf is not between 0 and 1"},
        {"no price", false, 1, nan, MACHINE_FAULT_PRICE, "price",
         "price_per_hour: nan is no price"},
        {"negative", false, 0, -1, MACHINE_FAULT_PRICE, "price", "price_per_hour: -1 is no price"},
        {"infinite", false, 0, infinite, MACHINE_FAULT_PRICE, "price",
         "price_per_hour: inf is no price"},
        {"free and certain to go", false, 1, 0, MACHINE_SOUND, "", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct machine m = sound(MACHINE_CONFIGURED);
        struct note note = {""};
        if (cases[i].clusterless) m.cluster = STR_EMPTY;
        m.interruption_probability = cases[i].probability;
        m.price_per_hour = cases[i].price;
        CHECK_U64(cases[i].why, machine_invariant(&m, &note), cases[i].fault);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        CHECK_TEXT(cases[i].why, machine_fault_name(cases[i].fault), cases[i].label);
    }
    struct machine m = sound(MACHINE_SPECULATIVE);
    struct note note = {""};
    m.host_ref = m.cluster = STR("x");
    CHECK_U64("both", machine_invariant(&m, &note), MACHINE_FAULT_STRUCTURAL);
    CHECK_TEXT("the host first", note.text, "host: must be empty in state Speculative");
    m.state = MACHINE_UNSPECIFIED;
    CHECK_U64("no state", machine_invariant(&m, &note), MACHINE_FAULT_STRUCTURAL);
    CHECK_TEXT("noted", note.text, "state: unknown number 0");
    m.state = (enum machine_state)9;
    CHECK_U64("no such state", machine_invariant(&m, &note), MACHINE_FAULT_STRUCTURAL);
    CHECK_TEXT("noted", note.text, "state: unknown number 9");
}

TEST(allocatable_counts_when_it_names_anything)
{
    struct machine m = {0};

    CHECK_OK("shape", resources_set(&m.resources, 3, 8000, QUANTITY_DECIMAL_SI));
    CHECK("the shape", machine_capacity(&m) == &m.resources);
    CHECK_OK("less", resources_set(&m.allocatable, 3, 7000, QUANTITY_DECIMAL_SI));
    CHECK("the rest of the amount", machine_capacity(&m) == &m.allocatable);
}

static char big[FINGERPRINT_MAX + 1];
static struct label twice[] = {{{"a", 1}, {"1", 1}}, {{"a", 1}, {"2", 1}}},
                    two[] = {{{"a", 1}, {"1", 1}}, {{"b", 1}, {"2", 1}}};

static void no_id(struct machine *m)
{
    m->id = STR_EMPTY;
}
static void long_id(struct machine *m)
{
    m->id = str_of(big, ID_MAX + 1);
}
static void host(struct machine *m)
{
    m->host_provider = STR("\n");
}
static void ref(struct machine *m)
{
    m->host_ref = str_of(big, ID_MAX + 1);
}
static void cluster(struct machine *m)
{
    m->cluster = STR("a\0");
}
static void type(struct machine *m)
{
    m->attributes.instance_type = STR("\xFF");
}
static void zone(struct machine *m)
{
    m->attributes.zone = STR("\x1B[2J");
}
static void kind(struct machine *m)
{
    m->capacity_type = (enum capacity_type)5;
}
static void odd_state(struct machine *m)
{
    m->state = (enum machine_state)77;
}
static void repeated(struct machine *m)
{
    m->attributes.labels = twice, m->attributes.label_count = 2;
}
static void labelled(struct machine *m)
{
    m->attributes.labels = two, m->attributes.label_count = 2;
}
static void flooded(struct machine *m)
{
    m->attributes.labels = twice, m->attributes.label_count = 10000;
}
static void error(struct machine *m)
{
    m->last_error = str_of(big, ERROR_TEXT_MAX + 1);
}
static void lines(struct machine *m)
{
    m->last_error = STR("first\nsecond");
}
static void stamp(struct machine *m)
{
    m->stamp.fingerprint = str_of(big, FINGERPRINT_MAX + 1);
}
static void group(struct machine *m)
{
    m->stamp.group = str_of(big, GROUP_MAX + 1);
}
static void nul_group(struct machine *m)
{
    m->stamp.group = STR("ns\0gang");
}
static void nan_dollars(struct machine *m)
{
    m->stamp.interruption_dollars = (double)NAN;
}
static void less_dollars(struct machine *m)
{
    m->stamp.reclamation_dollars = -1;
}
static void pinned(struct machine *m)
{
    m->stamp.reclamation_dollars = (double)INFINITY;
}
static void destination(struct machine *m)
{
    m->destination = STR("\t");
}
static void promised(struct machine *m)
{
    m->promised.cluster = STR("\t");
}
static void promised_print(struct machine *m)
{
    m->promised.fingerprint = STR("\t");
}
static void promised_group(struct machine *m)
{
    m->promised.group = str_of(big, GROUP_MAX + 1);
}
static void price(struct machine *m)
{
    m->price_per_hour = -1;
}
static void unchanged(struct machine *m)
{
    m->price_per_hour = 0;
}

TEST(hostile_records_are_refused_by_name)
{
    static const struct {
        void (*change)(struct machine *m);
        enum err want;
        enum machine_fault fault;
        const char *note;
    } cases[] = {
        {unchanged, ERR_OK, MACHINE_SOUND, ""},
        {labelled, ERR_OK, MACHINE_SOUND, ""},
        {lines, ERR_OK, MACHINE_SOUND, ""},
        {nul_group, ERR_OK, MACHINE_SOUND, ""},
        {pinned, ERR_OK, MACHINE_SOUND, ""},
        {no_id, ERR_INVALID, MACHINE_FAULT_STRUCTURAL, "id: empty"},
        {long_id, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "id: 254 bytes, at most 253 are allowed"},
        {host, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "host.provider: control character 0x0a at byte 0"},
        {ref, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "host.ref: 254 bytes, at most 253 are allowed"},
        {cluster, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "cluster: control character 0x00 at byte 1"},
        {type, ERR_INVALID, MACHINE_FAULT_STRUCTURAL, "instance_type: not UTF-8"},
        {zone, ERR_INVALID, MACHINE_FAULT_STRUCTURAL, "zone: control character 0x1b at byte 0"},
        {kind, ERR_INVALID, MACHINE_FAULT_STRUCTURAL, "capacity_type: unknown number 5"},
        {odd_state, ERR_INVALID, MACHINE_FAULT_STRUCTURAL, "state: unknown number 77"},
        {repeated, ERR_INVALID, MACHINE_FAULT_STRUCTURAL, "labels: \"a\" is given twice"},
        {flooded, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "labels: 10000 entries, at most 256 are allowed"},
        {error, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "last_error: 4097 bytes, at most 4096 are allowed"},
        {stamp, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "assigned fingerprint: 65537 bytes, at most 65536 are allowed"},
        {group, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "assigned group: 1025 bytes, at most 1024 are allowed"},
        {nan_dollars, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "assigned interruption penalty: nan is no penalty"},
        {less_dollars, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "assigned reclamation penalty: -1 is no penalty"},
        {destination, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "destination: control character 0x09 at byte 0"},
        {promised, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "promised cluster: control character 0x09 at byte 0"},
        {promised_print, ERR_INVALID, MACHINE_FAULT_STRUCTURAL,
         "promised fingerprint: control character 0x09 at byte 0"},
        {promised_group, ERR_TOO_LARGE, MACHINE_FAULT_STRUCTURAL,
         "promised group: 1025 bytes, at most 1024 are allowed"},
        {price, ERR_INVALID, MACHINE_FAULT_PRICE, "price_per_hour: -1 is no price"},
    };

    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct machine m = sound(MACHINE_CONFIGURED);
        struct note note = {""};
        enum machine_fault fault = 99;
        cases[i].change(&m);
        CHECK_ERR(cases[i].note, machine_check(&m, &fault, &note), cases[i].want);
        CHECK_TEXT(cases[i].note, note.text, cases[i].note);
        CHECK_U64(cases[i].note, fault, cases[i].fault);
        CHECK_ERR("asked for less", machine_check(&m, NULL, NULL), cases[i].want);
    }
}
