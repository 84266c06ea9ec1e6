/* SPDX-License-Identifier: Apache-2.0 */
#include "model/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

TEST(what_an_id_may_be)
{
    static char longest[ID_MAX + 1];
    static const struct {
        const char *why;
        struct str id;
        enum err want;
        const char *note;
    } cases[] = {
        {"a plain one", {"m-1", 3}, ERR_OK, ""},
        {"opaque: blanks, slashes and other scripts", {"a b/c:\xC3\xA4", 8}, ERR_OK, ""},
        {"empty", {"", 0}, ERR_INVALID, "id: empty"},
        {"a NUL", {"a\0b", 3}, ERR_INVALID, "id: control character 0x00 at byte 1"},
        {"a newline", {"ab\n", 3}, ERR_INVALID, "id: control character 0x0a at byte 2"},
        {"DEL", {"\x7F", 1}, ERR_INVALID, "id: control character 0x7f at byte 0"},
        {"not UTF-8", {"a\xFF", 2}, ERR_INVALID, "id: not UTF-8"},
        {"as long as allowed", {longest, ID_MAX}, ERR_OK, ""},
        {"longer", {longest, ID_MAX + 1}, ERR_TOO_LARGE, "id: 254 bytes, at most 253 are allowed"},
    };

    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        CHECK_ERR(cases[i].why, id_check("id", cases[i].id, ID_MAX, &note), cases[i].want);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        CHECK_ERR("without a note", id_check("id", cases[i].id, ID_MAX, NULL), cases[i].want);
    }
    CHECK_OK("a text may be empty", text_check("zone", STR_EMPTY, ID_MAX, NULL));
    CHECK_ERR("and else as an id", text_check("zone", STR("\t"), ID_MAX, NULL), ERR_INVALID);
}

/* A text is checked in words of eight bytes: a bad byte must be found at every position. */
TEST(one_bad_byte_is_found_at_every_place_of_every_length)
{
    for (size_t len = 1; len <= 26; len++) {
        for (size_t at = 0; at < len; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                char text[26], blames[40];
                struct note note = {""};
                memset(text, 'x', sizeof text);
                text[at] = (char)byte;
                snprintf(blames, sizeof blames, "at byte %zu", at);
                if (byte < 0x20 || byte == 0x7F) {
                    CHECK_ERR("a control character", text_check("id", str_of(text, len), 26, &note),
                              ERR_INVALID);
                    CHECK_HAS("blamed rightly", note.text, blames);
                } else {
                    CHECK_ERR(byte < 0x80 ? "printable" : "half a letter",
                              text_check("id", str_of(text, len), 26, &note),
                              byte < 0x80 ? ERR_OK : ERR_INVALID);
                }
                CHECK("and all of UTF-8 below 0x80",
                      str_is_utf8(str_of(text, len)) == (byte < 0x80));
            }
        }
    }
}

TEST(labels_are_sorted_and_found)
{
    struct label labels[] = {
        {STR("zone"), STR("a")},
        {STR("arch"), STR("arm64")},
        {STR("rack"), STR_EMPTY},
    };

    CHECK_OK("sorted", labels_canonicalise("labels", labels, 3, NULL));
    CHECK_STR("first", labels[0].key, STR("arch"));
    CHECK_STR("last", labels[2].key, STR("zone"));
    CHECK_OK("stays so", labels_check("labels", labels, 3, NULL));
    CHECK_STR("found", *labels_find(labels, 3, STR("zone")), STR("a"));
    CHECK("present and empty", labels_find(labels, 3, STR("rack")) != NULL);
    CHECK("absent", labels_find(labels, 3, STR("ranch")) == NULL);
    CHECK("none at all", labels_find(NULL, 0, STR("zone")) == NULL);
    CHECK_OK("no labels", labels_canonicalise("labels", NULL, 0, NULL));
}

TEST(hostile_labels_are_refused_by_name)
{
    static char big[LABEL_KEY_MAX + 1];
    const struct {
        const char *why;
        struct label labels[3];
        enum err want;
        const char *note;
    } cases[] = {
        {"twice",
         {{STR("b"), STR("1")}, {STR("a"), STR("1")}, {STR("b"), STR("2")}},
         ERR_INVALID,
         "labels: \"b\" is given twice"},
        {"no key",
         {{STR("b"), STR("1")}, {STR(""), STR("1")}, {STR("c"), STR("2")}},
         ERR_INVALID,
         "labels[1]: key: empty"},
        {"control character",
         {{STR("b"), STR("1")}, {STR("a"), STR("1")}, {STR("c"), STR("2\n")}},
         ERR_INVALID,
         "labels[2]: value: control character 0x0a at byte 1"},
        {"long key",
         {{STR("b"), STR("1")}, {STR("a"), STR("1")}, {{big, sizeof big}, STR("2")}},
         ERR_TOO_LARGE,
         "labels[2]: key: 318 bytes, at most 317 are allowed"},
        {"long value",
         {{STR("b"), STR("1")}, {STR("a"), STR("1")}, {STR("c"), {big, 254}}},
         ERR_TOO_LARGE,
         "labels[2]: value: 254 bytes, at most 253 are allowed"},
    };

    memset(big, 'k', sizeof big);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct label labels[3];
        struct note note = {""};
        memcpy(labels, cases[i].labels, sizeof labels);
        CHECK_ERR(cases[i].why, labels_canonicalise("labels", labels, 3, &note), cases[i].want);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
    }
    struct label unsorted[] = {{STR("b"), STR("1")}, {STR("a"), STR("1")}};
    struct note note = {""};
    CHECK_ERR("a check does not sort", labels_check("labels", unsorted, 2, &note), ERR_INVALID);
    CHECK_TEXT("why", note.text, "labels: \"a\" is out of order");
    unsorted[0].key = STR_EMPTY;
    CHECK_ERR("and looks inside", labels_check("labels", unsorted, 2, &note), ERR_INVALID);
}

TEST(ten_thousand_labels_are_refused)
{
    struct label *labels = calloc(10000, sizeof *labels);
    struct note note = {""};
    char keys[LABELS_MAX + 1][8];

    CHECK_ERR("before one is looked at", labels_canonicalise("labels", labels, 10000, &note),
              ERR_TOO_LARGE);
    CHECK_TEXT("why", note.text, "labels: 10000 entries, at most 256 are allowed");
    for (int i = 0; i <= LABELS_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        labels[i] = (struct label){str_from(keys[i]), STR_EMPTY};
    }
    CHECK_OK("256 are fine", labels_canonicalise("labels", labels, LABELS_MAX, NULL));
    CHECK_ERR("257 are not", labels_canonicalise("labels", labels, LABELS_MAX + 1, NULL),
              ERR_TOO_LARGE);
    free(labels);
}
