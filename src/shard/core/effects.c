/* SPDX-License-Identifier: Apache-2.0 */
/* The list of effects and its copies of texts, labels and profiles. Runs on the thread that owns
 * the list. */
#include "shard/core/effects.h"

#include <stdlib.h>

#define EFFECTS_BYTES_MAX ((size_t)1 << 30)
enum { EFFECTS_FIRST = 16 };

const char *action_outcome_name(enum action_outcome outcome)
{
    static const char *const names[OUTCOME_COUNT] = {
        [OUTCOME_SUCCESS] = "success",
        [OUTCOME_CTX_CANCELED] = "ctx_canceled",
        [OUTCOME_FENCED] = "fenced",
        [OUTCOME_NO_SESSION] = "no_session",
        [OUTCOME_RACED_TO_IDLE] = "transition_raced_to_idle",
        [OUTCOME_TRANSITION_ERROR] = "transition_error",
        [OUTCOME_BLOB_ERROR] = "blob_error",
        [OUTCOME_PROVIDER_ERROR] = "provider_error",
        [OUTCOME_STALE_STATE] = "stale_state",
        [OUTCOME_INVENTORY_MISS] = "inventory_miss",
        [OUTCOME_MISSING_PROFILE] = "missing_profile",
        [OUTCOME_OTHER] = "other",
        [OUTCOME_SUPPRESSED] = "suppressed",
        [OUTCOME_DRYRUN] = "dryrun",
    };

    assert(outcome < OUTCOME_COUNT);
    return names[outcome];
}

void effects_init(struct effects *effects)
{
    *effects = (struct effects){0};
    arena_init(&effects->arena, EFFECTS_BYTES_MAX);
}

void effects_deinit(struct effects *effects)
{
    free(effects->items);
    arena_deinit(&effects->arena);
    *effects = (struct effects){0};
}

struct effect *effects_add(struct effects *effects, enum effect_kind kind)
{
    struct effect *effect;

    if (effects->count == effects->capacity) {
        size_t capacity = effects->capacity ? effects->capacity * 2 : EFFECTS_FIRST;
        struct effect *items = realloc(effects->items, capacity * sizeof *items);
        if (!items) return NULL;
        effects->items = items;
        effects->capacity = capacity;
    }
    effect = &effects->items[effects->count++];
    *effect = (struct effect){.kind = kind};
    return effect;
}

void effect_check(const struct effect *effect)
{
    bool blob = effect->kind == EFFECT_ASK_BLOB, answered = effect->kind <= EFFECT_GET || blob;

    assert(!answered || (effect->machine.len && effect->timeout_ms &&
                         (effect->kind == EFFECT_GET) == !effect->action));
    assert(!blob || (effect->cluster.len && effect->profile));
    assert(effect->kind != EFFECT_NEED_STATUS || effect->cluster.len);
    assert(effect->kind != EFFECT_NODE_STATE || (effect->cluster.len && effect->node));
}

/* --- copies into the list's arena --- */

enum err text_copy(struct arena *arena, struct str text, struct str *ret_text)
{
    const char *copy = text.len ? arena_dup(arena, text) : "";

    if (!copy) return ERR_NOMEM;
    *ret_text = str_of(copy, text.len);
    return ERR_OK;
}

enum err labels_copy(struct arena *arena, const struct label *labels, size_t count,
                     struct label **ret_copy)
{
    struct label *copy = arena_calloc(arena, count, sizeof *copy);

    if (!copy) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        if (text_copy(arena, labels[i].key, &copy[i].key) ||
            text_copy(arena, labels[i].value, &copy[i].value))
            return ERR_NOMEM;
    }
    *ret_copy = copy;
    return ERR_OK;
}

bool labels_equal(const struct label *a, size_t a_count, const struct label *b, size_t b_count)
{
    if (a_count != b_count) return false;
    for (size_t i = 0; i < a_count; i++)
        if (!str_equal(a[i].key, b[i].key) || !str_equal(a[i].value, b[i].value)) return false;
    return true;
}

enum err effects_labels(struct effects *effects, const struct label *labels, size_t count,
                        const struct label **ret_labels)
{
    struct label *copy;
    enum err err;

    for (size_t i = 0; i < ARRAY_LEN(effects->labels); i++) {
        const struct effects_labels *kept = &effects->labels[i];
        if (!kept->at || !labels_equal(kept->at, kept->count, labels, count)) continue;
        *ret_labels = kept->at;
        return ERR_OK;
    }
    err = labels_copy(&effects->arena, labels, count, &copy);
    if (err) return err;
    effects->labels[effects->labels_next++ % ARRAY_LEN(effects->labels)] =
        (struct effects_labels){copy, count};
    *ret_labels = copy;
    return ERR_OK;
}

const struct machine *effects_machine(struct effects *effects, const struct machine *machine)
{
    struct machine *m = ARENA_NEW(&effects->arena, struct machine);
    enum err err = ERR_OK;

    if (!m) return NULL;
    *m = *machine;
    struct str *const texts[] = {
        &m->id,
        &m->host_provider,
        &m->host_ref,
        &m->cluster,
        &m->attributes.instance_type,
        &m->attributes.zone,
        &m->last_error,
        &m->stamp.fingerprint,
        &m->stamp.group,
        &m->destination,
        &m->promised.cluster,
        &m->promised.fingerprint,
        &m->promised.group,
    };
    for (size_t i = 0; i < ARRAY_LEN(texts) && !err; i++) /* replaces each text by its copy */
        err = text_copy(&effects->arena, *texts[i], texts[i]);
    if (!err)
        err = effects_labels(effects, machine->attributes.labels, machine->attributes.label_count,
                             &m->attributes.labels);
    return err ? NULL : m;
}

const struct profile *effects_profile(struct effects *effects, const struct profile *profile)
{
    const struct profile *last = effects->profile;
    struct profile *copy;

    if (last && str_equal(last->fingerprint, profile->fingerprint)) return last;
    copy = ARENA_NEW(&effects->arena, struct profile);
    if (!copy || profile_build(&effects->arena, profile, copy, NULL)) return NULL;
    return effects->profile = copy;
}

void effects_observe(struct effects *effects, enum core_histogram histogram, mono_time since,
                     mono_time now)
{
    struct effect *effect = effects_add(effects, EFFECT_OBSERVE);

    if (!effect) return;
    effect->observe.histogram = histogram;
    effect->observe.seconds = (double)mono_elapsed_ms(since, now) / (double)MS_PER_SECOND;
}
