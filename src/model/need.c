/* SPDX-License-Identifier: Apache-2.0 */
#include "model/need.h"

#include <stdlib.h>

enum err need_build(struct arena *arena, struct dimensions *dimensions,
                    const struct need_input *given, struct need *ret_need, struct note *note)
{
    struct resource_sum aggregate;
    struct resources min_unit;
    struct profile profile = {0};
    char *cluster, *group;
    enum err err = id_check("cluster_id", given->cluster, ID_MAX, note);

    if (!err && given->group.len > GROUP_MAX) {
        note_set(note, "group: %zu bytes, at most %d are allowed", given->group.len, GROUP_MAX);
        err = ERR_TOO_LARGE;
    }
    if (!err && given->arrival_unix_ns < 0) {
        note_set(note, "timestamp_unix_nanos: negative");
        err = ERR_INVALID;
    }
    if (!err) {
        err = resource_sum_parse(dimensions, "aggregate_resources", given->aggregate,
                                 given->aggregate_count, &aggregate, note);
    }
    if (!err) {
        err = resources_parse(dimensions, "min_unit", given->min_unit, given->min_unit_count,
                              &min_unit, note);
    }
    if (!err) err = profile_build(arena, &given->profile, &profile, note);
    if (!err) err = requirements_contradict(profile.requirements, profile.requirement_count, note);
    if (err) return err;
    cluster = arena_dup(arena, given->cluster);
    group = arena_dup(arena, given->group);
    if (!cluster || !group) return ERR_NOMEM;
    ret_need->cluster = str_of(cluster, given->cluster.len);
    ret_need->group = str_of(group, given->group.len);
    ret_need->profile = profile;
    resource_sum_copy(&ret_need->aggregate, &aggregate);
    ret_need->min_unit = min_unit;
    ret_need->arrival_unix_ns = given->arrival_unix_ns;
    return ERR_OK;
}

/* --- joining --- */

static int key_compare(const struct need *a, const struct need *b)
{
    int order = str_compare(a->cluster, b->cluster);

    if (order == 0) order = str_compare(a->profile.fingerprint, b->profile.fingerprint);
    return order ? order : str_compare(a->group, b->group);
}

struct row { /* points into one array, so addresses are the order of the input */
    const struct need *need;
};
struct group {
    const struct need *first;
    size_t start; /* among the sorted rows */
};

static int by_key(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = key_compare(x->need, y->need);

    return order ? order : (x->need > y->need) - (x->need < y->need);
}

static int by_place(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static enum err join(struct need *into, const struct need *row)
{
    resource_sum_add_sum(&into->aggregate, &row->aggregate);
    if (row->arrival_unix_ns != 0 &&
        (into->arrival_unix_ns == 0 || row->arrival_unix_ns < into->arrival_unix_ns))
        into->arrival_unix_ns = row->arrival_unix_ns;
    return resources_max(&into->min_unit, &row->min_unit) ? ERR_TOO_LARGE : ERR_OK;
}

enum err needs_aggregate(struct arena *arena, const struct need *needs, size_t count,
                         struct need **ret_needs, size_t *ret_count)
{
    struct row *rows = arena_calloc(arena, count, sizeof *rows);
    struct group *groups = arena_calloc(arena, count, sizeof *groups);
    size_t group_count = 0;
    struct need *out;

    if (!rows || !groups) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) rows[i].need = &needs[i];
    if (count > 1) qsort(rows, count, sizeof *rows, by_key);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || key_compare(rows[i - 1].need, rows[i].need) != 0)
            groups[group_count++] = (struct group){rows[i].need, i};
    if (group_count > 1) qsort(groups, group_count, sizeof *groups, by_place);
    out = arena_calloc(arena, group_count, sizeof *out);
    if (!out) return ERR_NOMEM;
    for (size_t i = 0; i < group_count; i++) {
        const struct need *first = groups[i].first;
        out[i] = *first;
        for (size_t r = groups[i].start + 1; r < count && !key_compare(rows[r].need, first); r++) {
            enum err err = join(&out[i], rows[r].need);
            if (err) return err;
        }
    }
    *ret_needs = out;
    *ret_count = group_count;
    return ERR_OK;
}
