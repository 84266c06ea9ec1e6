/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain need: prints the answer of InspectNeeds in words. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "ctl/explain.h"
#include "io/clock.h"
#include "text/rfc3339.h"

enum {
    EXPLAIN_NEED_TEXT_CAP = 4096,
    EXPLAIN_NEED_LATELY = 5,
    KNOWN_CAP = 1024,
    CLUSTER_CAP = 256,
    GROUP_CAP = 256
};

struct need_search {
    struct ctl *ctl;
    char cluster[CLUSTER_CAP];
    const char *which; /* the Need to explain; NULL: all Needs of the cluster */
    struct explain_cycle cycle;
    size_t found;
    char known[KNOWN_CAP]; /* the cluster's priorities and groups, for an error text */
    struct nearest_names clusters;
};

/* -- texts; each is cut where its buffer ends -- */

/* A gang's name is bytes. Operators use "namespace NUL name", shown with a slash. */
static const char *need_group(const Bigfleet__V1alpha1__CapacityNeed *need, char text[GROUP_CAP])
{
    size_t len = min_size(need->group.len, GROUP_CAP - 1);

    for (size_t i = 0; i < len; i++)
        text[i] = need->group.data[i] ? (char)need->group.data[i] : '/';
    text[len] = '\0';
    return text;
}

/* All protobuf maps from text to text have the same layout. */
static void need_add_amounts(struct buf *text, size_t count, ProtobufCMessage *const *entries)
{
    for (size_t i = 0; i < count; i++) {
        const Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry *e =
            (const void *)entries[i];
        (void)buf_appendf(text, "%s%s %s", i ? ", " : "", e->value, e->key);
    }
}

static void need_add_requirements(struct buf *text, const Bigfleet__V1alpha1__CapacityNeed *need)
{
    static const char *const words[] = {"?",        "is one of",    "is none of",
                                        "is there", "is not there", "is the same on all"};

    for (size_t i = 0; i < need->n_requirements; i++) {
        const Bigfleet__V1alpha1__NodeSelectorRequirement *r = need->requirements[i];
        uint32_t op = (uint32_t)r->operator_;

        (void)buf_appendf(text, "%s%s %s", i ? " and " : " whose ", r->key,
                          op < ARRAY_LEN(words) ? words[op] : words[0]);
        for (size_t j = 0; j < r->n_values; j++)
            (void)buf_appendf(text, "%s%s", j ? ", " : " ", r->values[j]);
    }
}

static void need_say_asks(struct ctl *ctl, const Bigfleet__V1alpha1__CapacityNeed *need)
{
    struct buf text;

    buf_init(&text, EXPLAIN_NEED_TEXT_CAP);
    (void)buf_appendf(&text, "for machines%s", need->n_requirements ? "" : " of any kind");
    need_add_requirements(&text, need);
    (void)buf_appendf(&text, "%s with ", need->n_requirements ? "," : "");
    need_add_amounts(&text, need->n_aggregate_resources,
                     (ProtobufCMessage *const *)need->aggregate_resources);
    (void)buf_appendf(&text, " in all");
    if (need->n_min_unit) {
        (void)buf_appendf(&text, "; the largest piece, ");
        need_add_amounts(&text, need->n_min_unit, (ProtobufCMessage *const *)need->min_unit);
        (void)buf_appendf(&text, ", must fit on one machine");
    }
    explain_says(ctl, "asks", "%.*s", STR_ARG(buf_peek(&text)));
    buf_deinit(&text);
}

static void need_say_has(struct ctl *ctl, const Bigfleet__V1alpha1__NeedView *v)
{
    struct buf text;

    explain_says(ctl, "has", "%" PRId32 " machine%s it%s%s", v->claimed_machine_count,
                 v->claimed_machine_count == 1 ? " that serves" : "s that serve",
                 v->same_domain[0] ? ", all in " : "", v->same_domain);

    if (v->bootstrap_count + v->provision_count > 0)
        explain_says(ctl, "coming",
                     "in that cycle %" PRId32 " idle and %" PRId32
                     " to be bought were taken for it",
                     v->bootstrap_count, v->provision_count);
    if (v->satisfied) {
        explain_says(ctl, "lacks", "nothing");
        return;
    }
    buf_init(&text, EXPLAIN_NEED_TEXT_CAP);
    if (v->residual_deficit)
        need_add_amounts(&text, v->residual_deficit->n_resources,
                         (ProtobufCMessage *const *)v->residual_deficit->resources);
    explain_says(ctl, "lacks", "%.*s, for %" PRId32 " cycles", STR_ARG(buf_peek(&text)),
                 v->age_cycles_unmet);
    buf_deinit(&text);
}

static const char *need_best_domain(const Bigfleet__V1alpha1__NeedView *v, int32_t *ret_per_mille)
{
    const char *best = NULL;

    *ret_per_mille = -1;
    for (size_t i = 0; i < v->n_same_candidates; i++) {
        if (v->same_candidates[i]->coverage_per_mille <= *ret_per_mille) continue;
        *ret_per_mille = v->same_candidates[i]->coverage_per_mille;
        best = v->same_candidates[i]->domain;
    }
    return best;
}

static void need_say_topology(struct ctl *ctl, const Bigfleet__V1alpha1__NeedView *v)
{
    int32_t covered;
    const char *best = need_best_domain(v, &covered);

    if (best)
        explain_says(ctl, "why",
                     "all of it must be in one domain, and none can hold it: the best, %s, has "
                     "%" PRId32 ".%" PRId32 " %% of what is scarcest",
                     best, covered / 10, covered % 10);
    else
        explain_says(ctl, "why", "all of it must be in one domain, and there is none");
    if (v->acquisition_parked)
        explain_says(ctl, "",
                     "it is parked for %" PRId32
                     " cycles now: not tried in every cycle, so that it "
                     "does not hold what others could use",
                     v->parked_age_cycles);
    explain_says(ctl, "change", "a smaller group, or a larger domain: more quota there");
}

static void need_say_why(struct ctl *ctl, const Bigfleet__V1alpha1__NeedView *v)
{
    static const Bigfleet__V1alpha1__MatchingSupply none =
        BIGFLEET__V1ALPHA1__MATCHING_SUPPLY__INIT;
    const Bigfleet__V1alpha1__MatchingSupply *s = v->matching_supply ? v->matching_supply : &none;

    if (v->sold_out[0]) {
        explain_says(ctl, "why", "%s", v->sold_out);
        explain_says(ctl, "change",
                     "a larger quota at the provider; other instance types, zones or capacity "
                     "types in its requirements");
        return;
    }
    switch ((int)v->unmet_reason) {
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_PRIORITY_STARVED:
        explain_says(ctl, "why",
                     "machines of a fitting shape are there (%" PRId32 " idle, %" PRId32
                     " that could be bought, %" PRId32
                     " that serve somebody%s), and more important Needs have them",
                     s->idle, s->speculative, s->configured, s->capped ? ", or more" : "");
        explain_says(ctl, "change",
                     "a higher priority; more machines or quota of this shape; less demand above "
                     "it");
        break;
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_NO_MATCHING_SUPPLY:
        explain_says(
            ctl, "why",
            "no machine of a fitting shape is there: none idle, none that could be bought, "
            "none that serves somebody");
        explain_says(ctl, "change",
                     "a larger quota at the provider; looser requirements; smaller pieces");
        break;
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_TOPOLOGY_UNSATISFIABLE:
        need_say_topology(ctl, v);
        break;
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_PREEMPTION_EXHAUSTED:
        explain_says(ctl, "why",
                     "%" PRId32 " machines are being taken from less important Needs, and that is "
                     "not enough",
                     v->preemption ? v->preemption->victims_found : 0);
        explain_says(ctl, "change",
                     "the drains that are under way; more machines or quota of this shape");
        break;
    default: explain_says(ctl, "why", "the shard gives no reason that this program knows");
    }
}

static void need_say_rails(struct ctl *ctl, const Muster__V1__ShardStatusResponse *shard)
{
    if (shard->fenced)
        explain_says(ctl, "held",
                     "the shard is fenced: all of this is decided, and nothing is done; `musterctl "
                     "doctor` says what to do");
    else if (shard->paused)
        explain_says(ctl, "held",
                     "the shard's kill switch is on: all of this is decided, and nothing is done");
    else if (shard->dry_run)
        explain_says(ctl, "held",
                     "the shard runs dry: all of this is decided and logged, and nothing is done");
}

/* Some of the waiting drains may free machines for this Need. */
static void need_say_waits(struct ctl *ctl, const Muster__V1__ShardStatusResponse *shard)
{
    uint32_t waiting = shard->drains_waiting;

    if (waiting)
        explain_says(ctl, "waits",
                     "for operators: they drain %" PRIu32 " machine%s of this shard, which the "
                     "provider drains when they have, or when the grace ends",
                     waiting, waiting == 1 ? "" : "s");
}

void explain_need_say(struct ctl *ctl, const struct explain_cycle *cycle,
                      const Bigfleet__V1alpha1__NeedView *v)
{
    char since[RFC3339_CAP], age[EXPLAIN_AGE_CAP], group[GROUP_CAP];

    wall_text((wall_time){(uint64_t)v->arrival_unix_nanos / 1000000}, since);
    ctl_line(ctl, "need of %s with priority %" PRId32 "%s%s", v->cluster_id, v->need->priority,
             v->need->group.len ? ", group " : "", need_group(v->need, group));
    need_say_asks(ctl, v->need);
    explain_says(ctl, "decided",
                 "by shard %s in cycle %" PRId64 ", %s ago; it is asked for since %.19sZ",
                 cycle->shard, cycle->number, explain_age(cycle->age_ms, age), since);
    need_say_has(ctl, v);
    if (v->satisfied) {
        explain_says(ctl, "change",
                     "demand of its operator; a more important Need that lacks machines of this "
                     "shape could take them");
    } else {
        need_say_why(ctl, v);
        need_say_waits(ctl, cycle->said);
    }
    need_say_rails(ctl, cycle->said);
}

/* -- the search -- */

/* True if the wanted text is the Need's priority, its group, or part of its fingerprint. */
static bool need_is_wanted(const struct need_search *s, const Bigfleet__V1alpha1__NeedView *v)
{
    char *end = NULL, group[GROUP_CAP];
    long priority;

    if (!s->which) return true;
    priority = strtol(s->which, &end, 10);
    if (*s->which && *end == '\0') return priority == v->need->priority;
    return strcmp(s->which, need_group(v->need, group)) == 0 ||
           strstr(v->profile_fingerprint, s->which);
}

static void need_note_known(struct need_search *s, const Bigfleet__V1alpha1__NeedView *v)
{
    size_t used = strlen(s->known);
    char group[GROUP_CAP];

    snprintf(s->known + used, sizeof s->known - used, "%s%" PRId32 "%s%s", used ? ", " : "",
             v->need->priority, v->need->group.len ? " group " : "", need_group(v->need, group));
}

static enum err need_on_frame(void *owner, const ProtobufCMessage *message, struct note *)
{
    const Bigfleet__V1alpha1__InspectNeedsResponse *frame = (const void *)message;
    struct need_search *s = owner;

    if (frame->frame_case == BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER) {
        uint64_t now = clock_wall(clock_real()).ms;
        uint64_t at = (uint64_t)frame->header->computed_at_unix_nanos / 1000000;
        s->cycle.number = frame->header->cycle;
        s->cycle.age_ms = now - min_u64(now, at);
    }
    if (frame->frame_case != BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_NEED ||
        !frame->need->need)
        return ERR_OK;
    if (strcmp(frame->need->cluster_id, s->cluster) != 0) {
        nearest_names_offer(&s->clusters, frame->need->cluster_id);
        return ERR_OK;
    }
    need_note_known(s, frame->need);
    if (!need_is_wanted(s, frame->need)) return ERR_OK;
    if (s->found++ > 0) ctl_append(s->ctl, STR("\n"));
    explain_need_say(s->ctl, &s->cycle, frame->need);
    return ERR_OK;
}

static enum err need_ask_shards(struct need_search *s, const struct ctl_survey *survey,
                                const char *cluster)
{
    Bigfleet__V1alpha1__InspectNeedsRequest request =
        BIGFLEET__V1ALPHA1__INSPECT_NEEDS_REQUEST__INIT;
    enum err err = ERR_OK;

    request.cluster_id = ctl_text(cluster);
    for (size_t i = 0; i < survey->shard_count && !err; i++) {
        const struct survey_shard *shard = &survey->shards[i];
        size_t before = s->found;

        if (!shard->said) continue;
        s->cycle = (struct explain_cycle){.shard = shard->id, .said = shard->said};
        err = remote_stream(shard->remote,
                            REMOTE_READ_OF("/bigfleet.v1alpha1.ShardRead/InspectNeeds",
                                           bigfleet__v1alpha1__inspect_needs),
                            &request.base, need_on_frame, s, &s->ctl->note);
        if (!err && s->found > before)
            explain_audit(s->ctl, shard->said->n_audit, shard->said->audit, s->cluster,
                          EXPLAIN_NEED_LATELY);
    }
    return err;
}

/* A shard that did not answer may have the Need. */
static void need_say_silent(struct ctl *ctl, const struct ctl_survey *survey)
{
    for (size_t i = 0; i < survey->shard_count; i++)
        if (!survey->shards[i].said)
            explain_says(ctl, "missing", "shard %s does not answer, and may know more: %s",
                         survey->shards[i].id, survey->shards[i].why.text);
}

static enum err need_find(struct ctl *ctl, struct ctl_survey *survey, const char *wanted)
{
    const char *slash = strchr(wanted, '/');
    struct need_search s = {.ctl = ctl, .which = slash ? slash + 1 : NULL};
    char hint[EXPLAIN_HINT_CAP];
    enum err err;

    snprintf(s.cluster, sizeof s.cluster, "%.*s", (int)str_find(str_from(wanted), '/'), wanted);
    s.clusters.wanted = s.cluster;
    err = need_ask_shards(&s, survey, s.cluster);
    if (!err && s.found) need_say_silent(ctl, survey);
    if (err || s.found) return err;
    if (s.known[0])
        return ctl_fail(ctl, ERR_NOT_FOUND, "%s has no Need '%s'; it has those of priority %s",
                        s.cluster, s.which, s.known);
    err = need_ask_shards(&s, survey, ""); /* for their names */
    if (err) return err;
    return ctl_fail(ctl, ERR_NOT_FOUND,
                    "no Need of a cluster %s is known%s; its operator may not be connected",
                    s.cluster, nearest_names_hint(&s.clusters, hint));
}

enum err explain_need(struct ctl *ctl)
{
    return explain_with_shards(ctl, need_find);
}
