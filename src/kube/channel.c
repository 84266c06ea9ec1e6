/* SPDX-License-Identifier: Apache-2.0 */
/* One connection and its request, over libcurl (channel.h). One thread at a time; only
 * channel_wake() may be called from others.
 *
 * Invariant: `easy` is in `multi` exactly while `begun` is set. */
#include "kube/channel.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "io/net.h"

enum {
    RECEIVED_HOLD = 256 << 10, /* unread bytes of a stream that pause the server */
    POLL_MOST_MS = 1000,
};

struct channel {
    CURLM *multi; /* owns the connections; `easy` is its only request */
    CURL *easy;
    struct curl_slist *headers, *connect_to;
    struct buf received;
    char error[CURL_ERROR_SIZE];
    bool begun, finished, paused, stream, came, too_large, no_memory;
    CURLcode outcome; /* valid when `finished` */
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_outcome;

static void global_init(void)
{
    global_outcome = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* -- target -- */

static bool is_loopback(const char *host)
{
    uint8_t bytes[16];

    if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
    return address_ip(str_from(host), bytes) == 4 && bytes[0] == 127;
}

/* Puts the certificate's name (tls-server-name) into the URL, but connects to the real host. */
static enum err hide_host(struct target *t, CURLU *url, const char *host, const char *port)
{
    if (asprintf(&t->connect_to, "::%s:%s", host, port) < 0) t->connect_to = NULL;
    if (asprintf(&t->host_field, "Host: %s:%s", host, port) < 0) t->host_field = NULL;
    if (!t->connect_to || !t->host_field) return ERR_NOMEM;
    return curl_url_set(url, CURLUPART_HOST, t->config->tls_server_name, 0) ? ERR_INVALID : ERR_OK;
}

enum err target_init(struct target *target, const struct kube_config *config, struct note *note)
{
    struct target t = {.config = config};
    char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL, *query = NULL, *whole = NULL;
    CURLU *url = curl_url();
    enum err err = url ? ERR_OK : ERR_NOMEM;

    if (!err && (curl_url_set(url, CURLUPART_URL, config->server, 0) ||
                 curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) ||
                 curl_url_get(url, CURLUPART_HOST, &host, 0) ||
                 curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)))
        err = ERR_INVALID;
    /* User and password are refused, because messages show the address. */
    if (!err && (!curl_url_get(url, CURLUPART_USER, &user, 0) ||
                 !curl_url_get(url, CURLUPART_QUERY, &query, 0)))
        err = ERR_INVALID;
    if (!err && strcmp(scheme, "https") != 0 &&
        (strcmp(scheme, "http") != 0 || !is_loopback(host))) {
        note_set(note, "server: only https, or http to this host itself");
        err = ERR_INVALID;
        goto out;
    }
    if (!err && config->tls_server_name) err = hide_host(&t, url, host, port);
    if (!err && curl_url_get(url, CURLUPART_URL, &whole, 0)) err = ERR_NOMEM;
    if (!err) {
        size_t len = strlen(whole);
        while (len && whole[len - 1] == '/') len--;
        t.base = str_dup(str_of(whole, len));
        if (!t.base) err = ERR_NOMEM;
    }
    if (err == ERR_INVALID) note_set(note, "server: not an address of an API server");
    if (err == ERR_NOMEM) note_set(note, "out of memory");
out:
    curl_free(whole);
    curl_free(query);
    curl_free(user);
    curl_free(port);
    curl_free(host);
    curl_free(scheme);
    curl_url_cleanup(url);
    if (err) {
        target_deinit(&t);
        return err;
    }
    *target = t;
    return ERR_OK;
}

void target_deinit(struct target *target)
{
    free(target->base);
    free(target->host_field);
    free(target->connect_to);
    *target = (struct target){0};
}

/* -- open and close -- */

enum err channel_open(struct channel **ret_channel)
{
    struct channel *c;

    if (pthread_once(&global_once, global_init) || global_outcome) return ERR_NOMEM;
    c = calloc(1, sizeof *c);
    if (!c) return ERR_NOMEM;
    c->multi = curl_multi_init();
    c->easy = curl_easy_init();
    if (!c->multi || !c->easy || curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 1L)) {
        channel_close(c);
        return ERR_NOMEM;
    }
    *ret_channel = c;
    return ERR_OK;
}

void channel_close(struct channel *channel)
{
    if (!channel) return;
    channel_end(channel);
    if (channel->easy) curl_easy_cleanup(channel->easy);
    if (channel->multi) curl_multi_cleanup(channel->multi);
    buf_deinit(&channel->received);
    free(channel);
}

void channel_wake(struct channel *channel)
{
    (void)curl_multi_wakeup(channel->multi);
}

/* -- one request -- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct channel *c = context;
    struct str chunk = str_of(bytes, size * count);
    enum err err;

    if (c->stream && c->received.len > RECEIVED_HOLD && channel_http_status(c) == 200 &&
        memchr(c->received.data, '\n', c->received.len)) {
        c->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    err = buf_append(&c->received, chunk);
    if (err == ERR_FULL) c->too_large = true;
    if (err == ERR_NOMEM) c->no_memory = true;
    if (err) return 0;
    c->came = true;
    return chunk.len;
}

static bool add_header(struct channel *c, const char *line)
{
    struct curl_slist *longer = curl_slist_append(c->headers, line);

    if (longer) c->headers = longer;
    return longer != NULL;
}

static bool set_headers(struct channel *c, const struct target *t, const struct channel_request *r)
{
    bool good = add_header(c, "Accept: application/json");

    if (good && r->body.len) good = add_header(c, "Content-Type: application/json");
    /* No "100 Continue": bodies are small, and the wait costs a round trip. */
    if (good && r->body.len) good = add_header(c, "Expect:");
    if (good && t->host_field) good = add_header(c, t->host_field);
    if (good && r->token) {
        char *text;
        good = asprintf(&text, "Authorization: Bearer %s", r->token) >= 0;
        if (good) {
            good = add_header(c, text);
            free(text);
        }
    }
    if (good && t->connect_to) {
        c->connect_to = curl_slist_append(NULL, t->connect_to);
        good = c->connect_to != NULL;
    }
    return good;
}

static CURLcode set_blob(CURL *easy, CURLoption option, const char *text)
{
    struct curl_blob blob = {.len = strlen(text), .flags = CURL_BLOB_COPY};

    memcpy(&blob.data, &text, sizeof text); /* blob.data is not const, but curl only reads */
    return curl_easy_setopt(easy, option, &blob);
}

static bool set_tls(CURL *easy, const struct kube_config *config)
{
    bool bad = false;
    long verify = config->insecure_skip_verify ? 0L : 1L;

    bad |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verify);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, verify * 2);
    if (config->ca_pem) {
        /* Trust only this root. The two NULLs exclude the system's root certificates. */
        bad |= curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
        bad |= curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        bad |= set_blob(easy, CURLOPT_CAINFO_BLOB, config->ca_pem);
    }
    if (config->client_cert_pem) {
        bad |= curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
        bad |= set_blob(easy, CURLOPT_SSLCERT_BLOB, config->client_cert_pem);
        bad |= set_blob(easy, CURLOPT_SSLKEY_BLOB, config->client_key_pem);
    }
    return !bad;
}

static bool set_request(struct channel *c, const struct channel_request *r)
{
    bool bad = false;
    CURL *easy = c->easy;

    bad |= curl_easy_setopt(easy, CURLOPT_URL, r->url);
    bad |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_USERAGENT, "muster");
    bad |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->error);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
    if (r->body.len) {
        bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->body.at);
        bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
    }
    bad |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
    bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, c->headers);
    if (c->connect_to) bad |= curl_easy_setopt(easy, CURLOPT_CONNECT_TO, c->connect_to);
    return !bad;
}

enum err channel_begin(struct channel *channel, const struct target *target,
                       const struct channel_request *request)
{
    struct channel *c = channel;

    assert(!c->begun);
    curl_easy_reset(c->easy);
    buf_deinit(&c->received);
    buf_init(&c->received, request->received_max);
    c->finished = c->paused = c->stream = c->came = c->too_large = c->no_memory = false;
    c->error[0] = '\0';
    c->outcome = CURLE_OK;
    if (!set_headers(c, target, request) || !set_request(c, request) ||
        !set_tls(c->easy, target->config) || curl_multi_add_handle(c->multi, c->easy)) {
        channel_end(c);
        return ERR_NOMEM;
    }
    c->begun = true;
    return ERR_OK;
}

void channel_end(struct channel *channel)
{
    if (channel->begun) (void)curl_multi_remove_handle(channel->multi, channel->easy);
    channel->begun = false;
    curl_slist_free_all(channel->headers);
    curl_slist_free_all(channel->connect_to);
    channel->headers = channel->connect_to = NULL;
}

/* Continues the transfer. Returns true when it is over. */
static bool work(struct channel *c)
{
    int running, left;
    CURLMsg *message;
    CURLMcode broken = curl_multi_perform(c->multi, &running);

    if (broken) {
        c->finished = true;
        c->outcome = CURLE_OUT_OF_MEMORY; /* the calls above fail only if memory runs out */
        c->no_memory = true;
    }
    while ((message = curl_multi_info_read(c->multi, &left)))
        if (message->msg == CURLMSG_DONE) {
            c->finished = true;
            c->outcome = message->data.result;
        }
    return c->finished;
}

enum channel_state channel_run(struct channel *channel, mono_time wake_at, bool stream)
{
    struct channel *c = channel;
    bool looked = false;

    assert(c->begun);
    c->stream = stream;
    c->came = false;
    if (c->paused) {
        c->paused = false;
        (void)curl_easy_pause(c->easy, CURLPAUSE_CONT); /* may call on_bytes immediately */
    }
    while (!c->finished && !work(c)) {
        mono_time now = clock_mono(clock_real());
        if (looked || mono_due(wake_at, now) || (stream && (c->came || c->paused)))
            return CHANNEL_RUNNING;
        int events = 0;
        int wait = (int)min_u64(wake_at.ms - now.ms, POLL_MOST_MS);
        if (curl_multi_poll(c->multi, NULL, 0, wait, &events)) {
            c->finished = c->no_memory = true;
            c->outcome = CURLE_OUT_OF_MEMORY;
        }
        /* A wake-up ends the poll without an event: check the transfer again, then return. */
        looked = events == 0;
    }
    return c->outcome ? CHANNEL_FAILED : CHANNEL_DONE;
}

void channel_rest(struct channel *channel, mono_time wake_at)
{
    mono_time now = clock_mono(clock_real());

    assert(!channel->begun);
    if (mono_due(wake_at, now)) return;
    (void)curl_multi_poll(channel->multi, NULL, 0, (int)min_u64(wake_at.ms - now.ms, POLL_MOST_MS),
                          NULL);
}

/* -- the outcome -- */

uint32_t channel_http_status(struct channel *channel)
{
    long status = 0;

    (void)curl_easy_getinfo(channel->easy, CURLINFO_RESPONSE_CODE, &status);
    return status > 0 && status < 1000 ? (uint32_t)status : 0;
}

struct channel_outcome channel_outcome(struct channel *channel)
{
    struct channel_outcome outcome = {.too_large = channel->too_large, .error = channel->error};
    curl_off_t seconds = 0;
    long bytes = 0;

    (void)curl_easy_getinfo(channel->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0)
        outcome.retry_after_ms = min_u64((uint64_t)seconds, KUBE_RETRY_AFTER_MAX_MS / 1000) * 1000;
    outcome.sent = curl_easy_getinfo(channel->easy, CURLINFO_REQUEST_SIZE, &bytes) || bytes > 0;
    outcome.no_memory = channel->no_memory || channel->outcome == CURLE_OUT_OF_MEMORY;
    if (!channel->error[0])
        outcome.error =
            channel->outcome ? curl_easy_strerror(channel->outcome) : "no answer in time";
    return outcome;
}

struct buf *channel_received(struct channel *channel)
{
    return &channel->received;
}
