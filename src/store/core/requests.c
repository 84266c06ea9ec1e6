/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of recent requests: a retry gets the first answer and is not executed again.
 *
 * A client numbers its requests with a sequence. The store keeps STORE_RESULTS_MAX answers, or
 * fewer when the client acknowledges answers. Dropping an answer raises the client's floor, and
 * requests below the floor are refused. A client that is silent for STORE_CLIENT_SILENT_NS of the
 * replicated clock is forgotten. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/core/internal.h"

enum { CLIENT_COST = 160, ANSWER_COST = sizeof(struct answer) };

static uint32_t request_fingerprint(const struct store_command *command)
{
    uint8_t fixed[8 * 5 + 16 * 2];
    uint64_t hash;

    store_le64(fixed, (uint64_t)command->kind);
    store_le64(fixed + 8, command->expected);
    store_le64(fixed + 16, (uint64_t)command->ttl_ms);
    store_le64(fixed + 24, ((uint64_t)command->slot_count << 32) | command->flags);
    /* A retry may differ from the first attempt in two fields:
     * the token: the first attempt may come from before the cluster level allowed tokens
     * the new lease's id: each attempt may draw another id */
    store_le64(fixed + 32, 0);
    memcpy(fixed + 40, command->held.b, 16);
    memset(fixed + 56, 0, 16);
    if (command->kind == STORE_RELEASE || command->kind == STORE_LEASE_REVOKE)
        memcpy(fixed + 56, command->lease.b, 16);
    hash = str_hash(str_of(fixed, sizeof fixed), 1);
    hash = str_hash(command->key, hash);
    hash = str_hash(command->value, hash);
    hash = str_hash(command->owner, hash);
    hash = str_hash(command->range_end, hash);
    return (uint32_t)(hash ^ (hash >> 32));
}

static void answer_toggle(struct store *store, const struct store_client *client,
                          const struct answer *answer)
{
    const struct store_result *result = &answer->result;

    STORE_TOGGLE(store, HASHED_ANSWER, &client->id, answer->sequence, answer->fingerprint,
                 (uint64_t)(uint32_t)result->code << 32 | (uint32_t)result->reason,
                 result->revision, result->token, (uint64_t)result->slot << 1 | result->waiting);
}

static void floor_toggle(struct store *store, const struct store_client *client)
{
    if (client->floor) STORE_TOGGLE(store, HASHED_FLOOR, &client->id, client->floor);
}

static void answers_drop(struct store *store, struct store_client *client, uint32_t first,
                         uint32_t count)
{
    struct answer *at = client->answers + first;

    if (count == 0) return; /* without elements, `at` may be NULL */
    section_row_keep(&store->section, &client->row);
    for (uint32_t i = 0; i < count; i++) answer_toggle(store, client, &at[i]);
    memmove(at, at + count, (client->count - first - count) * sizeof *at);
    client->count -= count;
    store->bytes -= (uint64_t)count * ANSWER_COST;
}

static void client_forget(struct store *store, struct store_client *client)
{
    section_row_keep(&store->section, &client->row);
    answers_drop(store, client, 0, client->count);
    floor_toggle(store, client);
    (void)map_remove(&store->clients, store_id_text(&client->id));
    list_remove(&client->by_use);
    section_row_gone(&client->row);
    store->bytes -= CLIENT_COST;
    free(client->answers);
    free(client);
}

static struct store_client *client_of(const struct store *store, const struct store_id *id)
{
    return store_id_none(id) ? NULL : map_get(&store->clients, store_id_text(id));
}

struct store_client *request_client_make(struct store *store, const struct store_id *id,
                                         uint64_t seen_ns, uint64_t use, uint64_t floor)
{
    struct store_client *client;

    if (store_id_none(id) || client_of(store, id)) return NULL;
    client = store_must(calloc(1, sizeof *client));
    client->id = *id;
    client->seen_ns = seen_ns;
    client->use = use;
    client->floor = floor;
    floor_toggle(store, client);
    list_init(&client->by_use);
    list_append(&store->clients_by_use, &client->by_use);
    section_row_born(&store->section, &client->row, ROW_CLIENT);
    if (map_put(&store->clients, store_id_text(&client->id), client)) (void)store_must(NULL);
    store->bytes += CLIENT_COST;
    return client;
}

static void client_used(struct store *store, struct store_client *client)
{
    section_row_keep(&store->section, &client->row);
    client->seen_ns = store->clock_ns;
    client->use = ++store->uses;
    list_remove(&client->by_use);
    list_append(&store->clients_by_use, &client->by_use);
}

static void raise_floor(struct store *store, struct store_client *client, uint64_t floor)
{
    if (floor <= client->floor) return;
    floor_toggle(store, client);
    client->floor = floor;
    floor_toggle(store, client);
}

static struct answer *answer_of(const struct store_client *client, uint64_t sequence)
{
    for (uint32_t i = 0; client && i < client->count; i++)
        if (client->answers[i].sequence == sequence) return &client->answers[i];
    return NULL;
}

/* Drops the answers that the client acknowledged, and raises its floor, so that a delayed retry of
 * such a request is refused instead of executed. */
static void drop_acked(struct store *store, struct store_client *client, uint64_t acked)
{
    uint32_t count = 0;

    raise_floor(store, client, acked);
    while (count < client->count && client->answers[count].sequence < acked) count++;
    answers_drop(store, client, 0, count);
    if (store->level < STORE_TOKENS_LEVEL) return;
    for (uint32_t i = 0; i < client->count;) /* answers may be out of order */
        if (client->answers[i].sequence < acked)
            answers_drop(store, client, i, 1);
        else
            i++;
}

const struct store_result *request_known(struct store *store, const struct store_command *command,
                                         bool *ret_other)
{
    struct store_client *client = client_of(store, &command->client);
    const struct answer *answer;

    *ret_other = false;
    if (!client) return NULL;
    client_used(store, client);
    drop_acked(store, client, command->acked);
    answer = answer_of(client, command->sequence);
    /* From STORE_TOKENS_LEVEL on, the floor may be above sequences whose answers are still kept. */
    if (store->level < STORE_TOKENS_LEVEL || !answer)
        *ret_other = command->sequence < client->floor;
    if (*ret_other || !answer) return NULL;
    *ret_other = answer->fingerprint != request_fingerprint(command);
    return &answer->result;
}

/* The smaller sequence is dropped first, because requests below a dropped sequence are refused.
 * Waiters are dropped last, because their retry must find its place in the queue. */
static bool goes_before(const struct answer *a, const struct answer *b)
{
    if (a->result.waiting != b->result.waiting) return b->result.waiting;
    return a->sequence < b->sequence;
}

static void make_room(struct store *store, struct store_client *client)
{
    uint32_t first = 0;

    section_row_keep(&store->section, &client->row);
    for (uint32_t i = 1; i < client->count; i++)
        if (goes_before(&client->answers[i], &client->answers[first])) first = i;
    raise_floor(store, client, client->answers[first].sequence + 1);
    answers_drop(store, client, first, 1);
}

void request_answer_add(struct store *store, struct store_client *client, uint64_t sequence,
                        uint32_t fingerprint, const struct store_result *result)
{
    if (client->count == STORE_RESULTS_MAX && store->level < STORE_TOKENS_LEVEL)
        answers_drop(store, client, 0, 1);
    else if (client->count == STORE_RESULTS_MAX)
        make_room(store, client);
    /* doubles, because most clients have few answers */
    if ((client->count & (client->count - 1)) == 0)
        client->answers = store_must(realloc(
            client->answers, (client->count ? client->count * 2u : 1u) * sizeof *client->answers));
    client->answers[client->count++] = (struct answer){sequence, fingerprint, *result};
    store->bytes += ANSWER_COST;
    answer_toggle(store, client, &client->answers[client->count - 1]);
}

uint64_t request_cost(void)
{
    return CLIENT_COST + ANSWER_COST;
}

void request_remember(struct store *store, const struct store_command *command,
                      const struct store_result *result)
{
    struct store_client *client = client_of(store, &command->client);

    if (store_id_none(&command->client)) return;
    if (!client) client = request_client_make(store, &command->client, 0, 0, command->acked);
    client_used(store, client);
    request_answer_add(store, client, command->sequence, request_fingerprint(command), result);
}

void request_update(struct store *store, const struct store_id *id, uint64_t sequence,
                    const struct store_result *result)
{
    struct store_client *client = client_of(store, id);
    struct answer *answer = answer_of(client, sequence);

    if (!answer) return;
    section_row_keep(&store->section, &client->row);
    answer_toggle(store, client, answer);
    answer->result = *result;
    answer_toggle(store, client, answer);
}

void request_forget(struct store *store, const struct store_id *id, uint64_t sequence)
{
    struct store_client *client = client_of(store, id);
    const struct answer *answer = answer_of(client, sequence);

    if (answer) answers_drop(store, client, (uint32_t)(answer - client->answers), 1);
}

void requests_forget_silent(struct store *store, size_t max)
{
    for (size_t cost, done = 0; done < max && !list_empty(&store->clients_by_use); done += cost) {
        struct store_client *client =
            CONTAINER_OF(store->clients_by_use.next, struct store_client, by_use);
        if (store->clock_ns - client->seen_ns < STORE_CLIENT_SILENT_NS) return;
        cost = 1u + client->count;
        store->work += cost;
        client_forget(store, client);
    }
}
