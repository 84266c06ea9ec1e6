/* SPDX-License-Identifier: Apache-2.0 */
#include "store_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "store_state_text.h"

#define NONE      SIZE_MAX
#define ANY       UINT64_MAX
#define FORCE     (UINT64_MAX - 1)
#define NO_SLOT   UINT32_MAX
#define MS        1000000ull
#define SILENT_NS (600ull * 1000 * MS)
#define TAKEOVER  1u
#define NO_CREATE 2u
#define KEEP_TTL  (-1)
enum { EXPIRE_MAX = 1024, WAITERS_MAX = 10000, KEYS_OF_LEASE_MAX = 1024 };

struct key {
    bool there;
    struct model_text name, value;
    uint64_t create, mod, version, token;
    size_t lease, group; /* NONE: not leased, not a slot's */
    uint32_t slot;
};
struct lease {
    bool there;
    struct model_id id;
    struct model_text owner;
    uint64_t ttl_ns, deadline_ns, lost_token;
    int lost_reason;
    /* while it waits */
    size_t waits_for; /* group, or NONE */
    uint64_t came, sequence;
    struct model_id client;
    uint32_t prefer_slot;
    struct model_text value;
};
struct group {
    bool there;
    struct model_text name;
    uint32_t slot_count;
    uint64_t revision, cooldown_ns;
    size_t holder[MODEL_SLOTS];
    uint64_t rest_until[MODEL_SLOTS];
};
struct known {
    struct model_command command;
    struct model_answer answer;
};
struct client {
    struct model_id id;
    uint64_t seen_ns, used, floor;
    struct known *known; /* MODEL_ANSWERS */
    size_t count;
};
struct model {
    uint64_t clock_ns, revision, compacted, arrivals, uses;
    struct model_id identity;
    struct key keys[MODEL_KEYS];
    struct lease leases[MODEL_LEASES];
    struct group groups[MODEL_GROUPS];
    struct client *clients; /* MODEL_CLIENTS */
    size_t client_count;
    struct model_change changes[MODEL_CHANGES];
    size_t change_count;
    char response[64 << 10];
    size_t response_len;
    const char *trouble;
};

static void serve(struct model *m, size_t g);
static void end_lease(struct model *m, size_t l, int reason);

/* -- small things -- */
static struct model_answer answer_of(int code, int reason)
{
    return (struct model_answer){.code = code, .reason = reason, .hint_ms = -1};
}

static bool same_text(const struct model_text *a, const struct model_text *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static bool same_id(const struct model_id *a, const struct model_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_zero(const struct model_id *id)
{
    static const struct model_id zero;

    return same_id(id, &zero);
}

static int compare_text(const struct model_text *a, const struct model_text *b)
{
    return str_compare(str_of(a->at, a->len), str_of(b->at, b->len));
}

static struct model_text name_of(const struct model_text *front, const char *rest)
{
    struct model_text text;

    text.len =
        (uint32_t)snprintf(text.at, sizeof text.at, "%.*s%s", (int)front->len, front->at, rest);
    return text;
}

static bool is_over(const struct model *m, size_t l)
{
    return m->leases[l].deadline_ns <= m->clock_ns;
}

/* -- keys -- */
static struct key *find_key(struct model *m, const struct model_text *name)
{
    for (size_t i = 0; i < MODEL_KEYS; i++)
        if (m->keys[i].there && same_text(&m->keys[i].name, name)) return &m->keys[i];
    return NULL;
}

static void changed(struct model *m, const struct key *key, bool gone, bool expired)
{
    if (m->change_count == MODEL_CHANGES) {
        m->trouble = "more changes by one entry than the model has room for";
        return;
    }
    m->changes[m->change_count++] = (struct model_change){
        .key = key->name, .revision = m->revision, .gone = gone, .expired = expired};
    if (!gone) m->changes[m->change_count - 1].value = key->value;
}

/* The key changes at a revision of its own. */
static struct key *put(struct model *m, const struct model_text *name,
                       const struct model_text *value, size_t lease)
{
    struct key *key = find_key(m, name);

    for (size_t i = 0; !key && i < MODEL_KEYS; i++)
        if (!m->keys[i].there) key = &m->keys[i];
    if (!key) {
        m->trouble = "more keys than the model has room for";
        key = &m->keys[0];
    }
    m->revision++;
    if (!key->there) *key = (struct key){.there = true, .name = *name, .create = m->revision};
    key->value = *value;
    key->mod = m->revision;
    key->version++;
    key->lease = lease;
    key->group = NONE;
    key->token = 0;
    changed(m, key, false, false);
    return key;
}

static void remove_key(struct model *m, struct key *key, bool expired)
{
    changed(m, key, true, expired);
    key->there = false;
}

/* -- leases -- */
static size_t find_lease(const struct model *m, const struct model_id *id)
{
    for (size_t i = 0; i < MODEL_LEASES; i++)
        if (m->leases[i].there && same_id(&m->leases[i].id, id)) return i;
    return NONE;
}

/* The first 63 bits of two lease ids differ, too. */
static uint64_t number_of(const struct model_id *id)
{
    uint64_t number = 0;

    for (int i = 7; i >= 0; i--) number = number << 8 | id->b[i];
    return number & INT64_MAX;
}

static size_t grant(struct model *m, const struct model_id *id, const struct model_text *owner,
                    int64_t ttl_ms)
{
    size_t room = NONE;

    if (number_of(id) == 0) return NONE;
    for (size_t i = MODEL_LEASES; i-- > 0;) {
        if (!m->leases[i].there) room = i;
        if (m->leases[i].there && number_of(&m->leases[i].id) == number_of(id)) return NONE;
    }
    if (room == NONE) {
        m->trouble = "more leases than the model has room for";
        return NONE;
    }
    m->leases[room] = (struct lease){.there = true,
                                     .id = *id,
                                     .owner = *owner,
                                     .ttl_ns = (uint64_t)ttl_ms * MS,
                                     .deadline_ns = m->clock_ns + (uint64_t)ttl_ms * MS,
                                     .waits_for = NONE};
    return room;
}

/* The live lease of plain keys with this number; NONE: none. */
static size_t find_plain(const struct model *m, int64_t number)
{
    for (size_t i = 0; number && i < MODEL_LEASES; i++)
        if (m->leases[i].there && m->leases[i].owner.len == 0 && !is_over(m, i) &&
            number_of(&m->leases[i].id) == (uint64_t)number)
            return i;
    return NONE;
}

static struct key *first_key_of(struct model *m, size_t l)
{
    struct key *first = NULL;

    for (size_t i = 0; i < MODEL_KEYS; i++) {
        struct key *key = &m->keys[i];
        if (key->there && key->lease == l && (!first || compare_text(&key->name, &first->name) < 0))
            first = key;
    }
    return first;
}

static void lose(struct lease *lease, int reason, uint64_t token)
{
    if (lease->lost_reason) return;
    lease->lost_reason = reason;
    lease->lost_token = token;
}

static void end_if_empty(struct model *m, size_t l)
{
    if (!first_key_of(m, l) && m->leases[l].waits_for == NONE) end_lease(m, l, COORD_R_RELEASED);
}

/* -- earlier requests -- */
static struct client *find_client(const struct model *m, const struct model_id *id)
{
    for (size_t i = 0; !is_zero(id) && i < m->client_count; i++)
        if (same_id(&m->clients[i].id, id)) return &m->clients[i];
    return NULL;
}

static void forget_first(struct client *c, size_t at)
{
    memmove(&c->known[at], &c->known[at + 1], (c->count - at - 1) * sizeof *c->known);
    c->count--;
}

static struct known *find_known(const struct model *m, const struct model_id *id, uint64_t sequence)
{
    struct client *c = find_client(m, id);

    for (size_t i = 0; c && i < c->count; i++)
        if (c->known[i].command.sequence == sequence) return &c->known[i];
    return NULL;
}

static void forget_request(struct model *m, const struct model_id *id, uint64_t sequence)
{
    struct client *c = find_client(m, id);
    struct known *known = find_known(m, id, sequence);

    if (known) forget_first(c, (size_t)(known - c->known));
}

static bool same_request(const struct model_command *a, const struct model_command *b)
{
    return a->kind == b->kind && a->expected == b->expected && a->ttl_ms == b->ttl_ms &&
           a->slot_count == b->slot_count && a->flags == b->flags && same_id(&a->held, &b->held) &&
           (a->kind != MODEL_RELEASE || same_id(&a->lease, &b->lease)) &&
           same_text(&a->key, &b->key) && same_text(&a->value, &b->value) &&
           same_text(&a->owner, &b->owner);
}

static bool is_remembered(enum model_kind kind)
{
    return kind != MODEL_TICK && kind != MODEL_RENEW && kind != MODEL_COMPACT &&
           kind != MODEL_CANCEL_WAIT && kind != MODEL_TXN;
}

/* True: *ret_answer is the answer. */
static bool answered_before(struct model *m, const struct model_command *command,
                            struct model_answer *ret_answer)
{
    struct client *c = find_client(m, &command->client);
    const struct known *known;

    if (!c) return false;
    c->seen_ns = m->clock_ns;
    c->used = ++m->uses;
    c->floor = max_u64(c->floor, command->acked);
    while (c->count > 0 && c->known[0].command.sequence < command->acked) forget_first(c, 0);
    known = find_known(m, &command->client, command->sequence);
    if (command->sequence < c->floor || (known && !same_request(&known->command, command))) {
        *ret_answer = answer_of(COORD_INVALID, COORD_R_HANDLE);
        return true;
    }
    if (!known) return false;
    *ret_answer = known->answer;
    if (known->answer.code == COORD_OK)
        ret_answer->reason = command->kind == MODEL_RELEASE || command->kind == MODEL_DELETE
                                 ? COORD_R_ALREADY
                                 : COORD_R_REPLAYED;
    return true;
}

static void remember(struct model *m, const struct model_command *command,
                     const struct model_answer *answer)
{
    struct client *c = find_client(m, &command->client);

    if (is_zero(&command->client)) return;
    if (!c) {
        if (m->client_count == MODEL_CLIENTS) {
            m->trouble = "more clients than the model has room for";
            return;
        }
        c = &m->clients[m->client_count++];
        *c = (struct client){.id = command->client, .floor = command->acked};
    }
    c->seen_ns = m->clock_ns;
    c->used = ++m->uses;
    if (c->count == MODEL_ANSWERS) forget_first(c, 0);
    if ((c->count & (c->count - 1)) == 0) /* most clients have few */
        c->known = realloc(c->known, (c->count ? 2 * c->count : 1) * sizeof *c->known);
    if (!c->known) abort();
    c->known[c->count++] = (struct known){*command, *answer};
}

static void forget_silent(struct model *m)
{
    for (size_t n = 0; n < EXPIRE_MAX; n++) {
        struct client *first = NULL;
        for (size_t i = 0; i < m->client_count; i++)
            if (!first || m->clients[i].used < first->used) first = &m->clients[i];
        if (!first || m->clock_ns - first->seen_ns < SILENT_NS) return;
        free(first->known);
        *first = m->clients[--m->client_count];
    }
}

/* -- groups -- */
static size_t find_group(const struct model *m, const struct model_text *name)
{
    for (size_t i = 0; i < MODEL_GROUPS; i++)
        if (m->groups[i].there && same_text(&m->groups[i].name, name)) return i;
    return NONE;
}

static struct model_text slot_name(const struct group *group, uint32_t slot)
{
    char rest[24];

    (void)snprintf(rest, sizeof rest, "/slot-%04u", (unsigned)slot);
    return name_of(&group->name, rest);
}

static uint32_t live_of(const struct group *group)
{
    uint32_t live = 0;

    for (size_t i = 0; i < MODEL_SLOTS; i++) live += group->holder[i] != NONE;
    return live;
}

static bool is_free(const struct group *group, uint32_t slot)
{
    return slot < group->slot_count && group->holder[slot] == NONE && !group->rest_until[slot];
}

/* NONE while a slot beyond the group's present size is held. */
static uint32_t free_slot(const struct group *group, uint32_t prefer)
{
    for (uint32_t i = group->slot_count; i < MODEL_SLOTS; i++)
        if (group->holder[i] != NONE) return NO_SLOT;
    if (prefer != NO_SLOT && is_free(group, prefer)) return prefer;
    for (uint32_t i = 0; i < group->slot_count; i++)
        if (is_free(group, i)) return i;
    return NO_SLOT;
}

static size_t first_waiter(const struct model *m, size_t g)
{
    size_t first = NONE;

    for (size_t i = 0; i < MODEL_LEASES; i++)
        if (m->leases[i].there && m->leases[i].waits_for == g &&
            (first == NONE || m->leases[i].came < m->leases[first].came))
            first = i;
    return first;
}

static uint32_t holder_named(const struct model *m, const struct group *group,
                             const struct model_text *owner)
{
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        if (group->holder[i] != NONE && !is_over(m, group->holder[i]) &&
            same_text(&m->leases[group->holder[i]].owner, owner))
            return i;
    return NO_SLOT;
}

static struct model_answer give(struct model *m, size_t g, uint32_t slot, size_t l,
                                const struct model_text *value)
{
    struct group *group = &m->groups[g];
    struct model_text name = slot_name(group, slot);
    struct key *key = put(m, &name, value, l);
    struct model_answer answer = answer_of(COORD_OK, COORD_R_ACQUIRED);

    key->group = g;
    key->slot = slot;
    key->token = m->revision;
    group->holder[slot] = l;
    answer.revision = answer.token = answer.create_revision = m->revision;
    answer.slot = slot;
    answer.slot_count = group->slot_count;
    answer.live = live_of(group);
    answer.granted_ttl_ms = (int64_t)(m->leases[l].ttl_ns / MS);
    answer.lease = m->leases[l].id;
    return answer;
}

static void serve(struct model *m, size_t g)
{
    for (size_t l; (l = first_waiter(m, g)) != NONE;) {
        struct lease *lease = &m->leases[l];
        struct group *group = &m->groups[g];
        uint32_t slot = free_slot(group, lease->prefer_slot);
        struct model_answer answer;
        struct known *known;
        if (slot == NO_SLOT) return;
        if (is_over(m, l)) {
            end_lease(m, l, COORD_R_DEADLINE);
        } else if (holder_named(m, group, &lease->owner) != NO_SLOT) {
            end_lease(m, l, COORD_R_RELEASED);
        } else {
            lease->waits_for = NONE;
            lease->deadline_ns = m->clock_ns + lease->ttl_ns;
            answer = give(m, g, slot, l, &lease->value);
            known = find_known(m, &lease->client, lease->sequence);
            if (known) known->answer = answer;
        }
    }
}

static void slot_freed(struct model *m, size_t g, uint32_t slot, uint64_t expired_ns)
{
    struct group *group = &m->groups[g];

    group->holder[slot] = NONE;
    if (expired_ns && expired_ns + group->cooldown_ns > m->clock_ns)
        group->rest_until[slot] = expired_ns + group->cooldown_ns;
    serve(m, g);
}

static int compare_places(const void *a, const void *b)
{
    return compare_text(&((const struct key *)a)->name, &((const struct key *)b)->name);
}

/* All keys of a lease are deleted at one revision, in key order; then its slots become free. */
static void end_lease(struct model *m, size_t l, int reason)
{
    struct lease *lease = &m->leases[l];
    uint64_t expired_ns = reason == COORD_R_DEADLINE ? lease->deadline_ns : 0;
    struct key gone[MODEL_KEYS];
    size_t count = 0;

    if (lease->waits_for != NONE) forget_request(m, &lease->client, lease->sequence);
    lease->there = false;
    if (first_key_of(m, l)) m->revision++;
    for (struct key *key; (key = first_key_of(m, l));) {
        gone[count++] = *key;
        remove_key(m, key, expired_ns != 0);
    }
    qsort(gone, count, sizeof *gone, compare_places);
    for (size_t i = 0; i < count; i++)
        if (gone[i].group != NONE) slot_freed(m, gone[i].group, gone[i].slot, expired_ns);
}

/* -- time -- */
static void expire(struct model *m)
{
    for (size_t n = 0; n < EXPIRE_MAX; n++) {
        size_t first = NONE;
        for (size_t i = 0; i < MODEL_LEASES; i++) {
            const struct lease *a = &m->leases[i], *b = &m->leases[first == NONE ? i : first];
            if (!a->there || !is_over(m, i)) continue;
            if (first == NONE || a->deadline_ns < b->deadline_ns ||
                (a->deadline_ns == b->deadline_ns && memcmp(&a->id, &b->id, sizeof a->id) < 0))
                first = i;
        }
        if (first == NONE) return;
        end_lease(m, first, COORD_R_DEADLINE);
    }
}

static uint64_t first_rest(const struct group *group)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; group->there && i < MODEL_SLOTS; i++)
        if (group->rest_until[i]) first = min_u64(first, group->rest_until[i]);
    return first;
}

static void end_rests(struct model *m)
{
    for (;;) {
        size_t first = NONE;
        for (size_t g = 0; g < MODEL_GROUPS; g++) {
            uint64_t rest = first_rest(&m->groups[g]);
            uint64_t best = first == NONE ? UINT64_MAX : first_rest(&m->groups[first]);
            if (rest < best || (rest == best && first != NONE &&
                                compare_text(&m->groups[g].name, &m->groups[first].name) < 0))
                first = g;
        }
        if (first == NONE || first_rest(&m->groups[first]) > m->clock_ns) return;
        for (size_t i = 0; i < MODEL_SLOTS; i++)
            if (m->groups[first].rest_until[i] <= m->clock_ns) m->groups[first].rest_until[i] = 0;
        serve(m, first);
    }
}

/* -- commands on keys -- */
static struct key *live_key(struct model *m, const struct model_text *name)
{
    struct key *key = find_key(m, name);

    if (key && key->lease != NONE && is_over(m, key->lease)) {
        end_lease(m, key->lease, COORD_R_DEADLINE);
        return NULL;
    }
    return key;
}

static struct model_answer refuse(const struct model *m, int code, int reason,
                                  const struct key *key)
{
    struct model_answer answer = answer_of(code, reason);
    const struct lease *lease;

    if (!key) return answer;
    answer.revision = key->mod;
    if (key->lease == NONE) return answer;
    lease = &m->leases[key->lease];
    answer.token = key->token;
    answer.hint_ms = (int64_t)((lease->deadline_ns - m->clock_ns) / MS);
    answer.owner = lease->owner;
    return answer;
}

static size_t held(const struct model *m, const struct model_id *id, struct model_answer *answer)
{
    size_t l = find_lease(m, id);

    if (l != NONE && m->leases[l].lost_reason) {
        *answer = answer_of(COORD_EXPIRED, m->leases[l].lost_reason);
        answer->token = m->leases[l].lost_token;
        return NONE;
    }
    *answer = answer_of(COORD_EXPIRED, COORD_R_DEADLINE);
    if (l == NONE || is_over(m, l) || m->leases[l].waits_for != NONE) return NONE;
    return l;
}

static struct model_answer put_claim(struct model *m, const struct model_command *command, size_t l,
                                     int reason)
{
    struct model_answer answer = answer_of(COORD_OK, reason);
    struct key *key = put(m, &command->key, &command->value, l);

    answer.revision = answer.create_revision = m->revision;
    if (l == NONE) return answer;
    answer.token = key->token = m->revision;
    answer.granted_ttl_ms = (int64_t)(m->leases[l].ttl_ns / MS);
    answer.lease = m->leases[l].id;
    return answer;
}

static struct model_answer make(struct model *m, const struct model_command *command, bool under)
{
    struct model_answer answer;
    size_t l = NONE;

    if (under) {
        l = held(m, &command->held, &answer);
        if (l == NONE) return answer;
    } else if (command->ttl_ms > 0) {
        l = grant(m, &command->lease, &command->owner, command->ttl_ms);
        if (l == NONE) return answer_of(COORD_INVALID, COORD_R_HANDLE);
    }
    return put_claim(m, command, l, COORD_R_CREATED);
}

static struct model_answer create(struct model *m, const struct model_command *command)
{
    const struct key *key = live_key(m, &command->key);

    if (key) return refuse(m, COORD_EXISTS, COORD_R_HELD, key);
    return make(m, command, !is_zero(&command->held));
}

static struct model_answer update(struct model *m, const struct model_command *command,
                                  struct key *key)
{
    size_t before = key->lease, next = NONE;
    uint64_t create = key->create, token = key->token;
    struct model_answer answer;

    if (command->ttl_ms > 0) {
        struct model_text owner = m->leases[before].owner;
        next = grant(m, &command->lease, &owner, command->ttl_ms);
        if (next == NONE) return answer_of(COORD_INVALID, COORD_R_HANDLE);
    }
    if (command->ttl_ms == KEEP_TTL || before == NONE) {
        answer = answer_of(COORD_OK, COORD_R_UPDATED);
        key = put(m, &command->key, &command->value, before);
        key->token = answer.token = token;
        answer.create_revision = create;
        answer.revision = m->revision;
        return answer;
    }
    answer = put_claim(m, command, next, COORD_R_UPDATED);
    answer.create_revision = create;
    end_if_empty(m, before);
    return answer;
}

/* The caller gave the id of the lease and the token of the claim. */
static bool is_own(const struct model *m, const struct key *key,
                   const struct model_command *command)
{
    return key && key->lease != NONE && same_id(&m->leases[key->lease].id, &command->held) &&
           (!command->token || command->token == key->token);
}

/* The token of any claim under the lease. */
static bool has_token(const struct model *m, size_t l, uint64_t token)
{
    for (size_t i = 0; token && i < MODEL_KEYS; i++)
        if (m->keys[i].there && m->keys[i].lease == l && m->keys[i].token == token) return true;
    return !token;
}

static struct model_answer cas(struct model *m, const struct model_command *command)
{
    struct key *key = live_key(m, &command->key);
    bool own = is_own(m, key, command);

    if (command->expected == 0)
        return key ? refuse(m, COORD_CONFLICT, COORD_R_PRESENT, key) : make(m, command, false);
    if (!key) return refuse(m, COORD_CONFLICT, COORD_R_ABSENT, NULL);
    if (key->group != NONE) return answer_of(COORD_INVALID, COORD_R_KEY);
    if (key->mod != command->expected) return refuse(m, COORD_CONFLICT, COORD_R_REVISION, key);
    if ((key->lease != NONE || command->ttl_ms > 0) && !own)
        return refuse(m, COORD_CONFLICT, COORD_R_NOT_OWNER, key);
    return update(m, command, key);
}

/* Deletes the key at a revision of its own, and removes it from its lease and slot. */
static void take_out(struct model *m, struct key *key, bool own)
{
    struct key was = *key;

    m->revision++;
    remove_key(m, key, false);
    if (was.lease == NONE) return;
    if (!own) lose(&m->leases[was.lease], COORD_R_REVOKED, 0);
    if (was.group != NONE) slot_freed(m, was.group, was.slot, 0);
    if (own) end_if_empty(m, was.lease);
}

static struct model_answer delete (struct model *m, const struct model_command *command)
{
    struct key *key = live_key(m, &command->key);
    struct model_answer answer = answer_of(COORD_OK, COORD_R_DELETED);
    bool force = command->expected == FORCE, own;

    if (!key) return answer_of(COORD_NOT_FOUND, COORD_R_NONE);
    own = is_own(m, key, command);
    if (!force && command->expected != ANY && command->expected != key->mod)
        return refuse(m, COORD_CONFLICT, COORD_R_REVISION, key);
    if (!force && key->lease != NONE && !own)
        return refuse(m, COORD_CONFLICT, COORD_R_NOT_OWNER, key);
    answer.revision = m->revision + 1;
    take_out(m, key, own);
    return answer;
}

/* -- commands on leases -- */
static struct model_answer release(struct model *m, const struct model_command *command)
{
    struct model_answer answer;
    size_t l = find_lease(m, &command->lease);
    struct key *key;

    if (l != NONE && m->leases[l].waits_for != NONE && !is_over(m, l)) {
        end_lease(m, l, COORD_R_RELEASED);
        return answer_of(COORD_OK, COORD_R_RELEASED);
    }
    l = held(m, &command->lease, &answer);
    if (l == NONE) return answer;
    answer = answer_of(COORD_OK, COORD_R_RELEASED);
    if (command->key.len == 0 && !has_token(m, l, command->token))
        return answer_of(COORD_EXPIRED, COORD_R_REVOKED);
    if (command->key.len == 0) {
        end_lease(m, l, COORD_R_RELEASED);
        answer.revision = m->revision;
        return answer;
    }
    key = find_key(m, &command->key);
    if (!key || key->lease != l) return answer_of(COORD_NOT_FOUND, COORD_R_NONE);
    if (command->token && command->token != key->token)
        return answer_of(COORD_EXPIRED, COORD_R_REVOKED);
    answer.revision = m->revision + 1;
    take_out(m, key, true);
    return answer;
}

static struct model_answer cancel_wait(struct model *m, const struct model_command *command)
{
    size_t l = find_lease(m, &command->lease);

    forget_request(m, &command->client, command->sequence);
    if (l == NONE) return answer_of(COORD_OK, COORD_R_ALREADY);
    end_lease(m, l, COORD_R_RELEASED);
    return answer_of(COORD_OK, COORD_R_RELEASED);
}

static struct model_renewal renew(struct model *m, const struct model_id *id, uint64_t token)
{
    size_t l = find_lease(m, id);
    struct lease *lease = &m->leases[l == NONE ? 0 : l];

    if (l == NONE || is_over(m, l))
        return (struct model_renewal){.code = COORD_EXPIRED, .reason = COORD_R_DEADLINE};
    if (lease->lost_reason)
        return (struct model_renewal){
            .code = COORD_EXPIRED, .reason = lease->lost_reason, .token = lease->lost_token};
    if (!has_token(m, l, token))
        return (struct model_renewal){.code = COORD_EXPIRED, .reason = COORD_R_REVOKED};
    lease->deadline_ns = m->clock_ns + lease->ttl_ns;
    return (struct model_renewal){.code = COORD_OK,
                                  .reason = COORD_R_RENEWED,
                                  .granted_ttl_ms = (int64_t)(lease->ttl_ns / MS)};
}

/* -- commands on groups -- */
static struct model_answer full(const struct model *m, const struct group *group)
{
    struct model_answer answer = answer_of(COORD_EXISTS, COORD_R_FULL);
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < MODEL_SLOTS; i++) {
        uint64_t at = group->holder[i] != NONE ? m->leases[group->holder[i]].deadline_ns
                                               : group->rest_until[i];
        if (at) first = min_u64(first, at);
    }
    if (first != UINT64_MAX && first > m->clock_ns)
        answer.hint_ms = (int64_t)((first - m->clock_ns) / MS);
    answer.live = live_of(group);
    answer.slot_count = group->slot_count;
    return answer;
}

static uint64_t put_count(struct model *m, const struct model_text *group, uint32_t count)
{
    struct model_text name = name_of(group, "/.group"), value = {.len = 0};

    value.len = (uint32_t)snprintf(value.at, sizeof value.at, "%u", (unsigned)count);
    (void)put(m, &name, &value, NONE);
    return m->revision;
}

static size_t make_group(struct model *m, const struct model_command *command)
{
    size_t g = 0;

    while (g < MODEL_GROUPS && m->groups[g].there) g++;
    if (g == MODEL_GROUPS || command->slot_count > MODEL_SLOTS) {
        m->trouble = "more groups or slots than the model has room for";
        return 0;
    }
    m->groups[g] = (struct group){.there = true,
                                  .name = command->key,
                                  .slot_count = command->slot_count,
                                  .cooldown_ns = command->cooldown_ms * MS};
    for (size_t i = 0; i < MODEL_SLOTS; i++) m->groups[g].holder[i] = NONE;
    m->groups[g].revision = put_count(m, &command->key, command->slot_count);
    return g;
}

static struct model_answer take_over(struct model *m, size_t g, uint32_t slot,
                                     const struct model_command *command)
{
    size_t old = m->groups[g].holder[slot];
    size_t l = grant(m, &command->lease, &command->owner, command->ttl_ms);
    struct model_answer answer;

    if (l == NONE) return answer_of(COORD_INVALID, COORD_R_HANDLE);
    answer = give(m, g, slot, l, &command->value);
    lose(&m->leases[old], COORD_R_SUPERSEDED, answer.token);
    return answer;
}

static struct model_answer join(struct model *m, size_t g, const struct model_command *command)
{
    struct group *group = &m->groups[g];
    uint32_t slot = first_waiter(m, g) == NONE ? free_slot(group, command->prefer_slot) : NO_SLOT;
    struct model_answer answer;
    struct lease *lease;
    size_t l;

    if (slot == NO_SLOT && !command->wait) return full(m, group);
    l = grant(m, &command->lease, &command->owner, command->ttl_ms);
    if (l == NONE) return answer_of(COORD_INVALID, COORD_R_HANDLE);
    if (slot != NO_SLOT) return give(m, g, slot, l, &command->value);
    lease = &m->leases[l];
    lease->waits_for = g;
    lease->came = ++m->arrivals;
    lease->client = command->client;
    lease->sequence = command->sequence;
    lease->prefer_slot = command->prefer_slot;
    lease->value = command->value;
    answer = full(m, group);
    answer.waiting = true;
    answer.lease = lease->id;
    answer.granted_ttl_ms = command->ttl_ms;
    return answer;
}

static struct model_answer acquire(struct model *m, const struct model_command *command)
{
    size_t g = find_group(m, &command->key);
    struct model_answer answer;
    uint32_t slot;

    if (g == NONE && (command->flags & NO_CREATE)) return answer_of(COORD_NOT_FOUND, COORD_R_NONE);
    if (g != NONE && m->groups[g].slot_count != command->slot_count) {
        answer = answer_of(COORD_CONFLICT, COORD_R_SLOT_COUNT);
        answer.slot_count = m->groups[g].slot_count;
        answer.revision = m->groups[g].revision;
        return answer;
    }
    if (g == NONE) g = make_group(m, command);
    for (size_t i = 0; i < MODEL_SLOTS; i++)
        if (m->groups[g].holder[i] != NONE && is_over(m, m->groups[g].holder[i]))
            end_lease(m, m->groups[g].holder[i], COORD_R_DEADLINE);
    slot = holder_named(m, &m->groups[g], &command->owner);
    if (slot != NO_SLOT && (command->flags & TAKEOVER)) return take_over(m, g, slot, command);
    if (slot != NO_SLOT) {
        struct model_text name = slot_name(&m->groups[g], slot);
        answer = answer_of(COORD_EXISTS, COORD_R_ALREADY_HOLDER);
        answer.slot = slot;
        answer.token = answer.revision = find_key(m, &name)->token;
        return answer;
    }
    return join(m, g, command);
}

static struct model_answer resize(struct model *m, const struct model_command *command)
{
    size_t g = find_group(m, &command->key);
    struct model_answer answer;

    if (g == NONE) return answer_of(COORD_NOT_FOUND, COORD_R_NONE);
    answer = answer_of(COORD_CONFLICT, COORD_R_REVISION);
    if (m->groups[g].revision == command->expected) {
        m->groups[g].slot_count = command->slot_count;
        m->groups[g].revision = put_count(m, &command->key, command->slot_count);
        serve(m, g);
        answer = answer_of(COORD_OK, COORD_R_RESIZED);
        answer.live = live_of(&m->groups[g]);
    }
    answer.revision = m->groups[g].revision;
    answer.slot_count = m->groups[g].slot_count;
    return answer;
}

static struct model_answer compact(struct model *m, const struct model_command *command)
{
    struct model_answer answer = answer_of(COORD_OK, COORD_R_NONE);

    if (command->expected <= m->compacted) return answer_of(COORD_CONFLICT, COORD_R_REVISION);
    if (command->expected > m->revision) return answer_of(COORD_INVALID, COORD_R_ARGUMENT);
    m->compacted = command->expected;
    answer.revision = m->revision;
    return answer;
}

/* -- transactions -- */
__attribute__((format(printf, 2, 3))) static void say(struct model *m, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(m->response + m->response_len, sizeof m->response - m->response_len, format,
                    args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof m->response - m->response_len)
        m->trouble = "the response is longer than the model's buffer";
    else
        m->response_len += (size_t)len;
}

static bool within(const struct model_text *name, const struct model_text *from,
                   const struct model_text *end)
{
    if (end->len == 0) return same_text(name, from);
    if (compare_text(name, from) < 0) return false;
    return (end->len == 1 && end->at[0] == '\0') || compare_text(name, end) < 0;
}

static bool ordered(uint32_t result, int order)
{
    switch (result) {
    case 0: return order == 0;
    case 1: return order > 0;
    case 2: return order < 0;
    default: return order != 0;
    }
}

static bool compares(const struct model *m, const struct model_compare *c, const struct key *key)
{
    uint64_t lease = key->lease == NONE ? 0 : number_of(&m->leases[key->lease].id);
    int64_t of[] = {(int64_t)key->version, (int64_t)key->create, (int64_t)key->mod, 0,
                    (int64_t)lease};
    int64_t number = of[c->target];

    if (c->target == 3) return ordered(c->result, compare_text(&key->value, &c->value));
    return ordered(c->result, number < c->number ? -1 : number > c->number);
}

static bool judge(struct model *m, const struct model_compare *c)
{
    static const struct key missing = {.lease = NONE};
    bool any = false;

    for (size_t i = 0; i < MODEL_KEYS; i++) {
        if (!m->keys[i].there || !within(&m->keys[i].name, &c->key, &c->end)) continue;
        any = true;
        if (!compares(m, c, &m->keys[i])) return false;
    }
    return any || (c->target != 3 && compares(m, c, &missing));
}

/* All compares of all transactions, before any operation runs; also those of branches that are not
 * taken. */
static void judge_all(struct model *m, struct model_txns *t)
{
    for (size_t i = 0; i < t->txn_count; i++) {
        struct model_txn *txn = &t->txns[i];

        txn->held = true;
        for (size_t c = 0; c < txn->compare_count; c++)
            txn->held &= judge(m, &t->compares[txn->compare_first + c]);
    }
}

static bool is_claim(const struct model_text *name)
{
    return name->len >= 7 && memcmp(name->at, "muster/", 7) == 0;
}

/* The numbers of enum txn_refusal. */
enum { TAKEN = 0, KEY_MISSING = 10, NO_LEASE = 11, CLAIM = 14 };

static int refusal_of(struct model *m, const struct model_txns *t, size_t which)
{
    const struct model_txn *txn = &t->txns[which];
    int refusal = TAKEN;

    for (size_t i = 0; !refusal && i < txn->branch[txn->held].count; i++) {
        const struct model_op *op = &t->ops[txn->branch[txn->held].at[i]];

        if (op->kind == MODEL_INNER) refusal = refusal_of(m, t, op->inner);
        if (op->kind == MODEL_PUT) {
            if (is_claim(&op->key))
                refusal = CLAIM;
            else if ((op->ignore_value || op->ignore_lease) && !find_key(m, &op->key))
                refusal = KEY_MISSING;
            else if (op->lease && find_plain(m, op->lease) == NONE)
                refusal = NO_LEASE;
        }
        for (size_t k = 0; op->kind == MODEL_DELETES && k < MODEL_KEYS; k++)
            if (m->keys[k].there && is_claim(&m->keys[k].name) &&
                within(&m->keys[k].name, &op->key, &op->end))
                refusal = CLAIM;
    }
    return refusal;
}

static void say_pair(struct model *m, const struct key *key, bool keys_only)
{
    say(m, "%.*s=%.*s@%llu,%llu,%llu;", (int)key->name.len, key->name.at,
        keys_only ? 0 : (int)key->value.len, key->value.at, (unsigned long long)key->create,
        (unsigned long long)key->mod, (unsigned long long)key->version);
}

/* Which of two keys comes first in the order that the range request asks for. */
static bool comes_before(const struct model_op *op, const struct key *a, const struct key *b)
{
    uint64_t left[] = {0, a->version, a->create, a->mod},
             right[] = {0, b->version, b->create, b->mod};
    int order = op->target == 4   ? compare_text(&a->value, &b->value)
                : op->target == 0 ? compare_text(&a->name, &b->name)
                                  : (left[op->target] > right[op->target]) -
                                        (left[op->target] < right[op->target]);

    if (op->order == 2) order = -order;
    return order ? order < 0 : compare_text(&a->name, &b->name) < 0;
}

static void say_range(struct model *m, const struct model_op *op)
{
    bool done[MODEL_KEYS] = {false};
    size_t count = 0, left = 0;
    int64_t shown = 0;

    for (size_t i = 0; i < MODEL_KEYS; i++) {
        const struct key *key = &m->keys[i];
        int64_t mod = (int64_t)key->mod, create = (int64_t)key->create;

        done[i] = true;
        if (!key->there || !within(&key->name, &op->key, &op->end)) continue;
        count++;
        if (op->count_only || (op->min_mod && mod < op->min_mod) ||
            (op->max_mod && mod > op->max_mod) || (op->min_create && create < op->min_create) ||
            (op->max_create && create > op->max_create))
            continue;
        done[i] = false;
        left++;
    }
    say(m, "range ");
    while (left > 0 && (op->limit <= 0 || shown < op->limit)) {
        size_t first = NONE;

        for (size_t i = 0; i < MODEL_KEYS; i++)
            if (!done[i] && (first == NONE || comes_before(op, &m->keys[i], &m->keys[first])))
                first = i;
        say_pair(m, &m->keys[first], op->keys_only);
        done[first] = true;
        left--;
        shown++;
    }
    say(m, "count %zu more %d", count, left > 0);
}

struct step { /* one transaction: all its writes have one revision */
    uint64_t revision;
    bool wrote;
};

static void txn_put(struct model *m, const struct model_op *op, struct step *step)
{
    struct key *key = find_key(m, &op->key);
    struct model_text value = op->ignore_value && key ? key->value : op->value;
    size_t lease = op->ignore_lease && key ? key->lease : find_plain(m, op->lease);

    say(m, "put ");
    if (key && op->prev) say_pair(m, key, false);
    m->revision = step->revision - 1; /* put() makes the next */
    (void)put(m, &op->key, &value, lease);
    step->wrote = true;
}

static void txn_delete(struct model *m, const struct model_op *op, struct step *step)
{
    size_t count = 0;

    say(m, "delete ");
    for (;;) {
        struct key *first = NULL;

        for (size_t i = 0; i < MODEL_KEYS; i++)
            if (m->keys[i].there && within(&m->keys[i].name, &op->key, &op->end) &&
                (!first || compare_text(&m->keys[i].name, &first->name) < 0))
                first = &m->keys[i];
        if (!first) break;
        if (op->prev) say_pair(m, first, false);
        m->revision = step->revision;
        remove_key(m, first, false);
        step->wrote = true;
        count++;
    }
    say(m, "count %zu", count);
}

static void txn_run(struct model *m, const struct model_txns *t, size_t which, struct step *step)
{
    const struct model_txn *txn = &t->txns[which];

    say(m, "%s(", txn->held ? "then" : "else");
    for (size_t i = 0; i < txn->branch[txn->held].count; i++) {
        const struct model_op *op = &t->ops[txn->branch[txn->held].at[i]];

        switch (op->kind) {
        case MODEL_RANGE: say_range(m, op); break;
        case MODEL_PUT: txn_put(m, op, step); break;
        case MODEL_DELETES: txn_delete(m, op, step); break;
        case MODEL_INNER: txn_run(m, t, op->inner, step); break;
        }
        if (op->kind != MODEL_INNER)
            say(m, " #%llu|", (unsigned long long)(step->revision - !step->wrote));
    }
    say(m, ")");
}

static struct model_answer transact(struct model *m, const struct model_command *command)
{
    struct model_txns *t = command->txns;
    struct step step = {m->revision + 1, false};
    struct model_answer answer = answer_of(COORD_OK, COORD_R_UPDATED);
    int refusal;

    m->response_len = 0;
    judge_all(m, t);
    refusal = refusal_of(m, t, 0);
    if (refusal) {
        say(m, "refused %d", refusal);
        return answer;
    }
    txn_run(m, t, 0, &step);
    m->revision = step.revision - !step.wrote;
    say(m, " at %llu", (unsigned long long)m->revision);
    return answer;
}

struct str model_response(const struct model *m)
{
    return str_of(m->response, m->response_len);
}

static struct model_answer lease_grant(struct model *m, const struct model_command *command)
{
    static const struct model_text nobody = {0};
    struct model_answer answer = answer_of(COORD_OK, COORD_R_CREATED);

    if (grant(m, &command->lease, &nobody, command->ttl_ms) == NONE)
        return answer_of(COORD_EXISTS, COORD_R_HELD);
    answer.revision = m->revision;
    answer.granted_ttl_ms = command->ttl_ms;
    answer.lease = command->lease;
    return answer;
}

static struct model_answer lease_revoke(struct model *m, const struct model_command *command)
{
    struct model_answer answer = answer_of(COORD_OK, COORD_R_RELEASED);
    size_t l = find_plain(m, (int64_t)number_of(&command->lease));

    if (l == NONE) return answer_of(COORD_NOT_FOUND, COORD_R_NONE);
    end_lease(m, l, COORD_R_RELEASED);
    answer.revision = m->revision;
    return answer;
}

static struct model_answer run(struct model *m, const struct model_command *command,
                               struct model_renewal *renewals)
{
    switch (command->kind) {
    case MODEL_TICK:
        if (is_zero(&m->identity)) m->identity = command->lease;
        break;
    case MODEL_CREATE: return create(m, command);
    case MODEL_CAS: return cas(m, command);
    case MODEL_DELETE: return delete (m, command);
    case MODEL_ACQUIRE: return acquire(m, command);
    case MODEL_CANCEL_WAIT: return cancel_wait(m, command);
    case MODEL_RELEASE: return release(m, command);
    case MODEL_RENEW:
        for (size_t i = 0; i < command->renew_count; i++)
            renewals[i] = renew(m, &command->renew[i], command->renew_tokens[i]);
        break;
    case MODEL_RESIZE: return resize(m, command);
    case MODEL_COMPACT: return compact(m, command);
    case MODEL_LEASE_GRANT: return lease_grant(m, command);
    case MODEL_LEASE_REVOKE: return lease_revoke(m, command);
    case MODEL_TXN: return transact(m, command);
    default: m->trouble = "a command that the model does not know"; break;
    }
    return answer_of(COORD_OK, COORD_R_NONE);
}

/* -- from outside -- */
struct model *model_open(void)
{
    struct model *m = calloc(1, sizeof *m);

    if (!m) return NULL;
    m->revision = 1;
    m->clients = calloc(MODEL_CLIENTS, sizeof *m->clients);
    if (m->clients) return m;
    free(m);
    return NULL;
}

void model_close(struct model *m)
{
    for (size_t i = 0; m && i < m->client_count; i++) free(m->clients[i].known);
    if (m) free(m->clients);
    free(m);
}

void model_apply(struct model *m, uint64_t clock_ns, const struct model_command *command,
                 struct model_answer *ret_answer, struct model_renewal *renewals)
{
    m->clock_ns = clock_ns;
    m->change_count = 0;
    expire(m);
    end_rests(m);
    forget_silent(m);
    if (is_remembered(command->kind) && answered_before(m, command, ret_answer)) return;
    *ret_answer = run(m, command, renewals);
    if (is_remembered(command->kind) && ret_answer->code != COORD_UNAVAILABLE)
        remember(m, command, ret_answer);
}

size_t model_changes(const struct model *m, const struct model_change **ret_changes)
{
    *ret_changes = m->changes;
    return m->change_count;
}

const char *model_trouble(const struct model *m)
{
    return m->trouble;
}

static struct str view(const struct model_text *text)
{
    return str_of(text->at, text->len);
}

static int by_name(const void *a, const void *b)
{
    return compare_text(&(*(const struct key *const *)a)->name,
                        &(*(const struct key *const *)b)->name);
}

static int by_id(const void *a, const void *b)
{
    return memcmp(&(*(const struct lease *const *)a)->id, &(*(const struct lease *const *)b)->id,
                  sizeof(struct model_id));
}

static void write_keys(const struct model *m, struct buf *into)
{
    const struct key *keys[MODEL_KEYS];
    size_t count = 0;

    for (size_t i = 0; i < MODEL_KEYS; i++)
        if (m->keys[i].there) keys[count++] = &m->keys[i];
    qsort(keys, count, sizeof *keys, by_name);
    for (size_t i = 0; i < count; i++) {
        const struct key *key = keys[i];
        write_key(into, &(struct state_key){
                            .name = view(&key->name),
                            .value = view(&key->value),
                            .create = key->create,
                            .mod = key->mod,
                            .version = key->version,
                            .lease = key->lease == NONE ? NULL : m->leases[key->lease].id.b,
                            .token = key->token});
    }
}

static void write_leases(const struct model *m, struct buf *into)
{
    const struct lease *leases[MODEL_LEASES];
    size_t count = 0;

    for (size_t i = 0; i < MODEL_LEASES; i++)
        if (m->leases[i].there) leases[count++] = &m->leases[i];
    qsort(leases, count, sizeof *leases, by_id);
    for (size_t i = 0; i < count; i++)
        write_lease(into, &(struct state_lease){.id = leases[i]->id.b,
                                                .owner = view(&leases[i]->owner),
                                                .ttl_ns = leases[i]->ttl_ns,
                                                .deadline_ns = leases[i]->deadline_ns,
                                                .lost_reason = leases[i]->lost_reason,
                                                .lost_token = leases[i]->lost_token,
                                                .waits = leases[i]->waits_for != NONE});
}

static void write_waiters(const struct model *m, size_t g, struct buf *into)
{
    uint64_t after = 0;

    for (;;) {
        const struct lease *next = NULL;
        for (size_t i = 0; i < MODEL_LEASES; i++)
            if (m->leases[i].there && m->leases[i].waits_for == g && m->leases[i].came > after &&
                (!next || m->leases[i].came < next->came))
                next = &m->leases[i];
        if (!next) return;
        after = next->came;
        write_waiter(into, &(struct state_waiter){next->id.b, next->client.b, next->sequence,
                                                  next->prefer_slot, view(&next->value)});
    }
}

/* In the order of group names. */
static void write_groups(const struct model *m, struct buf *into)
{
    const struct model_text *after = NULL;

    for (;;) {
        size_t next = NONE;
        for (size_t g = 0; g < MODEL_GROUPS; g++)
            if (m->groups[g].there && (!after || compare_text(&m->groups[g].name, after) > 0) &&
                (next == NONE || compare_text(&m->groups[g].name, &m->groups[next].name) < 0))
                next = g;
        if (next == NONE) return;
        const struct group *group = &m->groups[next];
        after = &group->name;
        write_group(into, view(&group->name), group->slot_count, group->revision,
                    group->cooldown_ns);
        for (uint32_t i = 0; i < MODEL_SLOTS; i++)
            write_slot(into, i, group->holder[i] == NONE ? NULL : m->leases[group->holder[i]].id.b,
                       group->rest_until[i]);
        write_waiters(m, next, into);
    }
}

void model_write_state(const struct model *m, struct buf *into)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < MODEL_LEASES; i++)
        if (m->leases[i].there) due = min_u64(due, m->leases[i].deadline_ns);
    for (size_t g = 0; g < MODEL_GROUPS; g++) due = min_u64(due, first_rest(&m->groups[g]));
    write_marks(into, &(struct state_marks){m->revision, m->compacted, m->clock_ns, due,
                                            m->client_count, m->identity.b});
    write_keys(m, into);
    write_leases(m, into);
    write_groups(m, into);
}
