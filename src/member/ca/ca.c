/* SPDX-License-Identifier: Apache-2.0 */
#include "member/ca/ca.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/cert.h"

enum { LINE_CAP = FS_PATH_CAP + 64, WORKER_NAME_CAP = 7 + ULID_TEXT_CAP };
#define CA_FILE     "ca.pem"
#define WORKER_NAME "worker-%s"

struct member_ca {
    struct fs *fs;
    struct tls_context *context;
    bool from_files, server;
    char tls_dir[FS_PATH_CAP];
    char worker[ULID_TEXT_CAP];
    char said[LINE_CAP], warning[LINE_CAP + NOTE_CAP];
};

/* -- the development CA -- */

static enum err ensure_authority(struct member_ca *ca, bool strict, wall_time now,
                                 struct note *note)
{
    struct cert_ca_options options = {
        .dir = ca->tls_dir, .rollout = true, .strict_permissions = strict};
    struct cert_ca_report report;
    enum err err = cert_ca_ensure(ca->fs, &options, now, &report, note);

    if (err) return err;
    if (report.result == CERT_CREATED)
        snprintf(ca->said, sizeof ca->said, "Generated dev CA at %s/" CA_FILE, ca->tls_dir);
    if (report.key_exposed)
        snprintf(ca->warning, sizeof ca->warning, "%s/ca.key.pem may be read by others",
                 ca->tls_dir);
    else if (report.renew_soon.text[0])
        snprintf(ca->warning, sizeof ca->warning, "%s", report.renew_soon.text);
    return ERR_OK;
}

/* A fresh key and certificate beside the roots as they are on disk now, into an open context or a
 * new one. */
static enum err issue(struct member_ca *ca, wall_time now, struct note *note)
{
    struct cert_request request = {
        .kind = ca->server ? CERT_WORKER_SERVICE : CERT_WORKER,
        .id = ca->server ? STR_EMPTY : str_from(ca->worker),
    };
    struct tls_options options = {
        .side = ca->server ? TLS_SERVER : TLS_CLIENT, .version_min = TLS_V1_2, .alpn = {"h2"}};
    char ca_file[FS_PATH_CAP + sizeof CA_FILE];
    struct buf cert, key, roots;
    enum err err;

    buf_init(&cert, CERT_FILE_MAX);
    buf_init(&key, CERT_FILE_MAX);
    buf_init(&roots, CERT_FILE_MAX);
    snprintf(ca_file, sizeof ca_file, "%s/" CA_FILE, ca->tls_dir);
    err = cert_leaf_make(ca->fs, ca->tls_dir, &request, now, &cert, &key, note);
    if (!err) {
        err = fs_read_whole(ca->fs, ca_file, CERT_FILE_MAX, &roots);
        if (err) note_set(note, "%s: %s", ca_file, err_text(err));
    }
    if (!err && ca->context) {
        err = tls_context_replace(ca->context, buf_peek(&cert), buf_peek(&key), buf_peek(&roots),
                                  note);
    } else if (!err) {
        options.cert_pem = buf_peek(&cert);
        options.key_pem = buf_peek(&key);
        options.ca_pem = buf_peek(&roots);
        err = tls_context_open(ca->fs, &options, &ca->context, note);
    }
    buf_deinit(&cert);
    if (key.len) explicit_bzero(key.data, key.len);
    buf_deinit(&key);
    buf_deinit(&roots);
    return err;
}

/* -- life -- */

static enum err open_files(struct member_ca *ca, const struct member_ca_options *options,
                           struct note *note)
{
    struct tls_options tls = {
        .side = ca->server ? TLS_SERVER : TLS_CLIENT,
        .version_min = TLS_V1_2,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .ca_files = {options->ca_file},
        .alpn = {"h2"},
    };
    return tls_context_open(ca->fs, &tls, &ca->context, note);
}

enum err member_ca_open(struct fs *fs, const struct member_ca_options *options, wall_time now,
                        struct member_ca **ret_ca, struct note *note)
{
    int files =
        (options->ca_file != NULL) + (options->cert_file != NULL) + (options->key_file != NULL);
    struct member_ca *ca;
    enum err err;

    if (files != 0 && files != 3) {
        note_set(note, "ca_file, cert_file and key_file belong together; %d of 3 are set", files);
        return ERR_INVALID;
    }
    if (files == 0 && strlen(options->tls_dir) >= FS_PATH_CAP - sizeof CA_FILE) {
        note_set(note, "tls_dir: longer than %d bytes", FS_PATH_CAP);
        return ERR_INVALID;
    }
    ca = calloc(1, sizeof *ca);
    if (!ca) return ERR_NOMEM;
    ca->fs = fs;
    ca->from_files = files == 3;
    ca->server = !options->worker;
    if (options->worker) ulid_text(options->worker, ca->worker);
    if (ca->from_files) {
        err = open_files(ca, options, note);
    } else {
        snprintf(ca->tls_dir, sizeof ca->tls_dir, "%s", options->tls_dir);
        err = ensure_authority(ca, options->strict_permissions, now, note);
        if (!err) err = issue(ca, now, note);
    }
    if (err)
        member_ca_close(ca);
    else
        *ret_ca = ca;
    return err;
}

void member_ca_close(struct member_ca *ca)
{
    if (!ca) return;
    tls_context_unref(ca->context);
    free(ca);
}

struct tls_context *member_ca_context(struct member_ca *ca)
{
    return ca->context;
}

const char *member_ca_said(const struct member_ca *ca)
{
    return ca->said;
}

const char *member_ca_warning(const struct member_ca *ca)
{
    return ca->warning;
}

enum err member_ca_refresh(struct member_ca *ca, wall_time now, bool *ret_changed,
                           struct note *note)
{
    struct tls_info info = tls_context_info(ca->context);
    bool due = now.ms >= info.not_after.ms ||
               (info.not_after.ms - now.ms) * 3 <= info.not_after.ms - info.not_before.ms;
    enum err err;

    if (ca->from_files) return tls_context_reload(ca->context, ret_changed, note);
    if (!due) {
        *ret_changed = false;
        return ERR_OK;
    }
    err = issue(ca, now, note);
    if (!err) *ret_changed = true;
    return err;
}

/* -- who calls -- */

bool member_ca_is_worker(const struct tls_identity *peer, const struct ulid *worker)
{
    char id[ULID_TEXT_CAP], wanted[WORKER_NAME_CAP];

    ulid_text(worker, id);
    snprintf(wanted, sizeof wanted, WORKER_NAME, id);
    if (str_equal(peer->common_name, str_from(wanted))) return true;
    for (size_t i = 0; i < peer->dns_count; i++)
        if (str_equal(peer->dns_names[i], str_from(wanted))) return true;
    return false;
}
