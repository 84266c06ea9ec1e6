/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain need: what InspectNeeds says of it, in words. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "io/clock.h"
#include "musterctl/explain.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

enum { TEXT_CAP = 4096, LATELY = 5, KNOWN_CAP = 1024, CLUSTER_CAP = 256, GROUP_CAP = 256 };

struct search {
    struct ctl *ctl;
    char cluster[CLUSTER_CAP];
    const char *which; /* NULL: all of the cluster */
    const struct survey_shard *shard;
    int64_t cycle, at_ns;
    size_t found;          /* that were explained */
    char known[KNOWN_CAP]; /* of the cluster: priorities and groups */
    struct nearest_names clusters;
};

/* -- texts -- */

struct text {
    char at[TEXT_CAP];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list args;
    int more;

    va_start(args, format);
    more = vsnprintf(text->at + text->len, sizeof text->at - text->len, format, args);
    va_end(args);
    if (more > 0) text->len = min_size(text->len + (size_t)more, sizeof text->at - 1);
}

/* A gang's name is bytes, of which operators make "namespace NUL name": shown, and typed, with a
 * slash. */
static const char *group_text(const Bigfleet__V1alpha1__CapacityNeed *need, char text[GROUP_CAP])
{
    size_t len = min_size(need->group.len, GROUP_CAP - 1);

    for (size_t i = 0; i < len; i++)
        text[i] = need->group.data[i] ? (char)need->group.data[i] : '/';
    text[len] = '\0';
    return text;
}

/* All maps from text to text have entries of one shape. */
static void add_amounts(struct text *text, size_t count, ProtobufCMessage *const *entries)
{
    for (size_t i = 0; i < count; i++) {
        const Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry *e =
            (const void *)entries[i];
        add(text, "%s%s %s", i ? ", " : "", e->value, e->key);
    }
}

static void add_requirements(struct text *text, const Bigfleet__V1alpha1__CapacityNeed *need)
{
    static const char *const words[] = {"?",        "is one of",    "is none of",
                                        "is there", "is not there", "is the same on all"};

    for (size_t i = 0; i < need->n_requirements; i++) {
        const Bigfleet__V1alpha1__NodeSelectorRequirement *r = need->requirements[i];
        uint32_t op = (uint32_t)r->operator_;

        add(text, "%s%s %s", i ? " and " : " whose ", r->key,
            op < ARRAY_LEN(words) ? words[op] : words[0]);
        for (size_t j = 0; j < r->n_values; j++) add(text, "%s%s", j ? ", " : " ", r->values[j]);
    }
}

/* -- the parts of the explanation -- */

static enum err say_asks(struct ctl *ctl, const Bigfleet__V1alpha1__CapacityNeed *need)
{
    struct text text = {.len = 0};

    add(&text, "for machines%s", need->n_requirements ? "" : " of any kind");
    add_requirements(&text, need);
    add(&text, "%s with ", need->n_requirements ? "," : "");
    add_amounts(&text, need->n_aggregate_resources,
                (ProtobufCMessage *const *)need->aggregate_resources);
    add(&text, " in all");
    if (need->n_min_unit) {
        add(&text, "; the largest piece, ");
        add_amounts(&text, need->n_min_unit, (ProtobufCMessage *const *)need->min_unit);
        add(&text, ", must fit on one machine");
    }
    return explain_says(ctl, "asks", "%s", text.at);
}

static enum err say_has(struct ctl *ctl, const Bigfleet__V1alpha1__NeedView *v)
{
    struct text text = {.len = 0};
    enum err err =
        explain_says(ctl, "has", "%" PRId32 " machine%s it%s%s", v->claimed_machine_count,
                     v->claimed_machine_count == 1 ? " that serves" : "s that serve",
                     v->same_domain[0] ? ", all in " : "", v->same_domain);

    if (!err && v->bootstrap_count + v->provision_count > 0)
        err = explain_says(ctl, "coming",
                           "in that cycle %" PRId32 " idle and %" PRId32
                           " to be bought were taken for it",
                           v->bootstrap_count, v->provision_count);
    if (err) return err;
    if (v->satisfied) return explain_says(ctl, "lacks", "nothing");
    if (v->residual_deficit)
        add_amounts(&text, v->residual_deficit->n_resources,
                    (ProtobufCMessage *const *)v->residual_deficit->resources);
    return explain_says(ctl, "lacks", "%s, for %" PRId32 " cycles", text.at, v->age_cycles_unmet);
}

static const char *best_domain(const Bigfleet__V1alpha1__NeedView *v, int32_t *ret_per_mille)
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

static enum err say_topology(struct ctl *ctl, const Bigfleet__V1alpha1__NeedView *v)
{
    int32_t covered;
    const char *best = best_domain(v, &covered);
    enum err err;

    if (best)
        err =
            explain_says(ctl, "why",
                         "all of it must be in one domain, and none can hold it: the best, %s, has "
                         "%" PRId32 ".%" PRId32 " %% of what is scarcest",
                         best, covered / 10, covered % 10);
    else
        err = explain_says(ctl, "why", "all of it must be in one domain, and there is none");
    if (!err && v->acquisition_parked)
        err = explain_says(ctl, "",
                           "it is parked for %" PRId32 " cycles now: not tried in every "
                           "cycle, so that it does not hold what others could use",
                           v->parked_age_cycles);
    return err ? err
               : explain_says(ctl, "change",
                              "a smaller group, or a larger domain: more quota there");
}

static enum err say_why(struct ctl *ctl, const Bigfleet__V1alpha1__NeedView *v)
{
    static const Bigfleet__V1alpha1__MatchingSupply none =
        BIGFLEET__V1ALPHA1__MATCHING_SUPPLY__INIT;
    const Bigfleet__V1alpha1__MatchingSupply *s = v->matching_supply ? v->matching_supply : &none;
    enum err err;

    switch ((int)v->unmet_reason) {
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_PRIORITY_STARVED:
        err = explain_says(ctl, "why",
                           "machines of a fitting shape are there (%" PRId32 " idle, %" PRId32
                           " that could be bought, %" PRId32
                           " that serve somebody%s), and more important Needs have them",
                           s->idle, s->speculative, s->configured, s->capped ? ", or more" : "");
        return err ? err
                   : explain_says(ctl, "change",
                                  "a higher priority; more machines or quota of this "
                                  "shape; less demand above it");
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_NO_MATCHING_SUPPLY:
        err = explain_says(ctl, "why",
                           "no machine of a fitting shape is there: none idle, none that could be "
                           "bought, none that serves somebody");
        return err ? err
                   : explain_says(ctl, "change",
                                  "quota for such a shape (musterctl set-quota); looser "
                                  "requirements; smaller pieces");
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_TOPOLOGY_UNSATISFIABLE:
        return say_topology(ctl, v);
    case BIGFLEET__V1ALPHA1__UNMET_REASON__UNMET_REASON_PREEMPTION_EXHAUSTED:
        err =
            explain_says(ctl, "why",
                         "%" PRId32 " machines are being taken from less important Needs, and that "
                         "is not enough",
                         v->preemption ? v->preemption->victims_found : 0);
        return err ? err
                   : explain_says(ctl, "change",
                                  "the drains that are under way; more machines or "
                                  "quota of this shape");
    default: return explain_says(ctl, "why", "the shard gives no reason that this program knows");
    }
}

static enum err say_rails(struct search *s)
{
    const Muster__V1__ShardStatusResponse *said = s->shard->said;

    if (said->fenced)
        return explain_says(s->ctl, "held",
                            "the shard is fenced: all of this is decided, and nothing is done; "
                            "`musterctl doctor` says what to do");
    if (said->paused)
        return explain_says(s->ctl, "held",
                            "the shard's kill switch is on: all of this is decided, "
                            "and nothing is done");
    if (said->dry_run)
        return explain_says(s->ctl, "held",
                            "the shard runs dry: all of this is decided and told, and "
                            "nothing is done");
    return ERR_OK;
}

/* What is taken for this Need may be among them. */
static enum err say_waits(struct search *s)
{
    uint32_t waiting = s->shard->said->drains_waiting;

    if (!waiting) return ERR_OK;
    return explain_says(s->ctl, "waits",
                        "for operators: they drain %" PRIu32 " machine%s of this shard, which the "
                        "provider drains when they have, or when the grace ends",
                        waiting, waiting == 1 ? "" : "s");
}

static enum err say_need(struct search *s, const Bigfleet__V1alpha1__NeedView *v)
{
    uint64_t now = clock_wall(clock_real()).ms;
    char since[WALL_TEXT_CAP], age[EXPLAIN_AGE_CAP], group[GROUP_CAP];
    enum err err;

    wall_text((wall_time){(uint64_t)v->arrival_unix_nanos / 1000000}, since);
    if (s->found > 1 && buf_append_byte(&s->ctl->out, '\n')) return ERR_NOMEM;
    err = ctl_line(s->ctl, "need of %s with priority %" PRId32 "%s%s", v->cluster_id,
                   v->need->priority, v->need->group.len ? ", group " : "",
                   group_text(v->need, group));
    if (!err) err = say_asks(s->ctl, v->need);
    if (!err)
        err =
            explain_says(s->ctl, "decided",
                         "by shard %s in cycle %" PRId64 ", %s ago; it is asked "
                         "for since %.19sZ",
                         s->shard->id, s->cycle,
                         explain_age(now - min_u64(now, (uint64_t)s->at_ns / 1000000), age), since);
    if (!err) err = say_has(s->ctl, v);
    if (!err && !v->satisfied) err = say_why(s->ctl, v);
    if (!err && !v->satisfied) err = say_waits(s);
    if (!err && v->satisfied)
        err = explain_says(s->ctl, "change",
                           "demand of its operator; a more important Need that "
                           "lacks machines of this shape could take them");
    return err ? err : say_rails(s);
}

/* -- the search -- */

/* A priority, a group, or a part of the fingerprint. */
static bool is_wanted(const struct search *s, const Bigfleet__V1alpha1__NeedView *v)
{
    char *end = NULL, group[GROUP_CAP];
    long priority;

    if (!s->which) return true;
    priority = strtol(s->which, &end, 10);
    if (*s->which && *end == '\0') return priority == v->need->priority;
    return strcmp(s->which, group_text(v->need, group)) == 0 ||
           strstr(v->profile_fingerprint, s->which);
}

static void note_known(struct search *s, const Bigfleet__V1alpha1__NeedView *v)
{
    size_t used = strlen(s->known);
    char group[GROUP_CAP];

    snprintf(s->known + used, sizeof s->known - used, "%s%" PRId32 "%s%s", used ? ", " : "",
             v->need->priority, v->need->group.len ? " group " : "", group_text(v->need, group));
}

static enum err on_frame(void *owner, const ProtobufCMessage *message, struct note *note)
{
    const Bigfleet__V1alpha1__InspectNeedsResponse *frame = (const void *)message;
    struct search *s = owner;

    (void)note;
    if (frame->frame_case == BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER) {
        s->cycle = frame->header->cycle;
        s->at_ns = frame->header->computed_at_unix_nanos;
    }
    if (frame->frame_case != BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_NEED ||
        !frame->need->need)
        return ERR_OK;
    if (strcmp(frame->need->cluster_id, s->cluster) != 0) {
        nearest_names_offer(&s->clusters, frame->need->cluster_id);
        return ERR_OK;
    }
    note_known(s, frame->need);
    if (!is_wanted(s, frame->need)) return ERR_OK;
    s->found++;
    return say_need(s, frame->need);
}

static enum err ask_shard(struct search *s, const char *cluster)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.ShardRead/InspectNeeds",
        &bigfleet__v1alpha1__inspect_needs_response__descriptor, REMOTE_READ, NULL};
    Bigfleet__V1alpha1__InspectNeedsRequest request =
        BIGFLEET__V1ALPHA1__INSPECT_NEEDS_REQUEST__INIT;

    request.cluster_id = ctl_text(cluster);
    return remote_stream(s->shard->remote, &method, &request.base, on_frame, s, &s->ctl->note);
}

static enum err ask_shards(struct search *s, const struct survey *survey, const char *cluster)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < survey->shard_count && !err; i++) {
        size_t before = s->found;
        s->shard = &survey->shards[i];
        if (!s->shard->said) continue;
        err = ask_shard(s, cluster);
        if (!err && s->found > before)
            err = explain_audit(s->ctl, s->shard->said->n_audit, s->shard->said->audit, NULL,
                                s->cluster, LATELY);
    }
    return err;
}

static enum err search(struct search *s, const struct survey *survey)
{
    char hint[EXPLAIN_HINT_CAP];
    enum err err = ask_shards(s, survey, s->cluster);

    if (err) return err;
    if (s->found) return explain_silent_shards(s->ctl, survey);
    if (s->known[0]) {
        note_set(&s->ctl->note, "%s has no Need '%s'; it has those of priority %s", s->cluster,
                 s->which, s->known);
        return ERR_NOT_FOUND;
    }
    err = ask_shards(s, survey, ""); /* for their names */
    if (err) return err;
    note_set(&s->ctl->note, "no Need of a cluster %s is known%s; its operator may not be connected",
             s->cluster, nearest_names_hint(&s->clusters, hint));
    return ERR_NOT_FOUND;
}

enum err explain_need(struct ctl *ctl)
{
    static struct survey survey; /* it is large */
    static struct search s;
    const char *argument = conf_argument(ctl->conf, 0), *slash = strchr(argument, '/');
    enum err err;

    s.ctl = ctl;
    s.which = slash ? slash + 1 : NULL;
    snprintf(s.cluster, sizeof s.cluster, "%.*s",
             slash ? (int)(slash - argument) : (int)strlen(argument), argument);
    s.clusters.wanted = s.cluster;
    err = survey_open(&survey, ctl->conf, &ctl->note);
    if (!err) {
        survey_ask_shards(&survey);
        ctl->note = survey.why[SURVEY_SHARDS];
        err = survey_shards(&survey) ? search(&s, &survey) : ERR_UNAVAILABLE;
    }
    survey_close(&survey);
    return err;
}
