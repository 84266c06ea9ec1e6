/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes keys as NATS subjects. '/' becomes '.', and bytes other than A-Z a-z 0-9 - _ become
 * =XX. So no key has a wildcard and no two keys share a subject. A token such as "=probe" is no
 * key. */
#ifndef PRIM_NATS_SUBJECT_H
#define PRIM_NATS_SUBJECT_H
#include "base/str.h"
#include "prim/names.h"

enum {
    JET_BUCKET_MAX = 64,
    JET_SUBJECT_CAP = 5 + JET_BUCKET_MAX + 3 * PRIM_KEY_MAX + 16,
};

bool jet_bucket_is_valid(struct str bucket); /* A-Z a-z 0-9 - _ */
void jet_subject_of(struct str bucket, struct str key, char subject[JET_SUBJECT_CAP]);
/* Returns the filter for a watch of a bucket: its own keys, not deeper keys. */
void jet_subject_below(struct str bucket, struct str keys, char subject[JET_SUBJECT_CAP]);
/* False: no key of this bucket. */
bool jet_key_of(struct str bucket, struct str subject, char key[PRIM_KEY_MAX + 1]);
#endif
