/* SPDX-License-Identifier: Apache-2.0 */
/* A file store for a test, and short names for its calls. */
#ifndef TESTS_UNIT_PRIM_FILE_RIG_H
#define TESTS_UNIT_PRIM_FILE_RIG_H
#include <stdatomic.h>

#include "hooks.h"
#include "prim/file/store.h"
#include "prim/guard.h"

enum { RIG_KEYS = 4, RIG_TIMEOUT_MS = 60000 /* against a hang only */ };

struct rig {
    struct prim_host host; /* first */
    struct prim_backend *backend;
    struct file_store *store;
    atomic_int lost, lost_reason, degraded;
    _Atomic uint64_t lost_token;
    int64_t timeout_ms; /* of each call; RIG_TIMEOUT_MS */
    coord_id request;   /* of the next call; zero: a fresh one */
    uint32_t attempt;
    coord_id lease_id; /* the next lease; zero: a fresh one */
    coord_options options;
    struct prim_guards *guards; /* by rig_guard */
    struct prim_guard *guard;
};
/* A lease as prim keeps it. */
struct rig_lease {
    struct prim_claim claim;
    struct prim_held held[RIG_KEYS];
    char keys[RIG_KEYS][PRIM_SLOT_KEY_CAP];
    char owner[PRIM_OWNER_MAX + 1];
    struct prim_grant grant;
};

const char *rig_dir(void); /* a new path below test_dir(), not created */
/* The same on a tmpfs where there is one, for tests without disk faults. Valid until the next call.
 * */
const char *rig_memory_dir(void);
coord_result rig_try(struct rig *rig, const char *dir, const char *params);
void rig_open(struct rig *rig, const char *dir, const char *params); /* must succeed */
void rig_close(struct rig *rig);

coord_result rig_create(struct rig *rig, const char *key, const char *value, int64_t ttl_ms,
                        const char *owner, struct rig_lease *lease); /* lease NULL without one */
coord_result rig_create_under(struct rig *rig, struct rig_lease *lease, const char *key,
                              const char *value);
coord_result rig_cas(struct rig *rig, const char *key, uint64_t expected, const char *value,
                     int64_t ttl_ms, struct rig_lease *with, struct rig_lease *made);
coord_result rig_remove(struct rig *rig, const char *key, uint64_t expected,
                        struct rig_lease *with);
/* Writes the NUL-terminated value to `value`, which may be NULL. */
coord_result rig_get(struct rig *rig, const char *key, char *value, size_t cap);
coord_result rig_acquire(struct rig *rig, const char *group, uint32_t slots, const char *owner,
                         int64_t ttl_ms, uint32_t flags, struct rig_lease *lease);
coord_result rig_renew(struct rig *rig, struct rig_lease *lease);
void rig_guard(struct rig *rig, struct rig_lease *lease); /* one guarded lease at a time */
void rig_unguard(struct rig *rig);
coord_result rig_release(struct rig *rig, struct rig_lease *lease, const char *key);
coord_result rig_holders(struct rig *rig, const char *group, coord_holders **ret_holders);

void check_answer(const char *why, coord_result got, int code, int reason, const char *file,
                  int line);
#define CHECK_ANSWER(why, got, code, reason)                                                       \
    check_answer((why), (got), (code), (reason), __FILE__, __LINE__)

void rig_sleep_ms(int64_t ms);
/* Waits until it is not zero; fails after a minute. */
void rig_await(atomic_int *flag);
int rig_count(const char *dir, const char *below); /* names in dir/below, -1: no directory */
/* Changes a file below `dir`: bytes flipped, cut or added; returns its size before. */
long rig_file_size(const char *dir, const char *name);
void rig_flip(const char *dir, const char *name, long at, unsigned char mask);
void rig_truncate(const char *dir, const char *name, long size);
#endif
