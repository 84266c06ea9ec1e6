/* SPDX-License-Identifier: Apache-2.0 */
/* The words that cross every border (ids, label keys, label values, groups): how long they may be
 * and which bytes they may hold.
 *
 * An id is opaque: compared for equality and sorted bytewise, never taken apart. Whatever comes
 * from a provider or an operator passes one of these checks before anything is built from it; a
 * refusal names the field and never repeats more than a few bytes of what was sent. */
#ifndef MODEL_IDS_H
#define MODEL_IDS_H
#include "base/note.h"
#include "base/str.h"

enum {
    ID_MAX = 253,          /* machine, cluster, instance type, zone, host: a DNS name's length */
    LABEL_KEY_MAX = 317,   /* Kubernetes: prefix of 253, '/', name of 63 */
    LABEL_VALUE_MAX = 253, /* Kubernetes allows 63; providers' own attributes may be longer */
    LABELS_MAX = 256,      /* of one machine */
    GROUP_MAX = 1024,      /* namespace, NUL, name: any byte is allowed, as on the wire */
    ERROR_TEXT_MAX = 4096, /* a machine's last error */
};

/* One name with its text: a label, a resource and its quantity, a metadata key and its value. */
struct label {
    struct str key, value;
};

/* `text` is at most `max` bytes of UTF-8 without control characters (below 0x20 and 0x7F); it may
 * be empty. ERR_INVALID, and ERR_TOO_LARGE for its length, with "<field>: why" in the note. */
enum err text_check(const char *field, struct str text, size_t max, struct note *note);
/* As text_check, and not empty. */
enum err id_check(const char *field, struct str id, size_t max, struct note *note);

/* Sorts by key and refuses what must not be kept: more than LABELS_MAX, empty, oversized or
 * repeated keys, oversized values, control characters. The order of `labels` is undefined after an
 * error. ERR_INVALID, ERR_TOO_LARGE. */
enum err labels_canonicalise(const char *field, struct label *labels, size_t count,
                             struct note *note);
/* The same, of labels that must be sorted already. */
enum err labels_check(const char *field, const struct label *labels, size_t count,
                      struct note *note);
/* The value under `key` in sorted labels, or NULL; O(log n). */
const struct str *labels_find(const struct label *labels, size_t count, struct str key);
#endif
