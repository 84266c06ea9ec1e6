/* Registers stand in the order they were made. A snapshot walks that order; a register that is
 * about to change before the walk came to it is put aside first, as it was (values are counted, so
 * nothing is copied), and one that is made meanwhile is not part of it.
 *
 * Command:   u8 op, u8 key length, u16 zero, u32 value length, i64 number, key, value
 * Reply:     u32 err, u32 zero, u64 revision, i64 number
 * Snapshot:  u64 format, registers, index, entries, hash; then for each register
 *            u32 key length, u32 value length, u64 revision, i64 number, key, value
 * All little-endian. */
#include "log/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"

enum {
    COMMAND_HEAD = 16,
    REPLY_SIZE = 24,
    SNAPSHOT_FORMAT = 1,
    SNAPSHOT_HEAD = 40,
    REGISTER_HEAD = 24,
    REGISTER_COST = 128, /* what one holds besides its bytes, for size() */
};

struct value { /* held by a register and by what stands aside */
    uint32_t holders, len;
    uint64_t hash;
    char bytes[];
};
struct reg {
    struct list link;    /* by age, or aside in a view */
    struct value *value; /* NULL: empty */
    uint64_t revision;   /* 0 nowhere: a register was changed at least when it was made */
    int64_t number;
    uint64_t view_number; /* of the newest view that needs nothing more of it */
    uint32_t key_len;
    char key[TRIAL_KEY_MAX];
};
struct view {
    struct trial *trial;
    uint64_t number;
    struct list *next; /* the register to give next; the list's head: none is left */
    struct list aside;
    uint64_t index, entries, hash;
    size_t count;
    bool begun;
    enum err failed; /* memory, when something had to be put aside */
};
struct trial {
    struct map by_key;
    struct list by_age;
    uint64_t keys_max;
    uint64_t index, entries; /* of the last one applied; how many were */
    uint64_t sum;            /* of the registers' hashes */
    uint64_t bytes;
    uint64_t views; /* ever begun */
    struct view *view;
    /* while restoring */
    struct buf pending;
    bool restoring, head_seen;
    uint64_t expected_count, expected_hash;
};

enum err trial_open(uint64_t keys_max, struct trial **ret_trial)
{
    struct trial *t = calloc(1, sizeof *t);

    if (!t) return ERR_NOMEM;
    t->keys_max = keys_max;
    map_init(&t->by_key, MAP_MOST, 0);
    list_init(&t->by_age);
    buf_init(&t->pending, (size_t)4 * TRIAL_VALUE_MAX);
    *ret_trial = t;
    return ERR_OK;
}

static void value_drop(struct value *value)
{
    if (value && --value->holders == 0) free(value);
}

static size_t value_len(const struct reg *reg)
{
    return reg->value ? reg->value->len : 0;
}

static struct str reg_key(const struct reg *reg)
{
    return str_of(reg->key, reg->key_len);
}

static uint64_t reg_hash(const struct reg *reg)
{
    char bytes[24];

    store_le64(bytes, reg->revision);
    store_le64(bytes + 8, (uint64_t)reg->number);
    store_le64(bytes + 16, reg->value ? reg->value->hash : 0);
    return str_hash(str_of(bytes, sizeof bytes), str_hash(reg_key(reg), 0));
}

static uint64_t reg_size(const struct reg *reg)
{
    return REGISTER_COST + reg->key_len + value_len(reg);
}

/* Takes the register out of the sums before it changes, and puts it in again after. */
static void uncount(struct trial *t, const struct reg *reg)
{
    t->sum -= reg_hash(reg);
    t->bytes -= reg_size(reg);
}

static void count(struct trial *t, const struct reg *reg)
{
    t->sum += reg_hash(reg);
    t->bytes += reg_size(reg);
}

/* A state machine that runs out of memory cannot go on: it would differ from the others. */
static void *must_have(void *memory)
{
    if (!memory) abort();
    return memory;
}

static struct value *value_make(struct str bytes)
{
    struct value *value;

    if (bytes.len == 0) return NULL;
    value = must_have(malloc(sizeof *value + bytes.len));
    value->holders = 1;
    value->len = (uint32_t)bytes.len;
    value->hash = str_hash(bytes, 1);
    memcpy(value->bytes, bytes.at, bytes.len);
    return value;
}

static struct reg *reg_make(struct trial *t, struct str key)
{
    struct reg *reg = must_have(calloc(1, sizeof *reg));

    assert(key.len <= TRIAL_KEY_MAX);
    memcpy(reg->key, key.at, key.len);
    reg->key_len = (uint32_t)key.len;
    reg->view_number = t->views; /* not part of the view that is open */
    list_init(&reg->link);
    list_append(&t->by_age, &reg->link);
    if (map_put(&t->by_key, reg_key(reg), reg)) abort();
    count(t, reg);
    return reg;
}

/* Before `reg` changes: an open view that has not come to it keeps it as it was. */
static void keep_for_view(struct trial *t, struct reg *reg)
{
    struct view *view = t->view;
    struct reg *copy;

    if (!view || reg->view_number == view->number) return;
    reg->view_number = view->number;
    copy = malloc(sizeof *copy);
    if (!copy) {
        view->failed = ERR_NOMEM; /* the snapshot fails; applying does not */
        return;
    }
    *copy = *reg;
    if (copy->value) copy->value->holders++;
    list_init(&copy->link);
    list_append(&view->aside, &copy->link);
}

static void reg_set(struct trial *t, struct reg *reg, struct str bytes)
{
    struct value *value = value_make(bytes);

    keep_for_view(t, reg);
    uncount(t, reg);
    value_drop(reg->value);
    reg->value = value;
    reg->revision++;
    count(t, reg);
}

static void reg_add(struct trial *t, struct reg *reg, int64_t by)
{
    keep_for_view(t, reg);
    uncount(t, reg);
    reg->number = (int64_t)((uint64_t)reg->number + (uint64_t)by); /* wraps, as on every replica */
    reg->revision++;
    count(t, reg);
}

static void reg_free(struct reg *reg)
{
    list_remove(&reg->link);
    value_drop(reg->value);
    free(reg);
}

static void reg_delete(struct trial *t, struct reg *reg)
{
    keep_for_view(t, reg);
    if (t->view && t->view->next == &reg->link) t->view->next = reg->link.next;
    uncount(t, reg);
    map_remove(&t->by_key, reg_key(reg));
    reg_free(reg);
}

static void forget_all(struct trial *t)
{
    while (!list_empty(&t->by_age)) reg_delete(t, CONTAINER_OF(t->by_age.next, struct reg, link));
    assert(t->sum == 0 && t->bytes == 0);
    t->index = t->entries = 0;
}

void trial_close(struct trial *trial)
{
    if (!trial) return;
    assert(!trial->view);
    forget_all(trial);
    map_deinit(&trial->by_key);
    buf_deinit(&trial->pending);
    free(trial);
}

/* -- commands -- */
enum err trial_encode(const struct trial_command *command, struct buf *into)
{
    size_t key = command->key.len, value = command->value.len;
    char *room;
    enum err err;

    if (key > TRIAL_KEY_MAX || value > TRIAL_VALUE_MAX) return ERR_TOO_LARGE;
    err = buf_reserve(into, COMMAND_HEAD + key + value, &room);
    if (err) return err;
    memset(room, 0, COMMAND_HEAD);
    room[0] = (char)command->op;
    room[1] = (char)key;
    store_le32(room + 4, (uint32_t)value);
    store_le64(room + 8, (uint64_t)command->number);
    if (key > 0) memcpy(room + COMMAND_HEAD, command->key.at, key);
    if (value > 0) memcpy(room + COMMAND_HEAD + key, command->value.at, value);
    buf_commit(into, COMMAND_HEAD + key + value);
    return ERR_OK;
}

static bool command_parse(struct str bytes, struct trial_command *ret_command)
{
    size_t key, value;

    if (bytes.len < COMMAND_HEAD || bytes.at[2] || bytes.at[3]) return false;
    key = (uint8_t)bytes.at[1];
    value = load_le32(bytes.at + 4);
    if (key > TRIAL_KEY_MAX || value > TRIAL_VALUE_MAX) return false;
    if (COMMAND_HEAD + key + value != bytes.len) return false;
    *ret_command = (struct trial_command){.op = (enum trial_op)(uint8_t)bytes.at[0],
                                          .key = str_of(bytes.at + COMMAND_HEAD, key),
                                          .value = str_of(bytes.at + COMMAND_HEAD + key, value),
                                          .number = (int64_t)load_le64(bytes.at + 8)};
    return true;
}

static struct reg *find_or_make(struct trial *t, struct str key)
{
    struct reg *reg = map_get(&t->by_key, key);

    if (reg || map_count(&t->by_key) >= t->keys_max) return reg;
    return reg_make(t, key);
}

static void run(struct trial *t, const struct trial_command *command, struct trial_reply *reply)
{
    struct reg *reg = map_get(&t->by_key, command->key);

    switch (command->op) {
    case TRIAL_NOTHING: break;
    case TRIAL_DELETE:
        if (!reg) reply->err = ERR_NOT_FOUND;
        if (reg) reg_delete(t, reg);
        return;
    case TRIAL_CAS:
        if ((int64_t)(reg ? reg->revision : 0) != command->number) {
            reply->err = ERR_CONFLICT;
            break;
        }
        /* fall through */
    case TRIAL_SET:
    case TRIAL_ADD:
        reg = find_or_make(t, command->key);
        if (!reg)
            reply->err = ERR_FULL;
        else if (command->op == TRIAL_ADD)
            reg_add(t, reg, command->number);
        else
            reg_set(t, reg, command->value);
        break;
    default: reply->err = ERR_INVALID; return;
    }
    if (!reg) return;
    reply->revision = reg->revision;
    reply->number = reg->number;
}

static void apply(void *state, const struct machine_entry *entry, struct buf *reply_bytes)
{
    struct trial *t = state;
    struct trial_reply reply = {.err = ERR_OK};
    struct trial_command command;
    char bytes[REPLY_SIZE] = {0};

    assert(!t->restoring);
    t->index = entry->index;
    t->entries++;
    if (command_parse(entry->command, &command))
        run(t, &command, &reply);
    else
        reply.err = ERR_INVALID;
    store_le32(bytes, (uint32_t)reply.err);
    store_le64(bytes + 8, reply.revision);
    store_le64(bytes + 16, (uint64_t)reply.number);
    if (buf_append(reply_bytes, str_of(bytes, sizeof bytes))) return; /* no room: no answer */
}

enum err trial_reply_parse(struct str bytes, struct trial_reply *ret_reply)
{
    if (bytes.len != REPLY_SIZE || load_le32(bytes.at) >= ERR_COUNT) return ERR_PARSE;
    *ret_reply = (struct trial_reply){.err = (enum err)load_le32(bytes.at),
                                      .revision = load_le64(bytes.at + 8),
                                      .number = (int64_t)load_le64(bytes.at + 16)};
    return ERR_OK;
}

/* -- snapshots -- */
static enum err snapshot_begin(void *state, uint64_t index, void **ret_view)
{
    struct trial *t = state;
    struct view *view;

    assert(!t->view);
    view = calloc(1, sizeof *view);
    if (!view) return ERR_NOMEM;
    *view = (struct view){.trial = t,
                          .number = ++t->views,
                          .next = t->by_age.next,
                          .index = index,
                          .entries = t->entries,
                          .hash = trial_hash(t),
                          .count = trial_count(t)};
    list_init(&view->aside);
    t->view = view;
    *ret_view = view;
    return ERR_OK;
}

static enum err give_register(const struct reg *reg, struct buf *into)
{
    size_t value = value_len(reg);
    char *room;
    enum err err = buf_reserve(into, REGISTER_HEAD + reg->key_len + value, &room);

    if (err) return err;
    store_le32(room, reg->key_len);
    store_le32(room + 4, (uint32_t)value);
    store_le64(room + 8, reg->revision);
    store_le64(room + 16, (uint64_t)reg->number);
    memcpy(room + REGISTER_HEAD, reg->key, reg->key_len);
    if (value > 0) memcpy(room + REGISTER_HEAD + reg->key_len, reg->value->bytes, value);
    buf_commit(into, REGISTER_HEAD + reg->key_len + value);
    return ERR_OK;
}

static enum err give_head(struct view *view, struct buf *into)
{
    char head[SNAPSHOT_HEAD];
    enum err err;

    store_le64(head, SNAPSHOT_FORMAT);
    store_le64(head + 8, view->count);
    store_le64(head + 16, view->index);
    store_le64(head + 24, view->entries);
    store_le64(head + 32, view->hash);
    err = buf_append(into, str_of(head, sizeof head));
    if (!err) view->begun = true;
    return err;
}

/* The next register of the walk that the view still needs; NULL at the end. */
static struct reg *next_in_walk(struct view *view)
{
    while (view->next != &view->trial->by_age) {
        struct reg *reg = CONTAINER_OF(view->next, struct reg, link);
        if (reg->view_number != view->number) return reg;
        view->next = view->next->next;
    }
    return NULL;
}

static enum err snapshot_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct view *view = opaque;
    size_t start = into->len;
    enum err err = view->failed;

    assert(budget > 0);
    if (!err && !view->begun) err = give_head(view, into);
    while (!err && into->len - start < budget) {
        bool aside = !list_empty(&view->aside);
        struct reg *reg =
            aside ? CONTAINER_OF(view->aside.next, struct reg, link) : next_in_walk(view);
        if (!reg) break;
        err = give_register(reg, into);
        if (err) break;
        if (aside)
            reg_free(reg);
        else
            reg->view_number = view->number;
    }
    if (err) return err;
    *ret_done = list_empty(&view->aside) && !next_in_walk(view);
    return ERR_OK;
}

static void snapshot_end(void *opaque)
{
    struct view *view = opaque;

    while (!list_empty(&view->aside)) reg_free(CONTAINER_OF(view->aside.next, struct reg, link));
    view->trial->view = NULL;
    free(view);
}

/* -- restoring -- */
static enum err restore_begin(void *state, uint64_t index, struct note *note)
{
    struct trial *t = state;

    (void)note;
    assert(!t->view);
    forget_all(t);
    buf_clear(&t->pending);
    t->restoring = true;
    t->head_seen = false;
    t->index = index;
    t->expected_count = 0;
    return ERR_OK;
}

static enum err damaged(struct note *note, const char *what)
{
    note_set(note, "trial: %s", what);
    return ERR_CORRUPT;
}

static enum err take_head(struct trial *t, struct str *rest, struct note *note)
{
    const char *at = rest->at;

    if (load_le64(at) != SNAPSHOT_FORMAT) {
        note_set(note, "trial: snapshot format %llu", (unsigned long long)load_le64(at));
        return ERR_VERSION;
    }
    if (load_le64(at + 16) != t->index) return damaged(note, "snapshot of another index");
    t->expected_count = load_le64(at + 8);
    t->entries = load_le64(at + 24);
    t->expected_hash = load_le64(at + 32);
    t->head_seen = true;
    *rest = str_tail(*rest, SNAPSHOT_HEAD);
    return ERR_OK;
}

/* Takes one register; *ret_took false: its bytes are not all there yet. */
static enum err take_register(struct trial *t, struct str *rest, bool *ret_took, struct note *note)
{
    const char *at = rest->at;
    size_t key, value;
    struct reg *reg;

    *ret_took = false;
    if (rest->len < REGISTER_HEAD) return ERR_OK;
    key = load_le32(at);
    value = load_le32(at + 4);
    if (key > TRIAL_KEY_MAX || value > TRIAL_VALUE_MAX)
        return damaged(note, "a register longer than any");
    if (load_le64(at + 8) == 0) return damaged(note, "a register that was never set");
    if (rest->len < REGISTER_HEAD + key + value) return ERR_OK;
    if (map_count(&t->by_key) >= t->expected_count)
        return damaged(note, "more registers than it says");
    if (map_get(&t->by_key, str_of(at + REGISTER_HEAD, key)))
        return damaged(note, "a register twice");
    reg = reg_make(t, str_of(at + REGISTER_HEAD, key));
    uncount(t, reg);
    reg->value = value_make(str_of(at + REGISTER_HEAD + key, value));
    reg->revision = load_le64(at + 8);
    reg->number = (int64_t)load_le64(at + 16);
    count(t, reg);
    *rest = str_tail(*rest, REGISTER_HEAD + key + value);
    *ret_took = true;
    return ERR_OK;
}

static enum err restore_next(void *state, struct str bytes, struct note *note)
{
    struct trial *t = state;
    bool took = true;
    struct str rest;
    enum err err = ERR_OK;

    assert(t->restoring);
    /* Piece by piece, so that what waits for its other half stays under its ceiling. */
    while (!err && bytes.len > 0) {
        size_t piece = min_size(bytes.len, TRIAL_VALUE_MAX);
        err = buf_append(&t->pending, str_of(bytes.at, piece));
        if (err) return err;
        bytes = str_tail(bytes, piece);
        rest = buf_peek(&t->pending);
        if (!t->head_seen && rest.len >= SNAPSHOT_HEAD) err = take_head(t, &rest, note);
        for (took = t->head_seen; !err && took;) err = take_register(t, &rest, &took, note);
        buf_consume(&t->pending, t->pending.len - rest.len);
    }
    return err;
}

static enum err restore_end(void *state, struct note *note)
{
    struct trial *t = state;

    assert(t->restoring);
    t->restoring = false;
    if (!t->head_seen && t->pending.len == 0) return ERR_OK; /* was in no snapshot yet */
    if (t->pending.len > 0 || !t->head_seen) return damaged(note, "its end is missing");
    if (trial_count(t) != t->expected_count) return damaged(note, "registers are missing");
    if (trial_hash(t) != t->expected_hash) return damaged(note, "another hash than it says");
    buf_deinit(&t->pending);
    buf_init(&t->pending, (size_t)4 * TRIAL_VALUE_MAX);
    return ERR_OK;
}

/* -- looking -- */
bool trial_get(const struct trial *trial, struct str key, uint64_t *ret_revision,
               int64_t *ret_number, struct str *ret_value)
{
    const struct reg *reg = map_get(&trial->by_key, key);

    if (!reg) return false;
    *ret_revision = reg->revision;
    *ret_number = reg->number;
    *ret_value = reg->value ? str_of(reg->value->bytes, reg->value->len) : STR_EMPTY;
    return true;
}

size_t trial_count(const struct trial *trial)
{
    return map_count(&trial->by_key);
}

uint64_t trial_applied(const struct trial *trial)
{
    return trial->index;
}

/* The number of entries is in it, so that one applied twice shows even if it changed nothing. */
uint64_t trial_hash(const struct trial *trial)
{
    char bytes[24];

    store_le64(bytes, trial->sum);
    store_le64(bytes + 8, trial_count(trial));
    store_le64(bytes + 16, trial->entries);
    return str_hash(str_of(bytes, sizeof bytes), 2);
}

static uint64_t hash(const void *state)
{
    return trial_hash(state);
}

static uint64_t size(const void *state)
{
    const struct trial *t = state;
    return t->bytes;
}

const struct machine_ops trial_ops = {
    .apply = apply,
    .snapshot_begin = snapshot_begin,
    .snapshot_next = snapshot_next,
    .snapshot_end = snapshot_end,
    .restore_begin = restore_begin,
    .restore_next = restore_next,
    .restore_end = restore_end,
    .hash = hash,
    .size = size,
};
