/* SPDX-License-Identifier: Apache-2.0 */
/* Converts keys to subjects and back (subject.h). Pure, any thread. A subject that decodes
 * encodes to the same subject. */
#include "prim/nats/subject.h"

#include "base/hex.h"

#include <stdio.h>

bool jet_bucket_is_valid(struct str bucket)
{
    for (size_t i = 0; i < bucket.len; i++)
        if (!prim_is_plain(bucket.at[i])) return false;
    return bucket.len >= 1 && bucket.len <= JET_BUCKET_MAX;
}

static char *subject_encode(char *at, struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.at[i];
        if (prim_is_plain(c)) {
            *at++ = c;
        } else if (c == '/') {
            *at++ = '.';
        } else {
            (void)snprintf(at, 4, "=%02X", (unsigned char)c);
            at += 3;
        }
    }
    *at = '\0';
    return at;
}

static char *prefix(struct str bucket, char subject[JET_SUBJECT_CAP])
{
    assert(bucket.len <= JET_BUCKET_MAX);
    return subject + snprintf(subject, JET_SUBJECT_CAP, "$KV.%.*s.", STR_ARG(bucket));
}

void jet_subject_of(struct str bucket, struct str key, char subject[JET_SUBJECT_CAP])
{
    assert(key.len >= 1 && key.len <= PRIM_KEY_MAX);
    (void)subject_encode(prefix(bucket, subject), key);
}

void jet_subject_below(struct str bucket, struct str keys, char subject[JET_SUBJECT_CAP])
{
    assert(keys.len <= PRIM_KEY_MAX);
    char *at = subject_encode(prefix(bucket, subject), keys);
    memcpy(at, keys.len > 0 ? ".*" : "*", keys.len > 0 ? 3 : 2);
}

/* Accepts upper case only, so that each key has one subject. */
static int hex_digit(char c)
{
    return c >= 'a' && c <= 'f' ? -1 : hex_value(c);
}

bool jet_key_of(struct str bucket, struct str subject, char key[PRIM_KEY_MAX + 1])
{
    char start[JET_SUBJECT_CAP];
    size_t len = 0;
    (void)prefix(bucket, start);
    if (!str_starts(subject, str_from(start))) return false;
    struct str rest = str_tail(subject, strlen(start));
    for (size_t i = 0; i < rest.len; i++) {
        char c = rest.at[i];
        if (c == '=' && rest.len - i > 2) {
            int high = hex_digit(rest.at[i + 1]), low = hex_digit(rest.at[i + 2]);
            if (high < 0 || low < 0) return false;
            c = (char)(high * 16 + low);
            if (prim_is_plain(c) || c == '/' || c < 0x21 || (unsigned char)c > 0x7e) return false;
            i += 2;
        } else if (c == '.') {
            c = '/';
        } else if (!prim_is_plain(c)) {
            return false;
        }
        if (len == PRIM_KEY_MAX) return false;
        key[len++] = c;
    }
    key[len] = '\0';
    return len > 0;
}
