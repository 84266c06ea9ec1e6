/* SPDX-License-Identifier: Apache-2.0 */
/* Parses URLs of stores (url.h). Pure, any thread. No error text repeats a part of the URL
 * except a checked parameter name. */
#include "prim/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "prim/answer.h"

/* Makes an error without any part of the URL, which may contain a password. */
static coord_result wrong(const char *what)
{
    return prim_answer(COORD_INVALID, COORD_R_URL, "url: %s", what);
}

static bool is_scheme(const char *text)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    return *text >= 'a' && *text <= 'z' && text[strspn(text, alphabet)] == '\0';
}

/* Error texts repeat the name, so it must have no control characters. */
static bool is_name(const char *text)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    return text[0] != '\0' && text[strspn(text, alphabet)] == '\0';
}

/* Decodes percent escapes in place. False: '%' without two digits, or a NUL. */
static bool decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_value(from[1]), low = high < 0 ? -1 : hex_value(from[2]);
        if (low < 0 || high + low == 0) return false;
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = '\0';
    return true;
}

/* Ends the text at the first `c`. Returns the part after it; NULL: no `c`. */
static char *cut(char *text, char c)
{
    char *at = strchr(text, c);
    if (at == NULL) return NULL;
    *at = '\0';
    return at + 1;
}

static const char *parse_user(struct prim_url *url, char *user)
{
    char *password = cut(user, ':');
    if (!decode(user) || (password != NULL && !decode(password)))
        return "a bad %-escape before '@'";
    url->user = user;
    url->password = password;
    return user[0] == '\0' ? "an empty user before '@'" : NULL;
}

static const char *parse_hosts(struct prim_url *url, char *hosts)
{
    while (hosts != NULL) {
        char *following = cut(hosts, ',');
        if (url->host_count == PRIM_URL_HOSTS_MAX) return "more than 16 hosts";
        if (!decode(hosts)) return "a bad %-escape in a host";
        if (hosts[0] == '\0') return "an empty host between commas";
        url->hosts[url->host_count++] = hosts;
        hosts = following;
    }
    return NULL;
}

static const char *parse_params(struct prim_url *url, char *params)
{
    while (params != NULL) {
        char *following = cut(params, '&'), *value = cut(params, '=');
        if (url->param_count == PRIM_URL_PARAMS_MAX) return "more than 32 parameters";
        if (!is_name(params)) return "a parameter's name is of a-z 0-9 _ and not empty";
        if (value != NULL && !decode(value)) return "a bad %-escape in a parameter";
        for (size_t i = 0; i < url->param_count; i++)
            if (strcmp(url->params[i].name, params) == 0) return "a parameter is there twice";
        url->params[url->param_count++] =
            (struct prim_url_param){.name = params, .value = value == NULL ? "" : value};
        params = following;
    }
    return NULL;
}

/* `rest` is the text after "scheme:". `spare` has room for the path and a NUL. */
static const char *parse_rest(struct prim_url *url, char *rest, char *spare)
{
    char *params = cut(rest, '?');
    const char *fault = params != NULL && params[0] != '\0' ? parse_params(url, params) : NULL;
    if (fault != NULL) return fault;
    url->path = "";
    if (rest[0] == '\0') { return NULL; } /* the URL is "mem:" */
    if (strncmp(rest, "//", 2) != 0) return "after the scheme comes '//' or nothing";
    rest += 2;
    /* The host needs a NUL in place of the path's '/', so the path moves to `spare`. */
    char *slash = strchr(rest, '/');
    if (slash != NULL) {
        memcpy(spare, slash, strlen(slash) + 1);
        *slash = '\0';
        if (!decode(spare)) return "a bad %-escape in the path";
        url->path = spare;
    }
    char *at = strrchr(rest, '@');
    if (at != NULL) {
        *at = '\0';
        fault = parse_user(url, rest);
        if (fault != NULL) return fault;
        rest = at + 1;
        if (rest[0] == '\0') return "no host after '@'";
    }
    return rest[0] == '\0' ? NULL : parse_hosts(url, rest);
}

coord_result prim_url_parse(const char *text, struct prim_url *ret_url)
{
    if (text == NULL) return wrong("there is none");
    size_t len = strnlen(text, PRIM_URL_MAX + 1);
    if (len > PRIM_URL_MAX) return wrong("longer than 4096 bytes");
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f || text[i] == '#') {
            return prim_answer(COORD_INVALID, COORD_R_URL,
                               "url: byte %zu is a blank, a control byte, a '#' or not ASCII "
                               "(percent-encode it)",
                               i + 1);
        }
    }
    struct prim_url url = {.memory = malloc(2 * len + 2), .memory_len = 2 * len + 2};
    if (url.memory == NULL) return prim_no_memory();
    memset(url.memory, 0, url.memory_len);
    memcpy(url.memory, text, len + 1);
    char *rest = cut(url.memory, ':');
    const char *fault;
    if (rest == NULL || !is_scheme(url.memory)) {
        fault = "no scheme such as mem:, file:, etcd:, k8s:, nats: in front";
    } else {
        url.scheme = url.memory;
        fault = parse_rest(&url, rest, url.memory + len + 1);
    }
    if (fault != NULL) {
        prim_url_deinit(&url);
        return wrong(fault);
    }
    *ret_url = url;
    return prim_ok(COORD_R_NONE);
}

void prim_url_deinit(struct prim_url *url)
{
    if (url->memory != NULL) {
        /* A password could appear in a core file. */
        explicit_bzero(url->memory, url->memory_len);
        free(url->memory);
    }
    *url = (struct prim_url){0};
}

const char *prim_url_param(struct prim_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++) {
        if (strcmp(url->params[i].name, name) == 0) {
            url->params[i].used = true;
            return url->params[i].value;
        }
    }
    return NULL;
}

static bool time_of(struct str text, int64_t *ret_ms)
{
    static const struct {
        struct str unit;
        int64_t ms;
    } units[] = {/* "ms" before "s", because "ms" also ends in "s" */
                 {{"ms", 2}, 1},
                 {{"s", 1}, 1000},
                 {{"m", 1}, 60000},
                 {{"h", 1}, 3600000}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (!str_ends(text, units[i].unit)) continue;
        uint64_t number;
        if (str_to_u64(str_of(text.at, text.len - units[i].unit.len), &number) != ERR_OK ||
            number > (uint64_t)(INT64_MAX / units[i].ms))
            return false;
        *ret_ms = (int64_t)number * units[i].ms;
        return true;
    }
    return false;
}

coord_result prim_url_number(struct prim_url *url, const char *name, int64_t low, int64_t high,
                             int64_t *value)
{
    const char *text = prim_url_param(url, name);
    int64_t number;
    if (text == NULL) return prim_ok(COORD_R_NONE);
    if (str_to_i64(str_from(text), &number) != ERR_OK || number < low || number > high)
        return prim_answer(COORD_INVALID, COORD_R_URL,
                           "url: parameter %s is a whole number from %" PRId64 " to %" PRId64, name,
                           low, high);
    *value = number;
    return prim_ok(COORD_R_NONE);
}

coord_result prim_url_time_ms(struct prim_url *url, const char *name, int64_t low, int64_t high,
                              int64_t *value_ms)
{
    const char *text = prim_url_param(url, name);
    int64_t ms;
    if (text == NULL) return prim_ok(COORD_R_NONE);
    if (!time_of(str_from(text), &ms) || ms < low || ms > high)
        return prim_answer(COORD_INVALID, COORD_R_URL,
                           "url: parameter %s is a time such as 500ms or 5s, from %" PRId64
                           " to %" PRId64 " ms",
                           name, low, high);
    *value_ms = ms;
    return prim_ok(COORD_R_NONE);
}

coord_result prim_url_done(const struct prim_url *url)
{
    for (size_t i = 0; i < url->param_count; i++) {
        if (!url->params[i].used) {
            return prim_answer(COORD_INVALID, COORD_R_URL, "url: %s: has no parameter '%.64s'",
                               url->scheme, url->params[i].name);
        }
    }
    return prim_ok(COORD_R_NONE);
}
