/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the arguments of requests, and the store's commands. Each check depends only on its
 * arguments, so all replicas refuse the same commands. */
#include "store/bounds.h"

#include <inttypes.h>
#include <muster/coord.h>

#include "base/claim_name.h"
#include "store/machine.h"

/* the longest key outside transactions: a claim's key with its prefix "muster/" */
enum { COMMAND_KEY_MAX = STORE_CLAIM_KEY_MAX + sizeof STORE_CLAIMS - 1 };

int store_check_claim_key(struct str key, struct note *note)
{
    const char *fault = claim_name_fault(key, STORE_CLAIM_KEY_MAX);

    if (!fault) return 0;
    return note_fail(note, COORD_R_KEY, "key of %zu bytes %s; 1-%d bytes, at most %d segments",
                     key.len, fault, STORE_CLAIM_KEY_MAX, CLAIM_DEPTH_MAX);
}

/* "slot-0000" to "slot-9999" are the keys of a group's slots. Only the group writes them. */
static bool is_slot(struct str key)
{
    struct str leaf = str_tail(key, key.len > 9 ? key.len - 9 : 0);
    uint32_t slot;

    return (key.len <= 9 || key.at[key.len - 10] == '/') && claim_slot_number(leaf, &slot);
}

int store_check_entry_key(struct str key, struct note *note)
{
    int reason = store_check_claim_key(key, note);

    if (reason || !is_slot(key)) return reason;
    return note_fail(note, COORD_R_KEY,
                     "names slot-0000 to slot-9999 are reserved for slots of a group");
}

int store_check_group(struct str group, struct note *note)
{
    const char *fault = claim_name_fault(group, STORE_GROUP_MAX);

    if (!fault) return 0;
    return note_fail(note, COORD_R_GROUP, "group of %zu bytes %s; 1-%d bytes, at most %d segments",
                     group.len, fault, STORE_GROUP_MAX, CLAIM_DEPTH_MAX);
}

int store_check_owner(struct str owner, struct note *note)
{
    if (claim_owner_is_valid(owner, STORE_OWNER_MAX)) return 0;
    return note_fail(note, COORD_R_OWNER,
                     "owner of %zu bytes: 1-%d bytes of A-Z a-z 0-9 . _ : @ / -", owner.len,
                     STORE_OWNER_MAX);
}

int store_check_value(struct str value, struct note *note)
{
    if (value.len <= STORE_VALUE_MAX) return 0;
    return note_fail(note, COORD_R_VALUE_SIZE, "value of %zu bytes: at most %d", value.len,
                     STORE_VALUE_MAX);
}

int store_check_ttl(int64_t ttl_ms, struct note *note)
{
    if (ttl_ms >= STORE_TTL_MIN_MS && ttl_ms <= STORE_TTL_MAX_MS) return 0;
    return note_fail(note, COORD_R_TTL_RANGE, "ttl of %" PRId64 " ms: %d-%d ms", ttl_ms,
                     STORE_TTL_MIN_MS, STORE_TTL_MAX_MS);
}

int store_check_plain_key(struct str key, struct note *note)
{
    if (key.len == 0 || key.len > STORE_CLAIM_KEY_MAX)
        return note_fail(note, COORD_R_KEY, "key of %zu bytes: 1-%d bytes", key.len,
                         STORE_CLAIM_KEY_MAX);
    if (!str_starts(key, STR(STORE_CLAIMS))) return 0;
    return note_fail(note, COORD_R_KEY,
                     "keys under " STORE_CLAIMS " are claims: use create, compare-and-set, delete");
}

int store_check_plain_range(struct str key, struct str end, struct note *note)
{
    static const struct str after = {"muster0", 7}; /* first key after all "muster/" keys */

    if (end.len == 0) return store_check_plain_key(key, note);
    if (key.len > STORE_CLAIM_KEY_MAX || end.len > STORE_CLAIM_KEY_MAX)
        return note_fail(note, COORD_R_KEY, "a range's ends have at most %d bytes",
                         STORE_CLAIM_KEY_MAX);
    if (str_compare(key, after) < 0 && (key_range_is_open((struct key_range){key, end}) ||
                                        str_compare(end, STR(STORE_CLAIMS)) > 0))
        return note_fail(note, COORD_R_KEY,
                         "the range holds claims (" STORE_CLAIMS
                         "...), which are deleted one by one");
    return 0;
}

int64_t store_granted_ttl(int64_t ttl_ms)
{
    return (ttl_ms + STORE_TTL_STEP_MS - 1) / STORE_TTL_STEP_MS * STORE_TTL_STEP_MS;
}

static bool is_claim(struct str key)
{
    return key.len > 7 && key.len <= COMMAND_KEY_MAX && str_starts(key, STR(STORE_CLAIMS));
}

static const char *command_fault(const struct store_command *c)
{
    bool grants = c->kind == STORE_ACQUIRE ||
                  ((c->kind == STORE_CREATE || c->kind == STORE_CAS) && c->ttl_ms > 0);

    if (c->value.len > STORE_VALUE_MAX) return "a value past the limit";
    if (c->key.len > COMMAND_KEY_MAX || c->range_end.len > COMMAND_KEY_MAX) return "a key too long";
    if (c->owner.len > STORE_OWNER_MAX) return "an owner too long";
    if (grants && (c->ttl_ms < 1 || c->ttl_ms > STORE_TTL_MAX_MS)) return "a TTL out of range";
    if (grants && (store_lease_number(&c->lease) == 0 || c->owner.len == 0) &&
        !(c->kind == STORE_CAS && !store_id_none(&c->held)))
        return "a lease without id or owner";
    if (grants && store_lease_number(&c->lease) == 0) return "a lease without id";
    if (c->ttl_ms < (c->kind == STORE_CREATE ? 0 : STORE_TTL_KEEP)) return "a TTL out of range";
    switch (c->kind) {
    case STORE_CREATE:
    case STORE_CAS:
        if (is_slot(c->key)) return "a slot's key";
        return is_claim(c->key) ? NULL : "a key that is no claim";
    case STORE_DELETE: return is_claim(c->key) ? NULL : "a key that is no claim";
    case STORE_ACQUIRE:
    case STORE_RESIZE:
        if (!is_claim(c->key) || c->key.len > 7 + STORE_GROUP_MAX) return "not a group's name";
        if (c->slot_count < 1 || c->slot_count > STORE_SLOTS_MAX) return "slots out of range";
        return c->cooldown_ms <= STORE_COOLDOWN_MAX_MS ? NULL : "a cooldown out of range";
    case STORE_PUT:
        return c->key.len && !str_starts(c->key, STR(STORE_CLAIMS)) ? NULL : "not a plain key";
    case STORE_DELETE_RANGE:
        return store_check_plain_range(c->key, c->range_end, NULL) ? "a range with claims" : NULL;
    case STORE_LEASE_GRANT:
    case STORE_LEASE_REVOKE:
        if (!store_lease_is_plain(&c->lease)) return "not the id of a plain lease";
        if (c->kind == STORE_LEASE_REVOKE) return NULL;
        return c->ttl_ms < 1 || c->ttl_ms > STORE_PLAIN_TTL_MAX_MS ? "a TTL out of range" : NULL;
    case STORE_TXN: /* checked by txn_check */
    case STORE_TICK:
    case STORE_CANCEL_WAIT:
    case STORE_RELEASE:
    case STORE_RENEW:
    case STORE_COMPACT: return NULL;
    }
    return "a kind that is none";
}

enum err store_check_command(const struct store_command *command, struct note *note)
{
    enum txn_refusal refusal = command->kind == STORE_TXN ? txn_check(command->txn) : TXN_TAKEN;
    const char *fault = refusal ? "a transaction past its limits" : command_fault(command);

    if (refusal == TXN_NO_MEMORY) return ERR_NOMEM; /* not checked: the command may be valid */
    if (!fault) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%s", fault);
}
