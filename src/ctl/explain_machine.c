/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain machine: prints what the machine's shard reports about it. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/explain.h"
#include "text/json.h"

enum { EXPLAIN_MACHINE_LATELY = 10 };

static void machine_say_state(struct ctl *ctl, const Muster__V1__ShardMachineResponse *m)
{
    static const struct {
        const char *state, *means;
    } states[] = {
        {"Speculative", "a slot of quota that could be bought; nothing is paid for it"},
        {"Creating", "being bought"},
        {"Idle", "bought, and serves nobody"},
        {"Configuring", "being prepared for its cluster"},
        {"Configured", "a node of its cluster"},
        {"Draining", "being emptied"},
        {"Deleting", "being given back"},
        {"Failed", "the provider, or a refusal, says that it cannot be used"},
    };
    const char *means = "";
    char age[EXPLAIN_AGE_CAP];

    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (strcmp(states[i].state, m->state) == 0) means = states[i].means;
    if (strcmp(m->state, "Idle") == 0)
        explain_says(ctl, "state", "%s for %s: %s", m->state, explain_age(m->idle_ms, age), means);
    else
        explain_says(ctl, "state", "%s%s%s: %s", m->state, m->cluster[0] ? " for " : "", m->cluster,
                     means);
}

static void machine_say_purpose(struct ctl *ctl, const Muster__V1__ShardMachineResponse *m)
{
    if (m->bought_for[0])
        explain_says(ctl, "bought", "for a Need of priority %" PRId32 "%s%s, %s", m->priority,
                     m->destination[0] ? " of " : "", m->destination, m->bought_for);
    if (m->promised_to[0])
        explain_says(ctl, "promised", "to %s, whose more important Need it is emptied for",
                     m->promised_to);
}

static void machine_say_plan(struct ctl *ctl, const Muster__V1__ShardMachineResponse *m)
{
    char left[EXPLAIN_AGE_CAP];

    if (m->operator_drains)
        explain_says(ctl, "waits",
                     m->operator_away
                         ? "for the operator of %s, which is not connected, to drain it; "
                           "the provider drains it in %s at the latest"
                         : "for the operator of %s to drain it; the provider drains it in "
                           "%s at the latest",
                     m->cluster, explain_age(m->operator_left_ms, left));
    else if (m->planned_state[0])
        explain_says(ctl, "planned", "an action is queued that makes it %s", m->planned_state);
    else if (m->pending)
        explain_says(ctl, "planned", "a call to its provider or operator is under way");
}

static void machine_say_runs(struct ctl *ctl, const Muster__V1__ShardMachineResponse *m)
{
    uint32_t pods = m->evictable_pods + m->held_pods;
    const char *many = pods == 1 ? "" : "s";

    if (!m->occupancy_known) return;
    if (pods == 0)
        explain_says(ctl, "runs", "nothing, so that it is taken back before busy machines");
    else if (m->held_pods)
        explain_says(ctl, "runs",
                     "%" PRIu32 " pod%s, of which %" PRIu32 " may not be evicted now (without a "
                     "controller, or held by a PodDisruptionBudget): only a preemption takes it",
                     pods, many, m->held_pods);
    else if (m->no_room)
        explain_says(ctl, "runs",
                     "%" PRIu32 " pod%s without room on the cluster's other machines: only a "
                     "preemption takes it",
                     pods, many);
    else
        explain_says(ctl, "runs", "%" PRIu32 " pod%s that may be evicted", pods, many);
}

static void machine_say_rest(struct ctl *ctl, const Muster__V1__ShardMachineResponse *m)
{
    char left[EXPLAIN_AGE_CAP];

    explain_age(m->rest_left_ms, left);
    if (strcmp(m->resting, "refused") == 0)
        explain_says(ctl, "rests",
                     "an action with it was refused, %" PRIu32 " time%s in a row; nobody "
                     "tries again for %s",
                     m->refusals, m->refusals == 1 ? "" : "s", left);
    else if (strcmp(m->resting, "doubt") == 0)
        explain_says(ctl, "rests",
                     "a call was not answered, and nobody knows how it ended; the provider "
                     "was asked %" PRIu32 " times without an answer, and is asked again in "
                     "%s",
                     m->asked, left);
    else if (strcmp(m->resting, "failed") == 0)
        explain_says(ctl, "rests", "the provider calls it Failed; it is given back by Delete in %s",
                     left);
}

static const char *machine_change(const Muster__V1__ShardMachineResponse *m,
                                  const Muster__V1__ShardStatusResponse *shard)
{
    if (shard && shard->fenced)
        return "the shard is fenced and does nothing: `musterctl doctor` says what to do";
    if (shard && shard->paused)
        return "the shard's kill switch is on: nothing is done until it is off";
    if (shard && shard->dry_run) return "the shard only logs what it would do (dry-run)";
    if (strcmp(m->resting, "doubt") == 0) return "an answer of the provider; is it reachable?";
    if (m->cordon[0] && (strcmp(m->state, "Speculative") == 0 || strcmp(m->state, "Idle") == 0))
        return "`musterctl machine uncordon`: then it can be used again";
    if (m->resting[0])
        return "the end of its rest; fix what the error says, then it is tried again by itself";
    if (m->operator_drains)
        return "the operator's report that the machine is drained (a PodDisruptionBudget "
               "or the drain command may hold it up), or the end of the "
               "grace";
    if (strcmp(m->state, "Speculative") == 0)
        return "a Need that it fits and that no idle machine meets: then it is bought";
    if (strcmp(m->state, "Idle") == 0)
        return "a Need that it fits: then it is configured; none for long: then it is given back";
    if (strcmp(m->state, "Configured") == 0)
        return "less demand of its cluster, or a more important Need that lacks machines: then it "
               "is drained";
    return "the end of what is under way; past its time the provider is asked, and called again";
}

void explain_machine_say(struct ctl *ctl, const Muster__V1__ShardMachineResponse *m,
                         const Muster__V1__ShardStatusResponse *shard)
{
    ctl_line(ctl, "machine %s, of shard %s in cycle %" PRIu64, m->machine_id, m->shard_id,
             m->cycle);
    explain_says(ctl, "is", "%s in %s, %s, %.4g an hour, interrupted with probability %.3g",
                 m->instance_type[0] ? m->instance_type : "of no named type",
                 m->zone[0] ? m->zone : "no named zone", m->capacity_type, m->price_per_hour,
                 m->interruption_probability);
    machine_say_state(ctl, m);
    if (m->outside)
        explain_says(ctl, "leaves",
                     "its domain was taken from the shard, which keeps the domain until the "
                     "machine serves nobody");
    machine_say_purpose(ctl, m);
    machine_say_runs(ctl, m);
    if (m->cordon[0])
        explain_says(ctl, "cordoned",
                     strcmp(m->cordon, "drain") == 0
                         ? "an operator of the shard ordered that it is emptied and not used; "
                           "`musterctl machine cordons` says who"
                         : "an operator of the shard ordered that it gets no new use; `musterctl "
                           "machine cordons` says who");
    machine_say_plan(ctl, m);
    machine_say_rest(ctl, m);
    if (m->last_error[0]) explain_says(ctl, "error", "%s", m->last_error);
    explain_audit(ctl, m->n_audit, m->audit, NULL, EXPLAIN_MACHINE_LATELY);
    if (m->n_audit == 0)
        explain_says(ctl, "lately",
                     "nothing among the shard's newest actions; the file of --audit-log goes back "
                     "further");
    explain_says(ctl, "change", "%s", machine_change(m, shard));
}

/* A shard lists no ids, but its newest actions have some. */
static void machine_offer_audited(struct nearest_names *names,
                                  const Muster__V1__ShardStatusResponse *said)
{
    for (size_t i = 0; said && i < said->n_audit; i++) {
        struct str machine;
        struct json *json;
        char text[256];

        if (json_open(str_from(said->audit[i]), EXPLAIN_JSON_MAX, &json, NULL)) continue;
        if (!json_get_string(json, "machine", &machine, NULL) && machine.len < sizeof text) {
            snprintf(text, sizeof text, "%.*s", STR_ARG(machine));
            nearest_names_offer(names, text);
        }
        json_close(json);
    }
}

static enum err machine_find(struct ctl *ctl, struct ctl_survey *survey, const char *id)
{
    Muster__V1__ShardMachineRequest request = MUSTER__V1__SHARD_MACHINE_REQUEST__INIT;
    struct nearest_names names = {.wanted = id};
    const char *silent = NULL;
    char hint[EXPLAIN_HINT_CAP];

    request.machine_id = ctl_text(id);
    for (size_t i = 0; i < survey->shard_count; i++) {
        const struct survey_shard *shard = &survey->shards[i];
        ProtobufCMessage *said;
        enum err err;

        if (!shard->said) {
            silent = shard->id;
            continue;
        }
        machine_offer_audited(&names, shard->said);
        err = remote_call(shard->remote,
                          REMOTE_READ_OF("/muster.v1.ShardView/Machine", muster__v1__shard_machine),
                          &request.base, &ctl->memory, &said, &ctl->note);
        if (!err) explain_machine_say(ctl, (const void *)said, shard->said);
        if (err != ERR_NOT_FOUND) return err;
    }
    nearest_names_hint(&names, hint);
    return silent ? ctl_fail(ctl, ERR_NOT_FOUND,
                             "no shard that answers knows machine %s%s; shard %s does not answer",
                             id, hint, silent)
                  : ctl_fail(ctl, ERR_NOT_FOUND, "none of %zu shards knows machine %s%s",
                             survey->shard_count, id, hint);
}

enum err explain_machine(struct ctl *ctl)
{
    return explain_with_shards(ctl, machine_find);
}
