/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the store scenario, in the order of store_story.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "store/machine.h"
#include "store_compare.h"
#include "store_story.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { ARENA_MAX = 1 << 20, NAME_CAP = 48, LINES_MAX = 1 << 20 };

enum err store_witness_open(struct store_witness *w)
{
    w->seen = calloc(STORE_INDEX_MAX, sizeof *w->seen);
    w->changes = calloc(STORE_CHANGES_MAX, sizeof *w->changes);
    w->effects = calloc(STORE_EFFECTS_MAX, sizeof *w->effects);
    w->cas = calloc(STORE_EFFECTS_MAX, sizeof *w->cas);
    w->denied = calloc(STORE_EFFECTS_MAX, sizeof *w->denied);
    map_init(&w->by_request, MAP_MOST, 1);
    buf_init(&w->shipped, LINES_MAX);
    buf_init(&w->plain, LINES_MAX);
    w->model = model_open();
    return w->model && w->seen && w->changes && w->effects && w->cas && w->denied ? ERR_OK
                                                                                  : ERR_NOMEM;
}

void store_witness_close(struct store_witness *w)
{
    map_deinit(&w->by_request);
    model_close(w->model);
    buf_deinit(&w->shipped);
    buf_deinit(&w->plain);
    free(w->seen);
    free(w->changes);
    free(w->effects);
    free(w->cas);
    free(w->denied);
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
        effect->may_be_again = true; /* another entry reports its grant */
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

/* -- keys: the store's names, and the names of their users -- */
static size_t last_slash(struct str key)
{
    size_t at = key.len;

    while (at > 0 && key.at[at - 1] != '/') at--;
    return at;
}

static uint64_t bucket_of(struct str key)
{
    size_t leaf = last_slash(key);

    if (leaf == 0 || leaf == key.len || key.at[leaf] == '.') return 0;
    return str_hash(str_of(key.at, leaf - 1), 3);
}

static bool is_plain(struct str key)
{
    return str_starts(key, STR("muster/k/"));
}

static struct str with_prefix(struct str text, char into[64])
{
    bool plain = str_equal(text, STR("e")) || str_starts(text, STR("e/")); /* of etcd's API */
    int len = snprintf(into, 64, "%s%.*s", plain ? "" : "muster/", STR_ARG(text));

    return str_of(into, (size_t)len);
}

uint64_t store_hash_of_key(struct str key)
{
    char whole[64];

    return str_hash(with_prefix(key, whole), 1);
}

uint64_t store_hash_of_bucket(struct str bucket)
{
    char whole[64];

    return str_hash(with_prefix(bucket, whole), 3);
}

static bool is_of_library(struct str value)
{
    return value.len > 0 && value.at[0] == 'L';
}

static bool is_denied(const struct store_witness *w, uint64_t value)
{
    for (size_t i = 0; i < w->denied_count; i++)
        if (w->denied[i] == value) return true;
    return false;
}

/* Invariant 4: a value that is drawn once appears in one change. */
static void look_at_value(struct store_story *story, const struct store_change *change,
                          struct str key)
{
    const struct store_witness *w = &story->witness;

    if (is_denied(w, change->value))
        store_wrong(story, "%.*s: what was refused was done at revision %" PRIu64, STR_ARG(key),
                    change->revision);
    for (size_t i = 0; i + 1 < w->change_count; i++)
        if (w->changes[i].value == change->value && w->changes[i].key == change->key)
            store_wrong(story, "%.*s: one write was done at revisions %" PRIu64 " and %" PRIu64,
                        STR_ARG(key), w->changes[i].revision, change->revision);
}

static void look_at_changes(struct store_story *story, const struct store *store, uint64_t before)
{
    struct store_witness *w = &story->witness;
    struct key_changes now = keys_changes(store_keys(store));

    for (uint64_t number = before; number < now.end; number++) {
        struct key_value change, past;
        struct store_change *own = &w->changes[w->change_count];
        if (w->change_count == STORE_CHANGES_MAX) {
            store_wrong(story, "more changes than a story has");
            return;
        }
        keys_change_at(store_keys(store), number, &change, &past);
        *own = (struct store_change){.revision = change.mod,
                                     .key = str_hash(change.key, 1),
                                     .value = str_hash(change.value, 2),
                                     .bucket = bucket_of(change.key),
                                     .gone = change.version == 0,
                                     .claim = str_starts(change.key, STR("muster/")),
                                     .lock = str_starts(change.key, STR("a/"))};
        w->change_count++;
        if ((is_of_library(change.value) && is_plain(change.key)) ||
            (change.version && str_starts(change.key, STR("e/u"))))
            look_at_value(story, own, change.key);
    }
}

static bool change_is(const struct store *store, uint64_t number, const struct model_change *model)
{
    struct key_value change, past;

    keys_change_at(store_keys(store), number, &change, &past);
    return change.mod == model->revision && (change.version == 0) == model->gone &&
           str_equal(change.key, str_of(model->key.at, model->key.len)) &&
           str_equal(change.value, str_of(model->value.at, model->value.len));
}

/* Applies the entry to the model and compares its answer, its changes in order, and the state. */
static void ask_model(struct store_story *story, const struct machine_entry *entry,
                      const struct store_command *command, struct str reply,
                      const struct store *store, uint64_t before)
{
    static const struct store_command nothing = {.kind = STORE_TICK};
    static struct model_txns txns;
    struct store_witness *w = &story->witness;
    struct model_renewal renewals[MODEL_RENEWALS];
    const struct model_change *changes;
    struct model_command plain;
    struct model_answer answer;
    struct note why = {""};
    size_t count;

    if (compare_command(command ? command : &nothing, &plain) ||
        (command && command->kind == STORE_TXN && compare_txns(command->txn, &txns))) {
        store_wrong(story, "a command that is larger than the model's");
        return;
    }
    plain.txns = &txns;
    model_apply(w->model, entry->clock_ns, &plain, &answer, renewals);
    count = model_changes(w->model, &changes);
    if (model_trouble(w->model)) store_wrong(story, "%s", model_trouble(w->model));
    if (command && command->kind == STORE_TXN
            ? !compare_txn(reply, command, model_response(w->model), &why)
            : command && !compare_reply(reply, command, &answer, renewals, &why))
        store_wrong(story, "entry %" PRIu64 ": %s", entry->index, why.text);
    if (keys_changes(store_keys(store)).end - before != count)
        store_wrong(story, "entry %" PRIu64 " changes other keys than the model's", entry->index);
    for (size_t i = 0; !w->wrong && i < count; i++)
        if (!change_is(store, before + i, &changes[i]))
            store_wrong(story, "entry %" PRIu64 ": change %zu is not the model's", entry->index, i);
    buf_clear(&w->plain);
    model_write_state(w->model, &w->plain);
    w->seen[entry->index].lines = str_hash(buf_peek(&w->plain), 4);
}

/* Compares line by line while the model is at this index, else by the hash of the lines. */
static void look_at_state(struct store_story *story, uint64_t index, const struct store *store)
{
    struct store_witness *w = &story->witness;
    struct note why = {""};

    buf_clear(&w->shipped);
    compare_write_state(store, &w->shipped);
    if (str_hash(buf_peek(&w->shipped), 4) == w->seen[index].lines) return;
    if (index != w->newest || !compare_lines(buf_peek(&w->shipped), buf_peek(&w->plain), &why))
        note_set(&why, "the state was the model's where it was applied first");
    store_wrong(story, "entry %" PRIu64 ": %s", index, why.text);
}

void store_witness_applied(struct store_story *story, const struct machine_entry *entry,
                           const struct store_command *command, struct str reply,
                           const struct store *store, uint64_t before)
{
    struct store_witness *w = &story->witness;
    struct store_seen seen = {.command = str_hash(entry->command, entry->term),
                              .reply = str_hash(reply, 5),
                              .state = store_hash(store)};

    if (w->wrong) return; /* only the first fault counts */
    if (entry->index >= STORE_INDEX_MAX) {
        store_wrong(story, "more entries than a story has");
        return;
    }
    if (entry->index > w->newest) {
        w->newest = entry->index;
        w->seen[entry->index] = seen;
        if (!story->bug) ask_model(story, entry, command, reply, store, before);
        look_at_changes(story, store, before);
        if (command && is_remembered(command->kind)) look_at_effect(story, entry, command, reply);
    } else {
        const struct store_seen *first = &w->seen[entry->index];
        if (first->command != seen.command)
            store_wrong(story, "entry %" PRIu64 " is another one elsewhere", entry->index);
        else if (first->reply != seen.reply)
            store_wrong(story, "entry %" PRIu64 " is answered otherwise elsewhere", entry->index);
        else if (first->state != seen.state)
            store_wrong(story, "entry %" PRIu64 " leads to another state elsewhere", entry->index);
    }
    if (!story->bug) look_at_state(story, entry->index, store);
}

void store_witness_restored(struct store_story *story, uint64_t index, const struct store *store)
{
    const struct store_witness *w = &story->witness;

    /* Entries of another machine, or before the first command, did not change the model. */
    while (index > 0 && (index > w->newest || !w->seen[index].lines)) index--;
    if (index > 0 && !w->wrong) look_at_state(story, index, store);
}

/* -- answers to clients -- */
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
bool store_witness_believed(const struct store_story *story, size_t believer)
{
    const struct store_belief *belief = &story->witness.beliefs[believer];
    uint64_t now =
        belief->clock ? clock_mono_ns(belief->clock).ns : sim_now(scenario_sim(story->world)).ns;

    return belief->on && now < belief->until_ns;
}

static const char *name_of(size_t believer, char name[NAME_CAP])
{
    if (believer < STORE_CLIENTS)
        (void)snprintf(name, NAME_CAP, "c%zu", believer);
    else
        (void)snprintf(name, NAME_CAP, "l%zu.%zu", (believer - STORE_CLIENTS) / STORE_WORKERS,
                       (believer - STORE_CLIENTS) % STORE_WORKERS);
    return name;
}

void store_witness_believes(struct store_story *story, size_t believer,
                            const struct store_belief *belief)
{
    struct store_witness *w = &story->witness;
    size_t group = belief->group;
    uint64_t *newest = &w->tokens[group * 2 + belief->slot % 2];
    uint32_t others = 0;
    char one[NAME_CAP], another[NAME_CAP];

    w->beliefs[believer] = *belief;
    if (!store_witness_believed(story, believer)) return; /* it has expired already */
    if (belief->token < *newest)
        store_wrong(story, "g%zu/%u: token %" PRIu64 " after %" PRIu64, group, belief->slot,
                    belief->token, *newest);
    *newest = max_u64(*newest, belief->token);
    for (size_t i = 0; i < STORE_BELIEVERS; i++) {
        const struct store_belief *other = &w->beliefs[i];
        if (i == believer || other->group != group || !store_witness_believed(story, i)) continue;
        others++;
        if (other->slot == belief->slot || other->token == belief->token)
            store_wrong(story, "g%zu/%u is held by %s and %s", group, belief->slot,
                        name_of(believer, one), name_of(i, another));
    }
    if (others >= group + 1) store_wrong(story, "g%zu is held by %u", group, others + 1);
}

void store_witness_holds(struct store_story *story, size_t client, size_t group, uint32_t slot,
                         uint64_t token, sim_time sent, uint64_t ttl_ms)
{
    store_witness_believes(
        story, client,
        &(struct store_belief){.on = true,
                               .group = group,
                               .slot = slot,
                               .token = token,
                               .until_ns =
                                   sent.ns + ttl_ms * STORE_TRUST_PERCENT / 100 * NS_PER_MS});
}

void store_witness_lets_go(struct store_story *story, size_t believer)
{
    story->witness.beliefs[believer].on = false;
}

void store_witness_expired(struct store_story *story, size_t believer)
{
    struct store_belief *own = &story->witness.beliefs[believer];
    char name[NAME_CAP];

    if (store_witness_believed(story, believer))
        store_wrong(story, "%s's lease on g%zu/%u ended before its time", name_of(believer, name),
                    own->group, own->slot);
    own->on = false;
    story->witness.expired++;
}

/* -- reads and writes -- */
void store_witness_wrote(struct store_story *story, uint64_t acked, struct str key,
                         struct str value, uint64_t revision)
{
    struct store_witness *w = &story->witness;
    uint64_t key_hash = store_hash_of_key(key), value_hash = str_hash(value, 2);
    size_t at = store_witness_after(story, revision);

    while (at > 0 && w->changes[at - 1].revision == revision) {
        at--;
        if (w->changes[at].key != key_hash || w->changes[at].value != value_hash) continue;
        if (revision <= acked)
            store_wrong(story, "%.*s: written at revision %" PRIu64 " after %" PRIu64 " was seen",
                        STR_ARG(key), revision, acked);
        w->acked = max_u64(w->acked, revision);
        return;
    }
    store_wrong(story, "%.*s: reported as written at revision %" PRIu64 "; it was not",
                STR_ARG(key), revision);
}

void store_witness_denied(struct store_story *story, struct str value)
{
    struct store_witness *w = &story->witness;
    uint64_t hash = str_hash(value, 2);

    for (size_t i = 0; i < w->change_count; i++)
        if (w->changes[i].value == hash)
            store_wrong(story, "%.*s: reported as refused; it was done at revision %" PRIu64,
                        STR_ARG(value), w->changes[i].revision);
    if (w->denied_count < STORE_EFFECTS_MAX) w->denied[w->denied_count++] = hash;
}

/* The read must show a state between the newest revision that any client had received, and now. */
void store_witness_read(struct store_story *story, uint64_t acked, struct str key, struct str value,
                        uint64_t revision, bool stale)
{
    struct store_witness *w = &story->witness;
    uint64_t hash = store_hash_of_key(key);
    uint64_t was = 0; /* revision of the key while walking over the changes */
    bool good = revision == 0;

    for (size_t i = 0; i < w->change_count; i++) {
        const struct store_change *change = &w->changes[i];
        if (change->key != hash) continue;
        /* The version before this change was visible if it was still current after `acked`. */
        if (was == revision && change->revision <= acked && !stale) good = false;
        was = change->gone ? 0 : change->revision;
        if (was != revision) continue;
        good = revision == 0 || change->value == str_hash(value, 2);
    }
    if (!good)
        store_wrong(story, "%.*s: revision %" PRIu64 " was read after %" PRIu64 " was seen",
                    STR_ARG(key), revision, acked);
    if (!stale) w->acked = max_u64(w->acked, revision);
    w->reads++;
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

bool store_witness_unseen(const struct store_story *story, size_t cursor, uint64_t revision)
{
    for (size_t end = store_witness_after(story, revision); cursor < end; cursor++)
        if (story->witness.changes[cursor].claim) return true;
    return false;
}

bool store_witness_event(struct store_story *story, size_t *cursor, struct str key,
                         uint64_t revision)
{
    const struct store_witness *w = &story->witness;

    while (*cursor < w->change_count && !w->changes[*cursor].claim) ++*cursor;
    if (*cursor >= w->change_count || w->changes[*cursor].revision != revision ||
        w->changes[*cursor].key != str_hash(key, 1))
        return false;
    ++*cursor;
    return true;
}

void store_witness_snapshot(struct store_story *story, uint64_t bucket, uint64_t revision,
                            const struct store_seen_key *keys, size_t count)
{
    const struct store_witness *w = &story->witness;
    size_t end = store_witness_after(story, revision), live = 0;

    for (size_t i = 0; i < end; i++) {
        const struct store_change *change = &w->changes[i];
        bool newest = change->bucket == bucket, shown = false;
        for (size_t k = i + 1; newest && k < end; k++) newest = w->changes[k].key != change->key;
        if (!newest || change->gone) continue;
        live++;
        for (size_t k = 0; k < count; k++)
            shown |= keys[k].key == change->key && keys[k].revision == change->revision;
        if (!shown)
            store_wrong(story, "a snapshot of %" PRIu64 " lacks revision %" PRIu64, revision,
                        change->revision);
    }
    if (live != count)
        store_wrong(story, "a snapshot of %" PRIu64 " has %zu keys, not %zu", revision, count,
                    live);
}

void store_witness_change(struct store_story *story, uint64_t bucket, size_t *cursor,
                          struct str key, uint64_t revision, bool gone)
{
    const struct store_witness *w = &story->witness;
    const struct store_change *next;

    while (*cursor < w->change_count && w->changes[*cursor].bucket != bucket) ++*cursor;
    next = &w->changes[*cursor];
    if (*cursor == w->change_count || next->key != store_hash_of_key(key) ||
        next->revision != revision || next->gone != gone)
        store_wrong(story, "a watch reports %.*s at revision %" PRIu64 ", next is %" PRIu64,
                    STR_ARG(key), revision, *cursor < w->change_count ? next->revision : 0);
    else
        ++*cursor;
}
