/* SPDX-License-Identifier: Apache-2.0 */
/* A small certificate authority on disk: one root, and leaf certificates for every identity of the
 * fleet (design.md § 5). For laptops, tests and sites without a PKI. Calls block for about a
 * millisecond.
 *
 *   ca.pem              0644; the signing root, then older roots that are still trusted
 *   ca.key.pem          0600; PKCS#8, EC P-256
 *   <name>.pem,         a leaf, in a directory of the caller's choice
 *   <name>.key.pem
 *
 * A repeated call changes nothing and returns CERT_KEPT. Every file is written atomically; after a
 * crash between two files, repeat the call. A renewal keeps the key, so that the pair on disk
 * matches at every moment. With `new_key` a reader may briefly see the new key with the old
 * certificate. */
#ifndef CERT_CERT_H
#define CERT_CERT_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"
#include "io/fs.h"

/* -- kinds of leaf certificates and their names -- */
enum cert_kind {
    CERT_REPLICA,        /* URIs muster://replica/<id> and bigfleet://admin */
    CERT_ADMIN,          /* URI bigfleet://admin */
    CERT_READONLY,       /* URI bigfleet://readonly */
    CERT_SHARD,          /* URI bigfleet://shard/<id> */
    CERT_CLUSTER,        /* URI bigfleet://cluster/<id>: the operator of a cluster */
    CERT_PROVIDER,       /* CN provider-<id>; no URI: a provider only accepts connections */
    CERT_WORKER,         /* CN and DNS name worker-<id>, <id> a ULID; client use only */
    CERT_WORKER_SERVICE, /* CN localhost; the server that rollout workers dial; server use only */
    CERT_STORE,          /* CN <id>: a client of a store, which maps the client to key prefixes */
    CERT_SERVER,         /* CN, DNS names and addresses; no URI */
    CERT_KIND_COUNT
};
const char *cert_kind_name(enum cert_kind kind);     /* "replica" */
const char *cert_kind_id_means(enum cert_kind kind); /* such as "replica id"; NULL: no id */
/* Accepts `operator` for `cluster`. ERR_NOT_FOUND: an unknown name. */
enum err cert_kind_parse(struct str name, enum cert_kind *ret_kind);

enum {
    CERT_LEAF_DAYS = 90,
    CERT_CA_DAYS = 3650,
    CERT_DAYS_MAX = 36500,
    CERT_BACKDATE_S = 300, /* a new certificate must be valid now although clocks differ */
    CERT_NAMES_MAX = 16,   /* extra DNS names and addresses in one request */
    CERT_ID_MAX = 64,
    CERT_ROOTS_MAX = 8, /* in one ca.pem */
    CERT_FILE_MAX = 1024 * 1024,
    CERT_PATH_CAP = FS_PATH_CAP,
};
#define CERT_CA_FILE     "ca.pem"
#define CERT_CA_KEY_FILE "ca.key.pem"

enum cert_result { CERT_CREATED, CERT_KEPT, CERT_RENEWED };
const char *cert_result_text(enum cert_result result); /* "created", "kept", "renewed" */
struct cert_report {
    enum cert_result result;
    char why[96]; /* why the leaf is renewed: "expired", "asked for", ...; else empty */
    wall_time not_before, not_after; /* validity of the leaf, or of the signing root */
    bool key_exposed;                /* other users can read the key file: print a warning */
    bool key_made;
    size_t roots;           /* several during a rotation; 0 for a leaf */
    struct note renew_soon; /* warning if at most a third of the root's lifetime is left */
};

/* -- the authority -- */
struct cert_ca_options {
    const char *dir;         /* created with mode 0700 if absent */
    const char *common_name; /* NULL: "muster-dev-ca", or the name of the existing root */
    uint32_t days;           /* 0: CERT_CA_DAYS */
    /* Makes the development CA of workers.md 17.1: CN rollout-dev-ca, valid 1975 to 4096.
     * common_name and days are ignored. */
    bool rollout;
    bool strict_permissions; /* ERR_DENIED, not a warning, if other users can read the key */
};
/* Creates the authority or opens an existing one. Two processes may do so at the same time.
 * Nothing is overwritten. ERR_CONFLICT:
 *   - one of the two files is missing, or the key belongs to no root;
 *   - a certificate among the roots may not sign;
 *   - the authority has another common name, or is no rollout authority as requested.
 * Others: ERR_DENIED, ERR_PARSE, ERR_INVALID, ERR_NOMEM, ERR_BUSY and file errors. */
enum err cert_ca_ensure(struct fs *fs, const struct cert_ca_options *options, wall_time now,
                        struct cert_report *ret_report, struct note *note);
/* Adds a new root that signs from now on. The old roots stay in ca.pem and stay trusted. ERR_FULL
 * (CERT_ROOTS_MAX), ERR_NOT_FOUND (no authority). */
enum err cert_ca_rotate(struct fs *fs, const struct cert_ca_options *options, wall_time now,
                        struct cert_report *ret_report, struct note *note);
/* Drops all roots except the signing root. CERT_KEPT: there is no old root. Without `force`,
 * ERR_PRECONDITION if an old root signed a leaf in `dir`, which the note names. */
enum err cert_ca_retire(struct fs *fs, const struct cert_ca_options *options, bool force,
                        wall_time now, struct cert_report *ret_report, struct note *note);
/* True if ca.pem is missing. The note then shows how to create the authority. */
bool cert_ca_is_absent(struct fs *fs, const char *dir, struct note *note);

/* -- leaves -- */
struct cert_request {
    enum cert_kind kind;
    struct str id;                    /* for kinds with an id; characters A-Z a-z 0-9 - . _ ~ */
    struct str names[CERT_NAMES_MAX]; /* DNS names and IP addresses, distinguished by their form */
    size_t name_count;                /* 0: localhost, 127.0.0.1, ::1 for kinds with server use */
    uint32_t days;                    /* 0: CERT_LEAF_DAYS; limited to the root's lifetime */
};
struct cert_leaf_options {
    const char *ca_dir;
    const char *cert_file, *key_file; /* paths of the leaf; missing directories are made 0700 */
    bool force;
    bool new_key;
};
/* ERR_INVALID: an id or a name is malformed. The note shows the text. */
enum err cert_request_check(const struct cert_request *request, struct note *note);
/* Ensures that a valid leaf exists. A leaf is kept if it has the same names and use, is signed by
 * the signing root, matches its key and has more than a third of its lifetime left. Otherwise it is
 * made or renewed. Without a request, the existing leaf is renewed with its names and use.
 *   ERR_NOT_FOUND   ca_dir has no authority; or no request and no leaf
 *   ERR_CONFLICT    nothing was changed: another authority issued the certificate, the key file has
 *                   no key, or the files are an authority's (ca.pem, ca.key.pem, a root or its
 *                   key) */
enum err cert_leaf_ensure(struct fs *fs, const struct cert_leaf_options *options,
                          const struct cert_request *request, wall_time now,
                          struct cert_report *ret_report, struct note *note);
/* Makes a leaf in memory with a new key. Appends to both buffers, or to none. */
enum err cert_leaf_make(struct fs *fs, const char *ca_dir, const struct cert_request *request,
                        wall_time now, struct buf *cert_pem, struct buf *key_pem,
                        struct note *note);

/* The paths of possible leaves in a directory, sorted by name: every NAME.pem except ca.pem and
 * NAME.key.pem. The result is one block for free(). ERR_TOO_LARGE, ERR_NOMEM, file errors. */
enum { CERT_LEAVES_BYTES_MAX = 4 * 1024 * 1024 };
enum err cert_list_leaves(struct fs *fs, const char *dir, const char ***ret_paths,
                          size_t *ret_count, struct note *note);

/* -- descriptions -- */
struct cert_description {
    char *subject, *issuer; /* "CN=replica-1,O=muster" */
    char *serial_hex;
    char *fingerprint; /* SHA-256, "AB:CD:..." */
    char *key;         /* "EC P-256" */
    char **names;      /* "URI:bigfleet://admin", "DNS:localhost", "IP:127.0.0.1" */
    size_t name_count;
    bool is_ca, self_signed, server_use, client_use;
    wall_time not_before, not_after;
    int64_t days_left; /* until expiry, rounded down; negative after expiry */
};
/* Describes every certificate in a PEM file, in order. Bytes of names other than printable ASCII
 * become \xNN. A file with only a private key has *ret_count 0. ERR_PARSE: no certificate and no
 * key. */
enum err cert_describe(struct fs *fs, const char *path, wall_time now,
                       struct cert_description **ret_list, size_t *ret_count, struct note *note);
void cert_descriptions_free(struct cert_description *list, size_t count); /* NULL is fine */
#endif
