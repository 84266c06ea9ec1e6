/* SPDX-License-Identifier: Apache-2.0 */
/* The register scenario: three nodes and three clients under the faults of a seed. */
#include "register_scenario.h"

#include <stdlib.h>

#include "register.h"

enum {
    CLIENTS = 3,
    FAULTS_MS = 15000,
    HEAL_MS = 90000,
    OPERATIONS_AFTER_HEAL = 30, /* of each client; enough to need every node's connections */
};
static const char *const node_addresses[REGISTER_NODES] = {"n1:7000", "n2:7000", "n3:7000"};
static const char *const node_names[REGISTER_NODES] = {"n1", "n2", "n3"};
static const char *const client_names[CLIENTS] = {"c1", "c2", "c3"};

struct story;
struct actor {
    struct story *story;
    uint32_t number;
    struct sim_host *host;
};
struct story {
    struct scenario_world *world;
    enum register_bug bug;
    struct actor nodes[REGISTER_NODES], clients[CLIENTS];
    struct register_history history;
    bool healed;
    uint64_t done_at_heal[CLIENTS];
};

static void node_fatal(void *context)
{
    struct actor *actor = context;
    sim_host_die(actor->host, SIM_KILLED);
}

static enum err node_start(struct io *io, void *context, void **ret_state)
{
    struct actor *actor = context;
    const struct register_node_options options = {.listen = "0.0.0.0:7000",
                                                  .directory = "data",
                                                  .bug = actor->story->bug,
                                                  .on_fatal = node_fatal,
                                                  .context = actor};
    struct register_node *node;
    enum err err = register_node_open(io, &options, &node);

    if (!err) *ret_state = node;
    return err;
}

static void node_destroy(void *state)
{
    register_node_close(state);
}

static enum err client_start(struct io *io, void *context, void **ret_state)
{
    struct actor *actor = context;
    const struct register_client_options options = {.nodes = node_addresses,
                                                    .index = actor->number,
                                                    .registers = CLIENTS,
                                                    .bug = actor->story->bug,
                                                    .history = &actor->story->history};
    struct register_client *client;
    enum err err = register_client_open(io, &options, &client);

    if (!err) *ret_state = client;
    return err;
}

static void client_destroy(void *state)
{
    register_client_close(state);
}

static const struct sim_process_ops node_ops = {node_start, NULL, node_destroy};
static const struct sim_process_ops client_ops = {client_start, NULL, client_destroy};

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    struct story *story = calloc(1, sizeof *story);
    enum err err = ERR_OK;

    if (!story) return ERR_NOMEM;
    story->world = world;
    story->bug = (enum register_bug)scenario_bug(world);
    *ret_state = story; /* the runner closes it, also after an error */
    for (uint32_t i = 0; !err && i < REGISTER_NODES; i++) {
        story->nodes[i] = (struct actor){.story = story, .number = i};
        err = scenario_add_node(world, node_names[i], &node_ops, &story->nodes[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->nodes[i].host);
    }
    for (uint32_t i = 0; !err && i < CLIENTS; i++) {
        story->clients[i] = (struct actor){.story = story, .number = i};
        err = scenario_add_node(world, client_names[i], &client_ops, &story->clients[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->clients[i].host);
    }
    return err;
}

static bool story_safe(void *state, struct note *why)
{
    const struct story *story = state;
    if (story->history.wrong) *why = story->history.why;
    return !story->history.wrong;
}

static bool story_done(void *state)
{
    struct story *story = state;

    if (!story->healed) {
        story->healed = true;
        for (size_t i = 0; i < CLIENTS; i++) story->done_at_heal[i] = story->history.done[i];
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        if (story->history.done[i] < story->done_at_heal[i] + OPERATIONS_AFTER_HEAL) return false;
    }
    return true;
}

const struct scenario register_scenario = {
    .name = "register",
    .about = "a durable register over three nodes: acknowledged is never lost, reads never go back",
    .faults_ms = FAULTS_MS,
    .heal_ms = HEAL_MS,
    .bugs = register_bug_names,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = free,
};
