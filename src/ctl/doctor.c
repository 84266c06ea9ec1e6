/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl doctor: finds problems of a fleet and recommends what to do. Changes nothing. One
 * thread. */
#include "ctl/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cert/cert.h"
#include "conf/units.h"
#include "io/clock.h"

enum {
    SILENT_MS = 5000,   /* a healthy voter answers much more often */
    LAG_ENTRIES = 1000, /* more than a quiet cluster has in flight */
    CYCLES_LATE = 10,
    WHAT_CAP = 512,
    NUMBER_CAP = 32,
};

/* -- findings -- */

static const char *const words[] = {"ok", "warn", "fail"};

void doctor_says(struct doctor *d, enum finding finding, const char *advice, const char *format,
                 ...)
{
    char what[WHAT_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    d->found[finding]++;
    if (d->ctl->json) {
        ndjson_open_object(d->json, NDJSON_ITEM);
        ndjson_c_string(d->json, STR("result"), words[finding]);
        ndjson_c_string(d->json, STR("what"), what);
        ndjson_c_string(d->json, STR("advice"), advice);
        ndjson_close_object(d->json);
    } else {
        bool color = finding != FINDING_OK && d->ctl->table_flags & TABLE_BOLD;
        if (color) ctl_append(d->ctl, finding == FINDING_WARN ? STR("\033[33m") : STR("\033[31m"));
        ctl_line(d->ctl, "%-4s  %s%s%s", words[finding], what, advice ? "  -- " : "",
                 advice ? advice : "");
        if (color) ctl_append(d->ctl, STR("\033[0m"));
    }
}

/* -- the coordinators -- */

static void doctor_quorum(struct doctor *d, const Muster__V1__ListReplicasResponse *list)
{
    const Muster__V1__Replica *leader = ctl_survey_leader(list);
    size_t voters = 0, silent = 0;
    const char *who = "";

    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        if (!replica->voter) continue;
        voters++;
        if (replica->leader || (replica->silent_ms >= 0 && replica->silent_ms < SILENT_MS))
            continue;
        silent++;
        who = replica->name;
    }
    if (silent > 0)
        doctor_says(
            d, voters - silent < voters / 2 + 1 ? FINDING_FAIL : FINDING_WARN,
            "start it again, or `musterctl replica remove` it and start a new one; with one "
            "more gone nothing can be decided",
            "quorum: %zu of %zu voters do not answer (%s)", silent, voters, who);
    else if (voters < 3)
        doctor_says(d, FINDING_WARN, "run three, on three machines",
                    "quorum: %zu voter%s; none of them may fail", voters, voters == 1 ? "" : "s");
    else
        doctor_says(d, FINDING_OK, NULL, "quorum: %zu voters answer, %s leads in term %" PRIu64,
                    voters, leader ? leader->name : "?", list->term);
}

static void doctor_lag(struct doctor *d, const Muster__V1__ListReplicasResponse *list)
{
    size_t behind = 0;

    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        uint64_t lag = ctl_survey_lag(list, replica);
        if (lag <= LAG_ENTRIES && replica->voter) continue;
        behind++;
        if (replica->voter)
            doctor_says(d, FINDING_WARN,
                        "look at its disk and network; muster_log_sync_seconds shows a slow disk",
                        "%s: %" PRIu64 " entries behind", replica->name, lag);
        else
            doctor_says(
                d, FINDING_WARN,
                "it becomes a voter when it has caught up; remove it if it is gone for good",
                "%s: a learner, %" PRIu64 " entries behind", replica->name, lag);
    }
    if (behind == 0) doctor_says(d, FINDING_OK, NULL, "no replica is behind");
}

static void doctor_levels(struct doctor *d, const Muster__V1__ListReplicasResponse *list)
{
    for (size_t i = 1; i < list->n_replicas; i++) {
        if (list->replicas[i]->level == list->replicas[0]->level) continue;
        doctor_says(d, FINDING_WARN, "finish the upgrade of every replica",
                    "%s and %s announce different levels (%" PRIu32 ", %" PRIu32 ")",
                    list->replicas[0]->name, list->replicas[i]->name, list->replicas[0]->level,
                    list->replicas[i]->level);
        return;
    }
}

static void doctor_coordinators(struct doctor *d)
{
    const Muster__V1__ListReplicasResponse *list = d->survey.replicas;

    if (!list) {
        doctor_says(d, FINDING_FAIL,
                    "start the replicas; a majority of them must reach each other. Shards go on "
                    "without them",
                    "quorum: %s", d->survey.why[SURVEY_REPLICAS].text);
        return;
    }
    doctor_quorum(d, list);
    doctor_lag(d, list);
    doctor_levels(d, list);
    for (size_t i = 0; i < list->n_replicas; i++) doctor_replica(d, list->replicas[i]);
    doctor_compare_replicas(d);
}

static void doctor_store(struct doctor *d)
{
    const Muster__V1__StatusResponse *store = d->survey.store;

    if (!store) return;
    if (store->no_space)
        doctor_says(d, FINDING_FAIL, "delete keys, `musterctl store compact`, or raise the quota",
                    "store: its quota is used up, writes are refused");
    else
        doctor_says(d, FINDING_OK, NULL, "store: %" PRIu64 " keys, within its quota", store->keys);
}

static void doctor_workers(struct doctor *d)
{
    const Muster__V1__ClusterStatusResponse *s = d->survey.members;

    if (!s || s->known == 0) return;
    if (s->hold)
        doctor_says(d, FINDING_FAIL,
                    "is it the network? When they are really gone: `musterctl worker release-hold`",
                    "workers: so many failed at once that no verdict is given");
    else if (s->suspected + s->dead > 0)
        doctor_says(d, FINDING_WARN,
                    "`musterctl explain worker ID` for each of `musterctl worker list`",
                    "workers: %" PRIu64 " suspected, %" PRIu64 " dead of %" PRIu64, s->suspected,
                    s->dead, s->known);
    else
        doctor_says(d, FINDING_OK, NULL, "workers: %" PRIu64 " of %" PRIu64 " are active",
                    s->active, s->known);
}

/* -- ownership of domains -- */

static void doctor_leaving(struct doctor *d, const Muster__V1__ListOwnershipIssuesResponse *list)
{
    const Muster__V1__LeavingDomain *first = list->n_leaving ? list->leaving[0] : NULL;

    for (size_t i = 0; i < list->n_leaving; i++) {
        const Muster__V1__LeavingDomain *domain = list->leaving[i];
        if (!domain->owner_id[0]) continue;
        doctor_says(d, FINDING_FAIL,
                    "make sure that its process is stopped; until it acknowledges, both may act on "
                    "the same machines",
                    "domain %s=%s: %s owns it, and %s has not given it up", domain->topology_key,
                    domain->topology_value, domain->owner_id, domain->shard_id);
        return;
    }
    if (first)
        doctor_says(d, FINDING_WARN,
                    "`musterctl domain leaving`; is the shard running? Until it "
                    "acknowledges, no other shard gets them",
                    "domains: %" PRIu64
                    " wait until their last shard gives them up (%s=%s: %s%s%s)",
                    list->leaving_count, first->topology_key, first->topology_value,
                    first->shard_id, first->reason[0] ? ": " : "", first->reason);
}

static void doctor_contested(struct doctor *d, const Muster__V1__ListOwnershipIssuesResponse *list)
{
    const Muster__V1__ContestedDomain *first = list->n_contested ? list->contested[0] : NULL;

    if (first)
        doctor_says(d, FINDING_FAIL,
                    "the tables are older than the shards, as after a restore? The second shard is "
                    "ordered to give them up and does when no machine serves there; "
                    "`musterctl domain leaving`",
                    "domain %s=%s: %s owns it, and %s acts on it (%" PRIu64 " such domains)%s%s",
                    first->topology_key, first->topology_value,
                    first->owner_id[0] ? first->owner_id : "nobody", first->shard_id,
                    list->contested_count, first->reason[0] ? ": " : "", first->reason);
}

static void doctor_unscoped(struct doctor *d, const Muster__V1__UnscopedProvider *provider)
{
    bool others = provider->n_other_ids > 0;

    doctor_says(d, FINDING_FAIL,
                "`musterctl domain assign` for each of them: without domains each owns every "
                "machine of the provider",
                "provider %s: %zu shard%s without domains use%s it (%s%s%s)%s%s",
                provider->provider_address, provider->n_shard_ids,
                provider->n_shard_ids == 1 ? "" : "s", provider->n_shard_ids == 1 ? "s" : "",
                provider->n_shard_ids > 0 ? provider->shard_ids[0] : "?",
                provider->n_shard_ids > 1 ? ", " : "",
                provider->n_shard_ids > 1 ? provider->shard_ids[1] : "", others ? " beside " : "",
                others ? provider->other_ids[0] : "");
}

static void doctor_ownership(struct doctor *d)
{
    const Muster__V1__ListOwnershipIssuesResponse *list = d->survey.ownership;

    if (!list) return; /* an older release, or no leader */
    doctor_leaving(d, list);
    doctor_contested(d, list);
    for (size_t i = 0; i < list->n_duplicates; i++) {
        const Muster__V1__DuplicateShard *shard = list->duplicates[i];
        doctor_says(d, FINDING_FAIL,
                    "stop one of them: they act on the same machines from different data "
                    "directories",
                    "shard %s: %zu processes report under this id (%s, %s)", shard->shard_id,
                    shard->n_processes, shard->n_processes > 0 ? shard->processes[0]->address : "?",
                    shard->n_processes > 1 ? shard->processes[1]->address : "?");
    }
    for (size_t i = 0; i < list->n_unscoped; i++) doctor_unscoped(d, list->unscoped[i]);
    if (list->leaving_count == 0 && list->n_duplicates == 0 && list->n_unscoped == 0 &&
        list->n_contested == 0)
        doctor_says(d, FINDING_OK, NULL, "domains: no domain is named by two shards");
}

/* -- the shards -- */

static void doctor_fence(struct doctor *d, const char *id, const Muster__V1__ShardStatusResponse *s)
{
    char newest[NUMBER_CAP] = "what the provider has seen", advice[WHAT_CAP];

    if (!s->fenced) return;
    if (s->newest_epoch) snprintf(newest, sizeof newest, "%" PRId64, s->newest_epoch);
    snprintf(advice, sizeof advice,
             "a newer process of the same shard runs? Stop this one. It lost its data directory? "
             "Stop it, `muster shard set-epoch --data-dir DIR %s` there, start it",
             s->newest_epoch ? newest : "$(date +%s)");
    doctor_says(d, FINDING_FAIL, advice,
                "shard %s: fenced: its epoch %" PRIu64 " is not newer than %s, so nothing is done",
                id, s->epoch, newest);
}

static void doctor_rails(struct doctor *d, const char *id, const Muster__V1__ShardStatusResponse *s)
{
    static const char *const held[] = {NULL, "the kill switch is on",
                                       "it only logs what it would do",
                                       "the kill switch and dry-run are on"};

    doctor_fence(d, id, s);
    if (s->paused || s->dry_run)
        doctor_says(d, FINDING_WARN,
                    "it is in its configuration; when it has served, take it out and restart the "
                    "shard",
                    "shard %s: %s, so nothing is done", id, held[s->paused + 2 * s->dry_run]);
    if (s->in_doubt)
        doctor_says(d, FINDING_WARN, "the provider is slow or away; it is asked until it answers",
                    "shard %s: of %" PRIu32 " machines nobody knows how a call ended", id,
                    s->in_doubt);
    if (s->shortfalls)
        doctor_says(d, FINDING_WARN,
                    "`musterctl need list` says why; `musterctl need explain CLUSTER/PRIORITY`",
                    "shard %s: %" PRIu32 " Needs are not met", id, s->shortfalls);
}

static void doctor_shard(struct doctor *d, const struct survey_shard *shard)
{
    const Muster__V1__ShardStatusResponse *s = shard->said;
    uint64_t now = d->now.ms, at;
    char text[UNITS_TEXT_CAP];

    if (!s) {
        doctor_says(d, FINDING_FAIL, "is it running? Its machines stay as they are meanwhile",
                    "shard %s: %s", shard->id, shard->why.text);
        return;
    }
    at = (uint64_t)s->computed_at_unix_ns / 1000000;
    units_duration_text((now - min_u64(at, now)) / 1000 * 1000, text);
    if (s->cycle == 0)
        doctor_says(d, FINDING_FAIL, "its /readyz says what it waits for; mostly its provider",
                    "shard %s: it has decided nothing yet", shard->id);
    else if (now - min_u64(at, now) > CYCLES_LATE * max_u64(s->cycle_interval_ms, 1000))
        doctor_says(d, FINDING_FAIL, "its log says why: the provider, or the machine it runs on",
                    "shard %s: the last cycle was %s ago", shard->id, text);
    else
        doctor_says(d, FINDING_OK, NULL, "shard %s: cycle %" PRIu64 ", %" PRIu32 " machines",
                    shard->id, s->cycle, s->machines);
    doctor_rails(d, shard->id, s);
}

/* -- this machine -- */

static void doctor_own_certificates(struct doctor *d)
{
    static const char *const options[] = {"tls.cert-file", "tls.ca-file"};

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const char *path = conf_text(d->ctl->conf, options[i]);
        struct cert_description *list = NULL;
        struct note note = {""};
        size_t count = 0;

        if (!path) continue;
        if (cert_describe(fs_real(), path, d->now, &list, &count, &note))
            doctor_says(d, FINDING_FAIL, "musterctl cert show FILE", "%s: %s", path, note.text);
        for (size_t j = 0; j < count; j++) doctor_certificate(d, path, list[j].not_after);
        cert_descriptions_free(list, count);
    }
}

static void doctor_own_machine(struct doctor *d)
{
    struct option_value dirs = conf_list(d->ctl->conf, "data-dir");

    for (size_t i = 0; i < dirs.item_count; i++) {
        uint64_t free_bytes;
        enum err err = fs_free_bytes(fs_real(), dirs.items[i].at, &free_bytes);
        if (err)
            doctor_says(d, FINDING_FAIL, "--data-dir names directories of this machine", "%s: %s",
                        dirs.items[i].at, err_text(err));
        else
            doctor_room(d, dirs.items[i].at, free_bytes);
    }
    doctor_own_certificates(d);
}

/* -- the command -- */

void doctor_begin(struct doctor *d, struct ctl *ctl)
{
    d->ctl = ctl;
    if (!ctl->json) return;
    d->json = ctl_json_begin(ctl);
    ndjson_open_array(d->json, STR("findings"));
}

void doctor_judge(struct doctor *d)
{
    doctor_coordinators(d);
    doctor_store(d);
    doctor_workers(d);
    doctor_ownership(d);
    for (size_t i = 0; i < d->survey.shard_count; i++) doctor_shard(d, &d->survey.shards[i]);
    if (d->survey.shards_left_out)
        doctor_says(d, FINDING_WARN, "`musterctl shard list` lists them",
                    "%zu more shards were not looked at", d->survey.shards_left_out);
}

void doctor_end(struct doctor *d)
{
    struct ctl *ctl = d->ctl;

    ctl->exit_code = d->found[FINDING_FAIL] + d->found[FINDING_WARN] > 0;
    if (!ctl->json) {
        ctl_line(ctl, "%zu ok, %zu warn, %zu fail", d->found[FINDING_OK], d->found[FINDING_WARN],
                 d->found[FINDING_FAIL]);
        return;
    }
    ndjson_close_array(d->json);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        ndjson_u64(d->json, str_from(words[i]), d->found[i]);
    ctl_json_end(ctl);
}

enum err doctor_act(struct ctl *ctl)
{
    static struct doctor d; /* it is large */
    enum err err;

    d.fetch = doctor_fetch;
    doctor_begin(&d, ctl);
    err = ctl_survey_open(&d.survey, ctl->conf, &ctl->note);
    if (!err) {
        ctl_survey_ask(&d.survey);
        d.now = clock_wall(clock_real());
        doctor_judge(&d);
        doctor_own_machine(&d);
        doctor_end(&d);
    }
    ctl_survey_close(&d.survey);
    return err;
}
