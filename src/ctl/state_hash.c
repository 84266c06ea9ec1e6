/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl replica hash: do the replicas hold the same state? One thread.
 *
 * Hashes can be compared at one log index only. All replicas are asked again until their answers
 * have the same index. While writes continue, that may never happen; the command then reports that
 * nothing was compared. */
#include "ctl/inspect.h"

#include <inttypes.h>
#include <string.h>

#include "wire/json/message_json.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { ROUNDS_MAX = 20 };
struct witness {
    const char *address;
    struct remote *remote;
    const Muster__V1__StateHashResponse *said; /* NULL: the replica did not answer */
    struct note why;
};
struct inquiry {
    struct ctl *ctl;
    struct witness *list;
    size_t count, silent;
    uint64_t index;
    bool together;       /* all answers have the same index */
    const char *differs; /* first state machine with different hashes; or NULL */
};

/* One address: all replicas of its cluster are asked. Several: only those. */
static enum err state_hash_find_witnesses(struct inquiry *inquiry)
{
    struct option_value given = conf_list(inquiry->ctl->conf, "coordinator");
    const Muster__V1__ListReplicasResponse *list = NULL;
    enum err err = ERR_OK;

    if (given.item_count <= 1)
        list = ctl_ask(inquiry->ctl,
                       REMOTE_READ_OF(FLEET_PATH "ListReplicas", muster__v1__list_replicas), NULL,
                       &err);
    if (err) return err;
    size_t count = list ? list->n_replicas : given.item_count;
    inquiry->list = arena_calloc(&inquiry->ctl->memory, count + 1, sizeof *inquiry->list);
    if (!inquiry->list) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct witness *witness = &inquiry->list[inquiry->count++];
        witness->address = list ? list->replicas[i]->grpc_address : given.items[i].at;
        if (list && !witness->address[0])
            note_set(&witness->why, "%s: its gRPC address is not known", list->replicas[i]->name);
    }
    return ERR_OK;
}

/* -- asking -- */

static void state_hash_ask(struct inquiry *inquiry, struct witness *witness, uint64_t at_least)
{
    Muster__V1__StateHashRequest request = MUSTER__V1__STATE_HASH_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    enum err err = ERR_OK;

    if (!witness->remote)
        err = remote_open_at(inquiry->ctl->conf, REMOTE_COORDINATOR, witness->address,
                             inquiry->count, &witness->remote, &witness->why);
    request.at_least = at_least;
    if (!err)
        err = remote_call(witness->remote,
                          REMOTE_READ_OF(FLEET_PATH "StateHash", muster__v1__state_hash),
                          &request.base, &inquiry->ctl->memory, &answer, &witness->why);
    witness->said = err ? NULL : (const void *)answer;
}

static void state_hash_ask_all(struct inquiry *inquiry, uint64_t at_least)
{
    inquiry->together = true;
    inquiry->silent = 0;
    inquiry->index = 0;
    for (size_t i = 0; i < inquiry->count; i++) {
        struct witness *witness = &inquiry->list[i];
        if (!witness->why.text[0]) state_hash_ask(inquiry, witness, at_least);
        if (!witness->said) {
            inquiry->silent++;
            continue;
        }
        inquiry->together &= inquiry->index == 0 || witness->said->applied == inquiry->index;
        inquiry->index = max_u64(inquiry->index, witness->said->applied);
    }
}

/* -- judging -- */

static const Muster__V1__MachineHash *state_hash_find_machine(
    const Muster__V1__StateHashResponse *said, uint32_t id)
{
    for (size_t i = 0; i < said->n_machines; i++)
        if (said->machines[i]->id == id) return said->machines[i];
    return NULL;
}

static void state_hash_compare(struct inquiry *inquiry)
{
    const Muster__V1__StateHashResponse *first = NULL;

    for (size_t i = 0; i < inquiry->count; i++) {
        const Muster__V1__StateHashResponse *said = inquiry->list[i].said;
        if (!said) continue;
        if (!first) first = said;
        if (said->n_machines != first->n_machines) inquiry->differs = "what they have";
        for (size_t j = 0; j < first->n_machines && !inquiry->differs; j++) {
            const Muster__V1__MachineHash *one = first->machines[j];
            const Muster__V1__MachineHash *two = state_hash_find_machine(said, one->id);
            if (!two || two->hash != one->hash) inquiry->differs = one->name;
        }
    }
}

static enum err state_hash_verdict(struct inquiry *inquiry)
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

static void state_hash_print_json(struct inquiry *inquiry)
{
    bool judged = inquiry->together && inquiry->silent == 0;
    struct ndjson *json = ctl_json_begin(inquiry->ctl);

    if (judged || inquiry->differs)
        ndjson_bool(json, STR("equal"), !inquiry->differs);
    else
        ndjson_null(json, STR("equal"));
    ndjson_open_array(json, STR("replicas"));
    for (size_t i = 0; i < inquiry->count; i++) {
        const struct witness *witness = &inquiry->list[i];
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("address"), witness->address);
        ndjson_c_string(json, STR("error"), witness->said ? NULL : witness->why.text);
        message_json(json, STR("state"), witness->said ? &witness->said->base : NULL);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
    ctl_json_end(inquiry->ctl);
}

static void state_hash_print_witness(struct text_table *table, const struct witness *witness)
{
    const Muster__V1__StateHashResponse *said = witness->said;

    if (!said) {
        table_text(table, TABLE_DASH);
        table_text(table, witness->address);
        for (int i = 0; i < 5; i++) table_text(table, TABLE_DASH);
        return;
    }
    for (size_t i = 0; i < said->n_machines; i++) {
        table_text(table, said->name[0] ? said->name : TABLE_DASH);
        table_text(table, witness->address);
        table_number(table, (int64_t)said->applied);
        table_number(table, (int64_t)said->term);
        table_text(table, said->machines[i]->name);
        table_hex(table, said->machines[i]->hash);
        table_number(table, (int64_t)said->machines[i]->bytes);
    }
}

static void state_hash_print(struct inquiry *inquiry, enum err judged)
{
    struct ctl *ctl = inquiry->ctl;
    struct text_table table;

    if (ctl->json) {
        state_hash_print_json(inquiry);
        return;
    }
    table_init(&table,
               TABLE_COLUMNS("REPLICA", "ADDRESS", "APPLIED", "TERM", "MACHINE", "HASH", "BYTES"),
               &ctl->memory);
    for (size_t i = 0; i < inquiry->count; i++) state_hash_print_witness(&table, &inquiry->list[i]);
    ctl_print_table(ctl, &table);
    if (!judged)
        ctl_line(ctl, "%zu %s at index %" PRIu64, inquiry->count,
                 inquiry->count == 1 ? "replica" : "replicas are equal", inquiry->index);
}

enum err state_hash_act(struct ctl *ctl)
{
    struct inquiry inquiry = {.ctl = ctl};
    enum err err = state_hash_find_witnesses(&inquiry);

    if (!err) {
        state_hash_ask_all(&inquiry, 0);
        for (int i = 1; i < ROUNDS_MAX && !inquiry.together; i++)
            state_hash_ask_all(&inquiry, inquiry.index);
        if (inquiry.together) state_hash_compare(&inquiry);
        err = state_hash_verdict(&inquiry);
        state_hash_print(&inquiry, err);
    }
    for (size_t i = 0; i < inquiry.count; i++) remote_close(inquiry.list[i].remote);
    return err;
}
