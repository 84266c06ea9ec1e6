/* SPDX-License-Identifier: Apache-2.0 */
/* The guard, reading and writing: hand-written vectors, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_capacity.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"
#include "wire/pb/google_protobuf_struct.pb-c.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

enum { MEMORY = 8 << 20 };
#define BYTES(literal)                                                                             \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

typedef Muster__Test__V1__Everything everything;
#define EVERYTHING (&muster__test__v1__everything__descriptor)
#define NEEDS      (&bigfleet__v1alpha1__cluster_capacity_needs__descriptor)
#define NEED       (&bigfleet__v1alpha1__capacity_need__descriptor)
#define MACHINE    (&bigfleet__v1alpha1__machine__descriptor)
#define CONFIGURE  (&bigfleet__v1alpha1__configure_request__descriptor)
#define STRUCT     (&google__protobuf__struct__descriptor)

/* Reads into an arena of its own; the caller deinits it. */
static enum err read_in(struct arena *arena, const ProtobufCMessageDescriptor *type,
                        struct str bytes, void *ret_message, struct note *note)
{
    ProtobufCMessage *message = NULL;
    enum err err;

    arena_init(arena, MEMORY);
    err = message_read(type, bytes, NULL, arena, &message, note);
    if (!err) memcpy(ret_message, &message, sizeof message);
    return err;
}

static const struct {
    const char *why;
    struct str bytes;
    const char *note; /* NULL: passes */
} everything_cases[] = {
    {"nothing at all is a message", BYTES(""), NULL},
    {"a number", BYTES("\x08\x96\x01"), NULL},
    {"a number in ten bytes", BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), NULL},
    {"eleven are too many", BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
     "a_int32: number longer than ten bytes"},
    {"a number longer than it must be", BYTES("\x08\x81\x80\x00"), NULL},
    {"number cut short", BYTES("\x08\x96"), "a_int32: cut short"},
    {"only a tag", BYTES("\x08"), "a_int32: cut short"},
    {"half a tag", BYTES("\x88"), "muster.test.v1.Everything: cut short"},
    {"field 0", BYTES("\x00\x01"), "muster.test.v1.Everything: bad field number"},
    {"field 0 in two bytes", BYTES("\x80\x00\x01"), "muster.test.v1.Everything: bad field number"},
    {"the largest field number", BYTES("\xf8\xff\xff\xff\x0f\x07"), NULL},
    {"one past it", BYTES("\x80\x80\x80\x80\x10\x07"),
     "muster.test.v1.Everything: bad field number"},
    {"a tag of six bytes", BYTES("\x88\x80\x80\x80\x80\x00\x01"),
     "muster.test.v1.Everything: bad tag"},
    {"a tag longer than it must be", BYTES("\x88\x00\x01"), NULL},
    {"group", BYTES("\x0b\x0c"), "a_int32: groups are not supported"},
    {"end of a group", BYTES("\x0c"), "a_int32: groups are not supported"},
    {"group of an unknown field", BYTES("\xa3\x06\xa4\x06"), "#100: groups are not supported"},
    {"wire type 6", BYTES("\x0e"), "a_int32: bad wire type"},
    {"wire type 7", BYTES("\x0f"), "a_int32: bad wire type"},
    {"four bytes", BYTES("\x3d\1\2\3\4"), NULL},
    {"three of them", BYTES("\x3d\1\2\3"), "a_fixed32: cut short"},
    {"eight bytes", BYTES("\x41\1\2\3\4\5\6\7\x08"), NULL},
    {"seven of them", BYTES("\x41\1\2\3\4\5\6\7"), "a_fixed64: cut short"},
    {"number as bytes", BYTES("\x0a\x01\x01"), "a_int32: wrong wire type"},
    {"bytes as a number", BYTES("\x78\x01"), "a_bytes: wrong wire type"},
    {"double in four bytes", BYTES("\x65\1\2\3\4"), "a_double: wrong wire type"},
    {"bool as text, which protobuf-c takes", BYTES("\x6a\x01\x01"), "a_bool: wrong wire type"},
    {"message as a number", BYTES("\x88\x01\x01"), "child: wrong wire type"},
    {"text",
     BYTES("\x72\x03"
           "abc"),
     NULL},
    {"text that is not there",
     BYTES("\x72\x04"
           "abc"),
     "a_string: cut short"},
    {"length cut short", BYTES("\x72\x84"), "a_string: cut short"},
    {"length in five bytes", BYTES("\x72\x81\x80\x80\x80\x00x"), NULL},
    {"length of 2 GiB", BYTES("\x72\x80\x80\x80\x80\x08"), "a_string: length past 2 GiB"},
    {"length in six bytes", BYTES("\x72\x81\x80\x80\x80\x80\x00x"), "a_string: length past 2 GiB"},
    {"NUL in text", BYTES("\x72\x03\x61\0\x62"), "a_string: holds a NUL byte"},
    {"NUL at the end of long text",
     BYTES("\x72\x09"
           "abcdefgh\0"),
     "a_string: holds a NUL byte"},
    {"NUL in bytes", BYTES("\x7a\x03\x61\0\x62"), NULL},
    {"any bytes in bytes", BYTES("\x7a\x02\xff\xfe"), NULL},
    {"bad UTF-8 in one of many", BYTES("\xca\x01\x01\x61\xca\x01\x01\xff"),
     "strings[1]: not UTF-8"},
    {"... after something else", BYTES("\xca\x01\x01\x61\x08\x01\xca\x01\x01\xff"),
     "strings[1]: not UTF-8"},
    {"bad UTF-8 deep inside", BYTES("\xda\x01\x00\xda\x01\x07\x8a\x01\x04\xca\x01\x01\xff"),
     "children[1].child.strings[0]: not UTF-8"},
    {"a key of a map", BYTES("\xe2\x01\x03\x0a\x01\xff"), "texts[0].key: not UTF-8"},
    {"a child longer than its parent", BYTES("\x8a\x01\x03\x8a\x01\x04"), "child.child: cut short"},
    {"a bad tag in a child", BYTES("\x8a\x01\x02\x00\x00"), "child: bad field number"},
    {"packed numbers", BYTES("\x92\x01\x03\x01\x96\x01"), NULL},
    {"no packed numbers", BYTES("\x92\x01\x00"), NULL},
    {"packed numbers not packed", BYTES("\x90\x01\x01\x90\x01\x02"), NULL},
    {"packed numbers cut short", BYTES("\x92\x01\x02\x01\x96"),
     "int32s: packed values are cut short"},
    {"packed number of eleven bytes",
     BYTES("\x92\x01\x0c\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
     "int32s: number longer than ten bytes"},
    {"packed where it was not asked for", BYTES("\x9a\x01\x02\x01\x02"), NULL},
    {"packed fixed numbers", BYTES("\xaa\x01\x08\1\2\3\4\5\6\7\x08"), NULL},
    {"... that do not add up", BYTES("\xaa\x01\x07\1\2\3\4\5\6\7"),
     "fixed32s: packed values are cut short"},
    {"packed doubles that do not add up", BYTES("\xb2\x01\x04\1\2\3\4"),
     "doubles: packed values are cut short"},
    {"repeated fixed in the wrong size", BYTES("\xb5\x01\1\2\3\4"), "doubles: wrong wire type"},
    {"a single number is never packed", BYTES("\x1a\x01\x01"), "a_uint32: wrong wire type"},
    {"unknown fields of all kinds",
     BYTES("\xa0\x06\x01\xa1\x06\1\2\3\4\5\6\7\x08\xa2\x06\x02\xff\x00\xa5\x06\1\2\3\4"), NULL},
    {"unknown field cut short", BYTES("\xa2\x06\x02\xff"), "#100: cut short"},
    {"a child given twice", BYTES("\x8a\x01\x02\x08\x01\x8a\x01\x02\x10\x02"),
     "child: given twice"},
    {"... in a oneof", BYTES("\x82\x02\x00\x82\x02\x00"), "choice_child: given twice"},
    {"other cases of a oneof may follow", BYTES("\xf2\x01\x01\x61\x82\x02\x00\xf8\x01\x05"), NULL},
};

TEST(the_guard_passes_what_is_right_and_names_what_is_not)
{
    for (size_t i = 0; i < ARRAY_LEN(everything_cases); i++) {
        const char *why = everything_cases[i].why, *want = everything_cases[i].note;
        struct note note = {""};
        /* A copy of exactly that size, so that ASan sees a read past the end. */
        char *copy = malloc(everything_cases[i].bytes.len + 1);
        enum err err;
        everything *message = NULL;
        struct arena arena;

        memcpy(copy, everything_cases[i].bytes.at, everything_cases[i].bytes.len);
        copy = realloc(copy, everything_cases[i].bytes.len ? everything_cases[i].bytes.len : 1);
        err = read_in(&arena, EVERYTHING, str_of(copy, everything_cases[i].bytes.len), &message,
                      &note);
        CHECK_TEXT(why, note.text, want ? want : "");
        CHECK_ERR(why, err, want ? ERR_PARSE : ERR_OK);
        arena_deinit(&arena);
        free(copy);
    }
}

static const struct {
    const char *why;
    struct str text;
    bool good;
} utf8_cases[] = {
    {"plain", BYTES("plain text"), true},
    {"two bytes", BYTES("caf\xc3\xa9"), true},
    {"three bytes", BYTES("\xe2\x82\xac"), true},
    {"four bytes", BYTES("\xf0\x9f\x98\x80"), true},
    {"the last code point", BYTES("\xf4\x8f\xbf\xbf"), true},
    {"before the surrogates", BYTES("\xed\x9f\xbf"), true},
    {"after the surrogates", BYTES("\xee\x80\x80"), true},
    {"high bit after eight plain bytes", BYTES("12345678\xc3\xa9"), true},
    {"past the last code point", BYTES("\xf4\x90\x80\x80"), false},
    {"a surrogate", BYTES("\xed\xa0\x80"), false},
    {"the last surrogate", BYTES("\xed\xbf\xbf"), false},
    {"slash in two bytes", BYTES("\xc0\xaf"), false},
    {"NUL in two bytes", BYTES("\xc0\x80"), false},
    {"slash in three bytes", BYTES("\xe0\x80\xaf"), false},
    {"slash in four bytes", BYTES("\xf0\x80\x80\xaf"), false},
    {"a lone continuation", BYTES("a\x80"), false},
    {"a lone lead", BYTES("a\xc3"), false},
    {"a lead before ASCII", BYTES("\xc3(xxxxxxxx"), false},
    {"three bytes cut", BYTES("12345678\xe2\x82"), false},
    {"five bytes", BYTES("\xf8\x88\x80\x80\x80"), false},
    {"fe", BYTES("\xfe"), false},
    {"ff in the ninth place", BYTES("12345678\xff"), false},
};

TEST(text_is_utf8_in_strings_and_in_text_kept_as_bytes)
{
    for (size_t i = 0; i < ARRAY_LEN(utf8_cases); i++) {
        struct str text = utf8_cases[i].text;
        struct buf bytes;
        struct note note = {""};
        enum err want = utf8_cases[i].good ? ERR_OK : ERR_PARSE;

        buf_init(&bytes, 256);
        buf_append(&bytes, STR("\x72"));
        buf_append_byte(&bytes, (char)text.len);
        buf_append(&bytes, text);
        CHECK_ERR(utf8_cases[i].why, message_guard(EVERYTHING, buf_peek(&bytes), NULL, &note),
                  want);
        bytes.data[0] = 0x4a; /* CapacityNeed.group */
        CHECK_ERR(utf8_cases[i].why, message_guard(NEED, buf_peek(&bytes), NULL, &note), want);
        CHECK_TEXT(utf8_cases[i].why, note.text, want ? "group: not UTF-8" : "");
        bytes.data[0] = 0x7a; /* Everything.a_bytes */
        CHECK_OK("bytes may be anything", message_guard(EVERYTHING, buf_peek(&bytes), NULL, &note));
        buf_deinit(&bytes);
    }
}

TEST(one_bad_byte_is_seen_at_every_place_of_a_text_of_any_length)
{
    for (size_t len = 1; len <= 40; len++) {
        for (size_t place = 0; place < len; place++) {
            char bytes[2 + 40] = {0x72, (char)len};
            struct str message = {bytes, 2 + len};

            memset(bytes + 2, 'x', len);
            CHECK_OK("good", message_guard(EVERYTHING, message, NULL, NULL));
            bytes[2 + place] = '\0';
            CHECK_ERR("NUL", message_guard(EVERYTHING, message, NULL, NULL), ERR_PARSE);
            bytes[2 + place] = (char)0xff;
            CHECK_ERR("no UTF-8", message_guard(EVERYTHING, message, NULL, NULL), ERR_PARSE);
            bytes[2 + place] = 0x7f;
            CHECK_OK("the last of ASCII", message_guard(EVERYTHING, message, NULL, NULL));
            bytes[2 + place] = 0x01;
            CHECK_OK("the first", message_guard(EVERYTHING, message, NULL, NULL));
        }
    }
}

TEST(text_that_may_hold_nul_is_kept_whole)
{
    Bigfleet__V1alpha1__ClusterCapacityNeeds *needs = NULL;
    Bigfleet__V1alpha1__Machine *machine = NULL;
    Bigfleet__V1alpha1__ConfigureRequest *configure = NULL;
    struct note note = {""};
    struct arena arena;

    CHECK_OK("group", read_in(&arena, NEEDS, STR("\x1a\x05\x4a\x03\x61\0\x62"), &needs, &note));
    CHECK_STR("the whole of it", str_of(needs->needs[0]->group.data, needs->needs[0]->group.len),
              STR("a\0b"));
    arena_deinit(&arena);
    CHECK_OK("machine",
             read_in(&arena, MACHINE, STR("\x7a\x08\x0a\x01k\x12\x03\x61\0\x62"), &machine, &note));
    CHECK_STR("the value",
              str_of(machine->shard_metadata[0]->value.data, machine->shard_metadata[0]->value.len),
              STR("a\0b"));
    arena_deinit(&arena);
    CHECK_OK("configure", read_in(&arena, CONFIGURE, STR("\x3a\x08\x0a\x01k\x12\x03\x61\0\x62"),
                                  &configure, &note));
    CHECK_STR(
        "the value",
        str_of(configure->shard_metadata[0]->value.data, configure->shard_metadata[0]->value.len),
        STR("a\0b"));
    arena_deinit(&arena);
    CHECK_OK("key", read_in(&arena, MACHINE, STR("\x7a\x05\x0a\x03k\0k"), &machine, &note));
    CHECK_STR("the key",
              str_of(machine->shard_metadata[0]->key.data, machine->shard_metadata[0]->key.len),
              STR("k\0k"));
    arena_deinit(&arena);
    CHECK_ERR("bad UTF-8 in the key",
              message_guard(MACHINE, STR("\x7a\x03\x0a\x01\xff"), NULL, &note), ERR_PARSE);
    CHECK_TEXT("named", note.text, "shard_metadata[0].key: not UTF-8");
    CHECK_ERR("bad UTF-8 in the value",
              message_guard(MACHINE, STR("\x7a\x03\x12\x01\xff"), NULL, &note), ERR_PARSE);
    CHECK_TEXT("named", note.text, "shard_metadata[0].value: not UTF-8");
    CHECK_ERR("labels are strings", message_guard(MACHINE, STR("\x52\x03\x12\x01\0"), NULL, &note),
              ERR_PARSE);
}

/* -- depth -- */

/* Nests `levels` messages by Everything.child, including the outermost. */
static void nest(struct buf *out, size_t levels)
{
    struct buf reversed; /* written from the inside out */

    buf_init(&reversed, MEMORY);
    for (size_t level = 1; level < levels; level++) {
        size_t len = reversed.len;
        char length[5];
        size_t bytes = 0;
        do {
            length[bytes++] = (char)((len & 0x7f) | (len > 0x7f ? 0x80 : 0));
            len >>= 7;
        } while (len > 0);
        while (bytes > 0) buf_append_byte(&reversed, length[--bytes]);
        buf_append(&reversed, STR("\x01\x8a"));
    }
    for (size_t i = reversed.len; i > 0; i--) buf_append_byte(out, reversed.data[i - 1]);
    buf_deinit(&reversed);
}

TEST(nesting_is_bounded_whatever_its_depth)
{
    static const struct {
        uint32_t levels, depth_max;
        bool good;
    } cases[] = {
        {1, 1, true},      {2, 1, false},          {2, 2, true},        {64, 0, true},
        {65, 0, false},    {128, 128, true},       {129, 128, false},   {129, 1000, false},
        {20000, 0, false}, {20000, 100000, false}, {1000000, 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct message_limits limits = {.depth_max = cases[i].depth_max};
        struct note note = {""};
        struct arena arena;
        struct buf bytes;
        ProtobufCMessage *message = NULL;
        everything *inner = NULL;
        uint32_t levels = 1;

        buf_init(&bytes, MEMORY);
        arena_init(&arena, MEMORY);
        nest(&bytes, cases[i].levels);
        CHECK_ERR("the depth decides",
                  message_read(EVERYTHING, buf_peek(&bytes), &limits, &arena, &message, &note),
                  cases[i].good ? ERR_OK : ERR_PARSE);
        if (cases[i].good) {
            for (inner = (everything *)message; inner->child; inner = inner->child) levels++;
            CHECK_U32("all levels are there", levels, cases[i].levels);
        } else {
            CHECK("nothing came out", message == NULL);
            CHECK_HAS("named", note.text, "child: nested too deeply");
            CHECK("the note fits", strlen(note.text) < 300);
        }
        arena_deinit(&arena);
        buf_deinit(&bytes);
    }
}

TEST(json_as_a_message_is_bounded_too)
{
    struct buf bytes;
    struct note note = {""};

    buf_init(&bytes, MEMORY); /* fields{"": struct{fields...}}: three levels for one of JSON */
    for (int i = 0; i < 40; i++) {
        struct buf outer;
        size_t len = bytes.len;
        buf_init(&outer, MEMORY);
        buf_append(&outer, STR("\x0a\x80\x80\x80\x00\x12\x80\x80\x80\x00\x2a\x80\x80\x80\x00"));
        for (size_t at = 1, more = len + 10; at < 15; at += 5, more -= 5) {
            outer.data[at] = (char)((more & 0x7f) | 0x80);
            outer.data[at + 1] = (char)((more >> 7 & 0x7f) | 0x80);
            outer.data[at + 2] = (char)((more >> 14 & 0x7f) | 0x80);
            outer.data[at + 3] = (char)(more >> 21 & 0x7f);
        }
        buf_append(&outer, buf_peek(&bytes));
        buf_deinit(&bytes);
        bytes = outer;
    }
    CHECK_ERR("refused", message_guard(STRUCT, buf_peek(&bytes), NULL, &note), ERR_PARSE);
    CHECK_HAS("named", note.text, "fields[0].value.struct_value.fields[0]");
    CHECK_HAS("as too deep", note.text, "nested too deeply");
    buf_deinit(&bytes);
}

/* -- every value arrives -- */

TEST(every_kind_of_field_arrives)
{
    static const char bytes[] =
        "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* a_int32 -1 */
        "\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01" /* a_int64 least */
        "\x18\xff\xff\xff\xff\x0f"                     /* a_uint32 most */
        "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* a_uint64 most */
        "\x28\x03\x30\x04"                             /* a_sint32 -2, a_sint64 2 */
        "\x3d\x78\x56\x34\x12\x41\xf0\xde\xbc\x9a\x78\x56\x34\x12"
        "\x4d\xff\xff\xff\xff\x51\xfe\xff\xff\xff\xff\xff\xff\xff"
        "\x5d\x00\x00\xc0\x3f\x61\x00\x00\x00\x00\x00\x00\xf8\xbf"
        "\x68\x02" /* a_bool: any number but 0 is true */
        "\x72\x02\xc3\xa9\x7a\x02\x00\xff"
        "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* colour -1 */
        "\x8a\x01\x02\x08\x07"
        "\x92\x01\x03\x01\x96\x01\x90\x01\x05\x92\x01\x01\x06" /* packed, loose, packed again */
        "\x98\x01\x01\x9a\x01\x02\x02\x03"
        "\xa2\x01\x02\x01\x02\xaa\x01\x04\1\0\0\0\xb2\x01\x08\0\0\0\0\0\0\xf0\x3f"
        "\xba\x01\x03\x01\x00\x01\xc2\x01\x02\x01\x63" /* colours: red, 99 */
        "\xca\x01\x00\xca\x01\x01\x78\xd2\x01\x02\x00\x00\xda\x01\x00\xda\x01\x02\x08\x01"
        "\xe2\x01\x06\x0a\x01k\x12\x01v\xe2\x01\x06\x0a\x01k\x12\x01w" /* same key twice */
        "\xea\x01\x06\x08\x05\x12\x02\x08\x06"
        "\xf2\x01\x01\x61\xf8\x01\x05" /* oneof: the last one counts */
        "\xf8\xff\xff\xff\x0f\x07";
    everything *m = NULL;
    struct note note = {""};
    struct arena arena;

    CHECK_OK("read", read_in(&arena, EVERYTHING, str_of(bytes, sizeof bytes - 1), &m, &note));
    CHECK_I64("int32", m->a_int32, -1);
    CHECK_I64("int64", m->a_int64, INT64_MIN);
    CHECK_U64("uint32", m->a_uint32, UINT32_MAX);
    CHECK_U64("uint64", m->a_uint64, UINT64_MAX);
    CHECK_I64("sint32", m->a_sint32, -2);
    CHECK_I64("sint64", m->a_sint64, 2);
    CHECK_U64("fixed32", m->a_fixed32, 0x12345678);
    CHECK_U64("fixed64", m->a_fixed64, 0x123456789abcdef0);
    CHECK_I64("sfixed32", m->a_sfixed32, -1);
    CHECK_I64("sfixed64", m->a_sfixed64, -2);
    CHECK("float", m->a_float > 1.4f && m->a_float < 1.6f);
    CHECK("double", m->a_double < -1.4 && m->a_double > -1.6);
    CHECK("bool", m->a_bool == 1);
    CHECK_TEXT("string", m->a_string, "\xc3\xa9");
    CHECK_STR("bytes", str_of(m->a_bytes.data, m->a_bytes.len), STR("\0\xff"));
    CHECK_I64("an enum below zero", m->colour, -1);
    CHECK_I64("child", m->child->a_int32, 7);
    CHECK_SIZE("numbers", m->n_int32s, 4);
    CHECK_I64("packed", m->int32s[1], 150);
    CHECK_I64("loose among packed", m->int32s[2], 5);
    CHECK_I64("the last", m->int32s[3], 6);
    CHECK_SIZE("loose and packed", m->n_loose_int32s, 3);
    CHECK_I64("in order", m->loose_int32s[2], 3);
    CHECK_I64("zigzag", m->sint64s[0], -1);
    CHECK_U64("fixed", m->fixed32s[0], 1);
    CHECK("doubles", m->n_doubles == 1 && m->doubles[0] > 0.9 && m->doubles[0] < 1.1);
    CHECK("bools", m->n_bools == 3 && m->bools[0] && !m->bools[1]);
    CHECK_I64("an enum number nobody knows", m->colours[1], 99);
    CHECK("strings", m->n_strings == 2 && m->strings[0][0] == '\0' && m->strings[1][0] == 'x');
    CHECK_SIZE("bytes with NUL", m->byteses[0].len, 2);
    CHECK_I64("children", m->children[1]->a_int32, 1);
    CHECK_SIZE("a map keeps all entries in order", m->n_texts, 2);
    CHECK_TEXT("the last one counts", m->texts[1]->value, "w");
    CHECK_I64("a message in a map", m->by_number[0]->value->a_int32, 6);
    CHECK_U64("which of the oneof", m->choice_case,
              MUSTER__TEST__V1__EVERYTHING__CHOICE_CHOICE_NUMBER);
    CHECK_U64("its value", m->choice_number, 5);
    CHECK_U64("the largest field number", m->far, 7);
    arena_deinit(&arena);
}

/* -- random messages -- */

static uint64_t texts_made, bad_text; /* the number of the text to break; 0: none */

static char *random_text(struct prng *p, struct arena *arena)
{
    static const char *const parts[] = {
        "a", "Z", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", " plain words "};
    size_t count = prng_below(p, 6), len = 0;
    char *text = arena_calloc(arena, 1, 128);

    for (size_t i = 0; i < count; i++) {
        const char *part = parts[prng_below(p, ARRAY_LEN(parts))];
        memcpy(text + len, part, strlen(part));
        len += strlen(part);
    }
    if (++texts_made == bad_text) text[prng_below(p, len + 1)] = (char)0xff;
    return text;
}

static everything *random_message(struct prng *p, struct arena *arena, int depth)
{
    everything *m = arena_alloc(arena, sizeof *m);
    size_t some = prng_below(p, 4);

    muster__test__v1__everything__init(m);
    m->a_int32 = (int32_t)prng_u64(p);
    m->a_int64 = (int64_t)(prng_u64(p) >> prng_below(p, 64));
    m->a_sint64 = (int64_t)prng_u64(p);
    m->a_string = random_text(p, arena);
    m->a_bool = (int)prng_below(p, 2);
    m->colour = (Muster__Test__V1__Everything__Colour)prng_below(p, 3);
    m->n_int32s = some;
    m->int32s = arena_calloc(arena, some, sizeof *m->int32s);
    for (size_t i = 0; i < some; i++) m->int32s[i] = (int32_t)prng_u64(p);
    m->n_strings = some;
    m->strings = arena_calloc(arena, some, sizeof *m->strings);
    for (size_t i = 0; i < some; i++) m->strings[i] = random_text(p, arena);
    m->a_bytes.len = some * 5;
    m->a_bytes.data = arena_calloc(arena, 1, 32);
    prng_fill(p, m->a_bytes.data, 32);
    if (depth == 0) return m;
    if (prng_below(p, 2)) m->child = random_message(p, arena, depth - 1);
    m->n_children = some;
    m->children = arena_calloc(arena, some, sizeof *m->children);
    for (size_t i = 0; i < some; i++) m->children[i] = random_message(p, arena, depth - 1);
    if (prng_below(p, 2)) {
        m->choice_case = MUSTER__TEST__V1__EVERYTHING__CHOICE_CHOICE_CHILD;
        m->choice_child = random_message(p, arena, depth - 1);
    }
    return m;
}

TEST(what_is_written_is_read_back_the_same)
{
    struct prng prng;

    prng_seed(&prng, test_seed());
    for (int turn = 0; turn < 300; turn++) {
        struct arena arena, again;
        struct buf once, twice;
        everything *back = NULL;
        struct note note = {""};

        arena_init(&arena, MEMORY);
        buf_init(&once, MEMORY);
        buf_init(&twice, MEMORY);
        CHECK_OK("write", message_write(&random_message(&prng, &arena, 3)->base, &once, NULL));
        CHECK_OK("read", read_in(&again, EVERYTHING, buf_peek(&once), &back, &note));
        CHECK_OK("write again", message_write(&back->base, &twice, NULL));
        CHECK_STR("the same bytes", buf_peek(&twice), buf_peek(&once));
        arena_deinit(&again);
        buf_deinit(&twice);
        buf_deinit(&once);
        arena_deinit(&arena);
    }
}

/* protobuf-c's own reader is the reference: at every cut, guard and reader agree. */
TEST(a_message_cut_anywhere_is_refused_unless_cut_between_fields)
{
    struct prng prng;
    size_t refused = 0, passed = 0;

    prng_seed(&prng, test_seed());
    for (int turn = 0; turn < 20; turn++) {
        struct arena arena;
        struct buf bytes;

        arena_init(&arena, MEMORY);
        buf_init(&bytes, MEMORY);
        CHECK_OK("write", message_write(&random_message(&prng, &arena, 2)->base, &bytes, NULL));
        for (size_t len = 0; len < bytes.len && len < 2000; len++) {
            uint8_t *cut = malloc(len ? len : 1);
            ProtobufCMessage *judge = NULL;
            enum err err;
            struct note note = {""};

            memcpy(cut, bytes.data, len);
            judge = protobuf_c_message_unpack(EVERYTHING, NULL, len, cut);
            err = message_guard(EVERYTHING, str_of(cut, len), NULL, &note);
            CHECK_ERR("the result of the reference", err, judge ? ERR_OK : ERR_PARSE);
            if (err) CHECK_HAS("the reason", note.text, "cut short");
            *(err ? &refused : &passed) += 1;
            if (judge) protobuf_c_message_free_unpacked(judge, NULL);
            free(cut);
        }
        buf_deinit(&bytes);
        arena_deinit(&arena);
    }
    CHECK("both kinds were seen", refused > 1000 && passed > 20);
}

TEST(unknown_fields_and_enum_numbers_survive_a_round)
{
    /* From a newer peer: fields 100..103 of all wire types, also inside a child; colour 77. */
    struct str bytes =
        STR("\x80\x01\x4d\x8a\x01\x03\xa0\x06\x07"
            "\xa0\x06\x01\xa9\x06\1\2\3\4\5\6\7\x08\xb2\x06\x02\xff\x00\xbd\x06\1\2\3\4");
    everything *m = NULL;
    struct arena arena;
    struct buf out;
    struct note note = {""};

    CHECK_OK("read", read_in(&arena, EVERYTHING, bytes, &m, &note));
    CHECK_I64("the number", m->colour, 77);
    CHECK_SIZE("unknown fields", m->base.n_unknown_fields, 4);
    buf_init(&out, 256);
    CHECK_OK("write", message_write(&m->base, &out, NULL));
    CHECK_STR("the same bytes", buf_peek(&out), bytes);
    buf_deinit(&out);
    arena_deinit(&arena);
}

/* -- bounds -- */

TEST(the_number_of_fields_is_bounded_at_all_levels)
{
    static const struct {
        const char *why;
        struct str bytes;
        uint32_t fields;
    } cases[] = {
        {"plain", BYTES("\x08\x01\x10\x01\x18\x01"), 3},
        {"unknown", BYTES("\xa0\x06\x01\xa0\x06\x01"), 2},
        {"in children", BYTES("\x8a\x01\x05\x8a\x01\x02\x08\x01"), 3},
        {"packed: the field and each element", BYTES("\x92\x01\x03\x01\x02\x03"), 4},
        {"packed, then another", BYTES("\x92\x01\x03\x01\x02\x03\x08\x01"), 5},
        {"packed and fixed", BYTES("\xaa\x01\x08\0\0\0\0\0\0\0\0"), 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct message_limits limits = {.fields_max = cases[i].fields};
        struct note note = {""};

        CHECK_OK(cases[i].why, message_guard(EVERYTHING, cases[i].bytes, &limits, &note));
        limits.fields_max--;
        CHECK_ERR(cases[i].why, message_guard(EVERYTHING, cases[i].bytes, &limits, &note),
                  ERR_TOO_LARGE);
        CHECK_HAS(cases[i].why, note.text, "too many fields");
    }
}

/* Small messages for which protobuf-c allocates much: empty children, unknown fields, packed zeros.
 * */
TEST(the_memory_of_a_small_message_is_bounded_by_the_arena)
{
    static const struct {
        const char *why;
        struct str unit;
    } cases[] = {
        {"empty children", BYTES("\xda\x01\x00")},
        {"unknown fields", BYTES("\xa0\x06\x00")},
        {"empty map entries", BYTES("\xe2\x01\x00")},
        {"empty strings", BYTES("\xca\x01\x00")},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf bytes;
        struct arena arena;
        struct note note = {""};
        ProtobufCMessage *message = NULL;
        enum err err;

        buf_init(&bytes, MEMORY);
        for (int n = 0; n < 20000; n++) buf_append(&bytes, cases[i].unit);
        arena_init(&arena, (size_t)64 << 20);
        CHECK_OK("there is room",
                 message_read(EVERYTHING, buf_peek(&bytes), NULL, &arena, &message, &note));
        print_message("# %s: %zu bytes took %zu of arena, %.0f times\n", cases[i].why, bytes.len,
                      arena.used, (double)arena.used / (double)bytes.len);
        arena_deinit(&arena);
        message = NULL;
        arena_init(&arena, 512 * 1024);
        err = message_read(EVERYTHING, buf_peek(&bytes), NULL, &arena, &message, &note);
        CHECK_ERR(cases[i].why, err, ERR_NOMEM);
        CHECK("no more than the ceiling", arena.used <= 512 * 1024);
        CHECK("nothing came out", message == NULL);
        CHECK_HAS("a note", note.text, "memory");
        arena_deinit(&arena);
        buf_deinit(&bytes);
    }
}

TEST(writing_is_all_or_nothing)
{
    everything m = MUSTER__TEST__V1__EVERYTHING__INIT;
    struct buf out;

    m.a_string = (char *)(uintptr_t) "twelve bytes";
    buf_init(&out, 20);
    CHECK_OK("before", buf_append_c(&out, "12345678"));
    CHECK_ERR("14 bytes do not fit in 12", message_write(&m.base, &out, NULL), ERR_FULL);
    CHECK_STR("earlier content stays", buf_peek(&out), STR("12345678"));
    m.a_string = (char *)(uintptr_t) "ten  bytes";
    CHECK_OK("12 do", message_write(&m.base, &out, NULL));
    CHECK_STR("both", buf_peek(&out), STR("12345678\x72\x0aten  bytes"));
    m.a_string = (char *)(uintptr_t) "";
    CHECK_OK("an empty message takes nothing", message_write(&m.base, &out, NULL));
    CHECK_SIZE("still", out.len, 20);
    buf_deinit(&out);
}

static char broken[] = "\xc3("; /* the first half of a letter */

static void in_a_string(everything *m)
{
    m->a_string = broken;
}
static void in_a_list(everything *m)
{
    static char *strings[] = {(char *)(uintptr_t) "good", (char *)(uintptr_t) "\xc3\xa9", broken};
    m->strings = strings;
    m->n_strings = 3;
}
static void in_a_oneof(everything *m)
{
    m->choice_case = MUSTER__TEST__V1__EVERYTHING__CHOICE_CHOICE_TEXT;
    m->choice_text = broken;
}
static void in_a_map(everything *m)
{
    static Muster__Test__V1__Everything__TextsEntry
        entry = MUSTER__TEST__V1__EVERYTHING__TEXTS_ENTRY__INIT,
        *entries[] = {&entry};
    entry.key = broken;
    m->texts = entries;
    m->n_texts = 1;
}
static void in_bytes(everything *m)
{
    m->a_bytes = (ProtobufCBinaryData){2, (uint8_t *)broken};
    m->choice_case = MUSTER__TEST__V1__EVERYTHING__CHOICE_CHOICE_BYTES;
    m->choice_bytes = m->a_bytes;
}

TEST(text_that_is_not_utf8_is_never_written)
{
    static const struct {
        void (*breaks)(everything *m);
        enum err want;
        const char *says;
    } cases[] = {
        {in_a_string, ERR_INTERNAL, "muster.test.v1.Everything.a_string: not UTF-8"},
        {in_a_list, ERR_INTERNAL, "muster.test.v1.Everything.strings: not UTF-8"},
        {in_a_oneof, ERR_INTERNAL, "muster.test.v1.Everything.choice_text: not UTF-8"},
        {in_a_map, ERR_INTERNAL, "muster.test.v1.Everything.TextsEntry.key: not UTF-8"},
        {in_bytes, ERR_OK, ""}, /* which may be anything */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (int deep = 0; deep < 3; deep++) { /* in the message, in a child, in a grandchild */
            everything m[3] = {MUSTER__TEST__V1__EVERYTHING__INIT,
                               MUSTER__TEST__V1__EVERYTHING__INIT,
                               MUSTER__TEST__V1__EVERYTHING__INIT};
            struct note note = {""};
            struct buf out;
            for (int k = 0; k < 3; k++) {
                m[k].a_uint64 = UINT64_MAX; /* bytes that are no text, with the high bit set */
                m[k].a_fixed32 = 0x80ff80ff;
                m[k].far = 300;
                if (k < deep) m[k].child = &m[k + 1];
            }
            cases[i].breaks(&m[deep]);
            buf_init(&out, MEMORY);
            CHECK_OK("before", buf_append_c(&out, "12345678"));
            CHECK_ERR(cases[i].says, message_write(&m[0].base, &out, &note), cases[i].want);
            CHECK_TEXT("named", note.text, cases[i].says);
            if (cases[i].want) CHECK_STR("nothing is written", buf_peek(&out), STR("12345678"));
            buf_deinit(&out);
        }
    }
}

TEST(text_kept_as_bytes_is_checked_on_its_way_out_too)
{
    Bigfleet__V1alpha1__CapacityNeed need = BIGFLEET__V1ALPHA1__CAPACITY_NEED__INIT;
    struct note note = {""};
    struct buf out;

    buf_init(&out, MEMORY);
    need.group = (ProtobufCBinaryData){4, (uint8_t *)(uintptr_t) "a\0\xc3\xa9"};
    CHECK_OK("NUL and a letter", message_write(&need.base, &out, &note));
    need.group.len = 3;
    CHECK_ERR("half a letter", message_write(&need.base, &out, &note), ERR_INTERNAL);
    CHECK_HAS("named", note.text, "CapacityNeed.group: not UTF-8");
    buf_deinit(&out);
}

TEST(one_bad_byte_is_not_written_at_any_position)
{
    everything m = MUSTER__TEST__V1__EVERYTHING__INIT;
    char text[200] = "";
    struct buf out;

    buf_init(&out, MEMORY);
    m.a_string = text;
    for (size_t len = 1; len <= 150; len++) {
        memset(text, 'x', len);
        CHECK_OK("good", message_write(&m.base, &out, NULL));
        for (size_t place = 0; place < len; place++) {
            text[place] = (char)0xff;
            CHECK_ERR("bad", message_write(&m.base, &out, NULL), ERR_INTERNAL);
            text[place] = 'x';
        }
        buf_clear(&out);
    }
    buf_deinit(&out);
}

TEST(one_bad_text_in_a_random_message_stops_it)
{
    struct prng prng;
    unsigned broken_ones = 0;

    prng_seed(&prng, test_seed());
    for (int turn = 0; turn < 600; turn++) {
        struct arena arena;
        struct buf out;
        everything *m;

        arena_init(&arena, MEMORY);
        buf_init(&out, MEMORY);
        texts_made = 0;
        bad_text = 1 + prng_below(&prng, 40);
        m = random_message(&prng, &arena, 3);
        CHECK_ERR("write", message_write(&m->base, &out, NULL),
                  texts_made >= bad_text ? ERR_INTERNAL : ERR_OK);
        broken_ones += texts_made >= bad_text;
        buf_deinit(&out);
        arena_deinit(&arena);
    }
    bad_text = 0;
    print_message("# %u of 600 were broken\n", broken_ones);
    CHECK("both happened", broken_ones > 0 && broken_ones < 600);
}

TEST(presence_of_a_child_is_kept)
{
    Rollout__Transport__V1__BeatResponse *beat = NULL;
    struct arena arena;
    struct note note = {""};

    CHECK_OK("absent", read_in(&arena, &rollout__transport__v1__beat_response__descriptor,
                               STR_EMPTY, &beat, &note));
    CHECK("no control", beat->pending_control == NULL);
    arena_deinit(&arena);
    CHECK_OK("empty", read_in(&arena, &rollout__transport__v1__beat_response__descriptor,
                              STR("\x12\x00"), &beat, &note));
    CHECK("an empty control", beat->pending_control != NULL);
    CHECK_U64("without an event", beat->pending_control->event_case,
              ROLLOUT__TRANSPORT__V1__CONTROL_PUSH__EVENT__NOT_SET);
    arena_deinit(&arena);
    CHECK_OK("no memory at all is an empty message",
             message_guard(EVERYTHING, (struct str){NULL, 0}, NULL, NULL));
}
