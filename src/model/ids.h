/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum lengths and allowed bytes of names: ids, label keys, label values, groups.
 *
 * An id is opaque: compared and sorted bytewise, never parsed. All names from a provider or an
 * operator pass these checks first. An error names the field and repeats at most a few bytes of the
 * input. */
#ifndef MODEL_IDS_H
#define MODEL_IDS_H
#include "base/note.h"
#include "base/str.h"

enum {
    ID_MAX = 253,          /* id of a machine, cluster, type, zone or host: a DNS name's length */
    LABEL_KEY_MAX = 317,   /* Kubernetes: a prefix of 253, '/', a name of 63 */
    LABEL_VALUE_MAX = 253, /* Kubernetes allows 63; providers may send longer values */
    LABELS_MAX = 256,      /* labels of one machine */
    GROUP_MAX = 1024,      /* namespace, NUL and name; any byte is allowed */
    ERROR_TEXT_MAX = 4096, /* a machine's last error */
};

/* A label, a resource with its quantity, or an entry of the metadata. */
struct label {
    struct str key, value;
};

/* Accepts at most `max` bytes of UTF-8 without control characters (below 0x20, and 0x7F).
 * ERR_INVALID, ERR_TOO_LARGE; the note is "<field>: why". */
enum err text_check(const char *field, struct str text, size_t max, struct note *note);
/* Like text_check(), but the text must not be empty. */
enum err id_check(const char *field, struct str id, size_t max, struct note *note);

/* Sorts labels by key and checks keys and values. ERR_INVALID also for repeated keys, ERR_TOO_LARGE
 * also above LABELS_MAX. After an error the order is undefined. */
enum err labels_canonicalise(const char *field, struct label *labels, size_t count,
                             struct note *note);
/* The checks of labels_canonicalise(), for labels that must already be sorted. */
enum err labels_check(const char *field, const struct label *labels, size_t count,
                      struct note *note);
/* The value under `key` in sorted labels, or NULL. O(log n). */
const struct str *labels_find(const struct label *labels, size_t count, struct str key);
#endif
