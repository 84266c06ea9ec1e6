/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs (get, list, ...) over a pool of channels. Reads the token, and maps answers to errors.
 * Any thread. The lock guards the idle channels and the token. */
#include "kube/channel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/clock.h"
#include "io/fs.h"
#include "text/ndjson.h"
#include "text/percent.h"

enum {
    URL_MAX = 32 << 10,
    DELETE_BODY_MAX = 4096,
    WORD_MAX = 253, /* bytes of a name, as in Kubernetes */
};

struct kube {
    struct kube_config config;
    struct target target;
    atomic_bool cancelled;
    pthread_mutex_t lock; /* guards the fields below */
    struct channel *idle[KUBE_IDLE_CONNECTIONS_MAX];
    size_t idle_count;
    char *token;             /* content of the token file when last read */
    struct fs_info token_of; /* the file from which `token` was read; size 0: none */
};

/* -- open and close -- */

enum err kube_open(const struct kube_config *config, struct kube **ret_kube, struct note *note)
{
    struct kube *kube;
    enum err err;

    assert(!config->ca_file && !config->client_cert_file && !config->client_key_file);
    if (!config->server) return note_fail(note, ERR_INVALID, "server: missing");
    kube = calloc(1, sizeof *kube);
    if (!kube || pthread_mutex_init(&kube->lock, NULL)) {
        free(kube);
        return note_fail(note, ERR_NOMEM, "out of memory");
    }
    err = kube_config_copy(config, &kube->config);
    if (err) note_set(note, "out of memory");
    if (!err) err = target_init(&kube->target, &kube->config, note);
    if (err) {
        kube_close(kube);
        return err;
    }
    *ret_kube = kube;
    return ERR_OK;
}

void kube_close(struct kube *kube)
{
    if (!kube) return;
    for (size_t i = 0; i < kube->idle_count; i++) channel_close(kube->idle[i]);
    pthread_mutex_destroy(&kube->lock);
    free(kube->token);
    target_deinit(&kube->target);
    kube_config_deinit(&kube->config);
    free(kube);
}

void kube_cancel(struct kube *kube)
{
    atomic_store(&kube->cancelled, true);
}

const struct target *kube_target(const struct kube *kube)
{
    return &kube->target;
}

/* -- the token -- */

/* Rereads a changed token file, under the lock. A failed reread is harmless, because an old token
 * stays valid for a while. */
static enum err kube_refresh_token(struct kube *kube, struct note *note)
{
    struct fs_info info;
    struct buf bytes;
    char *token = NULL;
    enum err err = fs_stat(fs_real(), kube->config.token_file, &info);

    if (!err && kube->token && fs_same(&info, &kube->token_of)) return ERR_OK;
    buf_init(&bytes, KUBE_TOKEN_MAX);
    if (!err) err = fs_read_whole(fs_real(), kube->config.token_file, KUBE_TOKEN_MAX, &bytes);
    if (err) note_set(note, "%s", err_text(err));
    if (!err) err = kube_token_clean(buf_peek(&bytes), &token, note);
    buf_deinit(&bytes);
    if (!err) {
        free(kube->token);
        kube->token = token;
        kube->token_of = info;
    }
    if (err && kube->token) return ERR_OK;
    if (err) note_prefix(note, "token %s", kube->config.token_file);
    return err == ERR_NOMEM || !err ? err : ERR_UNAUTHENTICATED;
}

enum err kube_token(struct kube *kube, char **ret_token, struct note *note)
{
    const char *token = kube->config.token;
    enum err err = ERR_OK;

    pthread_mutex_lock(&kube->lock);
    if (kube->config.token_file) {
        err = kube_refresh_token(kube, note);
        token = kube->token;
    }
    if (!err && token) {
        *ret_token = str_dup(str_from(token));
        if (!*ret_token) {
            note_set(note, "out of memory");
            err = ERR_NOMEM;
        }
    }
    pthread_mutex_unlock(&kube->lock);
    return err;
}

/* -- channels -- */

enum err kube_channel_take(struct kube *kube, struct channel **ret_channel)
{
    struct channel *channel = NULL;

    pthread_mutex_lock(&kube->lock);
    if (kube->idle_count) channel = kube->idle[--kube->idle_count];
    pthread_mutex_unlock(&kube->lock);
    if (!channel) return channel_open(ret_channel);
    *ret_channel = channel;
    return ERR_OK;
}

void kube_channel_give(struct kube *kube, struct channel *own_channel)
{
    pthread_mutex_lock(&kube->lock);
    if (kube->idle_count < KUBE_IDLE_CONNECTIONS_MAX) {
        kube->idle[kube->idle_count++] = own_channel;
        own_channel = NULL;
    }
    pthread_mutex_unlock(&kube->lock);
    channel_close(own_channel);
}

/* -- URLs -- */

/* All parts are checked, so that no name can change the path. */
static bool url_word_is_good(const char *word)
{
    size_t len = strlen(word);

    if (len == 0 || len > WORD_MAX || strcmp(word, ".") == 0 || strcmp(word, "..") == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = word[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '.' || c == '_' || c == ':'))
            return false;
    }
    return true;
}

static enum err url_add_word(struct buf *url, const char *word)
{
    enum err err = url_word_is_good(word) ? buf_append_byte(url, '/') : ERR_INVALID;

    return err ? err : buf_append_c(url, word);
}

enum err kube_url_path(const struct kube *kube, const struct kube_path *path, struct buf *url,
                       struct note *note)
{
    enum err err = buf_append_c(url, kube->target.base);

    if (!err) err = url_add_word(url, path->group[0] ? "apis" : "api");
    if (!err && path->group[0]) err = url_add_word(url, path->group);
    if (!err) err = url_add_word(url, path->version);
    if (!err && path->namespace_) err = url_add_word(url, "namespaces");
    if (!err && path->namespace_) err = url_add_word(url, path->namespace_);
    if (!err) err = url_add_word(url, path->resource);
    if (!err && path->name) err = url_add_word(url, path->name);
    if (!err && path->subresource) err = url_add_word(url, path->subresource);
    if (err == ERR_INVALID) note_set(note, "a word of the object's path is empty, long or odd");
    if (err == ERR_NOMEM) note_set(note, "out of memory");
    return err;
}

enum err kube_url_query(struct buf *url, const char *key, struct str value)
{
    enum err err = buf_appendf(url, "%c%s=", str_has(buf_peek(url), '?') ? '&' : '?', key);

    if (!err) err = percent_encode(value, STR_EMPTY, url);
    return err == ERR_FULL ? ERR_INVALID : err;
}

/* -- one call -- */

void kube_answer_deinit(struct kube_answer *answer)
{
    json_close(answer->object);
    answer->object = NULL;
}

/* Evaluates a complete answer. */
static enum err answer_judge(struct channel *channel, bool write, struct kube_answer *answer,
                             struct note *note)
{
    struct str body = buf_peek(channel_received(channel));
    struct kube_status status = {0};
    struct json *object = NULL;
    struct note why = {""};
    enum err read, err;

    answer->http_status = channel_http_status(channel);
    answer->retry_after_ms = channel_outcome(channel).retry_after_ms;
    read = json_open(body, KUBE_BODY_MAX, &object, &why);
    if (!read) kube_status_decode(object, &status);
    memcpy(answer->reason, status.reason, sizeof status.reason);
    if (!answer->retry_after_ms) answer->retry_after_ms = status.retry_after_ms;
    err = kube_status_err(answer->http_status, status.reason, write);
    if (err) {
        note_set(note, "%u %s: %s", answer->http_status, status.reason[0] ? status.reason : "-",
                 status.message[0] ? status.message : err_text(err));
    } else if (read || json_kind(object) != JSON_KIND_OBJECT) {
        note_set(note, "%u with a body that is no object: %s", answer->http_status, why.text);
        err = write ? ERR_UNKNOWN : read == ERR_NOMEM ? ERR_NOMEM : ERR_PARSE;
    } else {
        answer->object = object;
        return ERR_OK;
    }
    json_close(object);
    return err;
}

static enum err answer_missing(struct channel *channel, enum channel_state state, bool write,
                               bool cancelled, struct note *note)
{
    struct channel_outcome outcome = channel_outcome(channel);

    note_set(note, "%s", outcome.too_large ? "answer larger than 16 MiB" : outcome.error);
    if (write && outcome.sent) return ERR_UNKNOWN;
    if (outcome.no_memory) return ERR_NOMEM;
    if (outcome.too_large) return ERR_TOO_LARGE;
    if (cancelled) return ERR_CANCELLED;
    return state == CHANNEL_RUNNING ? ERR_TIMEOUT : ERR_UNAVAILABLE;
}

static enum err kube_perform(struct kube *kube, const char *method, const char *url,
                             struct str body, uint64_t timeout_ms, struct kube_answer *answer,
                             struct note *note)
{
    bool write = strcmp(method, "GET") != 0;
    mono_time deadline = mono_after(clock_mono(clock_real()), timeout_ms);
    enum channel_state state = CHANNEL_RUNNING;
    struct channel *channel = NULL;
    char *token = NULL;
    enum err err = kube_token(kube, &token, note);

    if (err) return err;
    err = kube_channel_take(kube, &channel);
    if (!err)
        err = channel_begin(channel, &kube->target,
                            &(struct channel_request){method, url, token, body, KUBE_BODY_MAX});
    if (err) {
        note_set(note, "out of memory");
        goto out;
    }
    while (state == CHANNEL_RUNNING && !atomic_load(&kube->cancelled) &&
           !mono_due(deadline, clock_mono(clock_real())))
        state = channel_run(channel, deadline, false);
    err = state == CHANNEL_DONE
              ? answer_judge(channel, write, answer, note)
              : answer_missing(channel, state, write, atomic_load(&kube->cancelled), note);
    channel_end(channel);
out:
    if (channel) kube_channel_give(kube, channel);
    free(token);
    return err;
}

/* `o` NULL: no query. */
static enum err url_add_query(struct buf *url, const struct kube_list_options *o, struct note *note)
{
    char limit[24];
    int limit_len = snprintf(limit, sizeof limit, "%u", o ? o->limit : 0);
    const struct {
        const char *key;
        struct str value;
    } words[] = {
        {"labelSelector", str_from(o ? o->label_selector : NULL)},
        {"fieldSelector", str_from(o ? o->field_selector : NULL)},
        {"limit", str_of(limit, o && o->limit ? (size_t)limit_len : 0)},
        {"continue", o ? o->continue_ : STR_EMPTY},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(words); i++)
        if (words[i].value.len) err = kube_url_query(url, words[i].key, words[i].value);
    if (err) note_set(note, "selector or continue token: %s", err_text(err));
    return err;
}

static enum err kube_call(struct kube *kube, const char *method, const struct kube_path *path,
                          const struct kube_list_options *list, struct str body,
                          uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note)
{
    struct kube_answer unused, *answer = ret_answer ? ret_answer : &unused;
    struct buf url;
    enum err err;

    *answer = (struct kube_answer){0};
    buf_init(&url, URL_MAX);
    err = kube_url_path(kube, path, &url, note);
    if (!err) err = url_add_query(&url, list, note);
    if (!err) err = buf_append_byte(&url, '\0');
    if (!err) err = kube_perform(kube, method, url.data, body, timeout_ms, answer, note);
    buf_deinit(&url);
    if (!ret_answer) kube_answer_deinit(answer);
    return err;
}

/* -- verbs -- */

enum err kube_get(struct kube *kube, const struct kube_path *path, uint64_t timeout_ms,
                  struct kube_answer *ret_answer, struct note *note)
{
    return kube_call(kube, "GET", path, NULL, STR_EMPTY, timeout_ms, ret_answer, note);
}

enum err kube_list(struct kube *kube, const struct kube_path *path,
                   const struct kube_list_options *options, uint64_t timeout_ms,
                   struct kube_answer *ret_answer, struct note *note)
{
    return kube_call(kube, "GET", path, options, STR_EMPTY, timeout_ms, ret_answer, note);
}

enum err kube_create(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note)
{
    assert(body.len);
    return kube_call(kube, "POST", path, NULL, body, timeout_ms, ret_answer, note);
}

enum err kube_update(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note)
{
    assert(path->name && body.len);
    return kube_call(kube, "PUT", path, NULL, body, timeout_ms, ret_answer, note);
}

/* `pod` NULL: deletes the object at `path`; else evicts the pod. */
static enum err kube_call_with_uid(struct kube *kube, const struct kube_path *path, const char *pod,
                                   const char *uid, uint64_t timeout_ms,
                                   struct kube_answer *ret_answer, struct note *note)
{
    struct ndjson w;
    struct buf body;
    enum err err;

    if (ret_answer) *ret_answer = (struct kube_answer){0};
    buf_init(&body, DELETE_BODY_MAX);
    ndjson_begin(&w, &body, NDJSON_LINE);
    ndjson_c_string(&w, STR("apiVersion"), pod ? "policy/v1" : "v1");
    ndjson_c_string(&w, STR("kind"), pod ? "Eviction" : "DeleteOptions");
    if (pod) {
        ndjson_open_object(&w, STR("metadata"));
        ndjson_c_string(&w, STR("name"), pod);
        ndjson_c_string(&w, STR("namespace"), path->namespace_);
        ndjson_close_object(&w);
        ndjson_open_object(&w, STR("deleteOptions"));
    }
    if (uid) {
        ndjson_open_object(&w, STR("preconditions"));
        ndjson_c_string(&w, STR("uid"), uid);
        ndjson_close_object(&w);
    }
    if (pod) ndjson_close_object(&w);
    err = ndjson_end(&w);
    if (err) note_set(note, "delete options: %s", err_text(err));
    if (!err)
        err = kube_call(kube, pod ? "POST" : "DELETE", path, NULL, buf_peek(&body), timeout_ms,
                        ret_answer, note);
    buf_deinit(&body);
    return err;
}

enum err kube_delete(struct kube *kube, const struct kube_path *path, const char *uid,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note)
{
    assert(path->name); /* deleting a whole collection is not allowed */
    return kube_call_with_uid(kube, path, NULL, uid, timeout_ms, ret_answer, note);
}

enum err kube_evict(struct kube *kube, const char *namespace_, const char *pod, const char *uid,
                    uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note)
{
    struct kube_path path = {"", "v1", namespace_, "pods", pod, "eviction"};

    return kube_call_with_uid(kube, &path, pod, uid, timeout_ms, ret_answer, note);
}
