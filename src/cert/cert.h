/* SPDX-License-Identifier: Apache-2.0 */
/* A small certificate authority on disk: one root and the leaf certificates of every identity the
 * fleet knows (design.md § 5), for laptops, tests and sites without a PKI of their own.
 *
 * A directory holds ca.pem (0644: the root that signs, then older roots that are still trusted)
 * and ca.key.pem (0600: PKCS#8, EC P-256). A leaf is <name>.pem and <name>.key.pem wherever the
 * caller wants them. Everything here is idempotent: asking twice changes nothing, and the second
 * answer says CERT_KEPT. All files are published whole; a crash between two of them is repaired
 * by asking again.
 *
 * The surprising rule: renewing keeps the key. The pair on disk then matches at every moment,
 * because only one file is replaced. Ask for `new_key` to have a fresh one; a reader may then
 * meet the new key beside the old certificate for an instant, and a TLS context keeps its old
 * pair over it.
 *
 * Calls block (files and a key generation, about a millisecond). Time is a parameter; keys and
 * serial numbers come from OpenSSL's generator. */
#ifndef CERT_CERT_H
#define CERT_CERT_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"
#include "io/fs.h"

/* -- kinds of leaf: what an identity looks like in a certificate -- */
enum cert_kind {
    CERT_REPLICA,        /* URIs muster://replica/<id> and bigfleet://admin */
    CERT_ADMIN,          /* URI bigfleet://admin */
    CERT_READONLY,       /* URI bigfleet://readonly */
    CERT_SHARD,          /* URI bigfleet://shard/<id> */
    CERT_CLUSTER,        /* URI bigfleet://cluster/<id>: a cluster's operator */
    CERT_PROVIDER,       /* no URI: a provider is only dialled; CN provider-<id> */
    CERT_WORKER,         /* CN and DNS worker-<id>, id a ULID; client use only */
    CERT_WORKER_SERVICE, /* CN localhost; what rollout workers dial; server use only */
    CERT_STORE,          /* CN <id>: a store client, mapped to key prefixes */
    CERT_SERVER,         /* CN and DNS names, addresses; nothing else */
    CERT_KIND_COUNT
};
const char *cert_kind_name(enum cert_kind kind);     /* "replica" */
const char *cert_kind_id_means(enum cert_kind kind); /* "replica id"; NULL: the kind takes no id */
/* `operator` is accepted for `cluster`. ERR_NOT_FOUND. */
enum err cert_kind_parse(struct str name, enum cert_kind *ret_kind);

enum {
    CERT_LEAF_DAYS = 90,
    CERT_CA_DAYS = 3650,
    CERT_DAYS_MAX = 36500,
    CERT_BACKDATE_S = 300, /* clocks of a fleet differ; a new certificate works at once */
    CERT_NAMES_MAX = 16,   /* extra DNS names and addresses in one request */
    CERT_ID_MAX = 64,
    CERT_ROOTS_MAX = 8, /* roots in one ca.pem */
    CERT_FILE_MAX = 1024 * 1024,
    CERT_PATH_CAP = FS_PATH_CAP,
};
#define CERT_CA_FILE     "ca.pem"
#define CERT_CA_KEY_FILE "ca.key.pem"

enum cert_result { CERT_CREATED, CERT_KEPT, CERT_RENEWED };
const char *cert_result_text(enum cert_result result); /* "created", "kept", "renewed" */
/* What became of a root or a leaf. */
struct cert_report {
    enum cert_result result;
    char why[96]; /* why a leaf was renewed: "expired", "asked for", ...; empty otherwise */
    wall_time not_before, not_after; /* of the leaf, or of the root that signs */
    bool key_exposed;                /* the key may be read by others: warn */
    bool key_made;                   /* a leaf's key is new */
    size_t roots;                    /* in ca.pem: more than one during a rotation; 0 for a leaf */
    struct note renew_soon;          /* not empty: less than a third of the root's life is left */
};

/* -- the authority -- */
struct cert_ca_options {
    const char *dir;         /* created 0700 when absent */
    const char *common_name; /* NULL: "muster-dev-ca", or whatever the one that is there has */
    uint32_t days;           /* 0: CERT_CA_DAYS */
    /* The development CA of workers.md 17.1: CN rollout-dev-ca, valid 1975 to 4096; the two fields
     * above are ignored. */
    bool rollout;
    bool strict_permissions; /* a key that others may read is ERR_DENIED, not a warning */
};
/* Makes the authority, or finds it. Two processes may call this at once: one makes it, all find
 * it. ERR_CONFLICT: only one of the two files is there, the key belongs to none of the roots, a
 * certificate among the roots may not sign, or it is not the rollout authority or has not the
 * common name that was asked for; nothing is ever overwritten. Other `days` are no conflict:
 * compare them. ERR_DENIED, ERR_PARSE, ERR_INVALID, ERR_NOMEM, ERR_BUSY and file errors. */
enum err cert_ca_ensure(struct fs *fs, const struct cert_ca_options *options, wall_time now,
                        struct cert_report *ret_report, struct note *note);
/* A new root signs from now on; the old ones stay in ca.pem and stay trusted. ERR_FULL at
 * CERT_ROOTS_MAX; ERR_NOT_FOUND when there is no authority yet. */
enum err cert_ca_rotate(struct fs *fs, const struct cert_ca_options *options, wall_time now,
                        struct cert_report *ret_report, struct note *note);
/* Drops every root but the one that signs. ERR_PRECONDITION, naming the file, while a certificate
 * in `dir` is signed by an old root, unless `force`. CERT_KEPT: there was nothing to drop. */
enum err cert_ca_retire(struct fs *fs, const struct cert_ca_options *options, bool force,
                        wall_time now, struct cert_report *ret_report, struct note *note);
/* Is there no ca.pem? The note then says how to make one. */
bool cert_ca_is_absent(struct fs *fs, const char *dir, struct note *note);

/* -- leaves -- */
struct cert_request {
    enum cert_kind kind;
    struct str id;                    /* where the kind needs one; A-Z a-z 0-9 - . _ ~ */
    struct str names[CERT_NAMES_MAX]; /* DNS names and IP addresses, as each reads */
    size_t name_count;                /* 0: localhost, 127.0.0.1 and ::1 where the kind serves */
    uint32_t days;                    /* 0: CERT_LEAF_DAYS; never longer than the root lives */
};
struct cert_leaf_options {
    const char *ca_dir;
    const char *cert_file, *key_file; /* where the leaf lives; their directories are made 0700 */
    bool force;                       /* renew though it is still good */
    bool new_key;                     /* with a renewal: a fresh key too */
};
/* ERR_INVALID (id, names), with a note that says which. */
enum err cert_request_check(const struct cert_request *request, struct note *note);
/* Keeps a leaf that has the same names and use, is signed by the root that signs now, matches its
 * key and has more than a third of its life left; otherwise makes or renews it. ERR_CONFLICT: the
 * certificate on disk was issued by an authority that is not ours, or a key is there that is
 * none; it is not touched. ERR_CONFLICT too for what is an authority's: a file called ca.pem or
 * ca.key.pem in any directory, a file that holds an authority's certificate, a root's key.
 * ERR_NOT_FOUND: no authority in ca_dir. Without a request: renews what is on disk with the names
 * and use it has; ERR_NOT_FOUND when nothing is. */
enum err cert_leaf_ensure(struct fs *fs, const struct cert_leaf_options *options,
                          const struct cert_request *request, wall_time now,
                          struct cert_report *ret_report, struct note *note);
/* A leaf in memory only, with a fresh key; appended to the two buffers, both or none. */
enum err cert_leaf_make(struct fs *fs, const char *ca_dir, const struct cert_request *request,
                        wall_time now, struct buf *cert_pem, struct buf *key_pem,
                        struct note *note);

/* Paths of what may be leaves in a directory, in the order of their names: NAME.pem but ca.pem and
 * NAME.key.pem. One block, for free(). ERR_TOO_LARGE, ERR_NOMEM and file errors. */
enum { CERT_LEAVES_BYTES_MAX = 4 * 1024 * 1024 };
enum err cert_list_leaves(struct fs *fs, const char *dir, const char ***ret_paths,
                          size_t *ret_count, struct note *note);

/* -- looking -- */
struct cert_description {
    char *subject, *issuer; /* "CN=replica-1,O=muster" */
    char *serial_hex;
    char *fingerprint; /* SHA-256, "AB:CD:..." */
    char *key;         /* "EC P-256" */
    char **names;      /* "URI:bigfleet://admin", "DNS:localhost", "IP:127.0.0.1" */
    size_t name_count;
    bool is_ca, self_signed, server_use, client_use;
    wall_time not_before, not_after;
    int64_t days_left; /* rounded down; negative when expired */
};
/* Every certificate in a PEM file, in its order. Names are shown with bytes that are no printable
 * ASCII as \xNN. A file that holds a private key and no certificate gives *ret_count 0; any other
 * without one is ERR_PARSE. */
enum err cert_describe(struct fs *fs, const char *path, wall_time now,
                       struct cert_description **ret_list, size_t *ret_count, struct note *note);
void cert_descriptions_free(struct cert_description *list, size_t count); /* NULL is fine */
#endif
