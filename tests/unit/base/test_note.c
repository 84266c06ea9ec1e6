/* SPDX-License-Identifier: Apache-2.0 */
#include "base/note.h"

#include <string.h>

#include "lib/test.h"

TEST(no_note_is_fine)
{
    note_set(NULL, "%d", 1);
    note_prefix(NULL, "%d", 1);
}

TEST(prefixes_read_as_a_path)
{
    struct note note;

    note_set(&note, "connection refused");
    note_prefix(&note, "dial %s:%d", "10.0.0.7", 7001);
    note_prefix(&note, "join replica-%d", 2);
    CHECK_TEXT("a path", note.text, "join replica-2: dial 10.0.0.7:7001: connection refused");
    note_set(&note, "new");
    CHECK_TEXT("set replaces", note.text, "new");
}

TEST(a_prefix_of_nothing_is_not_followed_by_a_colon)
{
    struct note note = {""};

    note_prefix(&note, "dial");
    CHECK_TEXT("alone", note.text, "dial");
}

TEST(the_text_itself_may_be_an_argument)
{
    struct note note;

    note_set(&note, "b");
    note_set(&note, "a %s c %s", note.text, note.text);
    CHECK_TEXT("set", note.text, "a b c b");
    note_prefix(&note, "<%s>", note.text);
    CHECK_TEXT("prefix", note.text, "<a b c b>: a b c b");
}

TEST(what_does_not_fit_is_cut_and_marked)
{
    struct note note;
    char text[NOTE_CAP + 10];

    memset(text, 'x', sizeof text);
    note_set(&note, "%.*s", NOTE_CAP - 1, text);
    CHECK_SIZE("just fits", strlen(note.text), NOTE_CAP - 1);
    CHECK("without a mark", !strchr(note.text, '.'));
    note_set(&note, "%.*s", NOTE_CAP, text);
    CHECK_SIZE("one too many", strlen(note.text), NOTE_CAP - 1);
    CHECK("ends with the mark", str_ends(str_from(note.text), STR("xx...")));
    note_set(&note, "%.*s", NOTE_CAP - 10, text);
    note_prefix(&note, "long prefix");
    CHECK_SIZE("a prefix that makes it too long", strlen(note.text), NOTE_CAP - 1);
    CHECK("keeps the front", str_starts(str_from(note.text), STR("long prefix: xx")));
    CHECK("ends with the mark", str_ends(str_from(note.text), STR("xx...")));
    note_set(&note, "cause");
    note_prefix(&note, "%.*s", (int)sizeof text, text);
    CHECK("a prefix that is too long alone", str_ends(str_from(note.text), STR("xx...")));
}

TEST(what_cannot_be_formatted_leaves_an_empty_text)
{
    struct note note = {"old"};

    note_set(&note, "more %ls", L"\xFFFF"); /* the C locale cannot print it */
    CHECK_TEXT("empty, not half of it", note.text, "");
}

/* The text must be valid at every position of the cut. */
TEST(a_cut_never_splits_a_character)
{
    struct note note;
    char text[NOTE_CAP * 4];

    for (int lead = 0; lead < 4; lead++) {
        size_t len = (size_t)lead;
        memset(text, 'x', len);
        while (len + 5 < sizeof text) {
            memcpy(text + len, "\xF0\x9F\x98\x80", 4);
            len += 4;
        }
        text[len] = '\0';
        note_set(&note, "%s", text);
        CHECK("still UTF-8", str_is_utf8(str_from(note.text)));
        CHECK("marked", str_ends(str_from(note.text), STR("...")));
        CHECK("little is lost", strlen(note.text) >= NOTE_CAP - 5);
    }
}
