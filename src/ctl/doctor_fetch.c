/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches one page of a replica over HTTP, or over HTTPS if a CA is given. A blocking libcurl
 * transfer, bounded in bytes and time, without redirects and proxies. One thread. */
#include "ctl/doctor.h"

#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "io/clock.h"

enum { URL_CAP = 1024, PAGE_MAX = 16 * 1024 * 1024 };

static size_t fetch_on_body(char *bytes, size_t one, size_t count, void *owner)
{
    struct doctor_page *page = owner;

    page->err = buf_append(&page->text, str_of(bytes, one * count));
    return page->err ? 0 : one * count;
}

static size_t fetch_on_header(char *bytes, size_t one, size_t count, void *owner)
{
    static const char name[] = "date:";
    struct doctor_page *page = owner;
    char text[64];
    time_t seconds;

    snprintf(text, sizeof text, "%.*s", (int)min_size(one * count, sizeof text - 1), bytes);
    if (strncasecmp(text, name, sizeof name - 1) != 0) return one * count;
    seconds = curl_getdate(text + sizeof name - 1, NULL);
    if (seconds > 0) page->date = (wall_time){(uint64_t)seconds * 1000};
    return one * count;
}

static bool fetch_set_options(CURL *curl, const struct conf *conf, const char *url,
                              struct doctor_page *page)
{
    const char *ca_file = conf_text(conf, "tls.ca-file");
    long timeout_ms = (long)conf_number(conf, "timeout");
    bool good = curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;

    good &= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK; /* none */
    good &= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fetch_on_body) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_WRITEDATA, page) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, fetch_on_header) == CURLE_OK;
    good &= curl_easy_setopt(curl, CURLOPT_HEADERDATA, page) == CURLE_OK;
    if (ca_file) good &= curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file) == CURLE_OK;
    return good;
}

static void fetch_perform(CURL *curl, struct doctor_page *page)
{
    CURLcode code;

    page->asked = clock_wall(clock_real());
    code = curl_easy_perform(curl);
    page->answered = clock_wall(clock_real());
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &page->status);
    else
        note_set(&page->why, "%s", curl_easy_strerror(code));
    if (code != CURLE_OK && !page->err)
        page->err = code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
}

void doctor_fetch(const struct doctor *d, const char *address, const char *path,
                  struct doctor_page *ret_page)
{
    const struct conf *conf = d->ctl->conf;
    CURL *curl = curl_easy_init();
    char url[URL_CAP];

    *ret_page = (struct doctor_page){.why = {""}};
    buf_init(&ret_page->text, PAGE_MAX);
    snprintf(url, sizeof url, "%s://%s%s", conf_text(conf, "tls.ca-file") ? "https" : "http",
             address, path);
    if (curl && fetch_set_options(curl, conf, url, ret_page))
        fetch_perform(curl, ret_page);
    else
        ret_page->err = ERR_NOMEM;
    curl_easy_cleanup(curl);
}
