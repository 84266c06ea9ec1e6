/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes commands (docs/formats/member.md).
 *
 * A command is u8 version and i64 wall time in ms, then operations of u8 kind, u32 length and
 * content. Each operation has only the fields of its kind, in the order of the bits. Bytes after
 * the known fields are refused. */
#include "member/core/fields.h"
#include "member/core/internal.h"

enum { VERSION = 1, HEAD = 9, OP_HEAD = 5 };

/* Fields of operations in encoding order. The rules of CONFIGURE have a list of their own. */
#define OP_FIELDS(X)                                                                               \
    X(WORKER, TEXT(member_op, worker, MEMBER_ID_MAX))                                              \
    X(INCARNATION, FIELD(member_op, incarnation))                                                  \
    X(INSTANCE, FIELD(member_op, instance))                                                        \
    X(EXPECT, FIELD(member_op, expect))                                                            \
    X(FENCE, FIELD(member_op, fence_ns))                                                           \
    X(LEASE, FIELD(member_op, lease_ms))                                                           \
    X(WEIGHT, FIELD(member_op, weight))                                                            \
    X(LABELS, TEXT(member_op, labels, MEMBER_LABELS_MAX))                                          \
    X(CAPABLE, FIELD(member_op, capable))                                                          \
    X(BY_BEAT, FIELD(member_op, by_beat))                                                          \
    X(RESTART, FIELD(member_op, restart))                                                          \
    X(FLAG, FIELD(member_op, flag))                                                                \
    X(TEXT, TEXT(member_op, text, MEMBER_REFERENCE_MAX))                                           \
    X(BYTES, TEXT(member_op, bytes, MEMBER_PAYLOAD_MAX))                                           \
    X(CAUSE, ENUM(member_op, cause))                                                               \
    X(DUE, FIELD(member_op, due_ms))                                                               \
    X(PARTITION, FIELD(member_op, partition))                                                      \
    X(EPOCH, FIELD(member_op, epoch))                                                              \
    X(NUMBER, FIELD(member_op, number))                                                            \
    X(LIMIT, FIELD(member_op, limit))                                                              \
    X(WALL, FIELD(member_op, wall_ms))                                                             \
    X(ITEM, FIELD(member_op, item))                                                                \
    X(ALL, FIELD(member_op, all))
enum place {
#define X(name, field) AT_##name,
    OP_FIELDS(X)
#undef X
};
enum op_field {
#define X(name, field) F_##name = BIT(AT_##name),
    OP_FIELDS(X)
#undef X
        F_TERMS = F_LEASE | F_WEIGHT | F_LABELS | F_CAPABLE,
    F_BY = F_BY_BEAT | F_RESTART,
    F_GRANT = F_PARTITION | F_EPOCH,
    F_DEATH = F_CAUSE | F_DUE,
};
static const struct member_field op_fields[] = {
#define X(name, field) field,
    OP_FIELDS(X)
#undef X
};
enum { OF_WORKER = F_WORKER | F_INCARNATION };
static const uint32_t fields[MEMBER_OP_LAST + 1] = {
    [MEMBER_OP_TICK] = 0,
    [MEMBER_OP_LEAD] = F_WORKER | F_NUMBER,
    [MEMBER_OP_CONFIGURE] = 0, /* the rules are encoded separately */
    [MEMBER_OP_SUSPECT] = F_WORKER | F_ALL,
    [MEMBER_OP_REGISTER] = F_WORKER | F_INSTANCE | F_EXPECT | F_FENCE | F_TERMS | F_BY,
    [MEMBER_OP_READY] = OF_WORKER,
    [MEMBER_OP_DRAIN] = OF_WORKER | F_BY | F_FLAG,
    [MEMBER_OP_DEAD] = OF_WORKER | F_FENCE | F_DEATH,
    [MEMBER_OP_LEAVE] = OF_WORKER | F_FLAG,
    [MEMBER_OP_ACK_REVOKE] = OF_WORKER | F_TEXT | F_GRANT | F_WALL,
    [MEMBER_OP_CHECKPOINT] = OF_WORKER | F_TEXT | F_GRANT | F_WALL,
    [MEMBER_OP_ROUND] = F_NUMBER,
    [MEMBER_OP_EMITTED] = F_NUMBER,
    [MEMBER_OP_ADVISE] = F_NUMBER,
    [MEMBER_OP_ENQUEUE] = F_BYTES | F_ITEM,
    [MEMBER_OP_PULL] = OF_WORKER | F_NUMBER | F_LIMIT,
    [MEMBER_OP_WORK_START] = OF_WORKER | F_ITEM,
    [MEMBER_OP_SUBMIT] = OF_WORKER | F_FLAG | F_TEXT | F_BYTES | F_ITEM,
    [MEMBER_OP_RELEASE] = OF_WORKER | F_ITEM,
    [MEMBER_OP_STEAL] = OF_WORKER,
};

/* -- encoding of the rules -- */
void member_rules_defaults(struct member_rules *ret_rules)
{
    *ret_rules = (struct member_rules){
        .total_partitions = RING_PARTITIONS,
        .virtual_nodes = RING_VIRTUAL_NODES,
        .placement = MEMBER_RING,
        .epsilon_ppm = 250000,
        .move_limit_ppm = 100000,
        .rebalance_window_ms = 500,
        .revoke_timeout_ms = 30000,
        .dead_retention_ms = 600000,
        .tombstone_retention_ms = 86400000,
        .work_max_attempts = 5,
        .work_max_steal = 32,
    };
}

static const struct member_field rules_fields[] = {
    FIELD(member_rules, total_partitions),
    FIELD(member_rules, virtual_nodes),
    ENUM(member_rules, placement),
    FIELD(member_rules, epsilon_ppm),
    FIELD(member_rules, move_limit_ppm),
    FIELD(member_rules, ring_on_register),
    FIELD(member_rules, grant_to_legacy),
    FIELD(member_rules, evict_on_revoke_timeout),
    FIELD(member_rules, failure_per_worker),
    FIELD(member_rules, rebalance_window_ms),
    FIELD(member_rules, revoke_timeout_ms),
    FIELD(member_rules, dead_retention_ms),
    FIELD(member_rules, tombstone_retention_ms),
    FIELD(member_rules, work_max_attempts),
    FIELD(member_rules, work_max_steal),
    FIELD(member_rules, work_requeue_failed),
    FIELD(member_rules, work_steal_started),
};

void member_rules_write(struct encoder *out, const struct member_rules *rules)
{
    FIELDS_WRITE(out, rules_fields, rules);
}

/* Times above 400 days could overflow when added to the clock T. */
static bool is_time(uint64_t ms)
{
    return ms <= 400ull * 86400 * 1000;
}

static bool rules_fit(const struct member_rules *r)
{
    return r->total_partitions >= 1 && r->total_partitions <= RING_PARTITIONS_MAX &&
           r->virtual_nodes >= 1 && r->virtual_nodes <= RING_VIRTUAL_NODES_MAX &&
           r->placement <= MEMBER_RENDEZVOUS && r->epsilon_ppm <= 1000000000 &&
           r->move_limit_ppm <= 1000000 && is_time(r->rebalance_window_ms) &&
           is_time(r->revoke_timeout_ms) && r->revoke_timeout_ms > 0 &&
           is_time(r->dead_retention_ms) && is_time(r->tombstone_retention_ms) &&
           r->work_max_attempts >= 1 && r->work_max_steal >= 1 &&
           r->work_max_steal <= MEMBER_PULL_MAX;
}

bool member_rules_read(struct decoder *in, struct member_rules *ret_rules)
{
    *ret_rules = (struct member_rules){0};
    FIELDS_READ(in, rules_fields, ret_rules);
    return in->good && rules_fit(ret_rules);
}

uint64_t member_rules_fingerprint(const struct member_rules *rules)
{
    struct buf bytes;
    struct encoder out = {&bytes, ERR_OK};
    uint64_t print;

    buf_init(&bytes, 4096);
    member_rules_write(&out, rules);
    if (out.err) (void)member_must(NULL);
    print = str_hash(buf_peek(&bytes), 0x3e3be2);
    buf_deinit(&bytes);
    return print;
}

/* -- encoding of an operation -- */
static void write_op(struct encoder *out, const struct member_op *op)
{
    for (size_t i = 0; i < ARRAY_LEN(op_fields); i++)
        if (fields[op->kind] & BIT(i)) fields_write(out, &op_fields[i], 1, op);
    if (op->kind == MEMBER_OP_CONFIGURE) member_rules_write(out, op->rules);
}

static bool read_op(struct decoder *in, struct member_op *op, struct member_rules *rules)
{
    op->worker = op->labels = op->text = op->bytes = STR_EMPTY;
    for (size_t i = 0; i < ARRAY_LEN(op_fields); i++)
        if (fields[op->kind] & BIT(i)) fields_read(in, &op_fields[i], 1, op);
    if (op->kind == MEMBER_OP_CONFIGURE && !member_rules_read(in, rules)) return false;
    op->rules = rules;
    return decode_done(in);
}

bool member_is_id(struct str id)
{
    if (id.len == 0 || id.len > MEMBER_ID_MAX) return false;
    for (size_t i = 0; i < id.len; i++)
        if (id.at[i] < 0x21 || id.at[i] > 0x7e) return false;
    return true;
}

/* Checks the limits that member_apply() relies on. */
static bool op_fits(const struct member_op *op)
{
    bool submits = op->kind == MEMBER_OP_SUBMIT;
    size_t text_max = submits ? MEMBER_REASON_MAX : MEMBER_REFERENCE_MAX;
    size_t bytes_max = submits ? MEMBER_WORK_RESULT_MAX : MEMBER_PAYLOAD_MAX;
    uint32_t has = fields[op->kind];

    if (has & F_WORKER && !(op->kind == MEMBER_OP_SUSPECT && op->all) && !member_is_id(op->worker))
        return false;
    if (op->fence_ns > MEMBER_FENCE_MAX_NS || op->cause > MEMBER_CONFLICT) return false;
    if (op->weight > MEMBER_WEIGHT_MAX || op->labels.len > MEMBER_LABELS_MAX) return false;
    if (has & F_TEXT && op->text.len > text_max) return false;
    if (has & F_BYTES && op->bytes.len > bytes_max) return false;
    if (op->kind == MEMBER_OP_PULL && op->number > MEMBER_PULL_MAX) return false;
    if (op->kind == MEMBER_OP_ADVISE && op->number > MEMBER_ADVISE_MAX_MS) return false;
    return op->kind != MEMBER_OP_CONFIGURE || rules_fit(op->rules);
}

/* -- batches -- */
enum err member_batch_begin(struct buf *into, int64_t wall_ms)
{
    struct encoder out = {into, ERR_OK};

    buf_clear(into);
    encode_u8(&out, VERSION);
    encode_u64(&out, (uint64_t)wall_ms);
    if (out.err) buf_clear(into);
    return out.err;
}

enum err member_batch_add(struct buf *into, const struct member_op *op)
{
    size_t before = into->len;
    struct encoder out = {into, ERR_OK};

    assert(before >= HEAD && op->kind >= MEMBER_OP_TICK && op->kind <= MEMBER_OP_LAST);
    if (!op_fits(op)) return ERR_INVALID;
    encode_u8(&out, op->kind);
    encode_u32(&out, 0);
    write_op(&out, op);
    if (out.err) {
        into->len = before; /* appends the whole operation or nothing */
        return out.err;
    }
    store_le32(into->data + before + 1, (uint32_t)(into->len - before - OP_HEAD));
    return ERR_OK;
}

/* false: `left` is empty or truncated */
static bool next_op(struct str *left, unsigned *ret_kind, struct str *ret_content)
{
    size_t len;

    if (left->len < OP_HEAD) return false;
    len = load_le32(left->at + 1);
    if (len > left->len - OP_HEAD) return false;
    *ret_kind = (unsigned char)left->at[0];
    *ret_content = str_of(left->at + OP_HEAD, len);
    *left = str_of(left->at + OP_HEAD + len, left->len - OP_HEAD - len);
    return true;
}

size_t member_batch_ops(struct str batch)
{
    struct str left = str_tail(batch, HEAD), content;
    size_t count = 0;
    unsigned kind;

    while (next_op(&left, &kind, &content)) count++;
    return count;
}

enum err member_command_read(struct str bytes, struct arena *arena,
                             struct member_command *ret_command, struct note *note)
{
    struct str left = str_tail(bytes, HEAD), content;
    size_t count = member_batch_ops(bytes);
    struct member_op *ops;
    unsigned kind;

    if (bytes.len < HEAD) return note_fail(note, ERR_PARSE, "a command of %zu bytes", bytes.len);
    if (bytes.at[0] != VERSION)
        return note_fail(note, ERR_VERSION, "a command of version %u",
                         (unsigned)(unsigned char)bytes.at[0]);
    if (count > MEMBER_OPS_MAX)
        return note_fail(note, ERR_INVALID, "%zu operations; at most %d", count, MEMBER_OPS_MAX);
    ops = arena_calloc(arena, count ? count : 1, sizeof *ops);
    if (!ops) return ERR_NOMEM;
    for (size_t i = 0; next_op(&left, &kind, &content); i++) {
        struct decoder in = {content, true};
        struct member_rules *rules = NULL;

        if (kind < MEMBER_OP_TICK || kind > MEMBER_OP_LAST)
            return note_fail(note, ERR_VERSION, "an operation of unknown kind %u", kind);
        ops[i].kind = (enum member_kind)kind;
        if (kind == MEMBER_OP_CONFIGURE && !(rules = ARENA_NEW(arena, struct member_rules)))
            return ERR_NOMEM;
        if (!read_op(&in, &ops[i], rules) || !op_fits(&ops[i]))
            return note_fail(note, ERR_INVALID,
                             "operation %zu of kind %u is not whole, or past a limit", i, kind);
    }
    if (left.len)
        return note_fail(note, ERR_PARSE, "%zu bytes behind the last operation", left.len);
    *ret_command = (struct member_command){
        .wall_ms = (int64_t)load_le64(bytes.at + 1), .ops = ops, .op_count = count};
    return ERR_OK;
}
