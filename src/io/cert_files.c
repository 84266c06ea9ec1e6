/* SPDX-License-Identifier: Apache-2.0 */
/* Where the authority lives on disk. See io/cert.h for the layout and what a crash may leave. */
#include "io/cert_files.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include "io/tls_identity.h"

enum {
    LOCK_TRIES = 500,
    LOCK_PAUSE_NS = 10000000
}; /* five seconds: making a CA takes milliseconds */

enum err cert_path(char path[CERT_PATH_CAP], const char *dir, const char *name, struct note *note)
{
    int len = snprintf(path, CERT_PATH_CAP, "%s/%s", dir, name);

    if (len > 0 && len < CERT_PATH_CAP) return ERR_OK;
    note_set(note, "%.100s...: path too long", dir);
    return ERR_INVALID;
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

wall_time cert_not_before(const X509 *certificate)
{
    wall_time time = {0};
    (void)tls_wall_from_asn1(X509_get0_notBefore(certificate), &time);
    return time;
}

wall_time cert_not_after(const X509 *certificate)
{
    wall_time time = {0};
    (void)tls_wall_from_asn1(X509_get0_notAfter(certificate), &time);
    return time;
}

size_t cert_signed_by(X509 *certificate, const struct cert_authority *authority)
{
    size_t found = CERT_ROOTS_MAX;

    for (size_t i = 0; i < authority->root_count && found == CERT_ROOTS_MAX; i++)
        if (X509_verify(certificate, X509_get0_pubkey(authority->roots[i])) == 1) found = i;
    ERR_clear_error(); /* the roots that did not sign left their complaints */
    return found;
}

bool cert_path_is_authority(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strcmp(name, CERT_CA_FILE) == 0 || strcmp(name, CERT_CA_KEY_FILE) == 0;
}

bool cert_key_is_authority(const EVP_PKEY *key, const struct cert_authority *authority)
{
    bool found = false;

    for (size_t i = 0; i < authority->root_count && !found; i++)
        found = EVP_PKEY_eq(X509_get0_pubkey(authority->roots[i]), key) == 1;
    ERR_clear_error();
    return found;
}

/* Both, neither, or a reason to stop. */
static enum err look(struct fs *fs, const char *cert_path_, const char *key_path,
                     uint32_t *ret_mode, struct note *note)
{
    struct fs_info cert, key;
    enum err cert_err = fs_stat(fs, cert_path_, &cert), key_err = fs_stat(fs, key_path, &key);
    enum err err = cert_err && cert_err != ERR_NOT_FOUND ? cert_err
                   : key_err && key_err != ERR_NOT_FOUND ? key_err
                                                         : ERR_OK;

    if (err) {
        note_set(note, "look at %s: %s", cert_err ? cert_path_ : key_path, err_text(err));
        return err;
    }
    if (cert_err && key_err) {
        note_set(note, "%s: no certificate authority here", cert_path_);
        return ERR_NOT_FOUND;
    }
    if (cert_err || key_err) {
        note_set(note, "%s is there but %s is missing: restore it, or remove both to start anew",
                 cert_err ? key_path : cert_path_, cert_err ? cert_path_ : key_path);
        return ERR_CONFLICT;
    }
    *ret_mode = key.mode;
    return ERR_OK;
}

static enum err find_signer(struct cert_authority *authority, const char *key_path,
                            struct note *note)
{
    for (size_t i = 0; i < authority->root_count; i++) {
        bool belongs = X509_check_private_key(authority->roots[i], authority->key) == 1;
        ERR_clear_error();
        if (!belongs) continue;
        authority->signer = i;
        return ERR_OK;
    }
    note_set(note, "%s belongs to none of the roots beside it", key_path);
    return ERR_CONFLICT;
}

static enum err check_roots(const struct cert_authority *authority, const char *cert_file,
                            struct note *note)
{
    for (size_t i = 0; i < authority->root_count; i++) {
        if (cert_may_sign(authority->roots[i])) continue;
        note_set(note, "%s holds a certificate that is no authority's: restore it", cert_file);
        return ERR_CONFLICT;
    }
    return ERR_OK;
}

/* Why a file of the authority could not be understood. */
static void explain(const char *path, enum err err, struct str content, struct note *note)
{
    if (err && content.len == 0)
        note_set(note, "%s is empty: restore it", path);
    else if (err)
        note_set(note, "%s: %s", path, err_text(err));
}

static enum err load_parts(struct fs *fs, const char *cert_file, const char *key_file,
                           struct cert_authority *authority, struct note *note)
{
    struct buf cert_pem, key_pem;
    enum err err;

    buf_init(&cert_pem, CERT_FILE_MAX);
    buf_init(&key_pem, CERT_FILE_MAX);
    err = cert_read(fs, cert_file, &cert_pem, note);
    if (!err) err = cert_read(fs, key_file, &key_pem, note);
    if (!err) {
        err = cert_list_from_pem(buf_peek(&cert_pem), authority->roots, CERT_ROOTS_MAX,
                                 &authority->root_count);
        explain(cert_file, err, buf_peek(&cert_pem), note);
    }
    if (!err) {
        err = cert_key_from_pem(buf_peek(&key_pem), &authority->key);
        explain(key_file, err, buf_peek(&key_pem), note);
    }
    if (!err) err = check_roots(authority, cert_file, note);
    if (!err) err = find_signer(authority, key_file, note);
    buf_deinit(&cert_pem);
    cert_wipe(&key_pem);
    return err;
}

enum err cert_authority_load(struct fs *fs, const char *dir, struct cert_authority *ret_authority,
                             struct note *note)
{
    struct cert_authority authority = {0};
    char cert_file[CERT_PATH_CAP], key_file[CERT_PATH_CAP];
    uint32_t mode = 0;
    enum err err;

    err = cert_path(cert_file, dir, CERT_CA_FILE, note);
    if (!err) err = cert_path(key_file, dir, CERT_CA_KEY_FILE, note);
    if (!err) err = look(fs, cert_file, key_file, &mode, note);
    if (!err) err = load_parts(fs, cert_file, key_file, &authority, note);
    if (err) {
        cert_authority_deinit(&authority);
        return err;
    }
    authority.key_exposed = (mode & 077) != 0;
    *ret_authority = authority;
    return ERR_OK;
}

void cert_authority_deinit(struct cert_authority *authority)
{
    cert_list_free(authority->roots, authority->root_count);
    EVP_PKEY_free(authority->key);
    *authority = (struct cert_authority){0};
}
