/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves: decides which existing leaves to keep, and makes or renews the others.
 *
 * A leaf's key is written before its certificate. After a crash between the two writes, the next
 * call makes a certificate for the key. Calls block; any thread. */
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>

#include "base/ulid.h"
#include "cert/internal.h"
#include "io/fs.h"
#include "io/net.h"

enum { HOST_NAME_MAX_LEN = 253 };

/* -- checks of a request ----------------------------------------------------------------------- */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool all_of(struct str text, const char *others)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_alnum(text.at[i]) && (text.at[i] == '\0' || !strchr(others, text.at[i])))
            return false;
    return text.len > 0;
}

/* True if the name looks like a worker's. */
static bool passes_for_worker(struct str name)
{
    struct ulid ulid;
    return str_starts(name, STR("worker-")) && ulid_parse(str_tail(name, 7), &ulid, NULL) == ERR_OK;
}

static enum err check_id(const struct cert_request *request, struct note *note)
{
    const char *kind = cert_kind_name(request->kind), *means = cert_kind_id_means(request->kind);
    char canonical[ULID_TEXT_CAP];
    struct ulid ulid;

    if (!means) {
        if (request->id.len == 0) return ERR_OK;
        return note_fail(note, ERR_INVALID, "%s takes no id", kind);
    }
    if (request->id.len > CERT_ID_MAX || !all_of(request->id, "-._~"))
        return note_fail(note, ERR_INVALID, "%s needs a %s: 1 to %d of A-Z a-z 0-9 - . _ ~", kind,
                         means, CERT_ID_MAX);
    if (request->kind == CERT_WORKER) {
        enum err err = ulid_parse(request->id, &ulid, note);
        if (err) return ERR_INVALID;
        ulid_text(&ulid, canonical);
        if (str_equal(request->id, str_from(canonical))) return ERR_OK;
        return note_fail(note, ERR_INVALID, "a worker id is compared letter by letter: write it %s",
                         canonical);
    }
    if (request->kind == CERT_STORE && passes_for_worker(request->id))
        return note_fail(note, ERR_INVALID, "%.*s would pass for a worker", STR_ARG(request->id));
    return ERR_OK;
}

/* No top-level domain is a number, so a name that ends in a number is a mistyped IP address. */
static bool ends_in_number(struct str name)
{
    size_t from;

    if (str_ends(name, STR("."))) name.len--;
    for (from = name.len; from > 0 && name.at[from - 1] != '.'; from--)
        if (name.at[from - 1] < '0' || name.at[from - 1] > '9') return false;
    return from < name.len;
}

static enum err check_name(struct str name, struct note *note)
{
    uint8_t bytes[16];
    struct str rest = str_starts(name, STR("*.")) ? str_tail(name, 2) : name;

    if (address_ip(name, bytes) > 0) return ERR_OK;
    if (name.len > HOST_NAME_MAX_LEN || !all_of(rest, "-._") || rest.at[0] == '.' ||
        rest.at[0] == '-' || ends_in_number(rest))
        return note_fail(note, ERR_INVALID, "'%.*s' is neither a DNS name nor an address",
                         (int)min_size(name.len, HOST_NAME_MAX_LEN), name.at);
    if (!passes_for_worker(name)) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%.*s would pass for a worker", STR_ARG(name));
}

enum err cert_request_check(const struct cert_request *request, struct note *note)
{
    enum err err;

    assert(request->kind < CERT_KIND_COUNT);
    if (request->name_count > CERT_NAMES_MAX || request->days > CERT_DAYS_MAX)
        return note_fail(note, ERR_INVALID, "at most %d names and %d days", CERT_NAMES_MAX,
                         CERT_DAYS_MAX);
    err = check_id(request, note);
    for (size_t i = 0; !err && i < request->name_count; i++)
        err = check_name(request->names[i], note);
    return err;
}

/* -- signing ----------------------------------------------------------------------------------- */

static enum err sign_leaf(const struct cert_authority *authority, const X509 *template,
                          EVP_PKEY *key, int64_t life_s, wall_time now, X509 **ret_leaf,
                          struct note *note)
{
    X509 *root = authority->roots[authority->signer];
    int64_t now_s = (int64_t)(now.ms / MS_PER_SECOND);
    int64_t root_from_s = (int64_t)(cert_not_before(root).ms / MS_PER_SECOND);
    int64_t root_until_s = (int64_t)(cert_not_after(root).ms / MS_PER_SECOND);
    struct cert_validity validity = {now_s - CERT_BACKDATE_S, now_s + life_s};
    enum err err;

    if (root_until_s <= now_s)
        return note_fail(note, ERR_PRECONDITION, "the root has expired: rotate it first");
    if (validity.from_s < root_from_s) validity.from_s = root_from_s;
    if (validity.until_s > root_until_s) validity.until_s = root_until_s;
    err = cert_sign(template, key, root, authority->key, validity, ret_leaf);
    if (err) note_set(note, "sign a certificate: %s", err_text(err));
    return err;
}

static int64_t life_of(const struct cert_request *request)
{
    return (int64_t)(request->days ? request->days : CERT_LEAF_DAYS) * CERT_DAY_S;
}

enum err cert_leaf_make(struct fs *fs, const char *ca_dir, const struct cert_request *request,
                        wall_time now, struct buf *cert_pem, struct buf *key_pem, struct note *note)
{
    struct cert_authority authority = {0};
    X509 *template = NULL, *leaf = NULL;
    EVP_PKEY *key = NULL;
    size_t cert_len = cert_pem->len;
    enum err err = cert_request_check(request, note);

    if (!err) err = cert_authority_load(fs, ca_dir, &authority, note);
    if (err) return err;
    err = cert_template_new(request, &template);
    if (!err) err = cert_key_new(&key);
    if (err) note_set(note, "make a certificate: %s", err_text(err));
    if (!err) err = sign_leaf(&authority, template, key, life_of(request), now, &leaf, note);
    if (!err) {
        err = cert_put_pem(leaf, cert_pem);
        if (!err) err = cert_put_key_pem(key, key_pem);
        if (err) {
            cert_pem->len = cert_len;
            note_set(note, "make a certificate: %s", err_text(err));
        }
    }
    X509_free(leaf);
    X509_free(template);
    EVP_PKEY_free(key);
    cert_authority_deinit(&authority);
    return err;
}

/* -- existing files ---------------------------------------------------------------------------- */

struct leaf_state {
    struct cert_authority authority;
    X509 *leaf;    /* NULL: the file does not exist */
    EVP_PKEY *key; /* NULL: the file does not exist */
    struct buf key_pem;
    bool key_exposed;
    size_t signer;
};

static void state_deinit(struct leaf_state *state)
{
    cert_authority_deinit(&state->authority);
    X509_free(state->leaf);
    EVP_PKEY_free(state->key);
    tls_wipe(&state->key_pem);
}

static enum err untouched(struct note *note, const char *path, const char *why)
{
    return note_fail(note, ERR_CONFLICT, "%s %s; it is not touched", path, why);
}

static enum err load_leaf(struct fs *fs, const char *path, struct leaf_state *state,
                          struct note *note)
{
    X509 *list[CERT_ROOTS_MAX];
    struct buf pem;
    size_t count = 0;
    bool holds_authority = false;
    enum err err;

    buf_init(&pem, CERT_FILE_MAX);
    err = cert_read(fs, path, &pem, note);
    if (err) {
        buf_deinit(&pem);
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    }
    err = tls_pem_certificates(buf_peek(&pem), list, ARRAY_LEN(list), &count, NULL);
    buf_deinit(&pem);
    if (err == ERR_PARSE || err == ERR_TOO_LARGE)
        return untouched(note, path, "is there and holds no certificate of ours");
    if (err) return fs_noted(err, "read", path, note);
    for (size_t i = 0; i < count; i++) holds_authority |= cert_is_authority(list[i]) > 0;
    state->leaf = list[0];
    tls_certificates_free(list + 1, count - 1);
    if (holds_authority) return untouched(note, path, "holds the certificate of an authority");
    state->signer = cert_signed_by(state->leaf, &state->authority);
    if (state->signer < CERT_ROOTS_MAX) return ERR_OK;
    return untouched(note, path, "was not issued by this authority");
}

/* Also true for the key of an older root. */
static bool is_root_key(const EVP_PKEY *key, const struct cert_authority *authority)
{
    bool found = false;

    for (size_t i = 0; i < authority->root_count && !found; i++)
        found = EVP_PKEY_eq(X509_get0_pubkey(authority->roots[i]), key) == 1;
    ERR_clear_error();
    return found;
}

static enum err load_key(struct fs *fs, const char *path, struct leaf_state *state,
                         struct note *note)
{
    struct fs_info info = {0};
    enum err err = cert_read(fs, path, &state->key_pem, note);

    if (err) return err == ERR_NOT_FOUND ? ERR_OK : err;
    err = tls_pem_key(buf_peek(&state->key_pem), &state->key, NULL);
    if (err == ERR_PARSE) return untouched(note, path, "is there and holds no key");
    if (!err && is_root_key(state->key, &state->authority))
        return untouched(note, path, "holds the key of an authority");
    if (!err) err = fs_stat(fs, path, &info);
    state->key_exposed = (info.mode & 077) != 0;
    return fs_noted(err, "look at", path, note);
}

/* True for a file name that only an authority uses, in any directory. */
static bool is_authority_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strcmp(name, CERT_CA_FILE) == 0 || strcmp(name, CERT_CA_KEY_FILE) == 0;
}

/* A leaf with an authority's file name would look like a damaged authority. */
static enum err check_paths(const struct cert_leaf_options *options, struct note *note)
{
    bool cert_is = is_authority_path(options->cert_file);

    if (cert_is || is_authority_path(options->key_file))
        return note_fail(
            note, ERR_CONFLICT,
            "%s belongs to an authority and is no leaf; a root is replaced by rotating",
            cert_is ? options->cert_file : options->key_file);
    if (strcmp(options->cert_file, options->key_file) == 0)
        return note_fail(note, ERR_INVALID, "%s: a certificate and its key are two files",
                         options->cert_file);
    return ERR_OK;
}

static enum err state_load(struct fs *fs, const struct cert_leaf_options *options,
                           struct leaf_state *ret_state, struct note *note)
{
    struct leaf_state state = {0};
    enum err err;

    buf_init(&state.key_pem, CERT_FILE_MAX);
    err = check_paths(options, note);
    if (!err) err = cert_authority_load(fs, options->ca_dir, &state.authority, note);
    if (!err) err = load_leaf(fs, options->cert_file, &state, note);
    if (!err) err = load_key(fs, options->key_file, &state, note);
    if (err)
        state_deinit(&state);
    else
        *ret_state = state;
    return err;
}

/* The reason to replace the leaf on disk; NULL: the leaf stays. */
static const char *fault_of(const struct leaf_state *state, const X509 *template, bool force,
                            wall_time now)
{
    wall_time from = cert_not_before(state->leaf), until = cert_not_after(state->leaf);
    bool matches;

    if (!state->key) return "its key was missing";
    matches = X509_check_private_key(state->leaf, state->key) == 1;
    ERR_clear_error();
    if (!matches) return "its key did not match";
    if (state->signer != state->authority.signer) return "signed by an older root";
    if (!cert_template_matches(template, state->leaf)) return "names or use changed";
    if (until.ms <= now.ms) return "expired";
    if ((until.ms - now.ms) * 3 <= until.ms - from.ms) return "past two thirds of its life";
    return force ? "asked for" : NULL;
}

/* -- making and renewing ----------------------------------------------------------------------- */

static enum err publish_pair(struct fs *fs, const struct cert_leaf_options *options,
                             const struct leaf_state *state, X509 *leaf, const EVP_PKEY *new_key,
                             struct note *note)
{
    enum err err, key_err = ERR_OK;

    err = fs_make_parent(fs, options->key_file, CERT_MODE_DIR, note);
    if (!err) err = fs_make_parent(fs, options->cert_file, CERT_MODE_DIR, note);
    if (!err && new_key) {
        err = cert_publish_key(fs, options->key_file, new_key, note);
        /* After ERR_UNKNOWN the key is visible, maybe not durable, and needs its certificate. */
        if (err == ERR_UNKNOWN) key_err = err, err = ERR_OK;
    }
    if (err) return err;
    err = cert_publish_list(fs, options->cert_file, &leaf, 1, note);
    if (err && err != ERR_UNKNOWN && new_key && state->key) /* restore the matching pair */
        (void)cert_publish(fs, options->key_file, buf_peek(&state->key_pem), CERT_MODE_SECRET,
                           NULL);
    return err ? err : key_err;
}

static enum err leaf_issue(struct fs *fs, const struct cert_leaf_options *options,
                           const struct leaf_state *state, const X509 *template, int64_t life_s,
                           wall_time now, struct cert_report *report, struct note *note)
{
    bool make_key = !state->key || (state->leaf && options->new_key);
    EVP_PKEY *made = NULL;
    X509 *leaf = NULL;
    enum err err = ERR_OK;

    if (make_key) {
        err = cert_key_new(&made);
        if (err) note_set(note, "make a key: %s", err_text(err));
    }
    if (!err)
        err = sign_leaf(&state->authority, template, make_key ? made : state->key, life_s, now,
                        &leaf, note);
    if (!err) err = publish_pair(fs, options, state, leaf, made, note);
    if (!err) {
        report->key_made = make_key;
        if (make_key) report->key_exposed = false;
        report->not_before = cert_not_before(leaf);
        report->not_after = cert_not_after(leaf);
    }
    X509_free(leaf);
    EVP_PKEY_free(made);
    return err;
}

/* Checks the leaf. If a new leaf is needed: issues it if `may_write`, else sets *ret_must_write. */
static enum err leaf_look(struct fs *fs, const struct cert_leaf_options *options,
                          const struct cert_request *request, bool may_write, wall_time now,
                          bool *ret_must_write, struct cert_report *ret_report, struct note *note)
{
    struct leaf_state state;
    struct cert_report report = {.result = CERT_CREATED};
    X509 *template = NULL;
    const char *fault = NULL;
    int64_t life_s = request ? life_of(request) : 0;
    enum err err = state_load(fs, options, &state, note);

    if (err) return err;
    report.key_exposed = state.key_exposed;
    if (request)
        err = cert_template_new(request, &template);
    else if (state.leaf)
        err = cert_template_from(state.leaf, &template);
    else
        err = ERR_NOT_FOUND;
    if (err) note_set(note, "%s: %s", options->cert_file, err_text(err));
    if (!err && state.leaf) {
        report.result = CERT_RENEWED;
        report.not_before = cert_not_before(state.leaf);
        report.not_after = cert_not_after(state.leaf);
        fault = fault_of(&state, template, options->force, now);
        if (!fault) report.result = CERT_KEPT;
        (void)snprintf(report.why, sizeof report.why, "%s", fault ? fault : "");
    }
    if (!err && !request) {
        /* Keeps the old leaf's lifetime, or the usual one if the old leaf ended with its root. */
        wall_time root_until = cert_not_after(state.authority.roots[state.signer]);
        life_s = report.not_after.ms == root_until.ms
                     ? (int64_t)CERT_LEAF_DAYS * CERT_DAY_S
                     : (int64_t)((report.not_after.ms - report.not_before.ms) / MS_PER_SECOND) -
                           CERT_BACKDATE_S;
    }
    *ret_must_write = !err && report.result != CERT_KEPT;
    if (*ret_must_write && may_write)
        err = leaf_issue(fs, options, &state, template, life_s, now, &report, note);
    if (!err) *ret_report = report;
    X509_free(template);
    state_deinit(&state);
    return err;
}

enum err cert_leaf_ensure(struct fs *fs, const struct cert_leaf_options *options,
                          const struct cert_request *request, wall_time now,
                          struct cert_report *ret_report, struct note *note)
{
    struct cert_report report;
    struct fs_lock *lock;
    bool must_write;
    enum err err = request ? cert_request_check(request, note) : ERR_OK;

    if (!err) err = leaf_look(fs, options, request, false, now, &must_write, &report, note);
    if (!err && must_write) { /* again under the lock: two processes may want this leaf */
        err = cert_lock(fs, options->ca_dir, &lock, note);
        if (err) return err;
        err = leaf_look(fs, options, request, true, now, &must_write, &report, note);
        fs_unlock(fs, lock);
    }
    if (!err) *ret_report = report;
    return err;
}
