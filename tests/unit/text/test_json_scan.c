/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner: documents as rows of tokens, whole and cut at every byte. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "text/json_scan.h"

/* "{k:a s:b n:1 }" and so on; ends in "!" and the error's name when it fails. */
static void tokens(struct str text, size_t piece, size_t text_max, struct buf *out,
                   struct note *note)
{
    static const char *const marks[] = {"", "{", "}", "[", "]", "k:", "s:", "n:", "t", "f", "0"};
    struct json_scan scan;
    enum err err = ERR_OK;

    json_scan_init(&scan, text_max);
    for (size_t at = 0; !err && at < text.len; at += piece) {
        struct str bytes = str_of(text.at + at, min_size(piece, text.len - at)), word = STR_EMPTY;
        enum json_token token = TOKEN_NULL;
        while (!err && token != TOKEN_NEED) {
            err = json_scan_next(&scan, &bytes, &token, &word, note);
            if (err || token == TOKEN_NEED) break;
            CHECK_OK("room", buf_append_c(out, marks[token]));
            if (token == TOKEN_KEY || token == TOKEN_STRING || token == TOKEN_NUMBER) {
                CHECK_OK("room", buf_append(out, word));
                CHECK_OK("room", buf_append_byte(out, ' '));
            }
        }
    }
    if (err)
        CHECK_OK("room", buf_appendf(out, "!%s", err_name(err)));
    else if (!json_scan_whole(&scan))
        CHECK_OK("room", buf_append_c(out, "..."));
    json_scan_deinit(&scan);
}

static const struct {
    const char *why, *text, *want;
} cases[] = {
    {"an object", "{\"a\":\"b\",\"c\":[1,-2.5e+7,true,false,null]}",
     "{k:a s:b k:c [n:1 n:-2.5e+7 tf0]}"},
    {"blanks everywhere", " \t\n\r{ \"a\" : [ ] , \"b\" : { } } \n", "{k:a []k:b {}}"},
    {"a lone text", "\"x\"", "s:x "},
    {"empty texts", "{\"\":\"\"}", "{k: s: }"},
    {"duplicates are the reader's business", "{\"a\":1,\"a\":2}", "{k:a n:1 k:a n:2 }"},
    {"escapes", "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\"]",
     "[s:\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac ]"},
    {"a pair of surrogates", "[\"\\ud83d\\ude00\"]", "[s:\xf0\x9f\x98\x80 ]"},
    {"a lone surrogate", "[\"\\ud83dx\\ude00\\ud83d\\u0041\"]",
     "[s:\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\x41 ]"},
    {"text in UTF-8", "[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]",
     "[s:\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 ]"},
    {"bytes that are none", "[\"a\xff\xc3\x62\xe2\x82\"]",
     "[s:a\xef\xbf\xbd\xef\xbf\xbd\x62\xef\xbf\xbd\xef\xbf\xbd ]"},
    {"numbers", "[0,-0,10,1.5,1e9,1E-2,-1.25e+10]",
     "[n:0 n:-0 n:10 n:1.5 n:1e9 n:1E-2 n:-1.25e+10 ]"},
    {"leading zero", "[01]", "[!PARSE"},
    {"point without digits", "[1.]", "[!PARSE"},
    {"no digits", "[-]", "[!PARSE"},
    {"exponent without digits", "[1e+]", "[!PARSE"},
    {"a word that is none", "[nul]", "[!PARSE"},
    {"upper case", "[True]", "[!PARSE"},
    {"a bare word", "[x]", "[!PARSE"},
    {"trailing comma", "[1,]", "[n:1 !PARSE"},
    {"trailing comma", "{\"a\":1,}", "{k:a n:1 !PARSE"},
    {"no comma", "[1 2]", "[n:1 !PARSE"},
    {"no colon", "{\"a\" 1}", "{k:a !PARSE"},
    {"no key", "{1:2}", "{!PARSE"},
    {"wrong bracket", "[1}", "[n:1 !PARSE"},
    {"bytes behind", "{} x", "{}!PARSE"},
    {"a second value", "{}{}", "{}!PARSE"},
    {"control character", "[\"a\nb\"]", "[!PARSE"},
    {"no such escape", "[\"\\x\"]", "[!PARSE"},
    {"not hexadecimal", "[\"\\u12g4\"]", "[!PARSE"},
    {"short unit", "[\"\\u12\"]", "[!PARSE"},
    {"cut in a text", "{\"a", "{..."},
    {"cut in an object", "{\"a\":1", "{k:a ..."},
    {"cut behind a comma", "[1,", "[n:1 ..."},
    {"nothing", "", "..."},
    {"blanks", "  ", "..."},
    {"text at the limit", "[\"123456789012\"]", "[s:123456789012 ]"},
    {"text past the limit", "[\"1234567890123\"]", "[!TOO_LARGE"},
    {"escaped text at the limit", "[\"12345678901\\u0041\"]", "[s:12345678901A ]"},
    {"escaped text past the limit", "[\"123456789012\\u0041\"]", "[!TOO_LARGE"},
};

TEST(documents_are_rows_of_tokens_wherever_they_are_cut)
{
    struct note note;
    struct buf out;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t piece = 1; piece < 100; piece += piece < 8 ? 1 : 91) {
            const char *text = cases[i].text;
            buf_init(&out, 4096);
            tokens(str_from(text), piece, strstr(cases[i].why, "limit") ? 12 : 64, &out, &note);
            CHECK_STR(cases[i].why, buf_peek(&out), str_from(cases[i].want));
            buf_deinit(&out);
        }
}

TEST(levels_are_counted)
{
    char text[2 * JSON_SCAN_DEPTH + 3];
    struct note note = {""};
    struct buf out;

    buf_init(&out, 4096);
    for (size_t i = 0; i < JSON_SCAN_DEPTH; i++) {
        text[i] = '[';
        text[2 * JSON_SCAN_DEPTH - 1 - i] = ']';
    }
    tokens(str_of(text, (size_t)2 * JSON_SCAN_DEPTH), 7, 10, &out, &note);
    CHECK("whole", !str_has(buf_peek(&out), '!') && !str_has(buf_peek(&out), '.'));
    text[JSON_SCAN_DEPTH] = '[';
    buf_clear(&out);
    tokens(str_of(text, JSON_SCAN_DEPTH + 1), 7, 10, &out, &note);
    CHECK("too deep", str_ends(buf_peek(&out), STR("!TOO_LARGE")));
    CHECK_TEXT("with the place", note.text, "offset 128: nested too deep");
    buf_deinit(&out);
}

TEST(texts_point_into_the_bytes_when_possible)
{
    struct str bytes = STR("[\"plain\",\"\\u0041\"]"), all = bytes, word = STR_EMPTY;
    enum json_token token;
    struct json_scan scan;

    json_scan_init(&scan, 100);
    CHECK_OK("[", json_scan_next(&scan, &bytes, &token, &word, NULL));
    CHECK_OK("plain", json_scan_next(&scan, &bytes, &token, &word, NULL));
    CHECK("not copied", word.at == all.at + 2);
    CHECK_OK("escaped", json_scan_next(&scan, &bytes, &token, &word, NULL));
    CHECK("rewritten", word.at < all.at || word.at >= all.at + all.len);
    json_scan_deinit(&scan);
    json_scan_deinit(&scan);
}
