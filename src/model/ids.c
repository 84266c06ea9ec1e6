/* SPDX-License-Identifier: Apache-2.0 */
/* Checks texts and sorts labels. Pure; errors name the field and allocate nothing. */
#include "model/ids.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"

/* True if all eight bytes are printable ASCII (0x20 to 0x7E). A good byte can fail the test, but
 * only next to a bad byte. */
static bool is_plain_word(const char *at)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t word = load_le64(at);

    return ((word | (word - 0x20 * ones) | ((word ^ 0x7F * ones) - ones)) & 0x80 * ones) == 0;
}

/* Tests a word at a time. The last word may overlap the word before. */
static bool is_plain(struct str text)
{
    size_t at = 0;

    if (text.len < 8) {
        while (at < text.len && text.at[at] >= 0x20 && text.at[at] < 0x7F) at++;
        return at == text.len;
    }
    for (; at + 8 <= text.len; at += 8)
        if (!is_plain_word(text.at + at)) return false;
    return is_plain_word(text.at + text.len - 8);
}

enum err text_check(const char *field, struct str text, size_t max, struct note *note)
{
    if (text.len > max)
        return note_fail(note, ERR_TOO_LARGE, "%s: %zu bytes, at most %zu are allowed", field,
                         text.len, max);
    if (is_plain(text)) return ERR_OK;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (byte < 0x20 || byte == 0x7F)
            return note_fail(note, ERR_INVALID, "%s: control character 0x%02x at byte %zu", field,
                             byte, i);
    }
    if (!str_is_utf8(text)) return note_fail(note, ERR_INVALID, "%s: not UTF-8", field);
    return ERR_OK;
}

enum err id_check(const char *field, struct str id, size_t max, struct note *note)
{
    if (id.len == 0) return note_fail(note, ERR_INVALID, "%s: empty", field);
    return text_check(field, id, max, note);
}

static int label_compare(const void *a, const void *b)
{
    return str_compare(((const struct label *)a)->key, ((const struct label *)b)->key);
}

static enum err contents_check(const char *field, const struct label *labels, size_t count,
                               struct note *note)
{
    if (count > LABELS_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%s: %zu entries, at most %d are allowed", field,
                         count, LABELS_MAX);
    for (size_t i = 0; i < count; i++) {
        enum err err = id_check("key", labels[i].key, LABEL_KEY_MAX, note);
        if (!err) err = text_check("value", labels[i].value, LABEL_VALUE_MAX, note);
        if (!err) continue;
        note_prefix(note, "%s[%zu]", field, i);
        return err;
    }
    return ERR_OK;
}

static enum err order_check(const char *field, const struct label *labels, size_t count,
                            struct note *note)
{
    for (size_t i = 1; i < count; i++) {
        int order = str_compare(labels[i - 1].key, labels[i].key);
        if (order < 0) continue;
        return note_fail(note, ERR_INVALID, "%s: \"%.*s\" is %s", field, STR_ARG(labels[i].key),
                         order == 0 ? "given twice" : "out of order");
    }
    return ERR_OK;
}

enum err labels_canonicalise(const char *field, struct label *labels, size_t count,
                             struct note *note)
{
    enum err err = contents_check(field, labels, count, note);

    if (err) return err;
    if (count > 1) qsort(labels, count, sizeof *labels, label_compare);
    return order_check(field, labels, count, note);
}

enum err labels_check(const char *field, const struct label *labels, size_t count,
                      struct note *note)
{
    enum err err = contents_check(field, labels, count, note);

    return err ? err : order_check(field, labels, count, note);
}

const struct str *labels_find(const struct label *labels, size_t count, struct str key)
{
    struct label wanted = {.key = key};
    const struct label *found =
        count ? bsearch(&wanted, labels, count, sizeof *labels, label_compare) : NULL;

    return found ? &found->value : NULL;
}
