/* SPDX-License-Identifier: Apache-2.0 */
/* One blocking transfer by libcurl, bounded in bytes and time. One thread. */
#include "ctl/http_get.h"

#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "io/clock.h"

enum { URL_CAP = 1024 };

struct transfer {
    struct fetched_page *page;
    enum err err; /* of our own buffer */
};

static size_t http_on_body(char *bytes, size_t one, size_t count, void *owner)
{
    struct transfer *t = owner;

    t->err = buf_append(&t->page->text, str_of(bytes, one * count));
    return t->err ? 0 : one * count;
}

/* "Date: Mon, 16 Nov 2026 13:24:56 GMT" */
static size_t http_on_header(char *bytes, size_t one, size_t count, void *owner)
{
    static const char name[] = "date:";
    struct transfer *t = owner;
    char text[64];
    time_t seconds;

    snprintf(text, sizeof text, "%.*s", (int)min_size(one * count, sizeof text - 1), bytes);
    if (strncasecmp(text, name, sizeof name - 1) != 0) return one * count;
    seconds = curl_getdate(text + sizeof name - 1, NULL);
    if (seconds > 0) t->page->date = (wall_time){(uint64_t)seconds * 1000};
    return one * count;
}

static bool http_set_options(CURL *curl, const struct http_where *where, const char *url,
                             struct transfer *t)
{
    bool good = curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;

    good &= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK; /* it is meant as it stands */
    good &= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)where->timeout_ms) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, http_on_body) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_WRITEDATA, t) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, http_on_header) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_HEADERDATA, t) == CURLE_OK;
    if (where->ca_file) good &= curl_easy_setopt(curl, CURLOPT_CAINFO, where->ca_file) == CURLE_OK;
    return good;
}

static enum err http_perform(CURL *curl, struct transfer *t, struct note *note)
{
    CURLcode code;

    t->page->asked = clock_wall(clock_real());
    code = curl_easy_perform(curl);
    t->page->answered = clock_wall(clock_real());
    if (code == CURLE_OK) {
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->page->status);
        return ERR_OK;
    }
    note_set(note, "%s", curl_easy_strerror(code));
    if (t->err) return t->err;
    return code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
}

enum err http_get(const struct http_where *where, const char *path, struct fetched_page *ret_page,
                  struct note *note)
{
    struct transfer t = {.page = ret_page};
    CURL *curl = curl_easy_init();
    char url[URL_CAP];
    enum err err = ERR_NOMEM;

    *ret_page = (struct fetched_page){0};
    buf_init(&ret_page->text, HTTP_GET_MAX);
    snprintf(url, sizeof url, "%s://%s%s", where->ca_file ? "https" : "http", where->address, path);
    if (curl && http_set_options(curl, where, url, &t)) err = http_perform(curl, &t, note);
    curl_easy_cleanup(curl);
    return err;
}
