/* SPDX-License-Identifier: Apache-2.0 */
/* Times, names of values, and messages for results. Pure functions. */
#include "fleet/core/internal.h"

/* -- time -- */
#define NANOS 1000000000LL

bool fleet_time_is_set(struct fleet_time time)
{
    return time.seconds != 0 || time.nanos != 0;
}

struct fleet_time fleet_time_from_unix_ns(int64_t ns)
{
    int64_t seconds = ns / NANOS, nanos = ns % NANOS;

    if (ns == 0) return (struct fleet_time){0};
    if (nanos < 0) {
        seconds--;
        nanos += NANOS;
    }
    return (struct fleet_time){FLEET_TIME_UNIX + seconds, (uint32_t)nanos};
}

int64_t fleet_time_to_unix_ns(struct fleet_time time)
{
    int64_t seconds = time.seconds - FLEET_TIME_UNIX, ns;

    if (!fleet_time_is_set(time)) return 0;
    if (__builtin_mul_overflow(seconds, NANOS, &ns) ||
        __builtin_add_overflow(ns, (int64_t)time.nanos, &ns))
        return seconds < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

/* -- names -- */
const char *fleet_kind_name(enum fleet_kind kind)
{
    static const char *const names[] = {"?",           "AddShard",       "RemoveShard",
                                        "BindCluster", "AssignDomain",   "UnassignDomain",
                                        "SetQuota",    "UpsertProvider", "ClearLeaving"};

    return (unsigned)kind < ARRAY_LEN(names) ? names[kind] : names[0];
}

static const struct {
    const char *text;
    enum err err;
} statuses[FLEET_STATUS_COUNT] = {
#define X(name, text, err) {text, ERR_##err},
    FLEET_STATUS_MAP(X)
#undef X
};

const char *fleet_status_text(enum fleet_status status)
{
    return (unsigned)status < FLEET_STATUS_COUNT ? statuses[status].text : "unknown result";
}

enum err fleet_status_err(enum fleet_status status)
{
    return (unsigned)status < FLEET_STATUS_COUNT ? statuses[status].err : ERR_INTERNAL;
}

/* -- commands and rows -- */
const uint8_t fleet_row_texts[FLEET_TABLES] = {
    [FLEET_SHARDS] = 2, [FLEET_CLUSTERS] = 2,  [FLEET_DOMAINS] = 3,
    [FLEET_QUOTAS] = 2, [FLEET_PROVIDERS] = 3, [FLEET_LEAVING] = 3,
};
#define TEXT_AT(type, member, n)                                                                   \
    static_assert(offsetof(struct type, member) == (n) * sizeof(struct str), "in fleet_row.texts")
TEXT_AT(fleet_shard, address, 1);
TEXT_AT(fleet_cluster, shard, 1);
TEXT_AT(fleet_domain, shard, 2);
TEXT_AT(fleet_quota, region, 1);
TEXT_AT(fleet_provider, region, 2);
TEXT_AT(fleet_leaving, shard, 2);

static const struct {
    enum fleet_table table;
    uint8_t texts;
} kinds[] = {
    [FLEET_ADD_SHARD] = {FLEET_SHARDS, 2},          [FLEET_REMOVE_SHARD] = {FLEET_SHARDS, 1},
    [FLEET_BIND_CLUSTER] = {FLEET_CLUSTERS, 2},     [FLEET_ASSIGN_DOMAIN] = {FLEET_DOMAINS, 3},
    [FLEET_UNASSIGN_DOMAIN] = {FLEET_DOMAINS, 2},   [FLEET_SET_QUOTA] = {FLEET_QUOTAS, 2},
    [FLEET_UPSERT_PROVIDER] = {FLEET_PROVIDERS, 3}, [FLEET_CLEAR_LEAVING] = {FLEET_LEAVING, 3},
};

size_t fleet_kind_texts(enum fleet_kind kind)
{
    return (unsigned)kind < ARRAY_LEN(kinds) ? kinds[kind].texts : 0;
}

enum fleet_table fleet_kind_table(enum fleet_kind kind)
{
    assert(kind >= FLEET_ADD_SHARD && kind <= FLEET_KIND_LAST);
    return kinds[kind].table;
}

struct fleet_command fleet_row_command(const struct fleet_row *row)
{
    static const enum fleet_kind kind_of[FLEET_TABLES] = {
        [FLEET_SHARDS] = FLEET_ADD_SHARD,          [FLEET_CLUSTERS] = FLEET_BIND_CLUSTER,
        [FLEET_DOMAINS] = FLEET_ASSIGN_DOMAIN,     [FLEET_QUOTAS] = FLEET_SET_QUOTA,
        [FLEET_PROVIDERS] = FLEET_UPSERT_PROVIDER, [FLEET_LEAVING] = FLEET_CLEAR_LEAVING,
    };
    struct fleet_command command = {.kind = kind_of[row->table]};

    command.content = row->content;
    return command;
}

/* -- messages -- */
static struct str shard_asked(const struct fleet_command *command)
{
    switch (command->kind) {
    case FLEET_ADD_SHARD:
    case FLEET_REMOVE_SHARD: return command->texts[0];
    case FLEET_BIND_CLUSTER: return command->texts[1];
    case FLEET_ASSIGN_DOMAIN: return command->texts[2];
    default: return STR_EMPTY;
    }
}

void fleet_result_text(const struct fleet_command *command, const struct fleet_result *result,
                       struct note *ret_text)
{
    const char *text = fleet_status_text(result->status);
    unsigned long long number = result->number;

    note_set(ret_text, "%s", text);
    switch (result->status) {
    case FLEET_UNKNOWN_KIND: note_set(ret_text, "%s %llu", text, number); break;
    case FLEET_PAYLOAD_MISSING:
        note_set(ret_text, "%s: %s", text, fleet_kind_name((enum fleet_kind)number));
        break;
    case FLEET_TOO_LONG: note_set(ret_text, "%s: %s of %llu", result->field, text, number); break;
    case FLEET_FULL: note_set(ret_text, "%s: %s at %llu", result->field, text, number); break;
    case FLEET_NOT_TEXT:
    case FLEET_BAD_TIME: note_set(ret_text, "%s: %s", result->field, text); break;
    case FLEET_SHARD_EXISTS:
    case FLEET_SHARD_NOT_FOUND:
        if (command) note_set(ret_text, "%s: %.*s", text, STR_ARG(shard_asked(command)));
        break;
    case FLEET_CLUSTER_BOUND:
        if (command)
            note_set(ret_text, "%s: %.*s: current %.*s, requested %.*s", text,
                     STR_ARG(command->bind_cluster.id), STR_ARG(result->holder),
                     STR_ARG(command->bind_cluster.shard));
        break;
    case FLEET_DOMAIN_ASSIGNED:
        if (command)
            note_set(ret_text, "%s: %.*s=%.*s: current %.*s, requested %.*s", text,
                     STR_ARG(command->assign_domain.key), STR_ARG(command->assign_domain.value),
                     STR_ARG(result->holder), STR_ARG(command->assign_domain.shard));
        break;
    case FLEET_DOMAIN_LEAVING:
        if (command)
            note_set(ret_text,
                     "%s: %.*s=%.*s: %.*s has not given it up. Wait for its report (musterctl "
                     "domain leaving). If its process is stopped for good, set force_two_owners "
                     "(musterctl: --force-two-owners)",
                     text, STR_ARG(command->assign_domain.key),
                     STR_ARG(command->assign_domain.value), STR_ARG(result->holder));
        break;
    default: break;
    }
}
