/* SPDX-License-Identifier: Apache-2.0 */
/* The authority as files: reading, publishing, locking. For cert*.c only. */
#ifndef IO_CERT_FILES_H
#define IO_CERT_FILES_H
#include "io/cert_build.h"

enum { CERT_PATH_CAP = 1024 };
#define CERT_CA_FILE     "ca.pem"
#define CERT_CA_KEY_FILE "ca.key.pem"

struct cert_authority {
    X509 *roots[CERT_ROOTS_MAX];
    size_t root_count, signer; /* index of the root that `key` belongs to */
    EVP_PKEY *key;
    bool key_exposed;
};

/* ERR_NOT_FOUND: neither file; ERR_CONFLICT: one of two, a key that belongs to no root, or a
 * certificate among the roots that may not sign. */
enum err cert_authority_load(struct fs *fs, const char *dir, struct cert_authority *ret_authority,
                             struct note *note);
void cert_authority_deinit(struct cert_authority *authority); /* fine on a zeroed one */
/* Is this the name of a file that only an authority has, in whatever directory? */
bool cert_path_is_authority(const char *path);
/* Is this the key of a root, the one that signs or an older one? */
bool cert_key_is_authority(const EVP_PKEY *key, const struct cert_authority *authority);

/* "<dir>/<name>"; ERR_INVALID with a note when it does not fit. */
enum err cert_path(char path[CERT_PATH_CAP], const char *dir, const char *name, struct note *note);
/* The whole file into `into`; a key's bytes are wiped with cert_wipe. Notes name the file. */
enum err cert_read(struct fs *fs, const char *path, struct buf *into, struct note *note);
enum err cert_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                      struct note *note);
void cert_wipe(struct buf *secret); /* overwrites, then buf_deinit */
enum { CERT_MODE_PUBLIC = 0644, CERT_MODE_SECRET = 0600, CERT_MODE_DIR = 0700 };
/* Waits a few seconds for another process; then ERR_BUSY. */
enum err cert_lock(struct fs *fs, const char *dir, struct fs_lock **ret_lock, struct note *note);
wall_time cert_not_before(const X509 *certificate);
wall_time cert_not_after(const X509 *certificate);
/* The index of the root that signed it; CERT_ROOTS_MAX when none did. */
size_t cert_signed_by(X509 *certificate, const struct cert_authority *authority);
#endif
