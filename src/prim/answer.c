/* SPDX-License-Identifier: Apache-2.0 */
/* Constructors of results (answer.h), without I/O or randomness. The random functions are in
 * clock.c. */
#include "prim/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "prim/backend.h"

static coord_result blank(int code, int reason)
{
    return (coord_result){.code = code, .reason = reason, .hint_ms = -1};
}

coord_result prim_ok(int reason)
{
    return blank(COORD_OK, reason);
}

coord_result prim_answer(int code, int reason, const char *format, ...)
{
    coord_result result = blank(code, reason);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(result.text, sizeof result.text, format, args);
    va_end(args);
    return result;
}

coord_result prim_no_memory(void)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "out of memory");
}

coord_result prim_unclear(int reason, const char *format, ...)
{
    coord_result result = blank(COORD_UNAVAILABLE, reason);
    va_list args;
    result.flags = COORD_F_MAYBE_APPLIED;
    va_start(args, format);
    (void)vsnprintf(result.text, sizeof result.text, format, args);
    va_end(args);
    return result;
}

static void answer_copy_text(char *to, size_t cap, struct str owner)
{
    size_t len = min_size(owner.len, cap - 1);
    if (len > 0) memcpy(to, owner.at, len);
    to[len] = '\0';
}

void prim_copy_printable(char *to, size_t cap, struct str text)
{
    answer_copy_text(to, cap, text);
    for (; *to != '\0'; to++)
        if (*to < ' ' || *to > '~') *to = '?';
}

void prim_answer_owner(coord_result *result, struct str owner)
{
    answer_copy_text(result->owner, sizeof result->owner, owner);
}

coord_entry *prim_entry_make(const coord_entry *like, struct str key, struct str value,
                             struct str owner)
{
    coord_entry *entry = malloc(sizeof *entry + key.len + value.len + 2);
    if (entry == NULL) return NULL;
    *entry = *like;
    char *at = (char *)(entry + 1);
    /* Callers print both strings, so each ends with a NUL that `len` does not count. */
    entry->key = (coord_str){at, key.len};
    str_put(&at, key);
    *at++ = '\0';
    entry->value = (coord_str){at, value.len};
    str_put(&at, value);
    *at = '\0';
    answer_copy_text(entry->owner, sizeof entry->owner, owner);
    return entry;
}

void coord_entry_free(coord_entry *entry)
{
    free(entry);
}

struct holders {
    coord_holders public;
    size_t rows_max;
    coord_holder rows[];
};

coord_holders *prim_holders_make(size_t rows_max)
{
    struct holders *holders = calloc(1, sizeof *holders + rows_max * sizeof(coord_holder));
    if (holders == NULL) return NULL;
    holders->rows_max = rows_max;
    holders->public.rows = holders->rows;
    return (coord_holders *)(void *)holders; /* gcc's analyzer reports &holders->public leaked */
}

bool prim_holders_add(coord_holders *public, const coord_holder *like, struct str owner,
                      struct str value)
{
    struct holders *holders = CONTAINER_OF(public, struct holders, public);
    char *copy;
    if (public->count == holders->rows_max || (copy = malloc(value.len + 1)) == NULL) return false;
    if (value.len > 0) memcpy(copy, value.at, value.len);
    copy[value.len] = '\0';
    coord_holder *row = &holders->rows[public->count++];
    *row = *like;
    answer_copy_text(row->owner, sizeof row->owner, owner);
    row->value.at = copy;
    row->value.len = value.len;
    return true;
}

static int by_slot(const void *a, const void *b)
{
    const coord_holder *left = a, *right = b;
    return left->slot < right->slot ? -1 : left->slot > right->slot;
}

void prim_holders_done(coord_holders *holders)
{
    if (holders->count > 1) qsort(holders->rows, holders->count, sizeof *holders->rows, by_slot);
}

void coord_holders_free(coord_holders *public)
{
    if (public == NULL) return;
    for (size_t i = 0; i < public->count; i++) free((void *)public->rows[i].value.at);
    free(CONTAINER_OF(public, struct holders, public));
}

const struct prim_held *prim_held_of(const struct prim_claim *claim, struct str key)
{
    for (size_t i = 0; claim != NULL && i < claim->count; i++)
        if (str_equal(str_from(claim->held[i].key), key)) return &claim->held[i];
    return NULL;
}

bool prim_id_equal(const coord_id *a, const coord_id *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

bool prim_id_is_zero(const coord_id *id)
{
    return prim_id_equal(id, &(coord_id){{0}});
}

void prim_id_text(const coord_id *id, char text[PRIM_ID_TEXT_CAP])
{
    hex_write(id->b, sizeof id->b, text);
}

static const char *const codes[] = {"OK",      "EXISTS",  "CONFLICT",    "NOT_FOUND",
                                    "EXPIRED", "INVALID", "UNSUPPORTED", "UNAVAILABLE"};

const char *coord_code_name(int code)
{
    return code >= 0 && code < (int)ARRAY_LEN(codes) ? codes[code] : "?";
}

const char *coord_reason_name(int reason)
{
    switch ((enum coord_reason)reason) {
    case COORD_R_NONE: return "none";
    case COORD_R_CREATED: return "created";
    case COORD_R_UPDATED: return "updated";
    case COORD_R_DELETED: return "deleted";
    case COORD_R_ACQUIRED: return "acquired";
    case COORD_R_RENEWED: return "renewed";
    case COORD_R_RELEASED: return "released";
    case COORD_R_ALREADY: return "already";
    case COORD_R_REPLAYED: return "replayed";
    case COORD_R_RESIZED: return "resized";
    case COORD_R_HELD: return "held";
    case COORD_R_FULL: return "full";
    case COORD_R_ALREADY_HOLDER: return "already_holder";
    case COORD_R_REVISION: return "revision";
    case COORD_R_ABSENT: return "absent";
    case COORD_R_PRESENT: return "present";
    case COORD_R_NOT_OWNER: return "not_owner";
    case COORD_R_SLOT_COUNT: return "slot_count";
    case COORD_R_DEADLINE: return "deadline";
    case COORD_R_SUPERSEDED: return "superseded";
    case COORD_R_REVOKED: return "revoked";
    case COORD_R_LOCAL: return "local";
    case COORD_R_KEY: return "key";
    case COORD_R_VALUE_SIZE: return "value_size";
    case COORD_R_TTL_RANGE: return "ttl_range";
    case COORD_R_OWNER: return "owner";
    case COORD_R_OTHER_STORE: return "other_store";
    case COORD_R_HANDLE: return "handle";
    case COORD_R_GROUP: return "group";
    case COORD_R_URL: return "url";
    case COORD_R_ARGUMENT: return "argument";
    case COORD_R_CAPABILITY: return "capability";
    case COORD_R_SERVER: return "server";
    case COORD_R_FILE_SYSTEM: return "file_system";
    case COORD_R_SCOPE: return "scope";
    case COORD_R_BACKEND: return "backend";
    case COORD_R_TIMEOUT: return "timeout";
    case COORD_R_CONNECTION: return "connection";
    case COORD_R_NO_LEADER: return "no_leader";
    case COORD_R_OVERLOADED: return "overloaded";
    case COORD_R_STORAGE: return "storage";
    case COORD_R_CORRUPT: return "corrupt";
    case COORD_R_FORBIDDEN: return "forbidden";
    case COORD_R_QUOTA: return "quota";
    case COORD_R_LOCK_VIOLATION: return "lock_violation";
    case COORD_R_DEGRADED: return "degraded";
    case COORD_R_MEMORY: return "memory";
    case COORD_R_CLOSED: return "closed";
    }
    return "?";
}
