/* SPDX-License-Identifier: Apache-2.0 */
/* Names that cross every interface (ids, label keys, label values, groups): their maximum lengths
 * and allowed bytes.
 *
 * An id is opaque: compared for equality, sorted bytewise, never parsed. All data from a provider
 * or an operator passes one of these checks before anything is built from it. An error names the
 * field and repeats at most a few bytes of the input. */
#ifndef MODEL_IDS_H
#define MODEL_IDS_H
#include "base/note.h"
#include "base/str.h"

enum {
    ID_MAX = 253,          /* id of a machine, cluster, type, zone or host: as long as a DNS name */
    LABEL_KEY_MAX = 317,   /* Kubernetes: a prefix of 253, '/', a name of 63 */
    LABEL_VALUE_MAX = 253, /* Kubernetes allows 63; attributes of providers may be longer */
    LABELS_MAX = 256,      /* labels of one machine */
    GROUP_MAX = 1024,      /* bytes of namespace, NUL and name; any byte is allowed */
    ERROR_TEXT_MAX = 4096, /* bytes of a machine's last error */
};

/* A key with its value: a label, a resource and its quantity, or an entry of the metadata. */
struct label {
    struct str key, value;
};

/* Checks that `text` has at most `max` bytes of UTF-8 without control characters (below 0x20, and
 * 0x7F). Accepts the empty text. ERR_INVALID, ERR_TOO_LARGE; the note has "<field>: why". */
enum err text_check(const char *field, struct str text, size_t max, struct note *note);
/* Like text_check(), but the text must not be empty. */
enum err id_check(const char *field, struct str id, size_t max, struct note *note);

/* Sorts labels by key. Rejects more than LABELS_MAX labels, empty, too long or repeated keys, too
 * long values, and control characters. After an error the order of `labels` is undefined. Returns
 * ERR_INVALID or ERR_TOO_LARGE. */
enum err labels_canonicalise(const char *field, struct label *labels, size_t count,
                             struct note *note);
/* Makes the checks of labels_canonicalise, for labels that must already be sorted. */
enum err labels_check(const char *field, const struct label *labels, size_t count,
                      struct note *note);
/* Returns the value under `key` in sorted labels, or NULL. O(log n). */
const struct str *labels_find(const struct label *labels, size_t count, struct str key);
#endif
