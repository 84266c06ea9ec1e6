/* SPDX-License-Identifier: Apache-2.0 */
/* Implements --phase-attribution-log: every 20th cycle logs whether released machines would serve
 * an unsatisfied Need of another cluster. In a healthy fleet both `matches` fields of the log line
 * stay 0. At most ATTRIBUTION_MOST machines and Needs are compared, and the log line reports the
 * limit. */
#include <stdio.h>

#include "shard/core/core_internal.h"
#include "shard/state/cohort.h"

enum {
    ATTRIBUTION_EVERY = 20,
    ATTRIBUTION_MOST = 512, /* reclaims and unsatisfied Needs compared */
    ATTRIBUTION_SAMPLES = 5,
    ATTRIBUTION_IDS = 12,
};

struct unmet {
    const struct demand *needs[ATTRIBUTION_MOST];
    size_t count;
};

static struct str gang_name(const struct need_key *key)
{
    return key->group.len ? key->group
                          : str_of(key->fingerprint.at, min_size(key->fingerprint.len, 12));
}

static void gang_log(struct core *core, const struct need_verdict *v, const char *deficit)
{
    struct str name = gang_name(&v->need->key);

    core_log(core, CORE_INFO, "gang attribution",
             "gang=%.*s cluster=%.*s domain=%.*s acquired=%u residual=%s parked=%d", STR_ARG(name),
             STR_ARG(v->need->key.cluster), STR_ARG(v->domain), v->bootstraps + v->provisions,
             deficit, v->parked);
}

static void deficit_text(const struct core *core, const struct need_verdict *v, char *text,
                         size_t cap)
{
    struct resource_sum sum;
    struct buf buf;

    text[0] = '\0';
    buf_init(&buf, RESOURCES_TEXT_MAX);
    amounts_sum(&v->shortage->deficit, &sum);
    if (!resource_sum_text(&core->dimensions, &sum, &buf))
        (void)snprintf(text, cap, "%.*s", STR_ARG(buf_peek(&buf)));
    buf_deinit(&buf);
}

struct first_ids { /* in ascending order */
    struct str at[ATTRIBUTION_IDS];
    size_t count;
};

static void first_add(struct first_ids *ids, struct str id)
{
    size_t at = ids->count;

    if (at == ATTRIBUTION_IDS && str_compare(id, ids->at[at - 1]) > 0) return;
    if (at == ATTRIBUTION_IDS) at--;
    for (; at > 0 && str_compare(id, ids->at[at - 1]) < 0; at--) ids->at[at] = ids->at[at - 1];
    ids->at[at] = id;
    if (ids->count < ATTRIBUTION_IDS) ids->count++;
}

/* Logs how many machines the Need has, and some of their ids. */
static void served_log(const struct core *core, const struct need_verdict *v)
{
    const struct need_key *key = &v->need->key;
    const struct key *own =
        inventory_key(core->inventory, key->cluster, key->fingerprint, key->group);
    struct str name = gang_name(key);
    char text[ATTRIBUTION_IDS * 32] = "";
    struct first_ids ids = {0};
    size_t len = 0;

    for (uint32_t i = 0; own && i < own->cohorts.count; i++) {
        const struct cohort *cohort = own->cohorts.at[i].cohort;
        struct member_place place = cohort_begin(cohort);
        const struct machine_row *row;
        if (cohort->traits.state != MACHINE_CONFIGURED) continue;
        for (int k = 0; k < ATTRIBUTION_IDS && (row = cohort_next(&place)); k++)
            first_add(&ids, row_id(row));
    }
    for (size_t i = 0; i < ids.count && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i ? "," : "",
                                STR_ARG(ids.at[i]));
    core_log(core, CORE_INFO, "satisfied gang attribution",
             "gang=%.*s cluster=%.*s domain=%.*s machines=%u own=%s", STR_ARG(name),
             STR_ARG(key->cluster), STR_ARG(v->domain), v->claimed, text);
}

struct matches {
    size_t reclaims, looked_at, matching, covering;
};

static void reclaim_match(struct core *core, const struct action *action, const struct unmet *unmet,
                          struct matches *m)
{
    struct inventory_entry entry;
    bool known = core_get(core, action->machine, &entry) == ERR_OK;
    bool matching = false, covering = false;

    for (size_t i = 0; known && i < unmet->count && !covering; i++) {
        const struct demand *need = unmet->needs[i];
        if (!profile_matches(need->profile, &entry.machine.attributes)) continue;
        matching = true;
        covering = resources_covers(machine_capacity(&entry.machine), need->unit);
    }
    m->matching += matching;
    m->covering += covering;
    if (m->looked_at++ < ATTRIBUTION_SAMPLES)
        core_log(core, CORE_INFO, "reclaim attribution",
                 "machine=%.*s cluster=%.*s matches=%d covers=%d", STR_ARG(action->machine),
                 STR_ARG(action->cluster), matching, covering);
}

void attribution_note(struct core *core, const struct decision *decision)
{
    size_t same = 0, unsatisfied = 0, unsatisfied_same = 0, served = 0;
    struct matches m = {0};
    struct unmet *unmet;

    if (!core->options.attribution || core->counts.cycles % ATTRIBUTION_EVERY) return;
    unmet = arena_calloc(&core->scratch, 1, sizeof *unmet);
    if (!unmet) return;
    for (size_t i = 0; i < decision->verdict_count; i++) {
        const struct need_verdict *v = &decision->verdicts[i];
        same += v->need->gang;
        if (v->satisfied) {
            if (v->need->gang && served++ < ATTRIBUTION_SAMPLES) served_log(core, v);
            continue;
        }
        unsatisfied++;
        if (unmet->count < ATTRIBUTION_MOST) unmet->needs[unmet->count++] = v->need;
        if (v->need->gang && unsatisfied_same++ < ATTRIBUTION_SAMPLES) {
            char deficit[256];
            deficit_text(core, v, deficit, sizeof deficit);
            gang_log(core, v, deficit);
        }
    }
    for (size_t i = 0; i < decision->action_count; i++) {
        if (decision->actions[i].kind != ACTION_RECLAIM) continue;
        if (m.reclaims++ < ATTRIBUTION_MOST) reclaim_match(core, &decision->actions[i], unmet, &m);
    }
    core_log(core, CORE_INFO, "phase attribution",
             "cycle=%llu needs=%zu same=%zu unsatisfied=%zu unsatisfied_same=%zu reclaims=%zu "
             "reclaims_looked_at=%zu needs_looked_at=%zu matches=%zu matches_covering=%zu",
             (unsigned long long)core->counts.cycles, decision->verdict_count, same, unsatisfied,
             unsatisfied_same, m.reclaims, m.looked_at, unmet->count, m.matching, m.covering);
}
