/* SPDX-License-Identifier: Apache-2.0 */
/* Head files (store.h): reading without a lock, and publishing under the key's lock. Any thread.
 *
 * Invariant: a head is complete before it gets its name, and a durable head is also synced. So a
 * reader never sees a partial head. */
#include "prim/file/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void head_file_init(struct head_file *file)
{
    file->found = HEAD_IS_ABSENT;
    file->large = NULL;
}

void head_file_deinit(struct head_file *file)
{
    free(file->large);
    file->large = NULL;
}

static int read_large(int fd, struct head_file *file, struct str *ret_bytes)
{
    struct stat info;
    size_t got;
    if (fstat(fd, &info) < 0) return errno;
    if (info.st_size > HEAD_MAX) {
        *ret_bytes = STR_EMPTY; /* the store never writes a head this large */
        return 0;
    }
    file->large = malloc((size_t)info.st_size + 1);
    if (file->large == NULL) return ENOMEM;
    /* Reads one byte more, because a file that has grown meanwhile is no head. */
    int error = sys_read(fd, file->large, (size_t)info.st_size + 1, &got);
    *ret_bytes = str_of(file->large, got);
    return error;
}

int head_read(int heads, const char *name, struct str key, struct head_file *file)
{
    struct str bytes;
    size_t got = 0;
    head_file_deinit(file);
    file->found = HEAD_IS_ABSENT;
    int fd = sys_open(heads, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0) return errno == ENOENT ? 0 : errno;
    int error = sys_read(fd, file->small, sizeof file->small, &got);
    bytes = str_of(file->small, got);
    if (error == 0 && got == sizeof file->small) error = read_large(fd, file, &bytes);
    sys_close(fd);
    if (error != 0) return error;
    bool good = head_decode(bytes, &file->head) == ERR_OK &&
                (key.len == 0 || str_equal(file->head.key, key));
    file->found = good ? HEAD_IS_THERE : HEAD_IS_DAMAGED;
    return 0;
}

int head_next_revision(struct file_store *store, const struct head_file *file, bool expired,
                       uint64_t *ret_revision)
{
    uint64_t revision = store->epoch << EPOCH_SHIFT, floor = 0;
    if (store->settings.create_only) {
        /* Hosts without a common lock cannot number changes. The wall clock only makes two
         * revisions of a key differ, so the capabilities say that there are no tokens. */
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        revision = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    } else if (file->found == HEAD_IS_THERE) {
        revision = max_u64(revision, file->head.revision + (expired ? 2 : 1));
    } else {
        int error = floor_read(store, &floor);
        if (error != 0) return error;
        revision = max_u64(revision, floor + 1);
    }
    if (revision > REVISION_MAX) return EOVERFLOW;
    *ret_revision = revision;
    return 0;
}

/* -- publishing -- */

struct temp {
    int fd;
    bool named; /* the file has `name` in t/ */
    char name[LAYOUT_TEMP_CAP];
};

/* Prefers an unnamed file, which vanishes in a crash. Replacing a head needs a named file. */
static int temp_open(struct file_store *store, struct bucket *bucket, bool named, struct temp *temp)
{
    temp->fd = -1;
    if (!named) temp->fd = sys_open(bucket->temps, ".", O_TMPFILE | O_RDWR, file_mode(store));
    temp->named =
        named || (temp->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL));
    if (temp->named) temp->fd = file_temp_make(store, bucket->temps, temp->name);
    return temp->fd < 0 ? errno : 0;
}

/* The execute bit marks a head that was synced before it got its name. Other heads may be torn
 * after a power cut. */
static int temp_mode(const struct file_store *store, const struct temp *temp, bool durable)
{
    mode_t mode = file_mode(store) | (durable ? S_IXUSR : 0);
    if (!durable && (store->settings.mode & 077) == 0) return 0;
    return fchmod(temp->fd, mode) < 0 ? errno : 0;
}

static int temp_write(const struct file_store *store, struct temp *temp, const struct head *head)
{
    char small[2048];
    size_t size = head_size(head);
    char *bytes = size <= sizeof small ? small : malloc(size);
    if (bytes == NULL) return ENOMEM;
    head_encode(head, bytes);
    int error = sys_write(temp->fd, bytes, size);
    if (error == 0) error = temp_mode(store, temp, (head->flags & HEAD_DURABLE) != 0);
    if (bytes != small) free(bytes);
    return error;
}

static int link_unnamed(int fd, int dir, const char *name)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) < 0 ? errno : 0;
}

/* A network file system cannot rename without replacing, so a link publishes the head there. */
static int publish_new(struct bucket *bucket, struct temp *temp, const char *name, bool network)
{
    if (!temp->named) return link_unnamed(temp->fd, bucket->heads, name);
    if (!network) {
        if (renameat2(bucket->temps, temp->name, bucket->heads, name, RENAME_NOREPLACE) == 0) {
            temp->named = false;
            return 0;
        }
        if (errno != EINVAL && errno != ENOSYS) return errno;
    }
    return sys_link(bucket->temps, temp->name, bucket->heads, name);
}

static int publish_over(struct bucket *bucket, struct temp *temp, const char *name, bool durable)
{
    assert(temp->named);
    /* After a replacing rename ext4 writes the content to disk, which takes a millisecond. An
     * exchange of names avoids this: the old head gets the temporary name and is removed. */
    if (!durable && renameat2(bucket->temps, temp->name, bucket->heads, name, RENAME_EXCHANGE) == 0)
        return 0;
    if (!durable && errno != EINVAL && errno != ENOSYS) return errno;
    if (renameat(bucket->temps, temp->name, bucket->heads, name) < 0) return errno;
    temp->named = false;
    return 0;
}

/* Syncs each bucket once: the directories of a durable head must be durable, too. */
static int sync_dirs(struct file_store *store, struct bucket *bucket)
{
    if (atomic_load(&bucket->durable)) return 0;
    int dir = sys_open_dir(store->buckets_dir, bucket->name);
    if (dir < 0) return errno;
    int error = fsync(dir) < 0 ? errno : 0;
    sys_close(dir);
    if (error == 0 && fsync(store->buckets_dir) < 0) error = errno;
    if (error == 0) atomic_store(&bucket->durable, true);
    return error;
}

static coord_result sync_failed(struct file_store *store, int error, bool published)
{
    /* A full disk loses only the temporary file, so the store is not degraded. */
    if (published || (error != ENOSPC && error != EDQUOT)) atomic_store(&store->sync_failed, true);
    coord_result result = file_trouble(error, published ? "sync a directory" : "sync a head");
    if (published) result.flags |= COORD_F_MAYBE_APPLIED;
    return result;
}

static coord_result place(struct file_store *store, struct bucket *bucket, struct temp *temp,
                          const char *name, bool replace, bool durable)
{
    bool network = store->settings.create_only;
    int error = replace ? publish_over(bucket, temp, name, durable)
                        : publish_new(bucket, temp, name, network);
    if (error == 0) return prim_ok(COORD_R_NONE);
    if (error == EEXIST && network)
        return prim_answer(COORD_CONFLICT, COORD_R_PRESENT, "another host was faster");
    if (error == EEXIST && !replace) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_LOCK_VIOLATION,
                           "a head appeared while its key was locked");
    }
    coord_result result = file_trouble(error, "publish a head");
    result.flags |= COORD_F_MAYBE_APPLIED;
    return result;
}

static coord_result write_and_place(struct file_store *store, struct bucket *bucket,
                                    struct temp *temp, const char *name, const struct head *head,
                                    bool replace)
{
    bool durable = (head->flags & HEAD_DURABLE) != 0;
    int error = temp_write(store, temp, head);
    if (error != 0) return file_trouble(error, "write a head");
    if (durable) {
        if (fdatasync(temp->fd) < 0) error = errno;
        if (error == 0) error = sync_dirs(store, bucket);
        if (error != 0) return sync_failed(store, error, false);
    }
    coord_result result = place(store, bucket, temp, name, replace, durable);
    if (result.code != COORD_OK) return result;
    if (durable && fsync(bucket->heads) < 0) return sync_failed(store, errno, true);
    return result;
}

coord_result head_publish(struct file_store *store, struct bucket *bucket, const char *name,
                          const struct head *head, bool replace)
{
    struct temp temp;
    int error = temp_open(store, bucket, replace || store->settings.create_only, &temp);
    if (error != 0) return file_trouble(error, "make a temporary file");
    coord_result result = write_and_place(store, bucket, &temp, name, head, replace);
    if (temp.named) (void)unlinkat(bucket->temps, temp.name, 0);
    sys_close(temp.fd);
    return result;
}

bool head_may_have_lease(const struct bucket *bucket, const char *name, const coord_id *id)
{
    struct head_file file;
    head_file_init(&file);
    int error = head_read(bucket->heads, name, STR_EMPTY, &file);
    bool may = error != 0 || file.found == HEAD_IS_DAMAGED ||
               (file.found == HEAD_IS_THERE && prim_id_equal(&file.head.lease_id, id));
    head_file_deinit(&file);
    return may;
}
