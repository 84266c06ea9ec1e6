/* SPDX-License-Identifier: Apache-2.0 */
/* netfs=create-only: what can still be promised on a network file system, which is little: create
 * without a lease, by link(), whose success shows in the link count even when its reply was lost;
 * get; and delete of what this very store object created. Everything else is refused. */
#include "prim/file/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A key this object made, and may therefore delete. */
struct created {
    struct created *next;
    uint64_t revision;
    size_t len;
    char key[];
};

static struct created **find(struct file_store *store, struct str key)
{
    struct created **at = &store->created;
    while (*at != NULL && !str_equal(str_of((*at)->key, (*at)->len), key)) at = &(*at)->next;
    return at;
}

static void note_created(struct file_store *store, struct str key, uint64_t revision)
{
    size_t count = 0;
    struct created *made = malloc(sizeof *made + key.len);
    if (made == NULL) { return; } /* it can then not be deleted from here */
    made->next = NULL;
    made->revision = revision;
    made->len = key.len;
    memcpy(made->key, key.at, key.len);
    (void)pthread_mutex_lock(&store->mutex);
    for (struct created *at = store->created; at != NULL; at = at->next) count++;
    struct created **at = find(store, key);
    if (*at != NULL) {
        (*at)->revision = revision;
        free(made);
    } else if (count < CREATED_MAX) {
        *at = made;
    } else {
        free(made);
    }
    (void)pthread_mutex_unlock(&store->mutex);
}

void netfs_close(struct file_store *store)
{
    while (store->created != NULL) {
        struct created *made = store->created;
        store->created = made->next;
        free(made);
    }
}

/* Writes a temporary file and links it to its name. 0, EEXIST, or errno. The reply to link() may
 * be lost although it was done: two links on our own file are the proof. */
static int link_new(struct file_store *store, int temps, int dir, const char *name,
                    const void *bytes, size_t len)
{
    char temp[LAYOUT_TEMP_CAP];
    struct stat info;
    file_temp_name(store, temp);
    int fd = sys_open(temps, temp, O_RDWR | O_CREAT | O_EXCL, file_mode(store));
    if (fd < 0) return errno;
    int error = sys_write(fd, bytes, len);
    if (error == 0 && fchmod(fd, file_mode(store) | S_IXUSR) < 0) error = errno;
    if (error == 0 && fsync(fd) < 0) error = errno;
    if (error == 0) {
        if (linkat(temps, temp, dir, name, 0) < 0) error = errno;
        if (error != 0 && fstat(fd, &info) == 0 && info.st_nlink == 2) error = 0;
        if (error == 0 && fsync(dir) < 0) error = errno;
    }
    (void)unlinkat(temps, temp, 0);
    sys_close(fd);
    return error;
}

coord_result netfs_open(struct file_store *store)
{
    static const char *const names[] = {"meta", "s", "b", "lost"};
    int *const fds[] = {&store->meta, &store->leases, &store->buckets_dir, &store->lost};
    char bytes[FORMAT_CAP];
    size_t got = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        int error = sys_make_dir(store->root, names[i], store->settings.mode);
        if (error == 0) {
            *fds[i] = sys_open_dir(store->root, names[i]);
            error = *fds[i] < 0 ? errno : 0;
        }
        if (error != 0) return file_trouble(error, names[i]);
    }
    int error = sys_read_file(store->root, "FORMAT", bytes, sizeof bytes, &got);
    if (error == ENOENT) {
        coord_id id = prim_id_random();
        char text[FORMAT_CAP];
        size_t len = format_encode(&id, text);
        error = link_new(store, store->meta, store->root, "FORMAT", text, len);
        if (error == 0 || error == EEXIST)
            error = sys_read_file(store->root, "FORMAT", bytes, sizeof bytes, &got);
    }
    if (error != 0) return file_trouble(error, "open FORMAT");
    if (format_decode(str_of(bytes, got), &store->backend.id) != ERR_OK)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "FORMAT is damaged");
    return prim_ok(COORD_R_NONE);
}

/* There is no order between hosts here. Microseconds of the wall clock keep two revisions of a key
 * apart; capabilities say that tokens are none. */
static uint64_t next_revision(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static coord_result found_already(struct bucket *bucket, const char *name,
                                  const struct prim_call *call, struct str key,
                                  struct prim_grant *ret_grant)
{
    struct head_file file;
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_HELD, "there is an entry already");
    head_file_init(&file);
    int error = head_read(bucket->heads, name, key, &file);
    if (error != 0) {
        result = file_trouble(error, "read a head");
    } else if (file.found == HEAD_IS_DAMAGED) {
        result = head_damaged(key);
    } else if (file.found == HEAD_IS_THERE) {
        if (prim_id_equal(&file.head.request_id, &call->request_id)) {
            result = prim_ok(COORD_R_REPLAYED);
            ret_grant->create_revision = file.head.create_revision;
        }
        result.revision = file.head.revision;
    }
    head_file_deinit(&file);
    return result;
}

static coord_result refused(void)
{
    return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                       "netfs=create-only: only create without a lease, get, and delete of what "
                       "this store object created");
}

coord_result netfs_create(struct file_store *store, const struct prim_call *call,
                          const struct prim_create *in, struct prim_grant *ret_grant)
{
    char name[LAYOUT_NAME_CAP];
    struct bucket *bucket = NULL;
    struct head head;
    if (in->ttl_ms != 0 || in->under != NULL) return refused();
    coord_result result = bucket_of_key(store, in->key, true, &bucket, name);
    if (result.code != COORD_OK) return result;
    head_begin(store, call, in->key, next_revision(), COORD_R_CREATED, &head);
    head.value = in->value;
    char *bytes = malloc(head_size(&head));
    if (bytes == NULL) {
        result = prim_no_memory();
    } else {
        head_encode(&head, bytes);
        int error = link_new(store, bucket->temps, bucket->heads, name, bytes, head_size(&head));
        if (error == 0) {
            result = prim_ok(COORD_R_CREATED);
            result.revision = ret_grant->create_revision = head.revision;
            note_created(store, in->key, head.revision);
        } else if (error == EEXIST) {
            result = found_already(bucket, name, call, in->key, ret_grant);
        } else {
            result = file_trouble(error, "create an entry");
            result.flags |= COORD_F_MAYBE_APPLIED;
        }
    }
    free(bytes);
    bucket_put(store, bucket);
    return result;
}

coord_result netfs_remove(struct file_store *store, const struct prim_call *call,
                          const struct prim_delete *in)
{
    char name[LAYOUT_NAME_CAP];
    struct bucket *bucket = NULL;
    (void)call;
    (void)pthread_mutex_lock(&store->mutex);
    struct created **at = find(store, in->key), *made = *at;
    bool ours = made != NULL && (in->expected == COORD_ANY || in->expected == made->revision);
    if (ours) *at = made->next;
    (void)pthread_mutex_unlock(&store->mutex);
    if (!ours) return refused();
    coord_result result = bucket_of_key(store, in->key, false, &bucket, name);
    if (result.code == COORD_OK) {
        int error = unlinkat(bucket->heads, name, 0) < 0 ? errno : 0;
        if (error == 0 && fsync(bucket->heads) < 0) error = errno;
        if (error == ENOENT) {
            result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "somebody removed it");
        } else if (error != 0) {
            result = file_trouble(error, "remove an entry");
            result.flags |= COORD_F_MAYBE_APPLIED;
        } else {
            result = prim_ok(COORD_R_DELETED);
            result.revision = made->revision;
        }
    }
    bucket_put(store, bucket);
    free(made);
    return result;
}
