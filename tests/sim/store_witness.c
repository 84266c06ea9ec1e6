/* See store_story.h: what must hold, in its order. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "store/machine.h"
#include "store_story.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { ARENA_MAX = 1 << 20 };

enum err store_witness_open(struct store_witness *w)
{
    w->seen = calloc(STORE_INDEX_MAX, sizeof *w->seen);
    w->changes = calloc(STORE_CHANGES_MAX, sizeof *w->changes);
    w->effects = calloc(STORE_EFFECTS_MAX, sizeof *w->effects);
    w->cas = calloc(STORE_EFFECTS_MAX, sizeof *w->cas);
    map_init(&w->by_request, MAP_MOST, 1);
    return w->seen && w->changes && w->effects && w->cas ? ERR_OK : ERR_NOMEM;
}

void store_witness_close(struct store_witness *w)
{
    map_deinit(&w->by_request);
    free(w->seen);
    free(w->changes);
    free(w->effects);
    free(w->cas);
}

void store_wrong(struct store_story *story, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (story->witness.wrong) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    story->witness.wrong = true;
    note_set(&story->witness.why, "%s", text);
}

/* -- the log -- */
static void request_key(const struct store_id *client, uint64_t sequence, uint8_t key[24])
{
    memcpy(key, client->b, 16);
    memcpy(key + 16, &sequence, 8);
}

static bool is_remembered(enum store_kind kind)
{
    return kind == STORE_CREATE || kind == STORE_CAS || kind == STORE_DELETE ||
           kind == STORE_ACQUIRE || kind == STORE_RELEASE;
}

static struct store_effect *effect_of(struct store_story *story,
                                      const struct store_command *command)
{
    struct store_witness *w = &story->witness;
    uint8_t key[24];
    struct store_effect *effect;

    request_key(&command->client, command->sequence, key);
    effect = map_get(&w->by_request, str_of(key, sizeof key));
    if (effect) return effect;
    if (w->effect_count == STORE_EFFECTS_MAX) {
        store_wrong(story, "more requests than a story has");
        return NULL;
    }
    effect = &w->effects[w->effect_count++];
    memcpy(effect->id, key, sizeof key);
    effect->code = -1;
    if (map_put(&w->by_request, str_of(effect->id, sizeof effect->id), effect))
        store_wrong(story, "no memory");
    return effect;
}

static void look_at_effect(struct store_story *story, const struct machine_entry *entry,
                           const struct store_command *command, struct str reply)
{
    struct store_effect *effect = effect_of(story, command);
    struct store_reply answer;
    ProtobufCMessage *message;
    const Muster__V1__Outcome *outcome;
    struct arena arena;
    struct note note = {""};

    if (!effect) return;
    arena_init(&arena, ARENA_MAX);
    if (store_reply_parse(reply, &answer) ||
        message_read(&muster__v1__outcome__descriptor, answer.outcome, NULL, &arena, &message,
                     &note)) {
        store_wrong(story, "entry %" PRIu64 " has no answer", entry->index);
        arena_deinit(&arena);
        return;
    }
    outcome = (const Muster__V1__Outcome *)message;
    if (answer.waiting) {
        effect->may_be_again = true; /* what it is given is told by another entry */
        effect->code = -1;
    } else if (outcome->code == COORD_OK &&
               (outcome->reason == COORD_R_REPLAYED || outcome->reason == COORD_R_ALREADY)) {
        story->witness.repeats++;
    } else {
        if (effect->code == COORD_OK && outcome->code == COORD_OK && !effect->may_be_again)
            store_wrong(story, "entry %" PRIu64 ": a request took effect twice (%s)", entry->index,
                        coord_reason_name((int)outcome->reason));
        if (effect->code != COORD_OK) {
            effect->code = outcome->code;
            effect->reason = outcome->reason;
            effect->revision = outcome->revision;
            effect->token = outcome->token;
        }
    }
    arena_deinit(&arena);
}

static void look_at_changes(struct store_story *story, const struct store *store, uint64_t before)
{
    struct store_witness *w = &story->witness;
    struct key_changes now = keys_changes(store_keys(store));

    for (uint64_t number = before; number < now.end; number++) {
        struct key_value change, past;
        if (w->change_count == STORE_CHANGES_MAX) {
            store_wrong(story, "more changes than a story has");
            return;
        }
        keys_change_at(store_keys(store), number, &change, &past);
        w->changes[w->change_count++] = (struct store_change){change.mod, str_hash(change.key, 1)};
    }
}

void store_witness_applied(struct store_story *story, const struct machine_entry *entry,
                           const struct store_command *command, struct str reply,
                           const struct store *store, uint64_t before)
{
    struct store_witness *w = &story->witness;
    struct store_seen seen = {str_hash(entry->command, entry->term), store_hash(store)};

    if (entry->index >= STORE_INDEX_MAX) {
        store_wrong(story, "more entries than a story has");
        return;
    }
    if (entry->index <= w->newest) {
        const struct store_seen *first = &w->seen[entry->index];
        if (first->command != seen.command)
            store_wrong(story, "entry %" PRIu64 " is another one elsewhere", entry->index);
        else if (first->state != seen.state)
            store_wrong(story, "entry %" PRIu64 " leads to another state elsewhere", entry->index);
        return;
    }
    w->newest = entry->index;
    w->seen[entry->index] = seen;
    look_at_changes(story, store, before);
    if (command && is_remembered(command->kind)) look_at_effect(story, entry, command, reply);
}

/* -- what clients hear -- */
void store_witness_answered(struct store_story *story, const struct store_id *client,
                            uint64_t sequence, int code, int reason, uint64_t revision,
                            uint64_t token)
{
    uint8_t key[24];
    const struct store_effect *effect;

    request_key(client, sequence, key);
    effect = map_get(&story->witness.by_request, str_of(key, sizeof key));
    if (code == COORD_INVALID) {
        store_wrong(story, "a request was refused as invalid (%s)", coord_reason_name(reason));
        return;
    }
    if (code != COORD_OK) return;
    if (!effect)
        store_wrong(story, "answered, and in no log");
    else if (!effect->may_be_again &&
             (effect->code != COORD_OK || effect->revision != revision || effect->token != token))
        store_wrong(story,
                    "the answer is not what was done (revision %" PRIu64 ", was %" PRIu64 ")",
                    revision, effect->revision);
}

void store_witness_replaced(struct store_story *story, size_t key, uint64_t expected)
{
    struct store_witness *w = &story->witness;

    if (expected == 0) return;
    for (size_t i = 0; i < w->cas_count; i++)
        if (w->cas[i].key == key && w->cas[i].expected == expected)
            store_wrong(story, "revision %" PRIu64 " was replaced twice", expected);
    if (w->cas_count < STORE_EFFECTS_MAX)
        w->cas[w->cas_count++] = (struct store_cas){key, expected};
}

/* -- holders -- */
void store_witness_holds(struct store_story *story, size_t client, size_t group, uint32_t slot,
                         uint64_t token, sim_time sent, uint64_t ttl_ms)
{
    struct store_witness *w = &story->witness;
    struct store_belief *own = &w->beliefs[client];
    sim_time now = sim_now(scenario_sim(story->world));
    uint64_t *newest = &w->tokens[group * 2 + slot % 2];
    uint32_t others = 0;

    *own = (struct store_belief){
        true, group, slot, token, {sent.ns + ttl_ms * STORE_TRUST_PERCENT / 100 * NS_PER_MS}};
    if (own->until.ns <= now.ns) return; /* it came too late to be believed */
    if (token < *newest)
        store_wrong(story, "g%zu/%u: token %" PRIu64 " after %" PRIu64, group, slot, token,
                    *newest);
    *newest = max_u64(*newest, token);
    for (size_t i = 0; i < STORE_CLIENTS; i++) {
        const struct store_belief *other = &w->beliefs[i];
        if (i == client || !other->on || other->group != group || other->until.ns <= now.ns)
            continue;
        others++;
        if (other->slot == slot || other->token == token)
            store_wrong(story, "g%zu/%u is held by c%zu and c%zu", group, slot, client, i);
    }
    if (others >= group + 1) store_wrong(story, "g%zu is held by %u", group, others + 1);
}

void store_witness_lets_go(struct store_story *story, size_t client)
{
    story->witness.beliefs[client].on = false;
}

void store_witness_expired(struct store_story *story, size_t client)
{
    struct store_belief *own = &story->witness.beliefs[client];
    sim_time now = sim_now(scenario_sim(story->world));

    if (own->on && now.ns < own->until.ns)
        store_wrong(story, "c%zu's lease on g%zu/%u ended %" PRIu64 " ms too early", client,
                    own->group, own->slot, (uint64_t)((own->until.ns - now.ns) / NS_PER_MS));
    own->on = false;
    story->witness.expired++;
}

/* -- watches -- */
size_t store_witness_after(const struct store_story *story, uint64_t revision)
{
    const struct store_witness *w = &story->witness;
    size_t low = 0, high = w->change_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->changes[middle].revision > revision)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool store_witness_event(struct store_story *story, size_t *cursor, struct str key,
                         uint64_t revision)
{
    const struct store_witness *w = &story->witness;

    if (*cursor >= w->change_count || w->changes[*cursor].revision != revision ||
        w->changes[*cursor].key != str_hash(key, 1))
        return false;
    ++*cursor;
    return true;
}
