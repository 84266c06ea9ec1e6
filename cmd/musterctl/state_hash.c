/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl state-hash: do the replicas hold the same state? One thread.
 *
 * Hashes can be compared at one index only. So everybody is asked, then again to be at least as far
 * as the furthest was, until all answers are of the same index; while writes go on that may not
 * happen, and then it is said that nothing was compared. */
#include <inttypes.h>
#include <string.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/json/message_json.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { ROUNDS_MAX = 20 };
static const char dash[] = "\xe2\x80\x94";

struct witness {
    const char *address;
    struct remote *remote;
    const Muster__V1__StateHashResponse *said; /* NULL: it did not answer */
    struct note why;                           /* then */
};
struct inquiry {
    struct ctl *ctl;
    struct witness *list;
    size_t count, silent;
    uint64_t index;      /* of the furthest */
    bool together;       /* all who answered are there */
    const char *differs; /* the first machine with two hashes; NULL: none */
};

/* -- who is asked -- */

static enum err add_witnesses(struct inquiry *inquiry, size_t count)
{
    inquiry->list = arena_calloc(&inquiry->ctl->memory, count + 1, sizeof *inquiry->list);
    return inquiry->list ? ERR_OK : ERR_NOMEM;
}

static enum err find_replicas(struct inquiry *inquiry)
{
    static const struct remote_method method =
        REMOTE_READS(FLEET_PATH "ListReplicas", muster__v1__list_replicas);
    Muster__V1__ListReplicasRequest request = MUSTER__V1__LIST_REPLICAS_REQUEST__INIT;
    enum err err;
    const Muster__V1__ListReplicasResponse *list =
        ctl_ask(inquiry->ctl, &method, &request.base, &err);

    if (!list) return err;
    err = add_witnesses(inquiry, list->n_replicas);
    for (size_t i = 0; i < list->n_replicas && !err; i++) {
        struct witness *witness = &inquiry->list[inquiry->count++];
        witness->address = list->replicas[i]->grpc_address;
        if (!witness->address[0])
            note_set(&witness->why, "%s: its gRPC address is not known", list->replicas[i]->name);
    }
    return err;
}

/* One address stands for its cluster, several for themselves. */
static enum err find_witnesses(struct inquiry *inquiry)
{
    struct option_value given = conf_list(inquiry->ctl->conf, "coordinator");
    enum err err;

    if (given.item_count <= 1) return find_replicas(inquiry);
    err = add_witnesses(inquiry, given.item_count);
    for (size_t i = 0; i < given.item_count && !err; i++)
        inquiry->list[inquiry->count++].address = given.items[i].at;
    return err;
}

/* -- asking -- */

static void ask(struct inquiry *inquiry, struct witness *witness, uint64_t at_least)
{
    static const struct remote_method method =
        REMOTE_READS(FLEET_PATH "StateHash", muster__v1__state_hash);
    Muster__V1__StateHashRequest request = MUSTER__V1__STATE_HASH_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    enum err err = ERR_OK;

    if (!witness->remote)
        err = remote_open_at(inquiry->ctl->conf, witness->address, &witness->remote, &witness->why);
    request.at_least = at_least;
    if (!err)
        err = remote_call(witness->remote, &method, &request.base, &inquiry->ctl->memory, &answer,
                          &witness->why);
    witness->said = err ? NULL : (const void *)answer;
}

static void ask_all(struct inquiry *inquiry, uint64_t at_least)
{
    inquiry->together = true;
    inquiry->silent = 0;
    inquiry->index = 0;
    for (size_t i = 0; i < inquiry->count; i++) {
        struct witness *witness = &inquiry->list[i];
        if (!witness->why.text[0]) ask(inquiry, witness, at_least);
        if (!witness->said) {
            inquiry->silent++;
            continue;
        }
        inquiry->together &= inquiry->index == 0 || witness->said->applied == inquiry->index;
        inquiry->index = max_u64(inquiry->index, witness->said->applied);
    }
}

/* -- judging -- */

static const Muster__V1__MachineHash *find_machine(const Muster__V1__StateHashResponse *said,
                                                   uint32_t id)
{
    for (size_t i = 0; i < said->n_machines; i++)
        if (said->machines[i]->id == id) return said->machines[i];
    return NULL;
}

static void compare(struct inquiry *inquiry)
{
    const Muster__V1__StateHashResponse *first = NULL;

    for (size_t i = 0; i < inquiry->count; i++) {
        const Muster__V1__StateHashResponse *said = inquiry->list[i].said;
        if (!said) continue;
        if (!first) first = said;
        if (said->n_machines != first->n_machines) inquiry->differs = "what they have";
        for (size_t j = 0; j < first->n_machines && !inquiry->differs; j++) {
            const Muster__V1__MachineHash *one = first->machines[j];
            const Muster__V1__MachineHash *two = find_machine(said, one->id);
            if (!two || two->hash != one->hash) inquiry->differs = one->name;
        }
    }
}

static enum err verdict(struct inquiry *inquiry)
{
    struct note *note = &inquiry->ctl->note;

    for (size_t i = 0; i < inquiry->count; i++) {
        if (inquiry->list[i].said) continue;
        note_set(note, "%zu of %zu answered; %s", inquiry->count - inquiry->silent, inquiry->count,
                 inquiry->list[i].why.text);
    }
    if (inquiry->differs)
        return ctl_fail(inquiry->ctl, ERR_CONFLICT,
                        "the replicas DIFFER at index %" PRIu64 " in %s", inquiry->index,
                        inquiry->differs);
    if (inquiry->silent > 0) return ERR_UNAVAILABLE;
    if (inquiry->together) return ERR_OK;
    return ctl_fail(inquiry->ctl, ERR_UNAVAILABLE,
                    "nothing was compared: writes went on, and in %d rounds the replicas were "
                    "never at one index; try again when it is quieter",
                    ROUNDS_MAX);
}

/* -- showing -- */

static void print_json(struct inquiry *inquiry)
{
    bool judged = inquiry->together && inquiry->silent == 0;
    struct ndjson json;

    ctl_json_begin(inquiry->ctl, &json);
    if (judged || inquiry->differs)
        ndjson_bool(&json, STR("equal"), !inquiry->differs);
    else
        ndjson_null(&json, STR("equal"));
    ndjson_open_array(&json, STR("replicas"));
    for (size_t i = 0; i < inquiry->count; i++) {
        const struct witness *witness = &inquiry->list[i];
        ndjson_open_object(&json, NDJSON_ITEM);
        ndjson_c_string(&json, STR("address"), witness->address);
        ndjson_c_string(&json, STR("error"), witness->said ? NULL : witness->why.text);
        message_json(&json, STR("state"), witness->said ? &witness->said->base : NULL);
        ndjson_close_object(&json);
    }
    ndjson_close_array(&json);
    ctl_json_end(inquiry->ctl, &json);
}

static void print_witness(struct text_table *table, const struct witness *witness)
{
    const Muster__V1__StateHashResponse *said = witness->said;

    if (!said) {
        table_text(table, dash);
        table_text(table, witness->address);
        for (int i = 0; i < 5; i++) table_text(table, dash);
        return;
    }
    for (size_t i = 0; i < said->n_machines; i++) {
        table_text(table, said->name[0] ? said->name : dash);
        table_text(table, witness->address);
        table_number(table, (int64_t)said->applied);
        table_number(table, (int64_t)said->term);
        table_text(table, said->machines[i]->name);
        table_hex(table, said->machines[i]->hash);
        table_number(table, (int64_t)said->machines[i]->bytes);
    }
}

static void print(struct inquiry *inquiry, enum err judged)
{
    static const char *const columns[] = {"REPLICA", "ADDRESS", "APPLIED", "TERM",
                                          "MACHINE", "HASH",    "BYTES",   NULL};
    struct ctl *ctl = inquiry->ctl;
    struct text_table table;

    if (ctl->json) {
        print_json(inquiry);
        return;
    }
    table_init(&table, columns, &ctl->memory);
    for (size_t i = 0; i < inquiry->count; i++) print_witness(&table, &inquiry->list[i]);
    ctl_print_table(ctl, &table);
    if (!judged)
        ctl_line(ctl, "%zu %s at index %" PRIu64, inquiry->count,
                 inquiry->count == 1 ? "replica" : "replicas are equal", inquiry->index);
}

static enum err state_hash(struct ctl *ctl)
{
    struct inquiry inquiry = {.ctl = ctl};
    enum err err = find_witnesses(&inquiry);

    if (!err) {
        ask_all(&inquiry, 0);
        for (int i = 1; i < ROUNDS_MAX && !inquiry.together; i++) ask_all(&inquiry, inquiry.index);
        if (inquiry.together) compare(&inquiry);
        err = verdict(&inquiry);
        print(&inquiry, err);
    }
    for (size_t i = 0; i < inquiry.count; i++) remote_close(inquiry.list[i].remote);
    return err;
}

const struct command state_hash_command = {
    .name = "state-hash",
    .summary = "do the replicas hold the same state?",
    .about = "Asks every replica for the hashes of its state machines at one index and compares "
             "them. With one address the cluster's replicas are looked up there; with several, "
             "these are asked. Replicas that differ are a conflict (4); one that does not answer, "
             "or writes that never pause, leave it open (6).",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl state-hash", "of every replica of the cluster behind 127.0.0.1:7790"},
        {"musterctl state-hash --coordinator c1:7790,c2:7790,c3:7790",
         "of these, whether or not they "
         "are of one cluster"}),
    .exits = CTL_EXITS | BIT(4),
    CTL_ACT(state_hash),
};
