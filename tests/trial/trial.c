/* SPDX-License-Identifier: Apache-2.0 */
/* Registers, and the commands that change them.
 *
 * Command:   u8 op, u8 key length, u16 zero, u32 value length, i64 number, key, value
 * Reply:     u32 err, u32 zero, u64 revision, i64 number
 * All little-endian. */
#include "trial/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trial/trial_internal.h"

enum {
    COMMAND_HEAD = 16,
    REPLY_SIZE = 24,
    REGISTER_COST = 128, /* memory of a register besides its bytes, for size() */
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

void trial_value_drop(struct value *value)
{
    if (value && --value->holders == 0) free(value);
}

size_t trial_value_len(const struct reg *reg)
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
    return REGISTER_COST + reg->key_len + trial_value_len(reg);
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

struct reg *trial_make(struct trial *t, struct str key)
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

static void reg_set(struct trial *t, struct reg *reg, struct str bytes)
{
    struct value *value = value_make(bytes);

    if (t->view) trial_view_keep(t->view, reg);
    uncount(t, reg);
    trial_value_drop(reg->value);
    reg->value = value;
    reg->revision++;
    count(t, reg);
}

void trial_fill(struct trial *t, struct reg *reg, uint64_t revision, int64_t number,
                struct str value)
{
    assert(!t->view && !reg->value);
    uncount(t, reg);
    reg->value = value_make(value);
    reg->revision = revision;
    reg->number = number;
    count(t, reg);
}

static void reg_add(struct trial *t, struct reg *reg, int64_t by)
{
    if (t->view) trial_view_keep(t->view, reg);
    uncount(t, reg);
    reg->number = (int64_t)((uint64_t)reg->number + (uint64_t)by); /* wraps, as on every replica */
    reg->revision++;
    count(t, reg);
}

static void reg_free(struct reg *reg)
{
    list_remove(&reg->link);
    trial_value_drop(reg->value);
    free(reg);
}

static void reg_delete(struct trial *t, struct reg *reg)
{
    if (t->view) trial_view_keep(t->view, reg);
    if (t->view && t->view->next == &reg->link) t->view->next = reg->link.next;
    uncount(t, reg);
    map_remove(&t->by_key, reg_key(reg));
    reg_free(reg);
}

void trial_forget(struct trial *t)
{
    while (!list_empty(&t->by_age)) reg_delete(t, CONTAINER_OF(t->by_age.next, struct reg, link));
    assert(t->sum == 0 && t->bytes == 0);
    t->index = t->entries = 0;
}

void trial_close(struct trial *trial)
{
    if (!trial) return;
    assert(!trial->view);
    trial_forget(trial);
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
    return trial_make(t, key);
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
        __attribute__((fallthrough));
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

static enum err apply(void *state, const struct machine_entry *entry, struct buf *reply_bytes,
                      struct note *note)
{
    struct trial *t = state;
    struct trial_reply reply = {.err = ERR_OK};
    struct trial_command command;
    char bytes[REPLY_SIZE] = {0};

    (void)note;
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
    (void)buf_append(reply_bytes, str_of(bytes, sizeof bytes)); /* no room: no answer */
    return ERR_OK;
}

enum err trial_reply_parse(struct str bytes, struct trial_reply *ret_reply)
{
    if (bytes.len != REPLY_SIZE || load_le32(bytes.at) >= ERR_COUNT) return ERR_PARSE;
    *ret_reply = (struct trial_reply){.err = (enum err)load_le32(bytes.at),
                                      .revision = load_le64(bytes.at + 8),
                                      .number = (int64_t)load_le64(bytes.at + 16)};
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
    .snapshot_begin = trial_snapshot_begin,
    .snapshot_next = trial_snapshot_next,
    .snapshot_end = trial_snapshot_end,
    .restore_begin = trial_restore_begin,
    .restore_next = trial_restore_next,
    .restore_end = trial_restore_end,
    .hash = hash,
    .size = size,
};
