/* SPDX-License-Identifier: Apache-2.0 */
/* effects.c: a list of effects outlives everything it was made from. */
#include <stdlib.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "shard/core/effects.h"

TEST(outcomes_have_the_names_of_the_metric)
{
    static const char *const names[OUTCOME_COUNT] = {"success",
                                                     "ctx_canceled",
                                                     "fenced",
                                                     "no_session",
                                                     "transition_raced_to_idle",
                                                     "transition_error",
                                                     "blob_error",
                                                     "provider_error",
                                                     "stale_state",
                                                     "inventory_miss",
                                                     "missing_profile",
                                                     "other",
                                                     "suppressed",
                                                     "dryrun"};

    for (int i = 0; i < OUTCOME_COUNT; i++)
        CHECK_TEXT("name", action_outcome_name((enum action_outcome)i), names[i]);
}

/* Overwrites what a view points to, as a table does that reuses its memory. */
static struct str scratch(char *room, const char *text)
{
    strcpy(room, text);
    return str_from(room);
}

static void fill(struct effects *effects)
{
    char id[16], key[16], value[16], requirement[16], wanted[16], fingerprint[16];
    struct label label = {scratch(key, "rack"), scratch(value, "r1")};
    struct str values[] = {scratch(wanted, "m5")};
    struct requirement of = {scratch(requirement, "type"), OPERATOR_IN, values, 1};
    struct spread spread = {.key = of.key, .max_skew = 1};
    struct machine machine = {.id = scratch(id, "m-1"),
                              .state = MACHINE_IDLE,
                              .attributes = {.labels = &label, .label_count = 1}};
    struct profile profile = {.requirements = &of,
                              .requirement_count = 1,
                              .spreads = &spread,
                              .spread_count = 1,
                              .fingerprint = scratch(fingerprint, "not looked at")};

    for (int i = 0; i < 20; i++) { /* past the first growth */
        const struct machine *copy = effects_machine(effects, &machine);
        const struct profile *asked = effects_profile(effects, &profile);
        struct effect *effect = copy && asked ? effects_add(effects, EFFECT_NODE_STATE) : NULL;
        if (effect) effect->node = copy;
        effect = effect ? effects_add(effects, EFFECT_ASK_BLOB) : NULL;
        if (effect) effect->profile = asked;
    }
    memset(id, 'x', sizeof id);
    memset(key, 'x', sizeof key);
    memset(value, 'x', sizeof value);
    memset(requirement, 'x', sizeof requirement);
    memset(wanted, 'x', sizeof wanted);
    memset(fingerprint, 'x', sizeof fingerprint);
    memset(values, 0, sizeof values);
    memset(&of, 0, sizeof of);
    memset(&label, 0, sizeof label);
}

TEST(what_an_effect_shows_is_a_copy)
{
    struct effects effects;

    effects_init(&effects);
    fill(&effects);
    CHECK_SIZE("all are there", effects.count, 40);
    for (size_t i = 0; i < effects.count; i += 2) {
        const struct machine *node = effects.items[i].node;
        const struct profile *profile = effects.items[i + 1].profile;
        CHECK_STR("id", node->id, STR("m-1"));
        CHECK_STR("label", node->attributes.labels[0].key, STR("rack"));
        CHECK_STR("its value", node->attributes.labels[0].value, STR("r1"));
        CHECK("fingerprint", str_starts(profile->fingerprint, STR("p=0|")));
        CHECK_STR("requirement", profile->requirements[0].key, STR("type"));
        CHECK_STR("its value", profile->requirements[0].values[0], STR("m5"));
        CHECK_STR("spread", profile->spreads[0].key, STR("type"));
    }
    effects_deinit(&effects);
}

TEST(what_is_alike_is_kept_once_and_what_is_not_is_not_mixed_up)
{
    const struct label plain[] = {{STR("rack"), STR("r1")}, {STR("zone"), STR("a")}},
                       other[] = {{STR("rack"), STR("r2")}, {STR("zone"), STR("a")}},
                       third[] = {{STR("rack"), STR("r3")}};
    const struct label *first, *again, *second, *late;
    struct profile one, two;
    struct effects effects;
    struct arena arena;

    effects_init(&effects);
    CHECK_OK("copy", effects_labels(&effects, plain, 2, &first));
    CHECK_OK("copy", effects_labels(&effects, other, 2, &second));
    CHECK_OK("copy", effects_labels(&effects, plain, 2, &again));
    CHECK("the same", first == again);
    CHECK_STR("the other is another", second[0].value, STR("r2"));
    CHECK_OK("copy", effects_labels(&effects, plain, 1, &late));
    CHECK("a part is not the whole", late != first);
    CHECK_OK("copy", effects_labels(&effects, third, 1, &late));
    CHECK_STR("nor is a third", late[0].value, STR("r3"));
    arena_init(&arena, SIZE_MAX);
    CHECK_OK("one", profile_build(&arena, &(struct profile){.priority = 1}, &one, NULL));
    CHECK_OK("two", profile_build(&arena, &(struct profile){.priority = 2}, &two, NULL));
    CHECK_I64("profile", effects_profile(&effects, &one)->priority, 1);
    CHECK_I64("another", effects_profile(&effects, &two)->priority, 2);
    CHECK("the same", effects_profile(&effects, &two) == effects_profile(&effects, &two));
    effects_deinit(&effects);
    arena_deinit(&arena);
}

TEST(a_duration_is_in_seconds)
{
    struct effects effects;

    effects_init(&effects);
    effects_observe(&effects, OBSERVE_DRAIN, (mono_time){1000}, (mono_time){3500});
    CHECK_SIZE("one", effects.count, 1);
    CHECK("seconds", effects.items[0].observe.seconds == 2.5);
    effects_deinit(&effects);
}

TEST(without_memory_nothing_half_made_is_listed)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct effects effects;

        effects_init(&effects);
        fill(&effects);
        for (size_t i = 0; i < effects.count; i++) {
            const struct effect *e = &effects.items[i];
            CHECK("whole", e->kind == EFFECT_NODE_STATE ? e->node != NULL : e->profile != NULL);
        }
        effects_deinit(&effects);
    }
}
