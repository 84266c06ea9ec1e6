/* SPDX-License-Identifier: Apache-2.0 */
/* Message frames cut at every place, limits on the five bytes, bombs, timeouts, escapes, base64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/test.h"
#include "wire/grpc.h"

/* -- messages -- */

static void append_message(struct buf *wire, struct str message, bool compressed)
{
    char head[GRPC_FRAME_BYTES];

    grpc_frame_write((uint32_t)message.len, compressed, head);
    buf_append(wire, str_of(head, sizeof head));
    buf_append(wire, message);
}

TEST(head_is_a_flag_and_a_big_endian_length)
{
    char head[GRPC_FRAME_BYTES];

    grpc_frame_write(0x01020384, true, head);
    CHECK_STR("bytes", str_of(head, 5), STR("\x01\x01\x02\x03\x84"));
    grpc_frame_write(0, false, head);
    CHECK_STR("empty", str_of(head, 5), STR("\0\0\0\0\0"));
}

/* Collects a message from its pieces, as the owners of readers do. */
static enum err gather(struct grpc_reader *r, struct str *bytes, struct buf *message,
                       bool *ret_whole)
{
    struct str piece = STR_EMPTY;
    enum err err = grpc_reader_piece(r, bytes, &piece, ret_whole);

    return err ? err : buf_append(message, piece);
}

TEST(messages_are_cut_the_same_however_the_bytes_come)
{
    static const struct str messages[] = {{"first", 5}, {"", 0}, {"the third, compressed", 21}};

    for (size_t piece = 1; piece < 60; piece++) {
        struct grpc_reader r;
        struct buf wire, message;
        size_t got = 0;

        buf_init(&wire, 1000);
        buf_init(&message, 1000);
        for (size_t i = 0; i < 3; i++) append_message(&wire, messages[i], i == 2);
        grpc_reader_init(&r, 100);
        CHECK("nothing yet", grpc_reader_between(&r));
        for (size_t at = 0; at < wire.len; at += piece) {
            struct str bytes = str_of(wire.data + at, min_size(piece, wire.len - at));
            bool whole = true;
            while (whole && bytes.len > 0) {
                CHECK_OK("feed", gather(&r, &bytes, &message, &whole));
                if (!whole) break;
                CHECK_STR("message", buf_peek(&message), messages[got]);
                CHECK_U64("flag", r.compressed, got == 2);
                got++;
                buf_clear(&message);
            }
            CHECK_SIZE("all bytes are taken", bytes.len, 0);
        }
        CHECK_SIZE("three", got, 3);
        CHECK("none half-read", grpc_reader_between(&r));
        buf_deinit(&message);
        buf_deinit(&wire);
    }
}

TEST(pieces_are_the_message_however_the_bytes_come)
{
    static const struct str messages[] = {{"first", 5}, {"", 0}, {"the third", 9}};

    for (size_t step = 1; step < 40; step++) {
        struct grpc_reader r;
        struct buf wire, got;

        buf_init(&wire, 1000);
        buf_init(&got, 1000);
        for (size_t i = 0; i < 3; i++) append_message(&wire, messages[i], false);
        grpc_reader_init(&r, 9);
        for (size_t at = 0; at < wire.len; at += step) {
            struct str bytes = str_of(wire.data + at, min_size(step, wire.len - at)), piece;
            bool last;
            while (bytes.len > 0) {
                CHECK_OK("piece", grpc_reader_piece(&r, &bytes, &piece, &last));
                buf_append(&got, piece);
                if (last) buf_append_byte(&got, '|');
            }
        }
        CHECK_STR("all of it", buf_peek(&got), STR("first||the third|"));
        CHECK("none half-read", grpc_reader_between(&r));
        buf_deinit(&got);
        buf_deinit(&wire);
    }
}

static const struct {
    const char *why;
    struct str head;
    enum err want;
} head_cases[] = {
    {"the limit itself", {"\0\0\0\3\xe8", 5}, ERR_OK},
    {"one more", {"\0\0\0\3\xe9", 5}, ERR_TOO_LARGE},
    {"4 GiB", {"\0\xff\xff\xff\xff", 5}, ERR_TOO_LARGE},
    {"4 GiB, compressed", {"\1\xff\xff\xff\xff", 5}, ERR_TOO_LARGE},
    {"a reserved flag", {"\2\0\0\0\1", 5}, ERR_PARSE},
    {"all flags", {"\xff\0\0\0\1", 5}, ERR_PARSE},
};

TEST(limit_is_checked_on_the_head_before_anything_is_kept)
{
    for (size_t i = 0; i < ARRAY_LEN(head_cases); i++) {
        struct grpc_reader r;
        struct str bytes = head_cases[i].head, more = STR("more"), piece;
        bool whole = true;

        grpc_reader_init(&r, 1000);
        CHECK_ERR(head_cases[i].why, grpc_reader_piece(&r, &bytes, &piece, &whole),
                  head_cases[i].want);
        CHECK(head_cases[i].why,
              whole == (head_cases[i].want != ERR_OK)); /* untouched on failure */
        CHECK_ERR("and it stays so", grpc_reader_piece(&r, &more, &piece, &whole),
                  head_cases[i].want);
        if (head_cases[i].want) CHECK_SIZE("nothing taken", more.len, 4);
    }
}

/* -- gzip -- */

static void gzip(struct str plain, struct buf *into)
{
    z_stream zip = {0};
    char *room;

    if (deflateInit2(&zip, 9, Z_DEFLATED, 15 + 16, 9, 0) != Z_OK) abort();
    if (buf_reserve(into, deflateBound(&zip, plain.len), &room)) abort();
    zip.next_in = (Bytef *)(uintptr_t)plain.at;
    zip.avail_in = (uInt)plain.len;
    zip.next_out = (Bytef *)room;
    zip.avail_out = (uInt)deflateBound(&zip, plain.len);
    if (deflate(&zip, Z_FINISH) != Z_STREAM_END) abort();
    buf_commit(into, zip.total_out);
    deflateEnd(&zip);
}

static const size_t gzip_sizes[] = {0, 1, 5, 4095, 4096, 4097, 100000, 3000000};

TEST(gunzip_gives_back_what_was_zipped_up_to_its_limit)
{
    for (size_t i = 0; i < ARRAY_LEN(gzip_sizes); i++) {
        size_t n = gzip_sizes[i];
        char *plain = malloc(n + 1);
        struct buf zipped, out;

        for (size_t j = 0; j < n; j++) plain[j] = (char)(j * j >> 3);
        buf_init(&zipped, 8 << 20);
        buf_init(&out, 8 << 20);
        gzip(str_of(plain, n), &zipped);
        CHECK_OK("kept", buf_append_c(&out, "before:"));
        CHECK_OK("exactly its size", grpc_gunzip(buf_peek(&zipped), n, &out));
        CHECK_STR("content", str_tail(buf_peek(&out), 7), str_of(plain, n));
        if (n > 0)
            CHECK_ERR("one byte less", grpc_gunzip(buf_peek(&zipped), n - 1, &out), ERR_TOO_LARGE);
        CHECK_SIZE("nothing added", out.len, n + 7);
        for (size_t cut = 1; cut < min_size(zipped.len, 40); cut++)
            CHECK_ERR("cut off", grpc_gunzip(str_of(zipped.data, zipped.len - cut), n, &out),
                      ERR_PARSE);
        CHECK_OK("longer", buf_append_c(&zipped, "x"));
        CHECK_ERR("something behind it", grpc_gunzip(buf_peek(&zipped), n, &out), ERR_PARSE);
        zipped.len--;
        zipped.data[zipped.len - 6] ^= 1;
        CHECK_ERR("wrong checksum", grpc_gunzip(buf_peek(&zipped), n, &out), ERR_PARSE);
        CHECK_SIZE("nothing added", out.len, n + 7);
        buf_deinit(&out);
        buf_deinit(&zipped);
        free(plain);
    }
}

TEST(zip_bomb_stops_at_the_limit)
{
    enum { PLAIN = 64 << 20, MAX = 1 << 20 };
    char *plain = calloc(1, PLAIN);
    struct buf zipped, out;

    buf_init(&zipped, 2 * PLAIN);
    buf_init(&out, SIZE_MAX);
    gzip(str_of(plain, PLAIN), &zipped);
    CHECK("a bomb", zipped.len < 100000);
    CHECK_ERR("refused", grpc_gunzip(buf_peek(&zipped), MAX, &out), ERR_TOO_LARGE);
    CHECK("and no more memory than the limit was taken", out.cap <= 2 * MAX);
    buf_deinit(&out);
    buf_init(&out, 1000);
    CHECK_ERR("the buffer's own ceiling, too", grpc_gunzip(buf_peek(&zipped), MAX, &out),
              ERR_TOO_LARGE);
    buf_deinit(&out);
    buf_deinit(&zipped);
    free(plain);
}

TEST(gzip_members_follow_each_other)
{
    struct buf zipped, out;

    buf_init(&zipped, 1000);
    buf_init(&out, 1000);
    gzip(STR("one, "), &zipped);
    gzip(STR(""), &zipped);
    gzip(STR("two"), &zipped);
    CHECK_OK("inflated", grpc_gunzip(buf_peek(&zipped), 8, &out));
    CHECK_STR("both", buf_peek(&out), STR("one, two"));
    CHECK_ERR("one limit for all", grpc_gunzip(buf_peek(&zipped), 7, &out), ERR_TOO_LARGE);
    CHECK_ERR("not gzip", grpc_gunzip(STR("plain text"), 100, &out), ERR_PARSE);
    CHECK_ERR("nothing", grpc_gunzip(STR_EMPTY, 100, &out), ERR_PARSE);
    buf_deinit(&out);
    buf_deinit(&zipped);
}

/* -- grpc-timeout -- */

static const struct {
    const char *text;
    enum err err;
    uint64_t us;
} timeouts[] = {
    {"1H", ERR_OK, 3600000000},
    {"99999999H", ERR_OK, 359999996400000000},
    {"1M", ERR_OK, 60000000},
    {"5S", ERR_OK, 5000000},
    {"100m", ERR_OK, 100000},
    {"7u", ERR_OK, 7},
    {"0u", ERR_OK, 0},
    {"00000001S", ERR_OK, 1000000},
    {"1000n", ERR_OK, 1},
    {"1001n", ERR_OK, 2},
    {"1n", ERR_OK, 1},
    {"0n", ERR_OK, 0},
    {"", ERR_PARSE, 0},
    {"S", ERR_PARSE, 0},
    {"5", ERR_PARSE, 0},
    {"5s", ERR_PARSE, 0},
    {"5 S", ERR_PARSE, 0},
    {"-5S", ERR_PARSE, 0},
    {"+5S", ERR_PARSE, 0},
    {"1.5S", ERR_PARSE, 0},
    {"123456789S", ERR_PARSE, 0},
    {"5SS", ERR_PARSE, 0},
};

TEST(timeouts_are_read_as_the_protocol_says)
{
    for (size_t i = 0; i < ARRAY_LEN(timeouts); i++) {
        uint64_t us = 77;
        CHECK_ERR(timeouts[i].text, grpc_timeout_parse(str_from(timeouts[i].text), &us),
                  timeouts[i].err);
        CHECK_U64(timeouts[i].text, us, timeouts[i].err ? 77 : timeouts[i].us);
    }
}

static const struct {
    uint64_t us;
    const char *text;
} timeout_texts[] = {
    {0, "0u"},
    {1, "1u"},
    {99999999, "99999999u"},
    {100000000, "100000m"},
    {100000001, "100001m"},
    {99999999000, "99999999m"},
    {99999999001, "100000S"},
    {99999999000000, "99999999S"},
    {99999999000001, "1666667M"},
    {5999999940000000, "99999999M"},
    {5999999940000001, "1666667H"},
    {UINT64_MAX, "99999999H"},
};

TEST(timeouts_are_written_rounded_up_and_read_back_no_shorter)
{
    for (size_t i = 0; i < ARRAY_LEN(timeout_texts); i++) {
        char text[16];
        uint64_t us;
        grpc_timeout_text(timeout_texts[i].us, text);
        CHECK_TEXT("text", text, timeout_texts[i].text);
        CHECK_OK("read", grpc_timeout_parse(str_from(text), &us));
        if (timeout_texts[i].us < UINT64_MAX)
            CHECK("a deadline never gets shorter on the way", us >= timeout_texts[i].us);
    }
}

/* -- grpc-message -- */

static const struct {
    struct str plain, encoded;
} messages[] = {
    {{"", 0}, {"", 0}},
    {{"not found", 9}, {"not found", 9}},
    {{"100%", 4}, {"100%25", 6}},
    {{"a\nb", 3}, {"a%0Ab", 5}},
    {{"\xc3\xa9", 2}, {"%C3%A9", 6}},
    {{"\0\x7f~ ", 4}, {"%00%7F~ ", 8}},
};

TEST(status_messages_are_escaped_and_read_back)
{
    for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
        struct buf out;
        buf_init(&out, 100);
        CHECK_OK("encode", grpc_message_encode(messages[i].plain, &out));
        CHECK_STR("encoded", buf_peek(&out), messages[i].encoded);
        buf_clear(&out);
        CHECK_OK("decode", grpc_message_decode(messages[i].encoded, &out));
        CHECK_STR("decoded", buf_peek(&out), messages[i].plain);
        buf_deinit(&out);
    }
}

static const struct {
    struct str text, want;
} escapes[] = {
    {{"%", 1}, {"%", 1}},     {{"%4", 2}, {"%4", 2}},           {{"%zz%41", 6}, {"%zzA", 4}},
    {{"%%41", 4}, {"%A", 2}}, {{"%c3%A9", 6}, {"\xc3\xa9", 2}}, {{"%4%41", 5}, {"%4A", 3}},
};

TEST(bad_escapes_stay_as_they_are)
{
    for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
        struct str text = escapes[i].text;
        char *exact = malloc(text.len); /* so that ASan sees a read past the end */
        struct buf out;
        memcpy(exact, text.at, text.len);
        buf_init(&out, 100);
        CHECK_OK("decode", grpc_message_decode(str_of(exact, text.len), &out));
        CHECK_STR("kept", buf_peek(&out), escapes[i].want);
        buf_deinit(&out);
        free(exact);
    }
}

/* -- binary metadata -- */

static const struct {
    const char *text;
    struct str bytes;
    enum err err;
    bool canonical; /* the form that muster writes */
} bins[] = {
    {"", {"", 0}, ERR_OK, true},
    {"Zg", {"f", 1}, ERR_OK, true},
    {"Zg==", {"f", 1}, ERR_OK, false},
    {"Zm8", {"fo", 2}, ERR_OK, true},
    {"Zm8=", {"fo", 2}, ERR_OK, false},
    {"Zm9v", {"foo", 3}, ERR_OK, true},
    {"Zm9vYmFy", {"foobar", 6}, ERR_OK, true},
    {"AP/+/w", {"\0\xff\xfe\xff", 4}, ERR_OK, true},
    {"Zg,Zm8=", {"f,fo", 4}, ERR_OK, false},
    {"Zg==,", {"f,", 2}, ERR_OK, false},
    {"Z", {"", 0}, ERR_PARSE, false},
    {"Zm9vY", {"", 0}, ERR_PARSE, false},
    {"Zg=", {"", 0}, ERR_PARSE, false},
    {"Zg===", {"", 0}, ERR_PARSE, false},
    {"Zm9v=", {"", 0}, ERR_PARSE, false},
    {"====", {"", 0}, ERR_PARSE, false},
    {"Zm 9v", {"", 0}, ERR_PARSE, false},
    {"Zm-v", {"", 0}, ERR_PARSE, false},
    {"Z=9v", {"", 0}, ERR_PARSE, false},
    {"Zm9v,Z", {"", 0}, ERR_PARSE, false},
};

TEST(binary_metadata_is_base64_with_or_without_padding)
{
    for (size_t i = 0; i < ARRAY_LEN(bins); i++) {
        struct buf out;
        buf_init(&out, 100);
        buf_append_c(&out, "<");
        CHECK_ERR(bins[i].text, grpc_bin_decode(str_from(bins[i].text), &out), bins[i].err);
        CHECK_STR(bins[i].text, str_tail(buf_peek(&out), 1), bins[i].bytes);
        buf_clear(&out);
        if (bins[i].canonical) {
            CHECK_OK(bins[i].text, grpc_bin_encode(bins[i].bytes, &out));
            CHECK_STR(bins[i].text, buf_peek(&out), str_from(bins[i].text));
        }
        buf_deinit(&out);
    }
}

TEST(appending_past_a_ceiling_changes_nothing)
{
    struct buf out;

    buf_init(&out, 3);
    CHECK_ERR("escape", grpc_message_encode(STR("%%"), &out), ERR_FULL);
    CHECK_ERR("unescape", grpc_message_decode(STR("abcd"), &out), ERR_FULL);
    CHECK_ERR("base64", grpc_bin_encode(STR("foo"), &out), ERR_FULL);
    CHECK_OK("without its padding", grpc_bin_encode(STR("fo"), &out));
    buf_clear(&out);
    CHECK_ERR("of base64", grpc_bin_decode(STR("Zm9v,Zm9v"), &out), ERR_FULL);
    CHECK_SIZE("nothing", out.len, 0);
    buf_deinit(&out);
}

/* -- status -- */

TEST(status_names_and_the_status_of_answers_without_one)
{
    static const struct {
        int http;
        enum grpc_status want;
    } https[] = {
        {200, GRPC_UNKNOWN},           {400, GRPC_INTERNAL},      {401, GRPC_UNAUTHENTICATED},
        {403, GRPC_PERMISSION_DENIED}, {404, GRPC_UNIMPLEMENTED}, {418, GRPC_UNKNOWN},
        {429, GRPC_UNAVAILABLE},       {500, GRPC_UNKNOWN},       {502, GRPC_UNAVAILABLE},
        {503, GRPC_UNAVAILABLE},       {504, GRPC_UNAVAILABLE},   {-1, GRPC_UNKNOWN},
    };
    static const struct {
        uint32_t code;
        enum grpc_status want;
    } resets[] = {
        {0, GRPC_INTERNAL},           {1, GRPC_INTERNAL},
        {2, GRPC_INTERNAL},           {3, GRPC_INTERNAL},
        {7, GRPC_UNAVAILABLE},        {8, GRPC_CANCELLED},
        {9, GRPC_INTERNAL},           {11, GRPC_RESOURCE_EXHAUSTED},
        {12, GRPC_PERMISSION_DENIED}, {13, GRPC_INTERNAL},
        {99, GRPC_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_LEN(https); i++)
        CHECK_U64("http", grpc_status_from_http(https[i].http), https[i].want);
    for (size_t i = 0; i < ARRAY_LEN(resets); i++)
        CHECK_U64("reset", grpc_status_from_reset(resets[i].code), resets[i].want);
    CHECK_TEXT("first", grpc_status_name(GRPC_OK), "OK");
    CHECK_TEXT("last", grpc_status_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    CHECK_TEXT("no such", grpc_status_name((enum grpc_status)17), "UNKNOWN");
}
