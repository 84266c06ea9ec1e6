/* SPDX-License-Identifier: Apache-2.0 */
/* The root certificates of an authority: creation, rotation, and the removal of old roots. Every
 * change is made under the directory's lock. Calls block; any thread.
 *
 * A new authority writes its key first, so that no certificate exists without its key. A mark file
 * exists during a creation: without the mark file, a missing file was lost later. A rotation writes
 * ca.pem first. After a crash the old key still has its root, and cert_ca_retire drops the new
 * root. */
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "cert/internal.h"

#define DEFAULT_NAME "muster-dev-ca"
#define ROLLOUT_NAME "rollout-dev-ca"
#define MAKING       ".ca.making" /* exists during a creation, and after its crash */
/* The validity of the development CA (workers.md 17.1): 1975-01-01 to 4096-01-01. */
static const struct cert_validity rollout_validity = {157766400, 67090118400};

/* -- reading ----------------------------------------------------------------------------------- */

struct authority_files {
    char cert[FS_PATH_CAP], key[FS_PATH_CAP], mark[FS_PATH_CAP];
};

static enum err authority_files_of(const char *dir, struct authority_files *files,
                                   struct note *note)
{
    enum err err = fs_path(dir, CERT_CA_FILE, files->cert, note);

    if (!err) err = fs_path(dir, CERT_CA_KEY_FILE, files->key, note);
    return err ? err : fs_path(dir, MAKING, files->mark, note);
}

/* ERR_OK: both files or neither file exists. */
static enum err authority_look(struct fs *fs, const char *cert_file, const char *key_file,
                               uint32_t *ret_mode, struct note *note)
{
    struct fs_info cert, key;
    enum err cert_err = fs_stat(fs, cert_file, &cert), key_err = fs_stat(fs, key_file, &key);
    enum err err = cert_err && cert_err != ERR_NOT_FOUND ? cert_err
                   : key_err && key_err != ERR_NOT_FOUND ? key_err
                                                         : ERR_OK;

    if (err)
        return note_fail(note, err, "look at %s: %s", cert_err ? cert_file : key_file,
                         err_text(err));
    if (cert_err && key_err)
        return note_fail(note, ERR_NOT_FOUND, "%s: no certificate authority here", cert_file);
    if (cert_err || key_err)
        return note_fail(note, ERR_CONFLICT,
                         "%s is there but %s is missing: restore it, or remove both to start anew",
                         cert_err ? key_file : cert_file, cert_err ? cert_file : key_file);
    *ret_mode = key.mode;
    return ERR_OK;
}

static enum err authority_find_signer(struct cert_authority *authority, const char *key_file,
                                      struct note *note)
{
    for (size_t i = 0; i < authority->root_count; i++) {
        bool belongs = X509_check_private_key(authority->roots[i], authority->key) == 1;
        ERR_clear_error();
        if (!belongs) continue;
        authority->signer = i;
        return ERR_OK;
    }
    return note_fail(note, ERR_CONFLICT, "%s belongs to none of the roots beside it", key_file);
}

static enum err authority_check_roots(const struct cert_authority *authority, const char *cert_file,
                                      struct note *note)
{
    for (size_t i = 0; i < authority->root_count; i++) {
        if (cert_is_authority(authority->roots[i]) == 1) continue;
        return note_fail(note, ERR_CONFLICT,
                         "%s holds a certificate that is no authority's: restore it", cert_file);
    }
    return ERR_OK;
}

static void authority_explain_damage(const char *path, enum err err, struct str content,
                                     struct note *note)
{
    if (err && content.len == 0)
        note_set(note, "%s is empty: restore it", path);
    else if (err)
        note_set(note, "%s: %s", path, err_text(err));
}

static enum err authority_load_parts(struct fs *fs, const char *cert_file, const char *key_file,
                                     struct cert_authority *authority, struct note *note)
{
    struct buf cert_pem, key_pem;
    enum err err;

    buf_init(&cert_pem, CERT_FILE_MAX);
    buf_init(&key_pem, CERT_FILE_MAX);
    err = cert_read(fs, cert_file, &cert_pem, note);
    if (!err) err = cert_read(fs, key_file, &key_pem, note);
    if (!err) {
        err = tls_pem_certificates(buf_peek(&cert_pem), authority->roots, CERT_ROOTS_MAX,
                                   &authority->root_count, NULL);
        authority_explain_damage(cert_file, err, buf_peek(&cert_pem), note);
    }
    if (!err) {
        err = tls_pem_key(buf_peek(&key_pem), &authority->key, NULL);
        authority_explain_damage(key_file, err, buf_peek(&key_pem), note);
    }
    if (!err) err = authority_check_roots(authority, cert_file, note);
    if (!err) err = authority_find_signer(authority, key_file, note);
    buf_deinit(&cert_pem);
    tls_wipe(&key_pem);
    return err;
}

enum err cert_authority_load(struct fs *fs, const char *dir, struct cert_authority *ret_authority,
                             struct note *note)
{
    struct cert_authority authority = {0};
    struct authority_files files;
    uint32_t mode = 0;
    enum err err = authority_files_of(dir, &files, note);

    if (!err) err = authority_look(fs, files.cert, files.key, &mode, note);
    if (!err) err = authority_load_parts(fs, files.cert, files.key, &authority, note);
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
    tls_certificates_free(authority->roots, authority->root_count);
    EVP_PKEY_free(authority->key);
    *authority = (struct cert_authority){0};
}

size_t cert_signed_by(X509 *certificate, const struct cert_authority *authority)
{
    size_t found = CERT_ROOTS_MAX;

    for (size_t i = 0; i < authority->root_count && found == CERT_ROOTS_MAX; i++)
        if (X509_verify(certificate, X509_get0_pubkey(authority->roots[i])) == 1) found = i;
    ERR_clear_error(); /* failed checks of other roots left errors in OpenSSL's queue */
    return found;
}

/* -- creating ---------------------------------------------------------------------------------- */

const char *cert_result_text(enum cert_result result)
{
    static const char *const texts[] = {"created", "kept", "renewed"};
    return texts[result];
}

/* UTF-8 without control characters (C0, DEL, C1) is safe on a terminal. */
static bool authority_name_is_printable(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        unsigned char next = i + 1 < text.len ? (unsigned char)text.at[i + 1] : 0xff;
        if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next < 0xa0)) return false;
    }
    return str_is_utf8(text);
}

static enum err authority_check_options(const struct cert_ca_options *options, struct note *note)
{
    struct str name = options->common_name ? str_from(options->common_name) : STR(DEFAULT_NAME);

    if (!options->dir || !options->dir[0])
        note_set(note, "a directory is needed");
    else if (options->days > CERT_DAYS_MAX)
        note_set(note, "at most %d days", CERT_DAYS_MAX);
    else if (name.len == 0 || name.len > CERT_ID_MAX || !authority_name_is_printable(name))
        note_set(note, "a common name has 1 to %d bytes of text without control characters",
                 CERT_ID_MAX);
    else
        return ERR_OK;
    return ERR_INVALID;
}

/* Checks that an existing authority matches the request, except for its lifetime. */
static enum err authority_check_same(const struct cert_authority *authority,
                                     const struct cert_ca_options *options, struct note *note)
{
    const X509 *signer = authority->roots[authority->signer];
    const X509_NAME *subject = X509_get_subject_name(signer);
    const char *wanted = options->rollout ? ROLLOUT_NAME : options->common_name;
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    const ASN1_STRING *has =
        at < 0 ? NULL : X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    bool same = wanted && has &&
                str_equal(str_from(wanted),
                          str_of(ASN1_STRING_get0_data(has), (size_t)ASN1_STRING_length(has)));
    char shown[128] = "";

    if (options->rollout)
        same =
            same && cert_not_after(signer).ms / MS_PER_SECOND == (uint64_t)rollout_validity.until_s;
    if (!wanted || same) return ERR_OK;
    X509_NAME_oneline(subject, shown, sizeof shown); /* "/CN=..." with unprintable bytes as \xNN */
    return note_fail(note, ERR_CONFLICT,
                     "%s holds another authority: asked for CN=%s%s, has %s; it is not touched",
                     options->dir, wanted, options->rollout ? " until 4096" : "", shown + 1);
}

static enum err authority_report(const struct cert_authority *authority, enum cert_result result,
                                 const struct cert_ca_options *options, wall_time now,
                                 struct cert_report *ret_report, struct note *note)
{
    const X509 *signer = authority->roots[authority->signer];
    wall_time from = cert_not_before(signer), until = cert_not_after(signer);
    struct cert_report report = {
        .result = result,
        .roots = authority->root_count,
        .not_before = from,
        .not_after = until,
        .key_exposed = authority->key_exposed,
    };

    if (authority->key_exposed && options->strict_permissions)
        return note_fail(note, ERR_DENIED, "%s/ca.key.pem may be read by others: chmod 600",
                         options->dir);
    if (until.ms <= now.ms)
        note_set(&report.renew_soon, "the root has expired: rotate it");
    else if ((until.ms - now.ms) / 2 < (until.ms - from.ms) / 6)
        note_set(&report.renew_soon, "less than a third of the root's life is left: rotate it");
    *ret_report = report;
    return ERR_OK;
}

static enum err authority_make_root(const struct cert_ca_options *options, wall_time now,
                                    EVP_PKEY **ret_key, X509 **ret_root, struct note *note)
{
    int64_t now_s = (int64_t)(now.ms / MS_PER_SECOND);
    int64_t days = options->days ? options->days : CERT_CA_DAYS;
    struct cert_validity validity = {now_s - CERT_BACKDATE_S, now_s + days * CERT_DAY_S};
    struct str name = str_from(options->common_name ? options->common_name : DEFAULT_NAME);
    X509 *template = NULL;
    EVP_PKEY *key = NULL;
    enum err err;

    if (options->rollout) {
        name = STR(ROLLOUT_NAME);
        validity = rollout_validity;
    }
    err = cert_template_root(name, options->rollout, &template);
    if (!err) err = cert_key_new(&key);
    if (!err) err = cert_sign(template, key, NULL, NULL, validity, ret_root);
    X509_free(template);
    if (err) {
        note_set(note, "make a root: %s", err_text(err));
        EVP_PKEY_free(key);
        return err;
    }
    *ret_key = key;
    return ERR_OK;
}

/* Creates both files of the authority. Call under the lock, and only if neither file exists. */
static enum err authority_create(struct fs *fs, const struct cert_ca_options *options,
                                 const struct authority_files *files, wall_time now,
                                 struct cert_authority *ret_authority, struct note *note)
{
    struct cert_authority made = {0};
    enum err err = authority_make_root(options, now, &made.key, &made.roots[0], note);

    if (err) return err;
    made.root_count = 1;
    err = cert_publish(fs, files->mark, STR_EMPTY, CERT_MODE_SECRET, note);
    if (!err) err = cert_publish_key(fs, files->key, made.key, note);
    if (!err) err = cert_publish_list(fs, files->cert, made.roots, 1, note);
    if (err) {
        /* Removes nothing, because after ERR_UNKNOWN ca.pem may exist and needs its key. The mark
         * file lets the next call complete the creation or remove its files. */
        cert_authority_deinit(&made);
        return err;
    }
    *ret_authority = made;
    return ERR_OK;
}

/* Call under the lock. The mark file beside one other file means an interrupted creation, whose
 * certificate nobody can trust yet. */
static enum err authority_find_or_create(struct fs *fs, const struct cert_ca_options *options,
                                         const struct authority_files *files, wall_time now,
                                         enum cert_result *ret_result,
                                         struct cert_authority *ret_authority, struct note *note)
{
    struct fs_info info;
    enum err err = cert_authority_load(fs, options->dir, ret_authority, note);

    if (err == ERR_CONFLICT && !fs_stat(fs, files->mark, &info) &&
        fs_stat(fs, files->cert, &info) == ERR_NOT_FOUND && !fs_remove(fs, files->key))
        err = cert_authority_load(fs, options->dir, ret_authority, note);
    *ret_result = err == ERR_NOT_FOUND ? CERT_CREATED : CERT_KEPT;
    if (err == ERR_NOT_FOUND) err = authority_create(fs, options, files, now, ret_authority, note);
    return err;
}

enum err cert_ca_ensure(struct fs *fs, const struct cert_ca_options *options, wall_time now,
                        struct cert_report *ret_report, struct note *note)
{
    struct cert_authority authority = {0};
    enum cert_result result = CERT_KEPT;
    struct authority_files files;
    struct fs_lock *lock = NULL;
    enum err err = authority_check_options(options, note);

    if (!err) err = authority_files_of(options->dir, &files, note);
    if (err) return err;
    err = cert_authority_load(fs, options->dir, &authority, note);
    if (err == ERR_NOT_FOUND || err == ERR_CONFLICT) {
        /* Another process may be creating the authority, so wait for the lock and look again. */
        err = fs_make_dirs(fs, options->dir, CERT_MODE_DIR);
        if (err) note_set(note, "make %s: %s", options->dir, err_text(err));
        if (!err) err = cert_lock(fs, options->dir, &lock, note);
        if (!err)
            err = authority_find_or_create(fs, options, &files, now, &result, &authority, note);
    }
    /* The authority is complete. With the mark file, a later loss would look like a crash. */
    if (!err) (void)fs_remove(fs, files.mark);
    fs_unlock(fs, lock);
    if (!err && result == CERT_KEPT) err = authority_check_same(&authority, options, note);
    if (!err) err = authority_report(&authority, result, options, now, ret_report, note);
    cert_authority_deinit(&authority);
    return err;
}

/* Locks and loads the authority for a change. The first load, without lock, makes no lock file in a
 * directory without authority. The caller must release *ret_lock unless it is NULL. */
static enum err authority_lock_and_load(struct fs *fs, const struct cert_ca_options *options,
                                        struct authority_files *ret_files,
                                        struct fs_lock **ret_lock,
                                        struct cert_authority *ret_authority, struct note *note)
{
    enum err err = authority_check_options(options, note);

    *ret_lock = NULL;
    if (!err) err = authority_files_of(options->dir, ret_files, note);
    if (!err) err = cert_authority_load(fs, options->dir, ret_authority, note);
    if (err) return err;
    cert_authority_deinit(ret_authority);
    err = cert_lock(fs, options->dir, ret_lock, note);
    return err ? err : cert_authority_load(fs, options->dir, ret_authority, note);
}

enum err cert_ca_rotate(struct fs *fs, const struct cert_ca_options *options, wall_time now,
                        struct cert_report *ret_report, struct note *note)
{
    struct cert_authority old = {0}, made = {0};
    struct authority_files files;
    struct fs_lock *lock;
    enum err err = authority_lock_and_load(fs, options, &files, &lock, &old, note);

    if (!err && old.root_count == CERT_ROOTS_MAX) {
        note_set(note, "%s/ca.pem holds %d roots already: retire the old ones first", options->dir,
                 CERT_ROOTS_MAX);
        err = ERR_FULL;
    }
    if (!err) err = authority_make_root(options, now, &made.key, &made.roots[0], note);
    if (!err) {
        made.root_count = 1 + old.root_count;
        for (size_t i = 0; i < old.root_count; i++) {
            made.roots[1 + i] = old.roots[i];
            X509_up_ref(old.roots[i]);
        }
        err = cert_publish_list(fs, files.cert, made.roots, made.root_count, note);
    }
    if (!err) {
        err = cert_publish_key(fs, files.key, made.key, note);
        if (err && err != ERR_UNKNOWN) /* after ERR_UNKNOWN the new key may exist */
            (void)cert_publish_list(fs, files.cert, old.roots, old.root_count, NULL);
    }
    fs_unlock(fs, lock);
    if (!err) err = authority_report(&made, CERT_RENEWED, options, now, ret_report, note);
    cert_authority_deinit(&made);
    cert_authority_deinit(&old);
    return err;
}

/* -- retiring ---------------------------------------------------------------------------------- */

/* Fails if the file contains a leaf certificate that an old root signed. */
static enum err authority_check_leaf(struct fs *fs, const char *path,
                                     const struct cert_authority *authority, struct note *note)
{
    X509 *list[CERT_ROOTS_MAX];
    size_t count = 0, signer = CERT_ROOTS_MAX;
    struct buf pem;
    enum err err;

    buf_init(&pem, CERT_FILE_MAX);
    err = cert_read(fs, path, &pem, note);
    if (!err && !tls_pem_certificates(buf_peek(&pem), list, ARRAY_LEN(list), &count, NULL)) {
        /* a copy of an old root needs no renewal */
        if (!cert_is_authority(list[0])) signer = cert_signed_by(list[0], authority);
        tls_certificates_free(list, count);
    }
    if (!err && signer != CERT_ROOTS_MAX && signer != authority->signer) {
        note_set(note, "%s is still signed by an old root: renew it first", path);
        err = ERR_PRECONDITION;
    }
    buf_deinit(&pem);
    return err;
}

static enum err authority_check_leaves(struct fs *fs, const char *dir,
                                       const struct cert_authority *authority, struct note *note)
{
    const char **paths = NULL;
    size_t count = 0;
    enum err err = cert_list_leaves(fs, dir, &paths, &count, note);

    for (size_t i = 0; !err && i < count; i++)
        err = authority_check_leaf(fs, paths[i], authority, note);
    free(paths);
    return err;
}

enum err cert_ca_retire(struct fs *fs, const struct cert_ca_options *options, bool force,
                        wall_time now, struct cert_report *ret_report, struct note *note)
{
    struct cert_authority authority = {0};
    enum cert_result result = CERT_KEPT;
    struct authority_files files;
    struct fs_lock *lock;
    enum err err = authority_lock_and_load(fs, options, &files, &lock, &authority, note);

    if (!err && authority.root_count > 1) {
        result = CERT_RENEWED;
        if (!force) err = authority_check_leaves(fs, options->dir, &authority, note);
        if (!err)
            err = cert_publish_list(fs, files.cert, &authority.roots[authority.signer], 1, note);
    }
    fs_unlock(fs, lock);
    if (!err) err = authority_report(&authority, result, options, now, ret_report, note);
    if (!err) ret_report->roots = 1;
    cert_authority_deinit(&authority);
    return err;
}

bool cert_ca_is_absent(struct fs *fs, const char *dir, struct note *note)
{
    char file[FS_PATH_CAP];
    struct fs_info info;
    bool absent =
        !fs_path(dir, CERT_CA_FILE, file, NULL) && fs_stat(fs, file, &info) == ERR_NOT_FOUND;

    if (absent)
        note_set(note, "no authority in %s; make one with: musterctl cert ca --dir %s", dir, dir);
    return absent;
}
