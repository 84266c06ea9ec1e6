/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "prim/file/hooks.h"
#include "prim/file/locks.h"
#include "prim/file/sys.h"

enum { STUCK_AFTER_MS = 50 };

int lease_record_get(int fd, const coord_id *id, struct lease_record *ret_record)
{
    char bytes[LEASE_RECORD];
    size_t got;
    int error = sys_read(fd, bytes, sizeof bytes, &got);
    if (error != 0) return error;
    if (lease_record_decode(str_of(bytes, got), ret_record) != ERR_OK ||
        !prim_id_equal(&ret_record->lease_id, id))
        return EBADMSG;
    return 0;
}

int lease_record_put(int fd, const struct lease_record *record)
{
    char bytes[LEASE_RECORD];
    lease_record_encode(record, bytes);
    return sys_write(fd, bytes, sizeof bytes);
}

static bool owner_is_dead(struct file_store *store, int fd)
{
    char bytes[LEASE_RECORD];
    struct lease_record record;
    size_t got;
    return sys_read(fd, bytes, sizeof bytes, &got) == 0 &&
           lease_record_decode(str_of(bytes, got), &record) == ERR_OK &&
           who_is_dead(&store->facts, &record.who, record.boot_id);
}

int record_lock(struct file_store *store, int fd, bool exclusive, int64_t until_ns)
{
    struct pause pause = {0};
    int64_t began = 0;
    for (;;) {
        int error = sys_lock(fd, BYTE_RECORD, exclusive ? LOCK_EXCLUSIVE : LOCK_SHARED);
        if (error != EAGAIN) return error;
        int64_t now = file_now(store);
        if (began == 0) began = now;
        if (now - began > STUCK_AFTER_MS * NS_IN_MS && owner_is_dead(store, fd)) return 0;
        if (!pause_until(store, &pause, until_ns)) return ETIMEDOUT;
    }
}

int record_open(struct file_store *store, const coord_id *id, bool exclusive, int64_t until_ns,
                int *ret_fd, struct lease_record *ret_record)
{
    char name[LAYOUT_LEASE_CAP];
    layout_lease(id, name);
    int fd = sys_open(store->leases, name, (exclusive ? O_RDWR : O_RDONLY) | O_NOFOLLOW, 0);
    if (fd < 0) return errno;
    int error = record_lock(store, fd, exclusive, until_ns);
    if (error == 0) error = lease_record_get(fd, id, ret_record);
    if (error != 0 && error != EBADMSG) {
        record_close(fd);
        return error;
    }
    *ret_fd = fd;
    return error;
}

void record_close(int fd)
{
    if (fd >= 0) (void)sys_lock(fd, BYTE_RECORD, LOCK_NONE);
    sys_close(fd);
}

bool record_is_over(const struct file_store *store, const struct lease_record *record)
{
    return memcmp(record->boot_id, store->facts.boot_id, 16) != 0 || record->state != LEASE_LIVE ||
           file_now(store) >= record->deadline_ns;
}

/* Both must hold: a program may close its descriptors and live, and a child may keep them open. */
static bool died_early(struct file_store *store, int fd, const struct lease_record *record)
{
    return store->settings.early_death &&
           who_is_dead(&store->facts, &record->who, record->boot_id) &&
           sys_lock_test(fd, BYTE_LIVENESS) == 0;
}

static int judge_record(struct file_store *store, int fd, struct lease_record *record,
                        struct verdict *verdict)
{
    int64_t now = file_now(store);
    bool timely = record->state != LEASE_LIVE || now >= record->deadline_ns;
    *verdict = (struct verdict){.over = true,
                                .released = record->state == LEASE_RELEASED,
                                .deadline_ns = record->deadline_ns};
    if (memcmp(record->boot_id, store->facts.boot_id, 16) != 0) {
        verdict->deadline_ns = 0;
        return 0;
    }
    if (!timely && !died_early(store, fd, record)) {
        verdict->over = false;
        return 0;
    }
    if (record->state != LEASE_LIVE) return 0;
    record->state = LEASE_DEAD;
    if (now < record->deadline_ns) record->deadline_ns = now;
    verdict->deadline_ns = record->deadline_ns;
    int error = file_at(STEP_JUDGE_LOCKED);
    if (error == 0) error = lease_record_put(fd, record);
    if (error == 0) (void)file_at(STEP_JUDGE_DEAD);
    return error;
}

/* Since when we know. The oldest makes room: it then waits once more, which is safe. */
static int64_t first_sight(struct file_store *store, const coord_id *id)
{
    int64_t now = file_now(store), since = now;
    (void)pthread_mutex_lock(&store->mutex);
    size_t oldest = 0, i;
    for (i = 0; i < store->sight_count; i++) {
        if (prim_id_equal(&store->sights[i].lease_id, id)) break;
        if (store->sights[i].since_ns < store->sights[oldest].since_ns) oldest = i;
    }
    if (i < store->sight_count) {
        since = store->sights[i].since_ns;
    } else {
        i = store->sight_count < SIGHTS_MAX ? store->sight_count++ : oldest;
        store->sights[i] = (struct sight){.lease_id = *id, .since_ns = now};
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return since;
}

static void judge_damaged(struct file_store *store, const struct head *head,
                          struct verdict *verdict)
{
    int64_t end = first_sight(store, &head->lease_id) + head->ttl_ms * NS_IN_MS;
    *verdict = (struct verdict){.over = file_now(store) >= end, .deadline_ns = end};
}

coord_result judge(struct file_store *store, const struct head *head, int64_t until_ns,
                   struct verdict *ret_verdict)
{
    struct lease_record record = {0};
    int fd = -1;
    if (memcmp(head->boot_id, store->facts.boot_id, 16) != 0) {
        *ret_verdict = (struct verdict){.over = true};
        return prim_ok(COORD_R_NONE);
    }
    int error = record_open(store, &head->lease_id, true, until_ns, &fd, &record);
    if (error == ENOENT || error == EBADMSG) {
        judge_damaged(store, head, ret_verdict);
        error = 0;
    } else if (error == 0) {
        error = judge_record(store, fd, &record, ret_verdict);
    }
    record_close(fd);
    if (error == ETIMEDOUT) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "the record of a lease is locked by its holder, pid %u", head->who.pid);
    }
    return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "judge a lease");
}
