/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/url.h"

#include <stdio.h>

#include "lib/test.h"

static struct prim_url parsed(const char *text)
{
    struct prim_url url;
    coord_result result = prim_url_parse(text, &url);
    CHECK_TEXT(text, result.text, "");
    CHECK_I64(text, result.code, COORD_OK);
    return url;
}

TEST(every_part_is_found)
{
    struct prim_url url = parsed("etcd://me:p%40ss%3a@h1:2379,[::1]:2380,h%33/a/b%2Fc?x=1&y=%20&z");
    CHECK_TEXT("scheme", url.scheme, "etcd");
    CHECK_TEXT("user", url.user, "me");
    CHECK_TEXT("password", url.password, "p@ss:");
    CHECK_SIZE("hosts", url.host_count, 3);
    CHECK_TEXT("as written", url.hosts[0], "h1:2379");
    CHECK_TEXT("IPv6", url.hosts[1], "[::1]:2380");
    CHECK_TEXT("decoded", url.hosts[2], "h3");
    CHECK("ends with NULL", url.hosts[3] == NULL);
    CHECK_TEXT("path", url.path, "/a/b/c");
    CHECK_TEXT("x", prim_url_param(&url, "x"), "1");
    CHECK_TEXT("a blank", prim_url_param(&url, "y"), " ");
    CHECK_TEXT("without a value", prim_url_param(&url, "z"), "");
    CHECK("no other", prim_url_param(&url, "w") == NULL);
    CHECK_I64("all were asked for", prim_url_done(&url).code, COORD_OK);
    prim_url_deinit(&url);
    prim_url_deinit(&url); /* twice is fine */
}

TEST(short_forms)
{
    static const struct {
        const char *url, *scheme, *path;
        size_t hosts, params;
    } cases[] = {
        {"mem:", "mem", "", 0, 0},
        {"mem:?x=1", "mem", "", 0, 1},
        {"mem://", "mem", "", 0, 0},
        {"file:///var/lib/x", "file", "/var/lib/x", 0, 0},
        {"file:///?mode=0750", "file", "/", 0, 1},
        {"k8s://default", "k8s", "", 1, 0},
        {"trace+file:///x", "trace+file", "/x", 0, 0},
        {"nats://h/b?", "nats", "/b", 1, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct prim_url url = parsed(cases[i].url);
        CHECK_TEXT(cases[i].url, url.scheme, cases[i].scheme);
        CHECK_TEXT(cases[i].url, url.path, cases[i].path);
        CHECK_SIZE(cases[i].url, url.host_count, cases[i].hosts);
        CHECK_SIZE(cases[i].url, url.param_count, cases[i].params);
        CHECK("no user", url.user == NULL && url.password == NULL);
        prim_url_deinit(&url);
    }
}

TEST(errors_name_the_fault_and_no_secret)
{
    static const struct {
        const char *url, *says;
    } cases[] = {
        {NULL, "there is none"},
        {"", "no scheme"},
        {"/var/lib", "no scheme"},
        {"://x", "no scheme"},
        {"Mem:", "no scheme"},
        {"1a:", "no scheme"},
        {"mem:x", "'//' or nothing"},
        {"file:/x", "'//' or nothing"},
        {"etcd://secret@", "no host after"},
        {"etcd://:secret@h", "an empty user"},
        {"etcd://u:secret%4@h", "before '@'"},
        {"etcd://u:secret%00@h", "before '@'"},
        {"etcd://h,,h", "an empty host"},
        {"etcd://h,", "an empty host"},
        {"etcd://h%zz", "in a host"},
        {"file:///secret%", "in the path"},
        {"mem:?=secret", "a parameter's name"},
        {"mem:?x=1&&y=2", "a parameter's name"},
        {"mem:?X=secret", "a parameter's name"},
        {"mem:?x=1&x=2", "is there twice"},
        {"mem:?x=%g1", "in a parameter"},
        {"mem: ", "byte 5"},
        {"mem:\x7f", "byte 5"},
        {"mem:#secret", "byte 5"},
        {"file:///\xc3\xa4", "byte 9"},
        {"e://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16"},
        {"e:?a=&b=&c=&d=&e=&f=&g=&h=&i=&j=&k=&l=&m=&n=&o=&p=&q=&r=&s=&t=&u=&v=&w=&x=&y=&z=&a1=&a2=&"
         "a3=&a4=&a5=&a6=&a7=",
         "more than 32"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct prim_url url = {.path = "untouched"};
        coord_result result = prim_url_parse(cases[i].url, &url);
        CHECK_I64(cases[i].says, result.code, COORD_INVALID);
        CHECK_I64(cases[i].says, result.reason, COORD_R_URL);
        CHECK_HAS(cases[i].url, result.text, cases[i].says);
        CHECK("no secret", strstr(result.text, "secret") == NULL);
        CHECK_TEXT("the output is left alone", url.path, "untouched");
    }
}

TEST(length_has_a_limit)
{
    char text[PRIM_URL_MAX + 2] = "file:///";
    struct prim_url url;
    memset(text + 8, 'x', PRIM_URL_MAX - 8);
    CHECK_I64("4096 bytes", prim_url_parse(text, &url).code, COORD_OK);
    CHECK_SIZE("all of it", strlen(url.path), PRIM_URL_MAX - 7);
    prim_url_deinit(&url);
    text[PRIM_URL_MAX] = 'x';
    CHECK_HAS("one more", prim_url_parse(text, &url).text, "longer than 4096");
}

TEST(numbers_and_times)
{
    struct prim_url url = parsed("mem:?n=-3&big=99&word=x&a=500ms&b=5s&c=2m&d=1h&bare=5&neg=-5s&o="
                                 "9223372036854775807h&only=ms");
    int64_t value = 42;
    CHECK_I64("absent", prim_url_number(&url, "no", 0, 9, &value).code, COORD_OK);
    CHECK_I64("leaves it", value, 42);
    CHECK_I64("number", prim_url_number(&url, "n", -3, 9, &value).code, COORD_OK);
    CHECK_I64("number", value, -3);
    CHECK_HAS("range", prim_url_number(&url, "big", 0, 98, &value).text, "big");
    CHECK_HAS("range", prim_url_number(&url, "big", 0, 98, &value).text, "from 0 to 98");
    CHECK_I64("low", prim_url_number(&url, "big", 100, 200, &value).code, COORD_INVALID);
    CHECK_I64("word", prim_url_number(&url, "word", 0, 98, &value).reason, COORD_R_URL);
    CHECK_I64("untouched", value, -3);
    static const struct {
        const char *name;
        int64_t want; /* -1: refused */
    } times[] = {{"a", 500},  {"b", 5000},  {"c", 120000}, {"d", 3600000}, {"bare", -1},
                 {"neg", -1}, {"word", -1}, {"o", -1},     {"only", -1}};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        coord_result result = prim_url_time_ms(&url, times[i].name, 0, 3600000, &value);
        CHECK_I64(times[i].name, result.code, times[i].want < 0 ? COORD_INVALID : COORD_OK);
        if (times[i].want >= 0) { CHECK_I64(times[i].name, value, times[i].want); }
    }
    CHECK_I64("bound", prim_url_time_ms(&url, "d", 0, 3599999, &value).code, COORD_INVALID);
    prim_url_deinit(&url);
}

TEST(an_unknown_parameter_is_named)
{
    struct prim_url url = parsed("mem:?known=1&typo=secret");
    (void)prim_url_param(&url, "known");
    coord_result result = prim_url_done(&url);
    CHECK_I64("refused", result.code, COORD_INVALID);
    CHECK_HAS("by name", result.text, "typo");
    CHECK("without its value", strstr(result.text, "secret") == NULL);
    prim_url_deinit(&url);
}
