/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: their directories are made and opened once, and kept for the next call. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prim/file/store.h"
#include "prim/file/sys.h"

static void bucket_close(struct bucket *bucket)
{
    sys_close(bucket->heads);
    sys_close(bucket->locks);
    sys_close(bucket->temps);
    door_deinit(&bucket->door);
    free(bucket);
}

static int make_dirs(struct file_store *store, const char *name)
{
    static const char *const parts[] = {"h", "l", "t"};
    int error = sys_make_dir(store->buckets_dir, name, store->settings.mode);
    if (error != 0) return error;
    int dir = sys_open_dir(store->buckets_dir, name);
    if (dir < 0) return errno;
    for (size_t i = 0; i < ARRAY_LEN(parts) && error == 0; i++)
        error = sys_make_dir(dir, parts[i], store->settings.mode);
    sys_close(dir);
    return error;
}

static int open_part(const struct file_store *store, int dir, const char *part, int *fd)
{
    struct stat info;
    *fd = sys_open_dir(dir, part);
    if (*fd < 0) return errno;
    if (fstat(*fd, &info) < 0) return errno;
    return info.st_dev == store->device ? 0 : EXDEV; /* a rename must never cross file systems */
}

static int open_dirs(struct file_store *store, const char *name, struct bucket *bucket)
{
    int dir = sys_open_dir(store->buckets_dir, name);
    if (dir < 0) return errno;
    int error = open_part(store, dir, "h", &bucket->heads);
    if (error == 0) error = open_part(store, dir, "l", &bucket->locks);
    if (error == 0) error = open_part(store, dir, "t", &bucket->temps);
    sys_close(dir);
    return error;
}

static coord_result bucket_open(struct file_store *store, const char *name, bool create,
                                struct bucket **ret_bucket)
{
    struct bucket *bucket = calloc(1, sizeof *bucket);
    if (bucket == NULL) return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no memory");
    list_init(&bucket->node);
    bucket->heads = bucket->locks = bucket->temps = -1;
    door_init(&bucket->door);
    (void)snprintf(bucket->name, sizeof bucket->name, "%s", name);
    int error = open_dirs(store, name, bucket);
    if (error == ENOENT && create) {
        error = make_dirs(store, name);
        if (error == 0) error = open_dirs(store, name, bucket);
    }
    if (error == 0) {
        *ret_bucket = bucket;
        return prim_ok(COORD_R_NONE);
    }
    bucket_close(bucket);
    if (error == ENOENT && !create)
        return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such bucket");
    return file_trouble(error, "open the directories of a bucket");
}

static bool is_gone(const struct bucket *bucket)
{
    struct stat info;
    return fstat(bucket->heads, &info) < 0 || info.st_nlink == 0;
}

static void forget(struct file_store *store, struct bucket *bucket)
{
    list_remove(&bucket->node);
    store->bucket_count--;
    bucket->stale = true;
    if (bucket->refs == 0) bucket_close(bucket);
}

static struct bucket *find(struct file_store *store, const char *name)
{
    LIST_EACH(&store->buckets, node)
    {
        struct bucket *bucket = CONTAINER_OF(node, struct bucket, node);
        if (strcmp(bucket->name, name) != 0) continue;
        list_remove(&bucket->node);
        list_append(&store->buckets, &bucket->node);
        return bucket;
    }
    return NULL;
}

static void keep_few(struct file_store *store)
{
    LIST_EACH_SAFE(&store->buckets, node, following)
    {
        struct bucket *bucket = CONTAINER_OF(node, struct bucket, node);
        if (store->bucket_count <= BUCKETS_KEPT_MAX) return;
        if (bucket->refs == 0) forget(store, bucket);
    }
}

coord_result bucket_get(struct file_store *store, const char *name, bool create,
                        struct bucket **ret_bucket)
{
    struct bucket *fresh = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    struct bucket *bucket = find(store, name);
    if (bucket != NULL && is_gone(bucket)) {
        forget(store, bucket);
        bucket = NULL;
    }
    if (bucket != NULL) bucket->refs++;
    (void)pthread_mutex_unlock(&store->mutex);
    if (bucket == NULL) {
        coord_result result = bucket_open(store, name, create, &fresh);
        if (result.code != COORD_OK) return result;
        assert(fresh != NULL);
        (void)pthread_mutex_lock(&store->mutex);
        bucket = find(store, name); /* another thread may have been faster */
        if (bucket == NULL) {
            bucket = fresh;
            fresh = NULL;
            list_append(&store->buckets, &bucket->node);
            store->bucket_count++;
        }
        bucket->refs++;
        keep_few(store);
        (void)pthread_mutex_unlock(&store->mutex);
        if (fresh != NULL) bucket_close(fresh);
    }
    *ret_bucket = bucket;
    return prim_ok(COORD_R_NONE);
}

void bucket_put(struct file_store *store, struct bucket *bucket)
{
    if (bucket == NULL) return;
    (void)pthread_mutex_lock(&store->mutex);
    assert(bucket->refs > 0);
    if (--bucket->refs == 0 && bucket->stale) bucket_close(bucket);
    (void)pthread_mutex_unlock(&store->mutex);
}

void buckets_close(struct file_store *store)
{
    LIST_EACH_SAFE(&store->buckets, node, following)
    {
        struct bucket *bucket = CONTAINER_OF(node, struct bucket, node);
        assert(bucket->refs == 0);
        forget(store, bucket);
    }
}
