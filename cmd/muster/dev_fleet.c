/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the processes of `muster dev`, asks the coordinators regularly whether the fleet is
 * complete, and stops all processes together. Sends one request at a time. Loop's thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/dev.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"
#include "wire/pb/muster_v1_member.pb-c.h"

enum {
    END_WITHIN_MS = 10000,
    LOOK_MS = 200,        /* between checks while the fleet forms */
    LOOK_CALM_MS = 1000,  /* between checks when all is well */
    END_REPORT_MS = 1000, /* how often the number of remaining processes is printed */
    ANSWER_ARENA_MAX = 1 << 20,
};

/* -- processes -- */

static bool fleet_is_running(const struct dev *dev)
{
    for (size_t i = 0; i < dev->child_count; i++)
        if (dev_child_pid(dev->children[i])) return true;
    return dev->channel != NULL;
}

static void fleet_on_stopped(void *owner)
{
    struct dev *dev = owner;

    if (dev->stopping && !fleet_is_running(dev)) chassis_stop(dev->role.chassis);
}

static void child_failed(void *owner, enum err err, const struct note *note)
{
    struct dev *dev = owner;
    chassis_fail(dev->role.chassis, err, note);
}

static enum err dev_fleet_start(struct dev *dev, enum dev_part part, size_t count,
                                struct note *note)
{
    struct dev_line *line = calloc(1, sizeof *line);
    struct dev_child_options options = {.loop = dev->role.io->loop,
                                        .log = dev->log,
                                        .on_failed = child_failed,
                                        .on_ended = fleet_on_stopped,
                                        .owner = dev};
    enum err err = line ? ERR_OK : ERR_NOMEM;

    dev->first[part] = dev->child_count;
    dev->count[part] = count;
    for (size_t i = 0; !err && i < count; i++) {
        dev_line_make(&dev->parts, part, i, line);
        options.name = line->name;
        options.argv = line->argv;
        err = dev_child_open(&options, &dev->children[dev->child_count], note);
        if (!err) dev->child_count++;
    }
    free(line);
    return err;
}

/* -- is it whole? -- */

static void channel_closed(void *owner)
{
    struct dev *dev = owner;

    dev->channel = NULL;
    fleet_on_stopped(dev);
}

static void fleet_look_ended(struct dev *dev, bool whole)
{
    bool calm = whole;

    dev->sight.whole = whole;
    dev->sight.leader = dev->leader;
    if (dev->with_chaos) {
        dev_chaos_look(&dev->chaos, &dev->sight, loop_now(dev->role.io->loop));
        calm = whole && !dev->chaos.victim;
    }
    timer_start_in(&dev->look, calm ? LOOK_CALM_MS : LOOK_MS);
}

static void fleet_report(struct dev *dev, bool ready, const char *reason)
{
    bool changed = ready != dev->ready;

    dev->ready = ready;
    if (changed || !ready) dev_on_ready(dev, ready, reason);
    /* This also logs the lines that the processes wrote before. */
    for (size_t i = 0; ready && i < dev->child_count; i++) dev_child_settled(dev->children[i]);
    fleet_look_ended(dev, ready);
}

/* The questions of one check, in this order. */
enum { REPLICAS, REPORTS, MEMBERS, QUESTIONS };
enum { REASON_CAP = 64 };
struct dev_question {
    const char *path;
    const ProtobufCMessageDescriptor *type;
    /* Returns whether `answer` (NULL: none) shows that this part is complete; if not, sets
     * `reason`. */
    bool (*judge)(struct dev *dev, const ProtobufCMessage *answer, char reason[REASON_CAP]);
};

/* Counts back from the time before the request, so that the time is not too late. */
static void fleet_take_heard(struct dev *dev, const Muster__V1__Replica *replica)
{
    uint64_t silent = replica->leader ? 0 : (uint64_t)replica->silent_ms;
    size_t number;

    if (strncmp(replica->name, "node-", 5) != 0) return;
    number = (size_t)strtoul(replica->name + 5, NULL, 10);
    if (replica->leader) dev->leader = number;
    if (number >= DEV_REPLICAS_MAX || (!replica->leader && replica->silent_ms < 0)) return;
    if (silent < dev->sight.began.ms)
        dev->sight.heard[number] = (mono_time){dev->sight.began.ms - silent};
}

static bool judge_replicas(struct dev *dev, const ProtobufCMessage *answer, char reason[REASON_CAP])
{
    const Muster__V1__ListReplicasResponse *list = (const void *)answer;
    size_t voters = 0;

    snprintf(reason, REASON_CAP, "no leader answers yet");
    if (!list) return false;
    dev->leader = SIZE_MAX;
    for (size_t i = 0; i < list->n_replicas; i++) {
        if (list->replicas[i]->voter) voters++;
        fleet_take_heard(dev, list->replicas[i]);
    }
    snprintf(reason, REASON_CAP, "%zu of %zu replicas are voters", voters, dev->parts.replicas);
    return dev->leader != SIZE_MAX && voters == dev->parts.replicas;
}

static bool judge_reports(struct dev *dev, const ProtobufCMessage *answer, char reason[REASON_CAP])
{
    const Bigfleet__V1alpha1__ListShardReportsResponse *list = (const void *)answer;
    size_t count = list ? list->n_reports : 0;

    snprintf(reason, REASON_CAP, "%zu of %zu shards report", count, dev->parts.shards);
    return count >= dev->parts.shards;
}

static bool judge_members(struct dev *dev, const ProtobufCMessage *answer, char reason[REASON_CAP])
{
    const Muster__V1__ClusterStatusResponse *status = (const void *)answer;
    size_t count = status ? status->active : 0;

    snprintf(reason, REASON_CAP, "%zu of %zu workers beat", count, dev->parts.workers);
    return count >= dev->parts.workers;
}

static const struct dev_question questions[] = {
    [REPLICAS] = {"/muster.v1.Fleet/ListReplicas", &muster__v1__list_replicas_response__descriptor,
                  judge_replicas},
    [REPORTS] = {"/bigfleet.v1alpha1.Coordinator/ListShardReports",
                 &bigfleet__v1alpha1__list_shard_reports_response__descriptor, judge_reports},
    [MEMBERS] = {"/muster.v1.Membership/ClusterStatus",
                 &muster__v1__cluster_status_response__descriptor, judge_members},
};

static void dev_fleet_on_answer(void *owner, const struct rpc_client_call *call,
                                const struct rpc_outcome *outcome, struct str bytes);

/* Sends the first question from `which` on that applies. After the last one the fleet is
 * complete. */
static void fleet_ask(struct dev *dev, size_t which)
{
    struct rpc_call_options call = {.timeout_ms = 2000, .idempotent = true};

    if (which == REPORTS && !dev->parts.shards) which++;
    if (which == REPORTS) dev_register_go(&dev->reg);
    if (which == REPORTS && !dev->reg.known) {
        fleet_report(dev, false, "the shards are being registered");
        return;
    }
    if (which == MEMBERS && !dev->parts.workers) which++;
    if (which == QUESTIONS) {
        fleet_report(dev, true, "");
        return;
    }
    dev->asked = which;
    call.path = questions[which].path;
    if (rpc_unary(dev->channel, &call, STR_EMPTY, dev_fleet_on_answer, dev, NULL))
        fleet_look_ended(dev, false);
}

static void dev_fleet_on_answer(void *owner, const struct rpc_client_call *,
                                const struct rpc_outcome *outcome, struct str bytes)
{
    struct dev *dev = owner;
    const struct dev_question *question = &questions[dev->asked];
    ProtobufCMessage *answer = NULL;
    char reason[REASON_CAP];
    struct arena arena;
    bool whole;

    if (dev->stopping) return;
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (outcome->err || message_read(question->type, bytes, NULL, &arena, &answer, NULL))
        answer = NULL;
    whole = question->judge(dev, answer, reason);
    arena_deinit(&arena);
    if (whole)
        fleet_ask(dev, dev->asked + 1);
    else
        fleet_report(dev, false, reason);
}

static void dev_fleet_on_look(struct timer *timer)
{
    struct dev *dev = CONTAINER_OF(timer, struct dev, look);

    dev->sight = (struct dev_sight){.began = loop_now(dev->role.io->loop), .leader = SIZE_MAX};
    fleet_ask(dev, REPLICAS);
}

static enum err fleet_open_channel(struct dev *dev, struct note *note)
{
    char texts[DEV_REPLICAS_MAX][32];
    const char *list[DEV_REPLICAS_MAX + 1] = {NULL};
    struct rpc_channel_options options = {
        .io = dev->role.io, .addresses = list, .follow_leader = true, .backoff_max_ms = 500};

    for (size_t i = 0; i < dev->parts.replicas; i++) {
        dev_address(texts[i], dev->parts.ports.replicas[i].grpc);
        list[i] = texts[i];
    }
    return rpc_channel_open(&options, &dev->channel, note);
}

/* -- chaos, demand and the stop -- */

static void chaos_says(void *owner, const char *text)
{
    struct dev *dev = owner;

    dev_notes_add(&dev->notes, "chaos", text);
    dev_say(dev, "chaos", text);
}

static void demand_says(void *owner, const char *text, bool yours)
{
    struct dev *dev = owner;

    dev_notes_add(&dev->notes, "demand", text);
    if (yours) dev_say(dev, "demand", text);
}

static void begin_chaos(struct dev *dev)
{
    const struct dev_chaos_options options = {.seed = entropy_u64(dev->role.io->entropy),
                                              .every_ms =
                                                  conf_number(dev->role.conf, "chaos-every"),
                                              .children = dev->children,
                                              .first = dev->first,
                                              .count = dev->count,
                                              .say = chaos_says,
                                              .owner = dev};

    dev->with_chaos = true;
    dev_chaos_init(&dev->chaos, &options, loop_now(dev->role.io->loop));
}

static enum err begin_demand(struct dev *dev, struct note *note)
{
    const struct dev_demand_options options = {.io = dev->role.io,
                                               .log = dev->log,
                                               .dir = dev->parts.dir,
                                               .every_ms =
                                                   conf_number(dev->role.conf, "demand-every"),
                                               .say = demand_says,
                                               .owner = dev};

    return dev_demand_open(&dev->demand, &options, note);
}

/* -- life -- */

/* Prints how many processes are left, so that the stop does not look hung. */
static void fleet_on_end_report(struct timer *timer)
{
    struct dev *dev = CONTAINER_OF(timer, struct dev, end_report);
    size_t left = 0;
    char text[64];

    for (size_t i = 0; i < dev->child_count; i++) left += dev_child_pid(dev->children[i]) != 0;
    snprintf(text, sizeof text, "%zu of %zu processes are left", left, dev->child_count);
    dev_say(dev, "stopping", text);
    timer_start_in(timer, END_REPORT_MS);
}

static void fleet_on_kill(struct timer *timer)
{
    struct dev *dev = CONTAINER_OF(timer, struct dev, kill);

    for (size_t i = 0; i < dev->child_count; i++) dev_child_kill(dev->children[i]);
}

static enum err fleet_find_program(struct dev *dev, struct note *note)
{
    char *program = dev->parts.program;
    ssize_t len = readlink("/proc/self/exe", program, sizeof dev->parts.program - 1);

    if (len > 0) {
        program[len] = '\0';
        return ERR_OK;
    }
    return note_fail(note, ERR_NOT_FOUND, "cannot find this very program");
}

static enum err fleet_start_all(struct dev *dev, struct note *note)
{
    const struct dev_parts *parts = &dev->parts;
    char path[DEV_PATH_CAP + 64];
    enum err err;

    /* Makes the token before the coordinators start, because otherwise each coordinator would make
     * its own token. */
    snprintf(path, sizeof path, "%s/%s", parts->dir, DEV_TOKEN_FILE);
    err = dash_token_read(dev->role.io->fs, path, dev->token, note);
    if (err == ERR_NOT_FOUND) err = dash_token_make(dev->role.io, path, dev->token, note);
    if (!err) err = dev_fleet_start(dev, DEV_COORDINATOR, parts->replicas, note);
    if (!err && parts->workers)
        err = dev_input_write(parts, dev->role.io->fs, entropy_u64(dev->role.io->entropy), note);
    if (!err) err = dev_fleet_start(dev, DEV_WORKER, parts->workers, note);
    if (err || !parts->shards) return err;
    err = begin_demand(dev, note);
    if (!err) err = dev_fleet_start(dev, DEV_PROVIDER, 1, note);
    if (!err) err = dev_fleet_start(dev, DEV_SHARD, parts->shards, note);
    if (!err) err = dev_fleet_start(dev, DEV_OPERATOR, DEV_OPERATORS, note);
    return err;
}

static enum err fleet_settle_parts(struct dev *dev, struct note *note)
{
    const struct conf *conf = dev->role.conf;
    struct dev_parts *parts = &dev->parts;

    parts->dir = conf_text(conf, "data-dir");
    parts->log_level = conf_text(conf, "log.level");
    parts->shards = conf_number(conf, "shards");
    parts->workers = conf_number(conf, "workers");
    dev_ports_usual(&parts->ports);
    if (strlen(parts->dir) >= DEV_PATH_CAP) return ERR_TOO_LARGE;
    if (!realpath(parts->dir, parts->whole_dir)) return ERR_NOT_FOUND;
    if (!conf_bool(conf, "free-ports")) return ERR_OK;
    return dev_ports_free(dev->role.io, parts->dir, &parts->ports, note);
}

enum err dev_fleet_open(void *state, struct note *note)
{
    struct dev *dev = state;
    struct loop *loop = dev->role.io->loop;
    size_t replicas = conf_number(dev->role.conf, "replicas");
    enum err err;

    if (replicas == 0) return ERR_OK;
    dev->log = &dev->role.instruments->log;
    dev->leader = SIZE_MAX;
    err = health_check_add(dev->role.instruments->health, "cluster", "starting", &dev->check);
    if (!err) err = timer_init(&dev->look, loop, dev_fleet_on_look);
    if (!err) err = timer_init(&dev->kill, loop, fleet_on_kill);
    if (!err) err = timer_init(&dev->end_report, loop, fleet_on_end_report);
    if (err) return err;
    dev->parts.replicas = replicas; /* from here on, closing must stop the fleet */
    err = fleet_settle_parts(dev, note);
    if (!err) err = fleet_find_program(dev, note);
    dev->notes = (struct dev_notes){.io = dev->role.io, .log = dev->log, .dir = dev->parts.dir};
    if (!err) err = fleet_start_all(dev, note);
    if (!err) err = fleet_open_channel(dev, note);
    if (err) return err;
    dev->reg =
        (struct dev_register){.parts = &dev->parts, .log = dev->log, .channel = dev->channel};
    if (conf_bool(dev->role.conf, "chaos")) begin_chaos(dev);
    timer_start_in(&dev->look, LOOK_MS);
    return ERR_OK;
}

void dev_fleet_stop(struct dev *dev)
{
    if (dev->stopping) return;
    dev->stopping = true;
    timer_stop(&dev->look);
    dev_demand_stop(&dev->demand);
    timer_start_in(&dev->end_report, END_REPORT_MS);
    for (size_t i = 0; i < dev->child_count; i++) dev_child_stop(dev->children[i]);
    timer_start_in(&dev->kill, END_WITHIN_MS);
    if (dev->channel)
        rpc_channel_close(dev->channel, channel_closed, dev);
    else
        fleet_on_stopped(dev);
}

void dev_fleet_close(void *state)
{
    struct dev *dev = state;

    if (dev->parts.replicas) dev_fleet_stop(dev);
    while (fleet_is_running(dev)) chassis_turn(dev->role.chassis);
    for (size_t i = 0; i < dev->child_count; i++) dev_child_close(dev->children[i]);
    timer_deinit(&dev->look);
    timer_deinit(&dev->kill);
    timer_deinit(&dev->end_report);
    dev_demand_close(&dev->demand);
}
