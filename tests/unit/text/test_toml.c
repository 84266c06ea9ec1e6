/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "text/toml_impl.h" /* to look at the index */
#include "unit/text/dump_toml.h"

enum { MEMORY = 1 << 20 };

/* Reads `input` and checks the document as one line. */
static void check_reads(const char *why, struct str input, const char *want)
{
    struct toml *document = NULL;
    struct note note = {""};
    struct buf picture;
    enum err err = toml_open(input, MEMORY, &document, NULL, &note);

    if (err) print_error("%s: %s\n", why, note.text);
    CHECK_OK(why, err);
    buf_init(&picture, MEMORY);
    dump_value(toml_root(document), &picture);
    CHECK_STR(why, buf_peek(&picture), str_from(want));
    buf_deinit(&picture);
    toml_close(document);
}

static const struct {
    const char *why, *input, *want;
} good[] = {
    {"an empty file is an empty table", "", "{}"},
    {"blank lines and comments mean nothing", "\n  # note\n\t\n#end", "{}"},
    {"a last line needs no line break", "a = 1", "{a=int:1}"},
    {"a comment may follow a value", "a = 1# x = 2\nb = 2 # \"\n", "{a=int:1 b=int:2}"},
    {"a byte order mark at the start is skipped",
     "\xef\xbb\xbf"
     "a = 1",
     "{a=int:1}"},
    {"CRLF ends a line", "a = 1\r\nb = [\r\n2\r\n]\r\n[c]\r\n", "{a=int:1 b=[int:2] c={}}"},
    {"no blank is needed around =", "a=1\nb\t=\t2", "{a=int:1 b=int:2}"},

    /* keys */
    {"digits make a key", "1234 = 1\n3-x_Y = 2", "{1234=int:1 3-x_Y=int:2}"},
    {"a quoted key holds anything", "\"a b.c\" = 1\n'd \"e' = 2", "{a b.c=int:1 d \"e=int:2}"},
    {"a key may be empty when quoted", "\"\" = 1\n[b]\n'' = 2", "{=int:1 b={=int:2}}"},
    {"escapes work in a quoted key", "\"\\u00e9\\t\" = 1", "{\xc3\xa9\t=int:1}"},
    {"the quoted and the bare key are the same key", "a.\"b\".c = 1\na.b.d = 2",
     "{a={b={c=int:1 d=int:2}}}"},
    {"dotted keys make tables", "a.b = 1\na.c.d = 2\n", "{a={b=int:1 c={d=int:2}}}"},
    {"blanks around the dot are ignored", "a . b\t.c = 1", "{a={b={c=int:1}}}"},
    {"dotted keys may come in any order", "a.x = 1\nb.x = 2\na.y = 3",
     "{a={x=int:1 y=int:3} b={x=int:2}}"},
    {"a float-like key is two keys", "3.14 = 1", "{3={14=int:1}}"},
    {"a key may look like a value", "true = 1\ninf = 2\n2020-01-01 = 3",
     "{true=int:1 inf=int:2 2020-01-01=int:3}"},

    /* strings */
    {"basic string", "a = \"x\"", "{a=\"x\"}"},
    {"an empty string", "a = \"\"\nb = ''", "{a=\"\" b=\"\"}"},
    {"every short escape", "a = \"\\b\\t\\n\\f\\r\\\"\\\\\"", "{a=\"<08><09><0a><0c><0d>\"\\\"}"},
    {"code point escapes of all lengths", "a = \"\\u0041\\u00e9\\u20AC\\U0001F600\"",
     "{a=\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"}"},
    {"the last code points before and after the surrogates", "a = \"\\uD7FF\\uE000\\U0010FFFF\"",
     "{a=\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"}"},
    {"NUL may be escaped into a string", "a = \"x\\u0000y\"", "{a=\"x<00>y\"}"},
    {"a string may hold a tab", "a = \"x\ty\"\nb = 'x\ty'", "{a=\"x<09>y\" b=\"x<09>y\"}"},
    {"a literal string escapes nothing", "a = 'C:\\new\\u0041'", "{a=\"C:\\new\\u0041\"}"},
    {"a comment sign in a string is text", "a = \"x # y\" # z", "{a=\"x # y\"}"},
    {"multi-line, first line break dropped", "a = \"\"\"\nx\ny\"\"\"", "{a=\"x<0a>y\"}"},
    {"only the first line break is dropped", "a = '''\n\nx'''", "{a=\"<0a>x\"}"},
    {"multi-line strings may be empty", "a = \"\"\"\"\"\"\nb = ''''''\nc = \"\"\"\n\"\"\"",
     "{a=\"\" b=\"\" c=\"\"}"},
    {"CRLF in a multi-line string reads as LF", "a = \"\"\"\r\nx\r\ny\"\"\"\r\nb='''\r\nx\r\n'''",
     "{a=\"x<0a>y\" b=\"x<0a>\"}"},
    {"one and two quotes inside", "a = \"\"\"x\"y\"\"z\"\"\"\nb = '''x'y''z'''",
     "{a=\"x\"y\"\"z\" b=\"x'y''z\"}"},
    {"up to two quotes before the closing three",
     "a = \"\"\"x\"\"\"\"\nb = \"\"\"x\"\"\"\"\"\nc = '''x'''''",
     "{a=\"x\"\" b=\"x\"\"\" c=\"x''\"}"},
    {"only quotes", "a = \"\"\"\"\"\"\"\"", "{a=\"\"\"\"}"},
    {"escaped quotes in a row", "a = \"\"\"x\\\"\"\"\\\"\"\"\"", "{a=\"x\"\"\"\"\"}"},
    {"a backslash swallows the line break and the blanks after it",
     "a = \"\"\"x \\\n\n   \t y\"\"\"", "{a=\"x y\"}"},
    {"blanks may follow that backslash", "a = \"\"\"x\\  \t\n  y\"\"\"", "{a=\"xy\"}"},
    {"and with CRLF", "a = \"\"\"x\\\r\n  \r\n y\"\"\"", "{a=\"xy\"}"},
    {"a swallowing backslash at the end", "a = \"\"\"x\\\n  \"\"\"", "{a=\"x\"}"},
    {"a literal multi-line string keeps its backslash", "a = '''x\\\ny'''", "{a=\"x\\<0a>y\"}"},

    /* integers */
    {"signs", "a = +99\nb = -17\nc = 0\nd = +0\ne = -0",
     "{a=int:99 b=int:-17 c=int:0 d=int:0 e=int:0}"},
    {"underscores", "a = 1_000\nb = 1_2_3\nc = 0xdead_BEEF\nd = 0o0_7\ne = 0b1_1",
     "{a=int:1000 b=int:123 c=int:3735928559 d=int:7 e=int:3}"},
    {"leading zeros after a prefix", "a = 0x00ff\nb = 0o017\nc = 0b0001",
     "{a=int:255 b=int:15 c=int:1}"},
    {"the whole range", "a = 9223372036854775807\nb = -9223372036854775808\nc = 0x7fffffffffffffff",
     "{a=int:9223372036854775807 b=int:-9223372036854775808 c=int:9223372036854775807}"},

    /* floats */
    {"fraction, exponent, both",
     "a = +1.0\nb = -0.01\nc = 5e+22\nd = 1E06\ne = -2e-2\nf = 6.626e-34",
     "{a=float:1 b=float:-0.01 c=float:4.9999999999999996e+22 d=float:1000000 e=float:-0.02 "
     "f=float:6.6259999999999998e-34}"},
    {"underscores in a float", "a = 224_617.445_991_228\nb = 1e1_0",
     "{a=float:224617.44599122801 b=float:10000000000}"},
    {"infinity and not a number", "a = inf\nb = +inf\nc = -inf\nd = nan\ne = +nan\nf = -nan",
     "{a=float:inf b=float:inf c=float:-inf d=float:nan e=float:nan f=float:nan}"},
    {"a zero exponent may have zeros", "a = 1e00\nb = 0e0\nc = -0.0",
     "{a=float:1 b=float:0 c=float:-0}"},
    {"correctly rounded: half way to the next double", "a = 9007199254740993.0",
     "{a=float:9007199254740992}"},
    {"correctly rounded: just past half way",
     "a = 9007199254740993.0000000000000000000000000000000001", "{a=float:9007199254740994}"},
    {"as many digits as one likes",
     "a = 0.2500000000000000000000000000000000000000000000000000000000000000000000",
     "{a=float:0.25}"},
    {"too small becomes zero, the least one stays", "a = 1e-400\nb = 4.9406564584124654e-324",
     "{a=float:0 b=float:4.9406564584124654e-324}"},

    /* truth, dates */
    {"true and false", "a = true\nb = false", "{a=true b=false}"},
    {"offset date-times",
     "a = 1979-05-27T07:32:00Z\nb = 1979-05-27T00:32:00-07:00\nc = 1979-05-27t07:32:00z",
     "{a=offset:1979-05-27T07:32:00.000000000+0 b=offset:1979-05-27T00:32:00.000000000-420 "
     "c=offset:1979-05-27T07:32:00.000000000+0}"},
    {"a space between date and time", "a = 1979-05-27 07:32:00+05:30",
     "{a=offset:1979-05-27T07:32:00.000000000+330}"},
    {"local date-time", "a = 1979-05-27T00:32:00.999999",
     "{a=local:1979-05-27T00:32:00.999999000}"},
    {"local date", "a = 1979-05-27 # x\nb = 1979-05-27", "{a=date:1979-05-27 b=date:1979-05-27}"},
    {"local time", "a = 07:32:00\nb = 00:32:00.5",
     "{a=time:T07:32:00.000000000 b=time:T00:32:00.500000000}"},
    {"digits past the nanosecond are dropped, not rounded", "a = 00:00:00.1234567899",
     "{a=time:T00:00:00.123456789}"},
    {"leap days", "a = 2000-02-29\nb = 2024-02-29\nc = 0000-02-29",
     "{a=date:2000-02-29 b=date:2024-02-29 c=date:0000-02-29}"},
    {"leap seconds", "a = 2016-12-31T23:59:60Z", "{a=offset:2016-12-31T23:59:60.000000000+0}"},
    {"a date in an array, before a comma", "a = [2020-01-01, 2020-01-02 ]",
     "{a=[date:2020-01-01 date:2020-01-02]}"},

    /* arrays, inline tables */
    {"arrays of anything", "a = [1, \"x\", [2.5, []], {b = true}]",
     "{a=[int:1 \"x\" [float:2.5 []] {b=true}]}"},
    {"arrays over lines, with comments and a last comma",
     "a = [ # one\n  1, # two\n  # three\n  2,\n]", "{a=[int:1 int:2]}"},
    {"an empty array over lines", "a = [\n# nothing\n]", "{a=[]}"},
    {"inline tables", "a = {x = 1, y.z = 2, y.w = 3}", "{a={x=int:1 y={z=int:2 w=int:3}}}"},
    {"an empty inline table", "a = {}\nb = { }", "{a={} b={}}"},
    {"an inline table may hold what spans lines", "a = {b = [1,\n2], c = \"\"\"x\ny\"\"\"}",
     "{a={b=[int:1 int:2] c=\"x<0a>y\"}}"},

    /* tables */
    {"a header", "[a]\nb = 1\n[c]\nb = 2", "{a={b=int:1} c={b=int:2}}"},
    {"a header with a long way", "[a . b.\"c.d\"]\nx = 1", "{a={b={c.d={x=int:1}}}}"},
    {"the super table may come later", "[a.b]\nx = 1\n[a]\ny = 2", "{a={b={x=int:1} y=int:2}}"},
    {"or before", "[a]\ny = 2\n[a.b]\nx = 1", "{a={y=int:2 b={x=int:1}}}"},
    {"sections may be out of order", "[a.b]\n[c]\n[a.d]", "{a={b={} d={}} c={}}"},
    {"a header under a dotted table", "[a]\nb.c = 1\n[a.b.d]\nx = 2",
     "{a={b={c=int:1 d={x=int:2}}}}"},
    {"arrays of tables", "[[a]]\nx = 1\n[[a]]\n[[a]]\nx = 3", "{a=[{x=int:1} {} {x=int:3}]}"},
    {"sub-tables go to the last element",
     "[[a]]\n[a.b]\nx = 1\n[[a.c]]\n[[a.c]]\n[[a]]\n[a.b]\nx = 2",
     "{a=[{b={x=int:1} c=[{} {}]} {b={x=int:2}}]}"},
    {"the root's keys come before any header", "x = 1\n[a]\nx = 2", "{x=int:1 a={x=int:2}}"},
};

TEST(every_form_of_toml_1_0_is_read)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        check_reads(good[i].why, str_from(good[i].input), good[i].want);
}

/* `note` is the message after "line L, column C: ", or its beginning. */
static const struct {
    const char *why, *input;
    uint32_t line, column;
    const char *note;
} bad[] = {
    /* lines */
    {"a key alone", "a", 1, 2, "expected '=' after the key, found the end of the file"},
    {"no value", "a =", 1, 4, "expected a value, found the end of the file"},
    {"no value before a comment", "a = # b", 1, 5, "expected a value, found '#'"},
    {"no key", "= 1", 1, 1, "expected a key, found '='"},
    {"two pairs on a line", "a = 1 b = 2", 1, 7, "expected the end of the line, found 'b'"},
    {"a value on the next line", "a =\n1", 1, 4, "expected a value, found the end of the line"},
    {"columns count code points", "\"\xc3\xa9\xe2\x82\xac\" = 1 x", 1, 10,
     "expected the end of the line"},
    {"columns after a multi-line string", "a = \"\"\"\nx\"\"\" y", 2, 6,
     "expected the end of the line"},
    {"lines count with CRLF, too", "a = 1\r\n\r\nb = \r\n", 3, 5,
     "expected a value, found the end of the line"},
    {"the byte order mark is no column", "\xef\xbb\xbf= 1", 1, 1, "expected a key"},
    {"a second byte order mark", "a = 1\n\xef\xbb\xbf", 2, 1, "expected a key"},

    /* characters */
    {"bad UTF-8 in a string", "a = 1\nb = \"x\xff\"", 2, 7, "byte 0xff is not valid UTF-8 here"},
    {"bad UTF-8 in a comment", "# \xc3\xa9\xc3", 1, 4, "byte 0xc3 is not valid UTF-8 here"},
    {"an overlong form", "a = '\xc0\x80'", 1, 6, "byte 0xc0"},
    {"a surrogate in UTF-8", "a = '\xed\xa0\x80'", 1, 6, "byte 0xed"},
    {"past the last code point", "a = '\xf4\x90\x80\x80'", 1, 6, "byte 0xf4"},
    {"a control character in a comment", "# \x01", 1, 3, "control character U+0001"},
    {"DEL in a string", "a = \"\x7f\"", 1, 6, "control character U+007F"},
    {"a lone carriage return", "a = 1\rb = 2\n", 1, 6,
     "a carriage return must be followed by a line feed"},
    {"a lone carriage return at the end", "a = 1\r", 1, 6, "a carriage return"},

    /* keys */
    {"the same key twice", "a = 1\n  a = 2", 2, 3, "key 'a' is defined twice (first at line 1)"},
    {"bare and quoted, the same key", "a = 1\n\"\\u0061\" = 2", 2, 1,
     "key 'a' is defined twice (first at line 1)"},
    {"a dotted key into a value", "a = 1\na.b = 2", 2, 1,
     "'a' is an integer (line 1) and cannot hold keys"},
    {"a value over a dotted table", "a.b = 1\na = 2", 2, 1,
     "key 'a' is defined twice (first at line 1)"},
    {"two dots", "a..b = 1", 1, 3, "expected a key, found '.'"},
    {"a dot at the end", "a. = 1", 1, 4, "expected a key, found '='"},
    {"a key over two lines", "\"a\nb\" = 1", 1, 1, "this string is not closed on its line"},
    {"a multi-line key", "'''a''' = 1", 1, 1, "a key cannot be a multi-line string"},
    {"a letter that is not ASCII", "\xc3\xa9 = 1", 1, 1, "expected a key, found '\xc3\xa9'"},
    {"a long key is cut in the message",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1\n"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1",
     2, 1,
     "key 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' is defined twice"},
    {"control characters stay out of the message", "\"a\\n\" = 1\n\"a\\n\" = 2", 2, 1,
     "key 'a?' is defined twice"},

    /* strings */
    {"not closed", "a = \"x\nb = 1", 1, 5, "this string is not closed on its line"},
    {"not closed, ends in a backslash", "a = \"x\\\n\"", 1, 5,
     "this string is not closed on its line"},
    {"not closed at the end of the file", "a = 'x", 1, 5, "this string is not closed on its line"},
    {"a backslash is the last byte", "a = \"\\", 1, 5, "this string is not closed on its line"},
    {"multi-line, never closed", "\na = \"\"\"x\n\"\"", 2, 5, "this string is never closed"},
    {"multi-line, closing quotes escaped", "a = \"\"\"x\\\"\"\"", 1, 5,
     "this string is never closed"},
    {"an unknown escape", "a = \"x\\y\"", 1, 7, "unknown escape"},
    {"an escape of TOML 1.1", "a = \"\\e\"", 1, 6, "unknown escape"},
    {"an unknown escape on the third line", "a = \"\"\"\nx\n y\\q\"\"\"", 3, 3, "unknown escape"},
    {"a backslash before a blank within a line", "a = \"\"\"x\\ y\"\"\"", 1, 9, "unknown escape"},
    {"too few digits", "a = \"\\u12g4\"", 1, 6, "\\u must be followed by 4 hexadecimal digits"},
    {"too few digits before the quote", "a = \"\\U0001F60\"", 1, 6, "\\U must be followed by 8"},
    {"a surrogate", "a = \"\\uD800\"", 1, 6, "this escape names no Unicode character"},
    {"past the last code point", "a = \"\\U00110000\"", 1, 6,
     "this escape names no Unicode character"},
    {"six quotes at the end", "a = \"\"\"x\"\"\"\"\"\"", 1, 14, "expected the end of the line"},

    /* numbers */
    {"a leading zero", "a = 01", 1, 5, "'01' is not a number: a leading zero is not allowed"},
    {"a leading zero with a sign", "a = -01", 1, 5, "'-01' is not a number: a leading zero"},
    {"two underscores", "a = 1__0", 1, 5, "'1__0' is not a number"},
    {"an underscore at the end", "a = 1_", 1, 5, "'1_' is not a number"},
    {"an underscore at the start", "a = _1", 1, 5, "'_1' is not a number"},
    {"an underscore after the prefix", "a = 0x_1", 1, 5,
     "'0x_1' is not a number: 0x takes hexadecimal digits"},
    {"a sign with a prefix", "a = +0x1", 1, 5,
     "'+0x1' is not a number: 0x, 0o and 0b take no sign"},
    {"an upper-case prefix", "a = 0X1", 1, 5, "'0X1' is not a number"},
    {"an empty prefix", "a = 0b", 1, 5, "'0b' is not a number: 0b takes the digits 0 and 1"},
    {"a wrong digit", "a = 0o8", 1, 5, "'0o8' is not a number: 0o takes the digits 0 to 7"},
    {"one too many", "a = 9223372036854775808", 1, 5,
     "integer 9223372036854775808 does not fit 64 bits"},
    {"one too few", "a = -9223372036854775809", 1, 5, "integer -9223372036854775809 does not fit"},
    {"a wide hexadecimal", "a = 0xffffffffffffffff", 1, 5,
     "integer 0xffffffffffffffff does not fit"},
    {"no double is so large", "a = 1e309", 1, 5, "float 1e309 is too large"},
    {"no digit before the point", "a = .5", 1, 5,
     "'.5' is not a number: a digit must come before the point"},
    {"no digit after the point", "a = 1.", 1, 5, "'1.' is not a number"},
    {"a point before the exponent", "a = 1.e5", 1, 5, "'1.e5' is not a number"},
    {"an underscore beside the point", "a = 1_.5", 1, 5, "'1_.5' is not a number"},
    {"an empty exponent", "a = 1e", 1, 5, "'1e' is not a number"},
    {"two exponents", "a = 1e1e1", 1, 5, "'1e1e1' is not a number"},
    {"two signs", "a = --1", 1, 5, "'--1' is not a number"},
    {"infinity in upper case", "a = Inf", 1, 5, "'Inf' is not a value; text needs quotes"},
    {"no text without quotes", "a = hello", 1, 5, "'hello' is not a value; text needs quotes"},
    {"true in upper case", "a = True", 1, 5, "'True' is not a value"},

    /* dates */
    {"month 13", "a = 2020-13-01", 1, 5,
     "'2020-13-01' is not a date or time: there is no such month"},
    {"month 0", "a = 2020-00-01", 1, 5,
     "'2020-00-01' is not a date or time: there is no such month"},
    {"April 31", "a = 2020-04-31", 1, 5,
     "'2020-04-31' is not a date or time: that month has no such day"},
    {"February 29 in a common year", "a = 1900-02-29", 1, 5,
     "'1900-02-29' is not a date or time: that month"},
    {"hour 24", "a = 24:00:00", 1, 5, "'24:00:00' is not a date or time: hours end at 23"},
    {"minute 60", "a = 00:60:00", 1, 5, "'00:60:00' is not a date or time: minutes end at 59"},
    {"second 61", "a = 00:00:61", 1, 5, "'00:00:61' is not a date or time: seconds end at 59"},
    {"no seconds", "a = 2020-01-01T10:00Z", 1, 5,
     "'2020-01-01T10:00Z' is not a date or time: a time is written"},
    {"one digit", "a = 2020-1-01", 1, 5,
     "'2020-1-01' is not a date or time: a date is written YYYY-MM-DD"},
    {"an empty fraction", "a = 00:00:00.", 1, 5,
     "'00:00:00.' is not a date or time: a digit must follow"},
    {"an offset without a colon", "a = 2020-01-01T00:00:00+0100", 1, 5,
     "'2020-01-01T00:00:00+0100' is not a date or time: an offset"},
    {"an offset of 24 hours", "a = 2020-01-01T00:00:00+24:00", 1, 5,
     "'2020-01-01T00:00:00+24:00' is not a date or time: there is no"},
    {"a local time takes no offset", "a = 00:00:00Z", 1, 5,
     "'00:00:00Z' is not a date or time: something follows"},
    {"text after a date", "a = 2020-01-01x", 1, 5,
     "'2020-01-01x' is not a date or time: T or a space"},

    /* arrays and inline tables */
    {"an array is never closed", "a = [1,\n2", 1, 5, "this array is never closed"},
    {"no comma", "a = [1 2]", 1, 8, "expected ',' or ']' after the value, found '2'"},
    {"only a comma", "a = [,]", 1, 6, "expected a value, found ','"},
    {"the wrong bracket", "a = [1}", 1, 7, "expected ',' or ']' after the value, found '}'"},
    {"a key in an array", "a = [b = 1]", 1, 6, "'b' is not a value"},
    {"an inline table over two lines", "a = {b = 1,\nc = 2}", 1, 12,
     "an inline table must end on its line"},
    {"closed on the next line", "a = {b = 1\n}", 1, 11, "an inline table must end on its line"},
    {"a last comma in an inline table", "a = {b = 1,}", 1, 12,
     "an inline table takes no comma after its last value"},
    {"a key twice in an inline table", "a = {b = 1, b = 2}", 1, 13,
     "key 'b' is defined twice (first at line 1)"},
    {"a header cannot add to an inline table", "a = {}\n[a.b]", 2, 2,
     "'a' was written whole at line 1 and cannot be added to"},
    {"a header cannot replace an inline table", "a = {}\n[a]", 2, 2,
     "key 'a' is defined twice (first at line 1)"},
    {"a dotted key cannot add to an inline table", "a = {}\na.b = 1", 2, 1,
     "'a' was written whole at line 1"},
    {"nor inside another", "a = {b = {}, b.c = 1}", 1, 14, "'b' was written whole at line 1"},
    {"nor deep in one", "a.b = {c = 1}\n[a.b.d]", 2, 4, "'b' was written whole at line 1"},

    /* tables */
    {"a header twice", "[a]\n[b]\n[a]", 3, 2, "table 'a' is defined twice (first at line 1)"},
    {"a header that was implied, twice", "[a.b]\n[a]\n[a]", 3, 2,
     "table 'a' is defined twice (first at line 2)"},
    {"a header over a value", "a = 1\n[a]", 2, 2, "key 'a' is defined twice (first at line 1)"},
    {"a header through a value", "a = 1\n[a.b]", 2, 2,
     "'a' is an integer (line 1) and cannot hold keys"},
    {"a header over a dotted table", "[a]\nb.c = 1\n[a.b]", 3, 4,
     "key 'b' is defined twice (first at line 2)"},
    {"a dotted key into a header's table", "[a.b]\n[a]\nb.c = 1", 3, 1,
     "'b' belongs to a header (line 1); add to it below that header"},
    {"a dotted key deep into one", "[a.b.c.d]\n[a]\nb.c.d.k = 1", 3, 1,
     "'b' belongs to a header (line 1)"},
    {"an element over a table", "[a]\n[[a]]", 2, 3, "table 'a' is defined twice (first at line 1)"},
    {"an element over an implied table", "[a.b]\n[[a]]", 2, 3,
     "key 'a' is defined twice (first at line 1)"},
    {"an element added to a written array", "a = []\n[[a]]", 2, 3,
     "'a' was written whole at line 1"},
    {"a header over elements", "[[a]]\n[a]", 2, 2, "key 'a' is defined twice (first at line 1)"},
    {"a header through a written array", "a = [{}]\n[a.b]", 2, 2,
     "'a' was written whole at line 1"},
    {"a dotted key into elements", "[[x.a]]\n[x]\na.b = 1", 3, 1,
     "'a' belongs to a header (line 1)"},
    {"an empty header", "[]", 1, 2, "expected a key, found ']'"},
    {"a header not closed", "[a\n", 1, 3,
     "expected ']' at the end of the header, found the end of the line"},
    {"an element not closed", "[[a]\n", 1, 4, "expected ']]' at the end of the header, found ']'"},
    {"a blank between the brackets", "[ [a]]", 1, 3, "expected a key, found '['"},
    {"text after a header", "[a] b = 1", 1, 5, "expected the end of the line, found 'b'"},
};

TEST(every_mistake_is_refused_with_its_place_and_a_sentence)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct toml *document = (struct toml *)&document;
        struct toml_position where = {0, 0};
        struct note note = {""};
        char want[NOTE_CAP];
        enum err err = toml_open(str_from(bad[i].input), MEMORY, &document, &where, &note);

        CHECK_ERR(bad[i].why, err, ERR_PARSE);
        CHECK(bad[i].why, document == (struct toml *)&document); /* untouched on failure */
        CHECK_U64(bad[i].why, where.line, bad[i].line);
        CHECK_U64(bad[i].why, where.column, bad[i].column);
        snprintf(want, sizeof want, "line %u, column %u: %s", bad[i].line, bad[i].column,
                 bad[i].note);
        CHECK_STR(bad[i].why, str_of(note.text, min_size(strlen(note.text), strlen(want))),
                  str_from(want));
    }
}

TEST(raw_control_characters_are_refused_everywhere)
{
    static const struct {
        const char *before, *after;
    } frames[] = {
        {"# ", ""},         {"a = \"", "\""}, {"a = '", "'"}, {"a = \"\"\"", "\"\"\""},
        {"a = '''", "'''"}, {"", ""},         {"a = ", "1"},  {"[a", "]"},
    };

    for (size_t f = 0; f < ARRAY_LEN(frames); f++)
        for (int c = 0; c <= 0x7f; c = c == 0x1f ? 0x7f : c + 1) {
            char input[64];
            struct toml *document = NULL;
            int len = snprintf(input, sizeof input, "%s%c%s", frames[f].before, c, frames[f].after);
            if (c == '\t' || c == '\n') continue;
            CHECK_ERR(frames[f].before,
                      toml_open(str_of(input, (size_t)len), MEMORY, &document, NULL, NULL),
                      ERR_PARSE);
        }
}

/* `count` times `open`, then `middle`, then `count` times `close`. */
static struct str nest(struct buf *out, const char *before, const char *open, const char *middle,
                       const char *close, size_t count)
{
    buf_clear(out);
    buf_append_c(out, before);
    for (size_t i = 0; i < count; i++) buf_append_c(out, open);
    buf_append_c(out, middle);
    for (size_t i = 0; i < count; i++) buf_append_c(out, close);
    return buf_peek(out);
}

TEST(nesting_is_bounded_however_it_is_written)
{
    static const struct {
        const char *why, *before, *open, *middle, *close;
        size_t levels_beside;
    } cases[] = {
        {"arrays", "a = ", "[", "", "]", 0},
        {"arrays around a value", "a = ", "[", "1", "]", 1},
        {"inline tables", "a = ", "{b = ", "1", "}", 1},
        {"dotted keys", "", "a.", "a = 1", "", 1},
        {"headers", "[", "a.", "a]", "", 1},
        {"elements", "[[", "a.", "a]]", "", 2},
    };
    struct buf input;

    buf_init(&input, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t fits = TOML_DEPTH_MAX - cases[i].levels_beside;
        struct toml *document = NULL;
        struct note note = {""};

        CHECK_OK(cases[i].why, toml_open(nest(&input, cases[i].before, cases[i].open,
                                              cases[i].middle, cases[i].close, fits),
                                         MEMORY, &document, NULL, &note));
        toml_close(document);
        CHECK_ERR(cases[i].why,
                  toml_open(nest(&input, cases[i].before, cases[i].open, cases[i].middle,
                                 cases[i].close, fits + 1),
                            MEMORY, &document, NULL, &note),
                  ERR_TOO_LARGE);
        CHECK_HAS(cases[i].why, note.text, "nested deeper than 128 levels");
        CHECK_ERR("and a hundred thousand levels do not overflow the stack",
                  toml_open(nest(&input, cases[i].before, cases[i].open, cases[i].middle,
                                 cases[i].close, 100000),
                            16 << 20, &document, NULL, &note),
                  ERR_TOO_LARGE);
    }
    buf_deinit(&input);
}

TEST(memory_is_bounded_by_the_caller)
{
    struct toml *document = NULL;
    struct toml_position where = {0, 0};
    struct note note = {""};
    struct buf input;
    enum err err = ERR_OK;
    size_t refused = 0;

    CHECK_ERR("input past the limit", toml_open(STR("a = 12345"), 8, &document, NULL, &note),
              ERR_TOO_LARGE);
    CHECK_TEXT("names both sizes", note.text,
               "line 1, column 1: the file has 9 bytes and may have 8");
    CHECK_ERR("no room for a document", toml_open(STR("a = 1"), 64, &document, NULL, &note),
              ERR_TOO_LARGE);
    CHECK_ERR("no limit fits nothing", toml_open(STR(""), 0, &document, NULL, &note),
              ERR_TOO_LARGE);
    buf_init(&input, 1 << 20);
    for (int i = 0; i < 500; i++) buf_appendf(&input, "key%d = [1, 2, \"three\"]\n", i);
    for (size_t limit = buf_peek(&input).len; limit < 1 << 20; limit += 4093) {
        err = toml_open(buf_peek(&input), limit, &document, &where, &note);
        if (!err) break;
        CHECK_ERR("the arena's ceiling is a limit, not a lack of memory", err, ERR_TOO_LARGE);
        CHECK_HAS("and the message", note.text, "bytes of memory it may use");
        CHECK("with the place it came to", where.line > 1 && where.column > 1);
        refused++;
    }
    CHECK_OK("some limit is enough", err);
    CHECK("and the ones before were not", refused > 10);
    toml_close(document);
    buf_deinit(&input);
}

TEST(a_large_table_is_indexed)
{
    enum { KEYS = 20000 };
    struct toml *document = NULL;
    struct buf input;
    char key[32];
    int64_t number = 0;

    buf_init(&input, 8 << 20);
    for (int i = 0; i < KEYS; i++) buf_appendf(&input, "key-%d = %d\n", i, i);
    CHECK_OK("it is read", toml_open(buf_peek(&input), 64 << 20, &document, NULL, NULL));
    CHECK_SIZE("all keys are there", toml_count(toml_root(document)), KEYS);
    CHECK("with a bucket per key: finding one is no search", document->bucket_count >= KEYS);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        CHECK_OK("each is found", toml_find_i64(toml_root(document), key, &number, NULL));
        CHECK_I64("with its own value", number, i);
    }
    toml_close(document);
    buf_clear(&input);
    buf_append_c(&input, "a = [");
    for (int i = 0; i < KEYS; i++) buf_append_c(&input, "1,");
    buf_append_c(&input, "]");
    CHECK_OK("a very long line is read, too",
             toml_open(buf_peek(&input), 64 << 20, &document, NULL, NULL));
    toml_close(document);
    buf_deinit(&input);
}

static const char sample[] = "title = \"x\"\n"
                             "\n"
                             "[server]\n"
                             "port = 7790 # the usual\n"
                             "tls.cert = 'c.pem'\n"
                             "  weights = [1, 2.5, [\"deep\"]]\n"
                             "[[peer]]\n"
                             "name = \"one\"\n"
                             "[[peer]]\n"
                             "\"odd name\" = {at = 2020-01-02}\n";

static const struct {
    const char *path, *full;
    struct toml_position key, value;
} places[] = {
    {"title", "title", {1, 1}, {1, 9}},
    {"server", "server", {3, 2}, {3, 2}},
    {"server.port", "server.port", {4, 1}, {4, 8}},
    {"server.tls", "server.tls", {5, 1}, {5, 1}},
    {"server.tls.cert", "server.tls.cert", {5, 5}, {5, 12}},
    {"server.weights", "server.weights", {6, 3}, {6, 13}},
    {"peer", "peer", {7, 3}, {7, 3}},
};

TEST(every_value_knows_its_place_and_its_way_from_the_root)
{
    struct toml *document = NULL;
    const struct toml_value *value;
    char path[TOML_PATH_CAP];

    CHECK_OK("the sample", toml_open(str_from(sample), MEMORY, &document, NULL, NULL));
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *why = places[i].path;
        value = toml_find(toml_root(document), why);
        CHECK(why, value != NULL);
        CHECK_U64(why, toml_key_position(value).line, places[i].key.line);
        CHECK_U64(why, toml_key_position(value).column, places[i].key.column);
        CHECK_U64(why, toml_position(value).line, places[i].value.line);
        CHECK_U64(why, toml_position(value).column, places[i].value.column);
        toml_path(value, path);
        CHECK_TEXT(why, path, places[i].full);
    }
    value = toml_next(toml_first(toml_find(toml_root(document), "peer")));
    toml_path(value, path);
    CHECK_TEXT("an element has an index", path, "peer[1]");
    CHECK_U64("and the place of its own header", toml_position(value).line, 9);
    CHECK_SIZE("and no key", toml_key(value).len, 0);
    value = toml_first(toml_first(value));
    toml_path(value, path);
    CHECK_TEXT("below it the way goes on", path, "peer[1].odd name.at");
    CHECK_U64("inline values have places", toml_position(value).column, 20);
    value = toml_find(toml_root(document), "server.weights");
    value = toml_first(toml_next(toml_next(toml_first(value))));
    toml_path(value, path);
    CHECK_TEXT("arrays in arrays", path, "server.weights[2][0]");
    toml_path(toml_root(document), path);
    CHECK_TEXT("the root's way is empty", path, "");
    toml_close(document);
}

TEST(a_path_that_does_not_fit_is_cut_and_marked)
{
    struct toml *document = NULL;
    const struct toml_value *value;
    char path[TOML_PATH_CAP];
    struct buf input;

    buf_init(&input, 1 << 16);
    for (int i = 0; i < 20; i++) buf_append_c(&input, "abcdefghij.");
    buf_append_c(&input, "z = 1");
    CHECK_OK("a long dotted key", toml_open(buf_peek(&input), MEMORY, &document, NULL, NULL));
    value = toml_root(document);
    while (toml_first(value)) value = toml_first(value);
    toml_path(value, path);
    CHECK_SIZE("all the room is used", strlen(path), TOML_PATH_CAP - 1);
    CHECK("and the end marked", str_ends(str_from(path), STR("...")));
    toml_close(document);
    buf_deinit(&input);
}

TEST(getters_refuse_another_type_and_point_at_it)
{
    struct toml *document = NULL;
    const struct toml_value *root, *port;
    struct note note = {""};
    struct str text = STR("untouched");
    struct rfc3339_fields time;
    int64_t number = -1;
    double real = -1;
    bool truth = true;

    CHECK_OK("the sample", toml_open(str_from(sample), MEMORY, &document, NULL, NULL));
    root = toml_root(document);
    port = toml_find(root, "server.port");
    CHECK_OK("an integer", toml_i64(port, &number, &note));
    CHECK_I64("is read", number, 7790);
    CHECK_OK("an integer serves as a float", toml_double(port, &real, &note));
    CHECK("exactly", real == 7790);
    CHECK_ERR("not as a string", toml_string(port, &text, &note), ERR_INVALID);
    CHECK_TEXT("with the place and the way", note.text,
               "line 4, column 8: 'server.port' must be a string, not an integer");
    CHECK_STR("and the output untouched", text, STR("untouched"));
    CHECK_ERR("a table is no truth", toml_find_bool(root, "server.tls", &truth, &note),
              ERR_INVALID);
    CHECK_TEXT("the message", note.text,
               "line 5, column 1: 'server.tls' must be true or false, not a table");
    CHECK_ERR("an array is no number", toml_double(toml_find(root, "peer"), &real, &note),
              ERR_INVALID);
    CHECK_TEXT("the message", note.text, "line 7, column 3: 'peer' must be a number, not an array");
    CHECK_ERR("a float is no integer",
              toml_i64(toml_next(toml_first(toml_find(root, "server.weights"))), &number, &note),
              ERR_INVALID);
    CHECK_TEXT("names it", note.text,
               "line 6, column 17: 'server.weights[1]' must be an integer, not a float");
    CHECK_ERR("a string is no date", toml_datetime(toml_find(root, "title"), &time, &note),
              ERR_INVALID);
    CHECK_TEXT("the message", note.text,
               "line 1, column 9: 'title' must be a date or time, not a string");
    CHECK_ERR("absent", toml_find_i64(root, "server.prot", &number, &note), ERR_NOT_FOUND);
    CHECK_TEXT("names the path", note.text, "'server.prot' is missing");
    CHECK_ERR("a way through a value", toml_find_string(root, "title.x", &text, &note),
              ERR_NOT_FOUND);
    CHECK_OK("without a note", toml_find_string(root, "title", &text, NULL));
    CHECK_STR("the text", text, STR("x"));
    CHECK("no key in an array", toml_get(toml_find(root, "peer"), STR("name")) == NULL);
    CHECK("nothing in a value", toml_first(port) == NULL && toml_count(port) == 0);
    CHECK_SIZE("elements are counted", toml_count(toml_find(root, "peer")), 2);
    toml_close(document);
}

TEST(the_document_does_not_need_its_input_any_more)
{
    struct toml *document = NULL;
    struct str text;
    char *input = strdup("a = 'kept'\n\"b\".c = \"too\"");

    CHECK_OK("read", toml_open(str_from(input), MEMORY, &document, NULL, NULL));
    memset(input, '!', strlen(input));
    free(input);
    CHECK_OK("a", toml_find_string(toml_root(document), "a", &text, NULL));
    CHECK_STR("a", text, STR("kept"));
    CHECK_OK("b.c", toml_find_string(toml_root(document), "b.c", &text, NULL));
    CHECK_STR("b.c", text, STR("too"));
    toml_close(document);
    toml_close(NULL);
}
