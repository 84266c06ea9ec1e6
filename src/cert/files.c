/* SPDX-License-Identifier: Apache-2.0 */
/* Files of certificates: paths, reading, publishing, listing, the lock of an authority's directory.
 *
 * A file is published whole and with its final mode. A buffer that held a key is overwritten before
 * its memory is freed. Calls block; any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "cert/internal.h"

enum {
    LOCK_TRIES = 500,
    LOCK_PAUSE_NS = 10000000
}; /* five seconds: making a CA takes milliseconds */

enum err cert_path(char path[CERT_PATH_CAP], const char *dir, const char *name, struct note *note)
{
    int len = snprintf(path, CERT_PATH_CAP, "%s/%s", dir, name);

    if (len > 0 && len < CERT_PATH_CAP) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%.100s...: path too long", dir);
}

enum err cert_read(struct fs *fs, const char *path, struct buf *into, struct note *note)
{
    enum err err = fs_read_whole(fs, path, CERT_FILE_MAX, into);
    struct fs_info info;

    if (err && err != ERR_NOT_FOUND && !fs_stat(fs, path, &info) && info.kind == FS_DIRECTORY)
        note_set(note, "read %s: is a directory", path);
    else if (err)
        note_set(note, "read %s: %s", path, err_text(err));
    return err;
}

enum err cert_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                      struct note *note)
{
    uint64_t unique;
    enum err err = ERR_INTERNAL;

    if (RAND_bytes((unsigned char *)&unique, sizeof unique) == 1)
        err = fs_publish(fs, path, content, mode, unique);
    if (err) note_set(note, "write %s: %s", path, err_text(err));
    return err;
}

static enum err publish_pem(struct fs *fs, const char *path, enum err err, struct buf *own_pem,
                            uint32_t mode, struct note *note)
{
    if (err)
        note_set(note, "%s: %s", path, err_text(err));
    else
        err = cert_publish(fs, path, buf_peek(own_pem), mode, note);
    cert_wipe(own_pem);
    return err;
}

enum err cert_publish_key(struct fs *fs, const char *path, const EVP_PKEY *key, struct note *note)
{
    struct buf pem;

    buf_init(&pem, CERT_FILE_MAX);
    return publish_pem(fs, path, cert_put_key_pem(key, &pem), &pem, CERT_MODE_SECRET, note);
}

enum err cert_publish_list(struct fs *fs, const char *path, X509 *const *list, size_t count,
                           struct note *note)
{
    struct buf pem;
    enum err err = ERR_OK;

    buf_init(&pem, CERT_FILE_MAX);
    for (size_t i = 0; !err && i < count; i++) err = cert_put_pem(list[i], &pem);
    return publish_pem(fs, path, err, &pem, CERT_MODE_PUBLIC, note);
}

void cert_wipe(struct buf *secret)
{
    if (secret->data) OPENSSL_cleanse(secret->data, secret->cap);
    buf_deinit(secret);
}

enum err cert_lock(struct fs *fs, const char *dir, struct fs_lock **ret_lock, struct note *note)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    enum err err = ERR_BUSY;

    for (int i = 0; i < LOCK_TRIES && err == ERR_BUSY; i++) {
        if (i > 0) nanosleep(&pause, NULL);
        err = fs_lock_dir(fs, dir, ret_lock, note);
    }
    if (err && err != ERR_BUSY) note_set(note, "lock %s: %s", dir, err_text(err));
    return err;
}

/* -- the leaves of a directory ----------------------------------------------------------------- */

struct leaf_list {
    const char *dir;
    struct buf paths; /* each with its closing NUL */
    size_t count;
    enum err err;
};

static void leaf_list_add(void *context, const char *name, enum fs_kind kind)
{
    struct leaf_list *list = context;
    struct str whole = str_from(name);
    char path[CERT_PATH_CAP];

    if (kind == FS_DIRECTORY || list->err || name[0] == '.') return;
    if (!str_ends(whole, STR(".pem")) || str_ends(whole, STR(".key.pem"))) return;
    if (str_equal(whole, STR(CERT_CA_FILE))) return;
    list->err = cert_path(path, list->dir, name, NULL);
    if (!list->err) list->err = buf_append(&list->paths, str_of(path, strlen(path) + 1));
    list->count++;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum err cert_list_leaves(struct fs *fs, const char *dir, const char ***ret_paths,
                          size_t *ret_count, struct note *note)
{
    struct leaf_list list = {.dir = dir};
    const char **paths = NULL;
    char *text;
    enum err err;

    buf_init(&list.paths, CERT_LEAVES_BYTES_MAX);
    err = fs_list(fs, dir, leaf_list_add, &list);
    if (!err) err = list.err == ERR_FULL ? ERR_TOO_LARGE : list.err;
    if (!err) {
        paths = malloc(list.count * sizeof *paths + list.paths.len + 1);
        if (!paths) err = ERR_NOMEM;
    }
    if (err) {
        note_set(note, "list %s: %s", dir, err_text(err));
    } else {
        text = (char *)(paths + list.count);
        if (list.paths.len > 0) memcpy(text, list.paths.data, list.paths.len);
        for (size_t i = 0; i < list.count; i++, text += strlen(text) + 1) paths[i] = text;
        qsort(paths, list.count, sizeof *paths, compare_paths);
        *ret_paths = paths;
        *ret_count = list.count;
    }
    buf_deinit(&list.paths);
    return err;
}
