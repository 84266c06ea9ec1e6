/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of this shard: those in its domains, or all machines if no domain was ever assigned.
 *
 * A machine outside the domains is not used in decisions. A machine that serves a cluster when its
 * domain is taken away continues to serve. Once free, it is removed before the next decision. */
#include <stdlib.h>
#include <string.h>

#include "shard/core/core_internal.h"
#include "shard/state/cohort.h"

void scope_init(struct scope *scope, uint64_t seed)
{
    map_init(&scope->outside, MAP_MOST, seed);
}

void scope_deinit(struct scope *scope)
{
    map_free(&scope->outside);
    arena_deinit(&scope->arena);
}

static int compare_domains(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    int by_key = str_compare(x->key, y->key);

    return by_key ? by_key : str_compare(x->value, y->value);
}

static bool is_ours(const struct scope *scope, struct str key, struct str value)
{
    struct label domain = {key, value};

    return bsearch(&domain, scope->domains, scope->count, sizeof domain, compare_domains) != NULL;
}

bool scope_has(const struct core *core, const struct attributes *attributes)
{
    const struct scope *scope = &core->scope;

    for (size_t i = 0; i < scope->key_count; i++) {
        const struct str *value = attributes_find(attributes, scope->keys[i]);
        if (value && is_ours(scope, scope->keys[i], *value)) return true;
    }
    return !scope->given;
}

static bool look_inside(const struct scope *scope, const struct look *look)
{
    for (size_t i = 0; i < scope->key_count; i++) {
        const struct posting *found = look_find(look, scope->keys[i]);
        if (found && is_ours(scope, scope->keys[i], posting_value(found))) return true;
    }
    return !scope->given;
}

void scope_note(struct core *core, struct str id, bool inside)
{
    struct map *outside = &core->scope.outside;

    if (!core->scope.given) return;
    if (inside)
        free(map_remove(outside, id));
    else if (!map_make(outside, id, 0))
        core->scope.incomplete = true;
}

static enum err outside_find(const struct core *core, const struct scope *scope,
                             struct map *outside)
{
    const struct slot_map *cohorts = &core->inventory->cohort_slots;

    for (uint32_t i = 0; scope->given && i < cohorts->used; i++) {
        const struct cohort *cohort = slot_map_get(cohorts, i);
        struct member_place place;
        const struct machine_row *row;
        if (!cohort || look_inside(scope, cohort->traits.look)) continue;
        place = cohort_begin(cohort);
        while ((row = cohort_next(&place)))
            if (!map_make(outside, row_id(row), 0)) return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err domains_copy(struct scope *scope, const struct label *domains, size_t count)
{
    struct str *keys = arena_calloc(&scope->arena, count, sizeof *keys);
    struct label *copies;
    enum err err = keys ? labels_copy(&scope->arena, domains, count, &copies) : ERR_NOMEM;

    if (err) return err;
    if (count) qsort(copies, count, sizeof *copies, compare_domains);
    for (size_t i = 0; i < count; i++)
        if (!i || !str_equal(copies[i].key, copies[i - 1].key))
            keys[scope->key_count++] = copies[i].key;
    scope->domains = copies;
    scope->keys = keys;
    scope->count = count;
    return ERR_OK;
}

enum err core_scope(struct core *core, bool given, const struct label *domains, size_t count,
                    mono_time now, struct effects *out)
{
    struct scope next = {.given = given};
    enum err err;

    assert(given || !count);
    core_begin(core, now, out);
    arena_init(&next.arena, SCOPE_BYTES_MAX);
    scope_init(&next, core->options.seed);
    err = domains_copy(&next, domains, count);
    if (err || (given == core->scope.given &&
                labels_equal(core->scope.domains, core->scope.count, next.domains, next.count)))
        goto discard;
    err = outside_find(core, &next, &next.outside);
    if (err) goto discard;
    scope_deinit(&core->scope);
    core->scope = next;
    core->full_list_wanted = true; /* the provider may know machines in the new domains */
    core_log(core, CORE_INFO, "domains of this shard changed", "domains=%zu outside=%zu", count,
             map_count(&core->scope.outside));
    if (given && !count)
        core_log(core, CORE_WARN, "this shard has no domain left: it buys nothing",
                 "serving=%zu: each goes on until it is drained", map_count(&core->scope.outside));
    scope_sweep(core);
    core_end(core);
    return ERR_OK;

discard:
    scope_deinit(&next);
    return err;
}

/* True if the machine serves no cluster and is not being prepared for one. */
static bool scope_is_free(const struct core *core, const struct machine_row *row)
{
    uint32_t state = row_actual(core->inventory, row)->traits.state;

    return state == MACHINE_SPECULATIVE || state == MACHINE_IDLE || state == MACHINE_FAILED;
}

/* limit of the walk in core_serving() after the first machine was found */
enum { SERVING_WALK_MAX = 10000 };

enum err core_serving(struct core *core, const struct label *domain, uint32_t *ret_count,
                      bool *ret_more)
{
    const struct scope *scope = &core->scope;
    uint32_t walked = 0, count = 0;
    struct map_entry *entry;
    size_t cursor = 0;

    *ret_more = false;
    if (scope->incomplete) return ERR_NOMEM;
    while (!*ret_more && (entry = map_next(&scope->outside, &cursor))) {
        const struct machine_row *row = inventory_row(core->inventory, entry->key);
        const struct posting *found;

        walked++;
        if (!row || (scope_is_free(core, row) && !core_is_pending(core, entry->key))) continue;
        found = look_find(row_actual(core->inventory, row)->traits.look, domain->key);
        count += found && str_equal(posting_value(found), domain->value);
        *ret_more = count > 0 && walked >= SERVING_WALK_MAX;
    }
    *ret_count = count;
    return ERR_OK;
}

void scope_sweep(struct core *core)
{
    struct scope *scope = &core->scope;
    struct map_entry *entry;
    size_t cursor = 0;

    if (scope->incomplete) scope->incomplete = outside_find(core, scope, &scope->outside) != ERR_OK;
    while ((entry = map_next(&scope->outside, &cursor))) {
        const struct machine_row *row = inventory_row(core->inventory, entry->key);
        if (row && (!scope_is_free(core, row) || core_is_pending(core, entry->key))) continue;
        if (row && core_drop(core, entry->key, "gone: its domain is not this shard's")) continue;
        free(map_remove(&scope->outside, entry->key));
    }
}
