/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a file store: URL, directory, capabilities, and shared helpers. Caller's
 * thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "prim/change.h"
#include "prim/file/lease_file.h"
#include "prim/stores.h"
#include "prim/url.h"

/* -- helpers of all parts -- */

coord_result file_trouble(int error, const char *what)
{
    int reason = COORD_R_STORAGE;
    switch (error) {
    case EACCES:
    case EPERM: reason = COORD_R_FORBIDDEN; break;
    case EMFILE:
    case ENFILE: reason = COORD_R_OVERLOADED; break;
    case ENOMEM: reason = COORD_R_MEMORY; break;
    case EBADMSG: reason = COORD_R_CORRUPT; break;
    case ETIMEDOUT: reason = COORD_R_TIMEOUT; break;
    default: break;
    }
    const char *why = error == EBADMSG     ? "damaged"
                      : error == ETIMEDOUT ? "locked by another process"
                                           : strerrordesc_np(error);
    return prim_answer(COORD_UNAVAILABLE, reason, "%s: %s", what, why != NULL ? why : "error");
}

coord_result file_usable(struct file_store *store)
{
    struct stat info;
    struct statfs system;
    if (atomic_load(&store->backend.degraded)) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED,
                           "a sync failed earlier: open the store anew");
    }
    if (fstat(store->root, &info) < 0) return file_trouble(errno, "look at the root");
    if (info.st_nlink == 0 || info.st_dev != store->device)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "the directory was removed");
    if (fstatfs(store->root, &system) < 0) return file_trouble(errno, "statfs");
    if ((int64_t)(uint32_t)system.f_type != store->file_system)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "the file system is another one");
    return prim_ok(COORD_R_NONE);
}

void file_temp_name(struct file_store *store, char name[LAYOUT_TEMP_CAP])
{
    struct layout_temp temp = {.pid = store->facts.self.pid,
                               .start_ticks = store->facts.self.start_ticks,
                               .number = atomic_fetch_add(&store->temp_number, 1)};
    memcpy(temp.boot, store->facts.boot_id.b, sizeof temp.boot);
    layout_temp(&temp, name);
}

int file_temp_make(struct file_store *store, int dir, char name[LAYOUT_TEMP_CAP])
{
    file_temp_name(store, name);
    return sys_open(dir, name, O_RDWR | O_CREAT | O_EXCL, file_mode(store));
}

int file_record_get(int fd, const struct shape *shape, void *ret_record)
{
    char bytes[RECORD_MAX];
    size_t got = 0;
    int error = sys_read(fd, bytes, sizeof bytes, &got);
    if (error != 0) return error;
    return record_decode(shape, str_of(bytes, got), ret_record) == ERR_OK ? 0 : EBADMSG;
}

int file_record_put(int fd, const struct shape *shape, const void *record)
{
    char bytes[RECORD_MAX];
    return sys_write(fd, bytes, record_encode(shape, record, bytes));
}

/* -- capabilities -- */

static coord_caps file_capabilities(struct prim_backend *backend)
{
    struct file_store *store = file_store_of(backend);
    coord_caps caps = {.scope = store->scope,
                       .watch = COORD_WATCH_COALESCING,
                       .token = COORD_TOKEN_STORE,
                       .replay = COORD_REPLAY_LAST};
    (void)snprintf(caps.server, sizeof caps.server, "%s", store->type);
    if (store->settings.create_only) {
        caps.bits = COORD_CAP_CREATE;
        caps.watch = COORD_WATCH_NONE;
        caps.token = COORD_TOKEN_NONE;
        (void)snprintf(caps.note, sizeof caps.note,
                       "network file system: create without a lease and get only; who creates may "
                       "delete");
        return caps;
    }
    caps.bits = COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL | COORD_CAP_SLOTS |
                COORD_CAP_SHRINK | COORD_CAP_LIST_ATOMIC | COORD_CAP_COOLDOWN |
                COORD_CAP_MULTI_KEY | COORD_CAP_EXACT_OWNER | COORD_CAP_FORCE;
    if (store->durable_medium) {
        caps.bits |= COORD_CAP_DURABLE;
        if (store->settings.sync_always) caps.bits |= COORD_CAP_DURABLE_LEASED;
    }
    if (atomic_load(&store->poll)) caps.watch = COORD_WATCH_POLL;
    size_t len = 0;
    if (!store->durable_medium) {
        len =
            (size_t)snprintf(caps.note, sizeof caps.note, "everything is gone at the next boot; ");
    }
    if (store->damaged > 0) {
        (void)snprintf(caps.note + len, sizeof caps.note - len,
                       "%u torn leased entries were moved to lost/ after the last boot",
                       store->damaged);
    }
    return caps;
}

/* -- opening -- */

static void file_store_free(struct file_store *store)
{
    collector_close(store->collector);
    file_hub_close(store->hub);
    buckets_close(store);
    lease_table_close(store->table);
    map_free(&store->sights);
    sys_close(store->lost);
    sys_close(store->buckets_dir);
    sys_close(store->leases);
    sys_close(store->meta);
    sys_close(store->root);
    for (size_t i = 0; i < KEY_RWLOCKS; i++) rwlock_deinit(&store->key_rwlocks[i]);
    (void)pthread_mutex_destroy(&store->mutex);
    free(store);
}

static void file_close(struct prim_backend *backend)
{
    file_store_free(file_store_of(backend));
}

static const struct prim_backend_ops file_ops = {
    .name = "file",
    .guards_max = 16384,
    .capabilities = file_capabilities,
    PRIM_CHANGE_OPS,
    .create = prim_change_create,
    .cas = file_cas,
    .renew = file_renew,
    .release = file_release,
    .adopt = file_adopt,
    .watch = file_watch,
    .unwatch = file_unwatch,
    .close = file_close,
    .ways = &file_ways,
};

static coord_result bad_param(const char *name, const char *allowed)
{
    return prim_answer(COORD_INVALID, COORD_R_URL, "%s: must be %s", name, allowed);
}

static coord_result read_mode(struct prim_url *url, mode_t *mode)
{
    const char *text = prim_url_param(url, "mode");
    if (text == NULL) return prim_ok(COORD_R_NONE);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 8);
    if (errno != 0 || *end != '\0' || text[0] == '\0' || value < 0700 || value > 0777 ||
        (value & 0700) != 0700)
        return bad_param("mode", "octal, 0700 to 0777");
    *mode = (mode_t)value;
    return prim_ok(COORD_R_NONE);
}

static coord_result read_settings(struct prim_url *url, struct file_settings *settings)
{
    int64_t early_death = 1;
    *settings = (struct file_settings){
        .lock_timeout_ms = 10000, .tombstone_keep_ms = 3600000, .mode = 0700};
    const char *sync = prim_url_param(url, "sync");
    if (sync != NULL && strcmp(sync, "always") != 0 && strcmp(sync, "auto") != 0)
        return bad_param("sync", "auto or always");
    settings->sync_always = sync != NULL && strcmp(sync, "always") == 0;
    const char *netfs = prim_url_param(url, "netfs");
    if (netfs != NULL && strcmp(netfs, "create-only") != 0)
        return bad_param("netfs", "create-only");
    settings->create_only = netfs != NULL;
    coord_result result = prim_url_number(url, "early_death", 0, 1, &early_death);
    settings->early_death = early_death != 0;
    if (result.code == COORD_OK)
        result = prim_url_time_ms(url, "lock_timeout", 10, 600000, &settings->lock_timeout_ms);
    if (result.code == COORD_OK) {
        result = prim_url_time_ms(url, "tombstone_keep", 0, INT64_C(86400000) * 366,
                                  &settings->tombstone_keep_ms);
    }
    if (result.code == COORD_OK) result = read_mode(url, &settings->mode);
    return result;
}

/* Checks the parent directory first, so that nothing is created on a refused file system. */
static coord_result make_root(struct file_store *store)
{
    char parent[sizeof store->root_path];
    struct medium medium;
    struct stat info;
    if (stat(store->root_path, &info) == 0) return prim_ok(COORD_R_NONE);
    if (errno != ENOENT) return file_trouble(errno, "open the directory");
    (void)snprintf(parent, sizeof parent, "%s", store->root_path);
    char *slash = strrchr(parent, '/');
    assert(slash != NULL);
    slash[slash == parent ? 1 : 0] = '\0';
    int dir = sys_open(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0) return file_trouble(errno, "open the directory above it");
    coord_result result = admission_look(dir, &medium);
    sys_close(dir);
    if (result.code != COORD_OK && !(store->settings.create_only && medium.network)) return result;
    mode_t mode = store->settings.mode;
    /* setgid: all files of a shared store belong to one group. */
    if ((mode & S_IRWXG) != 0) mode |= S_ISGID;
    int error = sys_make_dir(AT_FDCWD, store->root_path, mode);
    return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "make the directory");
}

static coord_result open_root(struct file_store *store, struct medium *medium)
{
    struct stat info;
    coord_result result = make_root(store);
    if (result.code != COORD_OK) return result;
    store->root = sys_open(AT_FDCWD, store->root_path, O_RDONLY | O_DIRECTORY, 0);
    if (store->root < 0) return file_trouble(errno, "open the directory");
    if (fstat(store->root, &info) < 0) return file_trouble(errno, "look at the directory");
    store->device = info.st_dev;
    result = admission_look(store->root, medium);
    store->file_system = medium->magic;
    memcpy(store->type, medium->type, sizeof store->type);
    store->durable_medium = medium->durable;
    store->scope = medium->overlay ? COORD_SCOPE_MOUNT : COORD_SCOPE_HOST;
    bool only_create =
        result.code == COORD_UNSUPPORTED && medium->network && store->settings.create_only;
    /* No effect on a file system that supports all calls. */
    store->settings.create_only = only_create;
    return only_create ? prim_ok(COORD_R_NONE) : result;
}

static coord_result open_store(struct file_store *store, const struct prim_open *in)
{
    struct medium medium = {0};
    coord_result result = admission_clock();
    if (result.code != COORD_OK) return result;
    if (who_am_i(&store->facts) != ERR_OK) {
        return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                           "/proc does not show boot id and start time of this process");
    }
    if (!in->options->no_early_death) store->holder = store->facts.self;
    store->creator = prim_id_random();
    atomic_store(&store->temp_number, prim_random() >> 24);
    result = open_root(store, &medium);
    if (result.code != COORD_OK) return result;
    result = epoch_open(store, medium.overlay, in->deadline_ns);
    return result.code == COORD_OK ? admission_probe(store) : result;
}

static struct file_store *store_new(const struct prim_open *in)
{
    struct file_store *store = calloc(1, sizeof *store);
    if (store == NULL) return NULL;
    prim_backend_init(&store->backend, &file_ops, in,
                      prim_limits(FILE_TTL_MIN_MS, 1, PRIM_VALUE_LARGE_MAX));
    store->root = store->meta = store->leases = store->buckets_dir = store->lost = -1;
    list_init(&store->buckets);
    (void)pthread_mutex_init(&store->mutex, NULL);
    for (size_t i = 0; i < KEY_RWLOCKS; i++) rwlock_init(&store->key_rwlocks[i]);
    map_init(&store->sights, SIGHTS_MAX, 0); /* lease ids are random */
    store->table = lease_table_open();
    store->hub = file_hub_open(store);
    if (store->table != NULL && store->hub != NULL) return store;
    file_store_free(store);
    return NULL;
}

coord_result prim_file_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    struct file_settings settings;
    struct str path = str_from(in->url->path);
    coord_result result = read_settings(in->url, &settings);
    if (result.code != COORD_OK) return result;
    if (in->url->host_count > 0 || path.len == 0 || path.at[0] != '/') {
        return prim_answer(COORD_INVALID, COORD_R_URL,
                           "a file store is file:///absolute/directory");
    }
    if (in->options->now != NULL) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "a file store has the clock of its host; options.now is for mem:");
    }
    while (path.len > 1 && path.at[path.len - 1] == '/') path.len--;
    struct file_store *store = store_new(in);
    if (store == NULL) return prim_no_memory();
    store->settings = settings;
    if (path.len >= sizeof store->root_path) {
        file_store_free(store);
        return prim_answer(COORD_INVALID, COORD_R_URL, "the path has more than 4,095 bytes");
    }
    memcpy(store->root_path, path.at, path.len);
    result = open_store(store, in);
    if (result.code != COORD_OK) {
        file_store_free(store);
        return result;
    }
    if (!store->settings.create_only) store->collector = collector_open(store);
    *ret_backend = &store->backend;
    return prim_ok(COORD_R_NONE);
}
