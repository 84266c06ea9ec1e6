/* SPDX-License-Identifier: Apache-2.0 */
/* A run's certificates as a TLS context: made and renewed in memory, or read from files. A renewal
 * replaces the context's content, for later connections. One thread. */
#include "cert/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cert/cert.h"
#include "io/tls_identity.h"

enum { LINE_CAP = FS_PATH_CAP + 64, WORKER_NAME_CAP = 7 + ULID_TEXT_CAP };

struct cert_workers {
    struct fs *fs;
    struct tls_context *context;
    bool from_files, server;
    char tls_dir[FS_PATH_CAP];
    char worker[ULID_TEXT_CAP];
    char notice[LINE_CAP], warning[LINE_CAP + NOTE_CAP];
};

/* -- the development CA -- */

static enum err ensure_authority(struct cert_workers *certs, bool strict, wall_time now,
                                 struct note *note)
{
    struct cert_ca_options options = {
        .dir = certs->tls_dir, .rollout = true, .strict_permissions = strict};
    struct cert_report report;
    enum err err = cert_ca_ensure(certs->fs, &options, now, &report, note);

    if (err) return err;
    if (report.result == CERT_CREATED)
        snprintf(certs->notice, sizeof certs->notice, "Generated dev CA at %s/" CERT_CA_FILE,
                 certs->tls_dir);
    if (report.key_exposed)
        snprintf(certs->warning, sizeof certs->warning, "%s/ca.key.pem may be read by others",
                 certs->tls_dir);
    else if (report.renew_soon.text[0])
        snprintf(certs->warning, sizeof certs->warning, "%s", report.renew_soon.text);
    return ERR_OK;
}

/* Makes a key and a certificate for an old or new context. The roots come from disk. */
static enum err workers_issue(struct cert_workers *certs, wall_time now, struct note *note)
{
    struct cert_request request = {
        .kind = certs->server ? CERT_WORKER_SERVICE : CERT_WORKER,
        .id = certs->server ? STR_EMPTY : str_from(certs->worker),
    };
    struct tls_options options = {
        .side = certs->server ? TLS_SERVER : TLS_CLIENT, .version_min = TLS_V1_2, .alpn = {"h2"}};
    char ca_file[FS_PATH_CAP + sizeof CERT_CA_FILE];
    struct buf cert, key, roots;
    enum err err;

    buf_init(&cert, CERT_FILE_MAX);
    buf_init(&key, CERT_FILE_MAX);
    buf_init(&roots, CERT_FILE_MAX);
    snprintf(ca_file, sizeof ca_file, "%s/" CERT_CA_FILE, certs->tls_dir);
    err = cert_leaf_make(certs->fs, certs->tls_dir, &request, now, &cert, &key, note);
    if (!err) {
        err = fs_read_whole(certs->fs, ca_file, CERT_FILE_MAX, &roots);
        if (err) note_set(note, "%s: %s", ca_file, err_text(err));
    }
    if (!err && certs->context) {
        err = tls_context_replace(certs->context, buf_peek(&cert), buf_peek(&key), buf_peek(&roots),
                                  note);
    } else if (!err) {
        options.cert_pem = buf_peek(&cert);
        options.key_pem = buf_peek(&key);
        options.ca_pem = buf_peek(&roots);
        err = tls_context_open(certs->fs, &options, &certs->context, note);
    }
    buf_deinit(&cert);
    tls_wipe(&key);
    buf_deinit(&roots);
    return err;
}

/* -- opening and closing -- */

static enum err open_files(struct cert_workers *certs, const struct cert_workers_options *options,
                           struct note *note)
{
    struct tls_options tls = {
        .side = certs->server ? TLS_SERVER : TLS_CLIENT,
        .version_min = TLS_V1_2,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .ca_files = {options->ca_file},
        .alpn = {"h2"},
    };
    return tls_context_open(certs->fs, &tls, &certs->context, note);
}

enum err cert_workers_open(struct fs *fs, const struct cert_workers_options *options, wall_time now,
                           struct cert_workers **ret_certs, struct note *note)
{
    int files =
        (options->ca_file != NULL) + (options->cert_file != NULL) + (options->key_file != NULL);
    struct cert_workers *certs;
    enum err err;

    if (files != 0 && files != 3)
        return note_fail(note, ERR_INVALID,
                         "ca_file, cert_file and key_file belong together; %d of 3 are set", files);
    if (files == 0 && strlen(options->tls_dir) >= FS_PATH_CAP - sizeof CERT_CA_FILE)
        return note_fail(note, ERR_INVALID, "tls_dir: longer than %d bytes", FS_PATH_CAP);
    certs = calloc(1, sizeof *certs);
    if (!certs) return ERR_NOMEM;
    certs->fs = fs;
    certs->from_files = files == 3;
    certs->server = !options->worker;
    if (options->worker) ulid_text(options->worker, certs->worker);
    if (certs->from_files) {
        err = open_files(certs, options, note);
    } else {
        snprintf(certs->tls_dir, sizeof certs->tls_dir, "%s", options->tls_dir);
        err = ensure_authority(certs, options->strict_permissions, now, note);
        if (!err) err = workers_issue(certs, now, note);
    }
    if (err)
        cert_workers_close(certs);
    else
        *ret_certs = certs;
    return err;
}

void cert_workers_close(struct cert_workers *certs)
{
    if (!certs) return;
    tls_context_unref(certs->context);
    free(certs);
}

struct tls_context *cert_workers_context(struct cert_workers *certs)
{
    return certs->context;
}

const char *cert_workers_notice(const struct cert_workers *certs)
{
    return certs->notice;
}

const char *cert_workers_warning(const struct cert_workers *certs)
{
    return certs->warning;
}

enum err cert_workers_refresh(struct cert_workers *certs, wall_time now, bool *ret_changed,
                              struct note *note)
{
    struct tls_info info = tls_context_info(certs->context);
    bool due = now.ms >= info.not_after.ms ||
               (info.not_after.ms - now.ms) * 3 <= info.not_after.ms - info.not_before.ms;
    enum err err;

    if (certs->from_files) return tls_context_reload(certs->context, ret_changed, note);
    if (!due) {
        *ret_changed = false;
        return ERR_OK;
    }
    err = workers_issue(certs, now, note);
    if (!err) *ret_changed = true;
    return err;
}

/* -- the identity of a peer -- */

bool cert_is_worker(const struct tls_identity *peer, const struct ulid *worker)
{
    char id[ULID_TEXT_CAP], wanted[WORKER_NAME_CAP];

    ulid_text(worker, id);
    snprintf(wanted, sizeof wanted, "worker-%s", id);
    if (str_equal(peer->common_name, str_from(wanted))) return true;
    for (size_t i = 0; i < peer->dns_count; i++)
        if (str_equal(peer->dns_names[i], str_from(wanted))) return true;
    return false;
}
