/* SPDX-License-Identifier: Apache-2.0 */
/* The rpc scenario: the witness, the elections, and what progress means. See rpc_story.h. */
#include "rpc_scenario.h"

#include <stdlib.h>
#include <string.h>

#include "rpc_story.h"

enum {
    FAULTS_MS = 15000,
    HEAL_MS = 60000,
    GOOD_IN_CALM = 30,     /* operations of each client that must end well */
    CALM_AFTER_MS = 10000, /* by then pings and deadlines have found every dead connection */
    TERM_MS_MIN = 300,
    TERM_MS_MAX = 5000,
};
const char *const rpc_server_addresses[RPC_SERVERS + 1] = {"n1:7000", "n2:7000", "n3:7000", NULL};
static const char *const server_names[RPC_SERVERS] = {"n1", "n2", "n3"};
static const char *const client_names[RPC_CLIENTS] = {"c1", "c2", "c3"};

const char *const rpc_bug_names[] = {
    "repeat-a-plain-call",     "unknown-as-no",  "end-twice",
    "forget-an-end",           "answer-another", "forget-request-ids",
    "answer-without-applying", "skip-a-message", NULL,
};
static_assert(ARRAY_LEN(rpc_bug_names) == RPC_BUG_COUNT, "a name for every bug");

/* -- the witness -- */

void witness_wrong(struct rpc_witness *w, uint32_t op, const char *what)
{
    static const char *const kinds[RPC_OP_KINDS] = {"plain", "repeatable", "with id", "stream",
                                                    "refused"};

    if (w->wrong) return;
    w->wrong = true;
    note_set(&w->why, "operation %u (%s): %s", op, kinds[w->ops[op].kind], what);
}

void witness_applied(struct rpc_witness *w, uint32_t number)
{
    struct rpc_op *op = &w->ops[number];

    op->applied++;
    if (op->kind != RPC_REPEATABLE && op->applied > 1) witness_wrong(w, number, "applied twice");
    if (op->kind == RPC_REFUSED_OP) witness_wrong(w, number, "applied, though it was refused");
    if (op->said_no) witness_wrong(w, number, "applied after it was said that it was not");
}

void witness_ended(struct rpc_witness *w, uint32_t number, const struct rpc_outcome *outcome,
                   bool right_answer)
{
    struct rpc_op *op = &w->ops[number];

    if (op->ends++ > 0) {
        witness_wrong(w, number, "ended twice");
        return;
    }
    w->open--;
    if (!right_answer) witness_wrong(w, number, "got the wrong answer");
    if (outcome->err == ERR_OK) {
        w->good++;
        if (op->applied == 0) witness_wrong(w, number, "done, but not applied");
    } else if (outcome->err == ERR_UNKNOWN) {
        if (outcome->attempts == 0) witness_wrong(w, number, "unknown, but was never sent");
        if (op->kind == RPC_REFUSED_OP && outcome->answered && outcome->status == GRPC_NOT_FOUND)
            witness_wrong(w, number, "unknown, but the answer was a plain no");
        w->unknown_applied += op->applied > 0;
        w->unknown_not += op->applied == 0;
    } else {
        op->said_no = true;
        w->no++;
        if (op->applied > 0) witness_wrong(w, number, "was said not to be applied, but was");
    }
}

/* -- the world -- */

static void elect(struct sim_event *event)
{
    struct rpc_story *story = CONTAINER_OF(event, struct rpc_story, election);
    struct prng *prng = scenario_prng(story->world);

    story->leader = (uint32_t)prng_below(prng, RPC_SERVERS);
    sim_trace(scenario_sim(story->world), NULL, "%s leads", server_names[story->leader]);
    sim_event_in(event, prng_between(prng, TERM_MS_MIN, TERM_MS_MAX) * NS_PER_MS);
}

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    struct rpc_story *story = calloc(1, sizeof *story);
    struct prng *prng = scenario_prng(world);
    enum err err;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* the runner closes it, also after an error */
    story->world = world;
    story->bug = (enum rpc_bug)scenario_bug(world);
    story->forwards = prng_below(prng, 2);
    story->warm = prng_below(prng, 2);
    story->witness.ops = calloc(RPC_OPS_MAX, sizeof *story->witness.ops);
    if (!story->witness.ops) return ERR_NOMEM;
    err = sim_event_init(&story->election, scenario_sim(world), elect);
    for (uint32_t i = 0; !err && i < RPC_SERVERS; i++) {
        story->servers[i] = (struct rpc_actor){.story = story, .number = i};
        err = scenario_add_node(world, server_names[i], &rpc_server_ops, &story->servers[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->servers[i].host);
    }
    for (uint32_t i = 0; !err && i < RPC_CLIENTS; i++) {
        story->clients[i] = (struct rpc_actor){.story = story, .number = i};
        err = scenario_add_node(world, client_names[i], &rpc_client_ops, &story->clients[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->clients[i].host);
    }
    if (!err) sim_event_in(&story->election, NS_PER_MS);
    return err;
}

static bool story_safe(void *state, struct note *why)
{
    const struct rpc_story *story = state;

    if (story->witness.wrong) *why = story->witness.why;
    return !story->witness.wrong;
}

bool rpc_story_is_calm(const struct rpc_story *story)
{
    return story->healed &&
           sim_now(scenario_sim(story->world)).ns - story->healed_at.ns > CALM_AFTER_MS * NS_PER_MS;
}

/* Every client gets operations done, and no operation from before is open. */
static bool story_done(void *state)
{
    struct rpc_story *story = state;
    struct rpc_witness *w = &story->witness;

    if (!story->healed) {
        story->healed = true;
        story->healed_at = sim_now(scenario_sim(story->world));
        story->count_at_heal = w->count;
    }
    if (!rpc_story_is_calm(story)) {
        memcpy(story->done_before, w->done, sizeof w->done);
        return false;
    }
    for (size_t i = 0; i < RPC_CLIENTS; i++)
        if (w->done[i] < story->done_before[i] + GOOD_IN_CALM) return false;
    for (uint32_t i = 0; i < story->count_at_heal; i++)
        if (w->ops[i].ends == 0 && !w->ops[i].client_died) return false;
    return true;
}

static void story_close(void *state)
{
    struct rpc_story *story = state;

    free(story->witness.ops); /* the world is closed, and the election with it */
    free(story);
}

const struct scenario rpc_scenario = {
    .name = "rpc",
    .about = "calls to a leader that moves: none twice, none forgotten, no unknown result reported "
             "as refused",
    .faults_ms = FAULTS_MS,
    .heal_ms = HEAL_MS,
    .bugs = rpc_bug_names,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = story_close,
};
