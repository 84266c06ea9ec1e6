/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a row of demand and copies it into an arena. */
#include "model/need.h"

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
