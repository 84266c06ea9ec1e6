/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/test.h"
#include "prim/stores.h"
#include "prim/url.h"

const char *rig_dir(void)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next % 8];
    (void)snprintf(path, 256, "%s/store-%u", test_dir(), next++);
    return path;
}

static char memory_dir[64];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void remove_memory_dir(void)
{
    (void)nftw(memory_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *rig_memory_dir(void)
{
    static char path[128];
    static unsigned next;
    if (memory_dir[0] == '\0') {
        (void)snprintf(memory_dir, sizeof memory_dir, "/dev/shm/muster-test-XXXXXX");
        if (mkdtemp(memory_dir) == NULL) {
            memory_dir[0] = '\0';
            return rig_dir();
        }
        (void)atexit(remove_memory_dir);
    }
    (void)snprintf(path, sizeof path, "%s/store-%u", memory_dir, next++);
    return path;
}

static void on_lost(struct prim_host *host, const coord_id *lease_id, int reason, uint64_t token)
{
    struct rig *rig = CONTAINER_OF(host, struct rig, host);
    (void)lease_id;
    atomic_store(&rig->lost_reason, reason);
    atomic_store(&rig->lost_token, token);
    atomic_fetch_add(&rig->lost, 1);
}

static void on_degraded(struct prim_host *host, const char *why)
{
    (void)why;
    atomic_fetch_add(&CONTAINER_OF(host, struct rig, host)->degraded, 1);
}

coord_result rig_try(struct rig *rig, const char *dir, const char *params)
{
    char text[1024];
    struct prim_url url;
    coord_options options = rig->options;
    memset(rig, 0, sizeof *rig);
    rig->options = options;
    rig->host.lost = on_lost;
    rig->host.degraded = on_degraded;
    rig->timeout_ms = RIG_TIMEOUT_MS;
    (void)snprintf(text, sizeof text, "file://%s?%s", dir, params);
    coord_result result = prim_url_parse(text, &url);
    if (result.code != COORD_OK) { return result; }
    struct prim_open in = {.url = &url,
                           .options = &rig->options,
                           .clock = {.now = prim_boottime_ns},
                           .host = &rig->host,
                           .deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS};
    result = prim_file_open(&in, &rig->backend);
    if (result.code == COORD_OK) { result = prim_url_done(&url); }
    if (result.code == COORD_OK) { rig->store = file_store_of(rig->backend); }
    prim_url_deinit(&url);
    return result;
}

void rig_open(struct rig *rig, const char *dir, const char *params)
{
    memset(rig, 0, sizeof *rig);
    CHECK_ANSWER("the store opens", rig_try(rig, dir, params), COORD_OK, COORD_R_NONE);
}

/* Without memory the lease is not guarded. */
void rig_guard(struct rig *rig, struct rig_lease *lease)
{
    if (rig->guards == NULL) { rig->guards = prim_guards_open(rig->backend); }
    if (rig->guards != NULL) { prim_guards_add(rig->guards, &rig->guard, &lease->claim); }
}

void rig_unguard(struct rig *rig)
{
    if (rig->guards != NULL) { prim_guards_drop(rig->guards, &rig->guard); }
}

void rig_close(struct rig *rig)
{
    prim_guards_close(rig->guards);
    rig->guards = NULL;
    rig->guard = NULL;
    if (rig->backend != NULL) { rig->backend->ops->close(rig->backend); }
    rig->backend = NULL;
}

static struct prim_call call_of(struct rig *rig)
{
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + rig->timeout_ms * NS_IN_MS,
                             .request_id = rig->request,
                             .attempt = rig->attempt};
    if (prim_id_is_zero(&call.request_id)) { call.request_id = prim_id_request(); }
    rig->request = (coord_id){{0}};
    return call;
}

static coord_id lease_id_of(struct rig *rig)
{
    coord_id id = prim_id_is_zero(&rig->lease_id) ? prim_id_random() : rig->lease_id;
    rig->lease_id = (coord_id){{0}};
    return id;
}

static void hold(struct rig_lease *lease, const char *key, const char *owner,
                 const struct prim_grant *grant)
{
    if (lease == NULL) { return; }
    memset(lease, 0, sizeof *lease);
    lease->grant = *grant;
    (void)snprintf(lease->owner, sizeof lease->owner, "%s", owner);
    (void)snprintf(lease->keys[0], sizeof lease->keys[0], "%s", key);
    lease->held[0] = (struct prim_held){.key = lease->keys[0],
                                        .token = grant->token,
                                        .create_revision = grant->create_revision,
                                        .slot = grant->slot};
    lease->claim = (struct prim_claim){.lease_id = grant->lease_id,
                                       .owner = lease->owner,
                                       .ttl_ms = grant->granted_ttl_ms,
                                       .held = lease->held,
                                       .count = 1};
}

coord_result rig_create(struct rig *rig, const char *key, const char *value, int64_t ttl_ms,
                        const char *owner, struct rig_lease *lease)
{
    struct prim_grant grant = {.slot = COORD_NO_SLOT};
    struct prim_call call = call_of(rig);
    struct prim_create in = {.key = str_from(key),
                             .value = str_from(value),
                             .owner = str_from(owner),
                             .ttl_ms = ttl_ms,
                             .lease_id = lease_id_of(rig)};
    coord_result result = rig->backend->ops->create(rig->backend, &call, &in, &grant);
    if (result.code == COORD_OK && ttl_ms > 0) { hold(lease, key, owner, &grant); }
    return result;
}

coord_result rig_create_under(struct rig *rig, struct rig_lease *lease, const char *key,
                              const char *value)
{
    struct prim_grant grant = {.slot = COORD_NO_SLOT};
    struct prim_call call = call_of(rig);
    struct prim_create in = {.key = str_from(key),
                             .value = str_from(value),
                             .owner = str_from(lease->owner),
                             .under = &lease->claim};
    coord_result result = rig->backend->ops->create(rig->backend, &call, &in, &grant);
    if (result.code == COORD_OK) {
        size_t at = lease->claim.count++;
        CHECK("the rig has room", at < RIG_KEYS);
        (void)snprintf(lease->keys[at], sizeof lease->keys[at], "%s", key);
        lease->held[at] = (struct prim_held){.key = lease->keys[at],
                                             .token = grant.token,
                                             .create_revision = grant.create_revision,
                                             .slot = COORD_NO_SLOT};
    }
    return result;
}

coord_result rig_cas(struct rig *rig, const char *key, uint64_t expected, const char *value,
                     int64_t ttl_ms, struct rig_lease *with, struct rig_lease *made)
{
    struct prim_grant grant = {.slot = COORD_NO_SLOT};
    struct prim_call call = call_of(rig);
    struct prim_cas in = {.key = str_from(key),
                          .value = str_from(value),
                          .expected = expected,
                          .ttl_ms = ttl_ms,
                          .owner = str_from(with != NULL ? with->owner : "owner"),
                          .lease_id = lease_id_of(rig),
                          .claim = with != NULL ? &with->claim : NULL};
    coord_result result = rig->backend->ops->cas(rig->backend, &call, &in, &grant);
    if (result.code == COORD_OK && ttl_ms > 0) {
        hold(made, key, with != NULL ? with->owner : "owner", &grant);
    }
    return result;
}

coord_result rig_remove(struct rig *rig, const char *key, uint64_t expected, struct rig_lease *with)
{
    struct prim_call call = call_of(rig);
    struct prim_delete in = {
        .key = str_from(key), .expected = expected, .claim = with != NULL ? &with->claim : NULL};
    return rig->backend->ops->remove(rig->backend, &call, &in);
}

coord_result rig_get(struct rig *rig, const char *key, char *value, size_t cap)
{
    coord_entry *entry = NULL;
    struct prim_call call = call_of(rig);
    coord_result result =
        rig->backend->ops->get(rig->backend, &call, str_from(key), COORD_LATEST, &entry);
    if (result.code == COORD_OK && value != NULL) {
        (void)snprintf(value, cap, "%.*s", (int)entry->value.len, entry->value.at);
    }
    coord_entry_free(entry);
    return result;
}

coord_result rig_acquire(struct rig *rig, const char *group, uint32_t slots, const char *owner,
                         int64_t ttl_ms, uint32_t flags, struct rig_lease *lease)
{
    struct prim_grant grant = {.slot = COORD_NO_SLOT};
    struct prim_call call = call_of(rig);
    char key[PRIM_SLOT_KEY_CAP];
    struct prim_acquire in = {.group = str_from(group),
                              .owner = str_from(owner),
                              .value = STR("v"),
                              .slot_count = slots,
                              .flags = flags,
                              .prefer_slot = COORD_NO_SLOT,
                              .ttl_ms = ttl_ms,
                              .lease_id = lease_id_of(rig)};
    coord_result result = rig->backend->ops->acquire(rig->backend, &call, &in, &grant);
    if (result.code == COORD_OK) {
        prim_slot_key(in.group, grant.slot, key);
        hold(lease, key, owner, &grant);
    }
    return result;
}

coord_result rig_renew(struct rig *rig, struct rig_lease *lease)
{
    int64_t sent = 0;
    struct prim_call call = call_of(rig);
    return rig->backend->ops->renew(rig->backend, &call, &lease->claim, &sent);
}

coord_result rig_release(struct rig *rig, struct rig_lease *lease, const char *key)
{
    struct prim_call call = call_of(rig);
    return rig->backend->ops->release(rig->backend, &call, &lease->claim, key);
}

coord_result rig_holders(struct rig *rig, const char *group, coord_holders **ret_holders)
{
    struct prim_call call = call_of(rig);
    return rig->backend->ops->holders(rig->backend, &call, str_from(group), ret_holders);
}

void check_answer(const char *why, coord_result got, int code, int reason, const char *file,
                  int line)
{
    char left[300], right[64];
    (void)snprintf(right, sizeof right, "%s/%s", coord_code_name(code), coord_reason_name(reason));
    (void)snprintf(left, sizeof left, "%s/%s", coord_code_name(got.code),
                   coord_reason_name(got.reason));
    if (strcmp(left, right) != 0) { (void)fprintf(stderr, "# its text: %s\n", got.text); }
    check_str(why, str_from(left), str_from(right), "answer", file, line);
}

void rig_await(atomic_int *flag)
{
    for (int i = 0; i < 12000 && atomic_load(flag) == 0; i++) { rig_sleep_ms(5); }
    CHECK("in time", atomic_load(flag) != 0);
}

void rig_sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

int rig_count(const char *dir, const char *below)
{
    char path[600];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/%s", dir, below);
    DIR *open = opendir(path);
    if (open == NULL) { return -1; }
    for (struct dirent *entry; (entry = readdir(open)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) { count++; }
    }
    (void)closedir(open);
    return count;
}

static int open_below(const char *dir, const char *name)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK("the file is there", fd >= 0);
    return fd;
}

long rig_file_size(const char *dir, const char *name)
{
    struct stat info;
    int fd = open_below(dir, name);
    CHECK("it has a size", fstat(fd, &info) == 0);
    (void)close(fd);
    return (long)info.st_size;
}

void rig_flip(const char *dir, const char *name, long at, unsigned char mask)
{
    unsigned char byte = 0;
    int fd = open_below(dir, name);
    CHECK("a byte is read", pread(fd, &byte, 1, at) == 1);
    byte ^= mask;
    CHECK("and changed", pwrite(fd, &byte, 1, at) == 1);
    (void)close(fd);
}

void rig_truncate(const char *dir, const char *name, long size)
{
    int fd = open_below(dir, name);
    CHECK("its size is changed", ftruncate(fd, size) == 0);
    (void)close(fd);
}
