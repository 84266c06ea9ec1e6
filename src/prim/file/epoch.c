/* SPDX-License-Identifier: Apache-2.0 */
/* The file FORMAT, the epoch of this boot and the revision floor (store.h). Runs at open; the
 * floor also on the collector's thread.
 *
 * Invariants: these files are replaced as a whole and durably. The epoch grows with each boot
 * before any head of that boot is written. The floor never decreases. */
#include "prim/file/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prim/file/locks.h"

enum { FLOOR_WAIT_MS = 2000 };

/* -- small files, replaced as a whole -- */

/* Writes a small file durably: temporary file, sync, rename, sync. Without `replace`, EEXIST if
 * the file exists. */
static int small_place(struct file_store *store, int dir, const char *name, const void *bytes,
                       size_t len, bool replace)
{
    char temp[LAYOUT_TEMP_CAP];
    int fd = file_temp_make(store, store->meta, temp);
    if (fd < 0) return errno;
    int error = sys_write(fd, bytes, len);
    if (error == 0 && fchmod(fd, file_mode(store)) < 0) error = errno;
    if (error == 0 && fdatasync(fd) < 0) error = errno;
    sys_close(fd);
    if (error == 0 && replace && renameat(store->meta, temp, dir, name) < 0) error = errno;
    if (error == 0 && !replace) error = sys_link(store->meta, temp, dir, name);
    if (error != 0 || !replace) (void)unlinkat(store->meta, temp, 0);
    if (error != 0) return error;
    if (fsync(dir) < 0) return errno;
    return dir != store->meta && fsync(store->meta) < 0 ? errno : 0;
}

static int record_read(const struct file_store *store, const char *name, const struct shape *shape,
                       void *ret_record)
{
    int fd = sys_open(store->meta, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0) return errno;
    int error = file_record_get(fd, shape, ret_record);
    sys_close(fd);
    return error;
}

static int record_replace(struct file_store *store, const char *name, const struct shape *shape,
                          const void *record)
{
    char bytes[RECORD_MAX];
    size_t len = record_encode(shape, record, bytes);
    return small_place(store, store->meta, name, bytes, len, true);
}

int floor_read(struct file_store *store, uint64_t *ret_floor)
{
    struct floor_record record = {0};
    int error = record_read(store, "floor", &floor_shape, &record);
    *ret_floor = record.floor;
    return error == ENOENT ? 0 : error;
}

static int lock_meta(struct file_store *store, int64_t until_ns, int *ret_fd)
{
    int fd = lock_open(store, store->meta, "recover.lk");
    if (fd < 0) return errno;
    int error = lock_byte(store, fd, 0, LOCK_EXCLUSIVE, until_ns);
    if (error == 0)
        *ret_fd = fd;
    else
        sys_close(fd);
    return error;
}

int floor_raise(struct file_store *store, uint64_t floor)
{
    const struct floor_record record = {.floor = floor, .store_id = store->backend.id};
    uint64_t now = 0;
    int lock = -1;
    int error = lock_meta(store, file_now(store) + FLOOR_WAIT_MS * NS_IN_MS, &lock);
    if (error != 0) return error;
    error = floor_read(store, &now);
    if (error == 0 && now < floor) error = record_replace(store, "floor", &floor_shape, &record);
    sys_close(lock);
    return error;
}

/* -- the directories -- */

static coord_result open_part(const struct file_store *store, const char *name, int *fd)
{
    int error = file_open_dir(store, store->root, name, true, fd);
    if (error != EXDEV) return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, name);
    return prim_answer(COORD_INVALID, COORD_R_URL,
                       "%s is on another file system than the root of the store", name);
}

static bool is_ours(const char *name)
{
    static const char *const ours[] = {"meta", "s", "b", "lost", "FORMAT", "lost+found"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0) return true;
    return false;
}

struct foreign {
    char name[64];
};
static bool note_foreign(void *context, const char *name)
{
    struct foreign *foreign = context;
    if (is_ours(name)) return true;
    (void)snprintf(foreign->name, sizeof foreign->name, "%.60s", name);
    return false;
}

static bool stop_at_first(void *context, const char *)
{
    *(bool *)context = true;
    return false;
}

/* -- FORMAT -- */

static int read_format(struct file_store *store, coord_id *ret_id, struct stat *ret_info)
{
    char bytes[FORMAT_CAP];
    size_t got;
    int error = sys_read_file(store->root, "FORMAT", bytes, sizeof bytes, &got);
    if (error != 0) return error;
    if (fstatat(store->root, "FORMAT", ret_info, AT_SYMLINK_NOFOLLOW) < 0) return errno;
    enum err err = format_decode(str_of(bytes, got), ret_id);
    return err == ERR_OK ? 0 : err == ERR_VERSION ? EPROTO : EBADMSG;
}

static int write_format(struct file_store *store, bool replace, struct stat *ret_info)
{
    char bytes[FORMAT_CAP];
    store->backend.id = prim_id_random();
    size_t len = format_encode(&store->backend.id, bytes);
    int error = small_place(store, store->root, "FORMAT", bytes, len, replace);
    if (error == 0 && fstatat(store->root, "FORMAT", ret_info, AT_SYMLINK_NOFOLLOW) < 0)
        error = errno;
    return error;
}

static uint32_t change_of(const struct stat *info)
{
    return (uint32_t)info->st_ctim.tv_sec ^ (uint32_t)info->st_ctim.tv_nsec;
}

static coord_result bad_format(int error)
{
    if (error == EPROTO) {
        return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                           "FORMAT is of a version this library does not read");
    }
    return error == EBADMSG ? prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "FORMAT is damaged")
                            : file_trouble(error, "read FORMAT");
}

/* In an overlay, a file of the lower layer changes its identity when it is opened for writing. */
static coord_result check_layer(struct file_store *store)
{
    struct stat before, after;
    if (fstatat(store->root, "FORMAT", &before, AT_SYMLINK_NOFOLLOW) < 0)
        return file_trouble(errno, "look at FORMAT");
    int fd = sys_open(store->root, "FORMAT", O_RDWR | O_NOFOLLOW, 0);
    if (fd < 0) return file_trouble(errno, "open FORMAT");
    int error = fstat(fd, &after) < 0 ? errno : 0;
    sys_close(fd);
    if (error != 0) return file_trouble(error, "look at FORMAT");
    if (before.st_ino == after.st_ino && before.st_dev == after.st_dev &&
        change_of(&before) == change_of(&after))
        return prim_ok(COORD_R_NONE);
    return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                       "overlay: the store is in a lower layer, which every container shares");
}

/* -- the epoch -- */

struct sweep {
    struct file_store *store;
    const char *bucket_name;
    int heads;
    int error;
};

/* After a boot, moves away damaged heads. A head that was not synced may be torn, and its lease
 * is over anyway. */
static bool look_at_head(void *context, const char *name)
{
    struct sweep *sweep = context;
    struct head_file file;
    struct stat info;
    char to[2 * LAYOUT_NAME_CAP + 16];
    head_file_init(&file);
    sweep->error = head_read(sweep->heads, name, STR_EMPTY, &file);
    bool torn = sweep->error == 0 && file.found == HEAD_IS_DAMAGED &&
                fstatat(sweep->heads, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                (info.st_mode & S_IXUSR) == 0;
    head_file_deinit(&file);
    if (!torn) return sweep->error == 0;
    /* Two hashed names have at most 41 + 41 bytes. Plain names may be too long together. */
    (void)snprintf(to, sizeof to, "%.60s.%.150s.%08lx", sweep->bucket_name, name,
                   (unsigned long)(prim_random() & 0xffffffff));
    if (renameat(sweep->heads, name, sweep->store->lost, to) < 0) sweep->error = errno;
    sweep->store->damaged++;
    return sweep->error == 0;
}

static bool look_at_bucket(void *context, const char *name)
{
    struct sweep *sweep = context;
    int dir = sys_open_dir(sweep->store->buckets_dir, name);
    sweep->heads = dir < 0 ? -1 : sys_open_dir(dir, "h");
    sys_close(dir);
    if (sweep->heads < 0) { return true; } /* the next user completes an incomplete bucket */
    sweep->bucket_name = name;
    int error = sys_walk(sweep->heads, look_at_head, sweep);
    sys_close(sweep->heads);
    if (error != 0 && sweep->error == 0) sweep->error = error;
    return sweep->error == 0;
}

static int write_epoch(struct file_store *store, uint64_t epoch, const struct stat *format)
{
    struct epoch_record record = {.epoch = epoch,
                                  .boot_id = store->facts.boot_id,
                                  .store_id = store->backend.id,
                                  .format_inode = format->st_ino,
                                  .format_change = change_of(format)};
    store->epoch = epoch;
    return record_replace(store, "epoch", &epoch_shape, &record);
}

/* A directory without FORMAT may contain only directories of a file store. */
static coord_result check_empty(struct file_store *store)
{
    struct foreign foreign = {{0}};
    int error = sys_walk(store->root, note_foreign, &foreign);
    if (error != 0) return file_trouble(error, "look into the directory");
    return foreign.name[0] == '\0'
               ? prim_ok(COORD_R_NONE)
               : prim_answer(COORD_INVALID, COORD_R_URL,
                             "the directory is no file store and holds something else: %s",
                             foreign.name);
}

/* No entry was written before: FORMAT is missing, or a crash left meta/epoch missing. `format`
 * is NULL if FORMAT is missing. */
static coord_result make_first(struct file_store *store, const struct stat *format)
{
    struct stat info;
    bool full = false, network = store->settings.create_only;
    int error = sys_walk(store->buckets_dir, stop_at_first, &full);
    /* A network store has no lock: another host may have made FORMAT and an entry. */
    if (error == 0 && full && !network) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT,
                           "%s is missing from a store that holds entries",
                           format == NULL ? "FORMAT" : "meta/epoch");
    }
    if (error == 0 && format == NULL) {
        error = write_format(store, !network, &info);
        if (error == EEXIST) error = read_format(store, &store->backend.id, &info);
        format = &info;
    }
    if (error == 0 && !network) error = write_epoch(store, 1, format);
    return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "make a store");
}

static coord_result bump(struct file_store *store, const struct epoch_record *record,
                         struct stat *format, bool copied)
{
    if (record->epoch + 1 >= EPOCH_MAX) {
        return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                           "the store has seen all the epochs there are");
    }
    struct sweep sweep = {.store = store};
    int error = sys_walk(store->buckets_dir, look_at_bucket, &sweep);
    if (error == 0) error = sweep.error;
    if (error == 0 && store->damaged > 0 && fsync(store->lost) < 0) error = errno;
    /* A copy gets a new store id, because handles of the original must not work here. */
    if (error == 0 && copied) error = write_format(store, true, format);
    if (error == 0) error = write_epoch(store, record->epoch + 1, format);
    return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "begin an epoch");
}

static coord_result open_existing(struct file_store *store, struct stat *format, bool overlay)
{
    struct epoch_record record;
    int error = record_read(store, "epoch", &epoch_shape, &record);
    if (error == ENOENT) return make_first(store, format);
    if (error == EBADMSG)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "meta/epoch is damaged");
    if (error != 0) return file_trouble(error, "read meta/epoch");
    bool copied = record.format_inode != format->st_ino ||
                  !prim_id_equal(&record.store_id, &store->backend.id);
    if (overlay && (copied || record.format_change != change_of(format))) {
        return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                           "overlay: the store was made in another layer or is a copy");
    }
    store->epoch = record.epoch;
    if (!copied && prim_id_equal(&record.boot_id, &store->facts.boot_id))
        return prim_ok(COORD_R_NONE);
    return bump(store, &record, format, copied);
}

static coord_result open_locked(struct file_store *store, bool overlay)
{
    static const char *const names[] = {"s", "b", "lost"};
    int *const fds[] = {&store->leases, &store->buckets_dir, &store->lost};
    struct stat format;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        coord_result result = open_part(store, names[i], fds[i]);
        if (result.code != COORD_OK) return result;
    }
    int error = read_format(store, &store->backend.id, &format);
    if (error == ENOENT) {
        coord_result result = check_empty(store);
        return result.code == COORD_OK ? make_first(store, NULL) : result;
    }
    if (error != 0) return bad_format(error);
    if (store->settings.create_only) return prim_ok(COORD_R_NONE);
    if (overlay) {
        coord_result result = check_layer(store);
        if (result.code != COORD_OK) return result;
    }
    return open_existing(store, &format, overlay);
}

coord_result epoch_open(struct file_store *store, bool overlay, int64_t until_ns)
{
    int lock = -1;
    coord_result result = open_part(store, "meta", &store->meta);
    if (result.code != COORD_OK) return result;
    int error = store->settings.create_only ? 0 : lock_meta(store, until_ns, &lock);
    if (error != 0) return file_trouble(error, "lock meta/recover.lk to open the store");
    result = open_locked(store, overlay);
    sys_close(lock);
    return result;
}
