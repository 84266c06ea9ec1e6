/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/courier/courier.h"

#include <stdio.h>
#include <string.h>

#include "prim/answer.h"
#include "prim/thread.h"

enum {
    PAUSE_FIRST_MS = 50,
    PAUSE_MAX_MS = 1000,
    STABLE_MS = 2000,
    CONNECTIONS_MAX = 16, /* a call that waits at the server holds one of a connection's streams */
};
static const char system_roots[] = "/etc/ssl/certs/ca-certificates.crt";

/* -- which servers -- */

static coord_result invalid(const struct courier_words *words, const char *what, const char *more)
{
    return prim_answer(COORD_INVALID, COORD_R_URL, "%s: %s%s", words->name, what, more);
}

static coord_result set_addresses(const struct prim_url *url, const struct courier_words *words,
                                  struct courier_servers *servers)
{
    if (url->host_count == 0) return invalid(words, "no host: ", words->example);
    for (size_t i = 0; i < url->host_count; i++) {
        const char *host = url->hosts[i], *bracket = strrchr(host, ']');
        bool port = strchr(bracket ? bracket : host, ':') != NULL;
        int len = snprintf(servers->memory[i], COURIER_ADDRESS_CAP, "%s%s", host,
                           port ? "" : words->port);
        if (len < 0 || len >= COURIER_ADDRESS_CAP)
            return invalid(words, "a host name is too long", "");
        servers->addresses[i] = servers->memory[i];
    }
    servers->addresses[url->host_count] = NULL;
    return prim_ok(COORD_R_NONE);
}

static const char *file_of(const struct prim_open *in, const char *param, const char *option)
{
    const char *file = prim_url_param(in->url, param);

    return file ? file : option;
}

coord_result courier_servers_read(const struct prim_open *in, const struct courier_words *words,
                                  struct courier_servers *servers)
{
    const coord_options *options = in->options;
    coord_result result = set_addresses(in->url, words, servers);
    int64_t tls = 0;

    servers->ca_file = file_of(in, "ca", options->tls_ca_file);
    servers->cert_file = file_of(in, "cert", options->tls_cert_file);
    servers->key_file = file_of(in, "key", options->tls_key_file);
    if (result.code == COORD_OK) result = prim_url_number(in->url, "tls", 0, 1, &tls);
    if (result.code != COORD_OK) return result;
    servers->tls = tls || (words->secure && strcmp(in->url->scheme, words->secure) == 0);
    if (!servers->tls && (servers->ca_file || servers->cert_file || servers->key_file))
        return invalid(words, "certificates without TLS: use ", words->tls);
    if (!servers->cert_file != !servers->key_file)
        return invalid(words, "cert= and key= go together", "");
    return result;
}

/* -- the thread -- */

static void *run(void *owner)
{
    struct courier *r = owner;

    real_io_run(r->real);
    return NULL;
}

/* With SIGPIPE blocked a peer that hung up is an error. */
static enum err start_thread(struct courier *r, const char *name)
{
    if (!prim_thread_start(&r->thread, run, r)) return ERR_NOMEM;
    pthread_setname_np(r->thread, name);
    return ERR_OK;
}

static enum err open_tls(struct courier *r, const struct courier_servers *servers,
                         struct note *note)
{
    return tls_context_open(r->io->fs,
                            &(struct tls_options){
                                .side = TLS_CLIENT,
                                .version_min = TLS_V1_2,
                                .cert_file = servers->cert_file,
                                .key_file = servers->key_file,
                                .ca_files = {servers->ca_file ? servers->ca_file : system_roots},
                                .alpn = {"h2"},
                            },
                            &r->tls, note);
}

enum err courier_open(struct courier *r, const struct courier_ways *ways,
                      const struct courier_servers *servers, struct prim_clock clock,
                      const struct rpc_channel_options *channel, struct note *note)
{
    struct rpc_channel_options options = *channel;
    enum err err;

    *r = (struct courier){.ways = ways, .clock = clock};
    list_init(&r->waiting);
    list_init(&r->streams);
    while (servers->addresses[r->address_count]) r->address_count++;
    err = real_io_open_within(&r->real);
    if (!err) {
        r->io = real_io_io(r->real);
        if (servers->tls) err = open_tls(r, servers, note);
    }
    if (!err) {
        options.io = r->io;
        options.addresses = servers->addresses;
        options.tls = r->tls;
        if (!options.connections_max) options.connections_max = CONNECTIONS_MAX;
        err = rpc_channel_open(&options, &r->channel, note);
    }
    if (!err && (err = start_thread(r, ways->thread_name)) != ERR_OK) {
        rpc_channel_close(r->channel, NULL, NULL);
        for (int i = 0; i < 4; i++) real_io_turn(r->real, false);
    }
    if (!err) return ERR_OK;
    tls_context_unref(r->tls);
    real_io_close(r->real);
    return err;
}

struct errand {
    void (*fn)(void *owner);
    void *owner;
    struct post post;
    struct latch done;
};

static void on_errand(struct post *post)
{
    struct errand *errand = CONTAINER_OF(post, struct errand, post);

    errand->fn(errand->owner);
    latch_open(&errand->done);
}

void courier_do(struct courier *r, void (*fn)(void *owner), void *owner)
{
    struct errand errand = {.fn = fn, .owner = owner};

    latch_init(&errand.done);
    post_init(&errand.post, on_errand);
    loop_post(r->io->loop, &errand.post);
    latch_wait(&errand.done);
}

struct leaving {
    struct courier *courier;
    void (*leave)(void *owner);
    void *owner;
    struct post post;
};

static void on_channel_closed(void *owner)
{
    real_io_stop(((struct courier *)owner)->real);
}

static void on_leave(struct post *post)
{
    struct leaving *leaving = CONTAINER_OF(post, struct leaving, post);

    leaving->courier->closing = true;
    courier_streams_leave(leaving->courier);
    if (leaving->leave) leaving->leave(leaving->owner);
    rpc_channel_close(leaving->courier->channel, on_channel_closed, leaving->courier);
}

void courier_close(struct courier *r, void (*leave)(void *owner), void *owner)
{
    struct leaving leaving = {.courier = r, .leave = leave, .owner = owner};

    post_init(&leaving.post, on_leave);
    loop_post(r->io->loop, &leaving.post);
    pthread_join(r->thread, NULL);
    tls_context_unref(r->tls);
    real_io_close(r->real);
}

/* -- pauses -- */

void courier_pause(struct courier *r, struct courier_pace *pace, struct timer *again)
{
    uint64_t random = entropy_u64(r->io->entropy);
    uint64_t bound = PAUSE_FIRST_MS;

    for (uint32_t i = 0; i < pace->failures && bound < PAUSE_MAX_MS; i++) bound *= 2;
    if (bound > PAUSE_MAX_MS) bound = PAUSE_MAX_MS;
    /* What opens, says a word and ends again is failing, too. */
    if (mono_elapsed_ms(pace->opened, loop_now(r->io->loop)) >= STABLE_MS)
        pace->failures = 0;
    else if (pace->failures < 16)
        pace->failures++;
    timer_start_in(again, bound / 2 + random % (bound / 2));
}
