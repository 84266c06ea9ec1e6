/* SPDX-License-Identifier: Apache-2.0 */
/* The thread behind a gRPC store (grpc_thread.h): the servers of a URL, start and end, and
 * functions that other threads run on the loop. */
#include "prim/grpc_thread/grpc_thread.h"

#include <stdio.h>
#include <string.h>

#include "prim/answer.h"
#include "prim/thread.h"

/* Several connections, because each call that waits at the server occupies a stream. */
enum { CONNECTIONS_MAX = 16 };
static const char system_roots[] = "/etc/ssl/certs/ca-certificates.crt";

/* -- which servers -- */

static coord_result invalid(const struct grpc_scheme *words, const char *what, const char *more)
{
    return prim_answer(COORD_INVALID, COORD_R_URL, "%s: %s%s", words->name, what, more);
}

static coord_result set_addresses(const struct prim_url *url, const struct grpc_scheme *words,
                                  struct grpc_servers *servers)
{
    if (url->host_count == 0) return invalid(words, "no host: ", words->example);
    for (size_t i = 0; i < url->host_count; i++) {
        const char *host = url->hosts[i], *bracket = strrchr(host, ']');
        bool port = strchr(bracket ? bracket : host, ':') != NULL;
        int len =
            snprintf(servers->memory[i], GRPC_ADDRESS_CAP, "%s%s", host, port ? "" : words->port);
        if (len < 0 || len >= GRPC_ADDRESS_CAP)
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

coord_result grpc_servers_read(const struct prim_open *in, const struct grpc_scheme *words,
                               struct grpc_servers *servers)
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

static void *grpc_thread_run(void *owner)
{
    struct grpc_thread *r = owner;

    real_io_run(r->real);
    return NULL;
}

static enum err open_tls(struct grpc_thread *r, const struct grpc_servers *servers,
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

enum err grpc_open(struct grpc_thread *r, const struct grpc_hooks *ways,
                   const struct grpc_servers *servers, struct prim_clock clock,
                   const struct rpc_channel_options *channel, struct note *note)
{
    struct rpc_channel_options options = *channel;
    enum err err;

    *r = (struct grpc_thread){.ways = ways, .clock = clock};
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
    /* With SIGPIPE blocked, writing to a closed peer returns an error. */
    if (!err && !prim_thread_start(&r->thread, grpc_thread_run, r)) {
        err = ERR_NOMEM;
        rpc_channel_close(r->channel, NULL, NULL);
        for (int i = 0; i < 4; i++) real_io_turn(r->real, false);
    }
    if (!err) {
        pthread_setname_np(r->thread, ways->thread_name);
        return ERR_OK;
    }
    tls_context_unref(r->tls);
    real_io_close(r->real);
    return err;
}

struct loop_call {
    void (*fn)(void *owner);
    void *owner;
    struct post post;
    struct latch done;
};

static void on_loop_call(struct post *post)
{
    struct loop_call *call = CONTAINER_OF(post, struct loop_call, post);

    call->fn(call->owner);
    latch_open(&call->done);
}

void grpc_loop_call(struct grpc_thread *r, void (*fn)(void *owner), void *owner)
{
    struct loop_call call = {.fn = fn, .owner = owner};

    latch_init(&call.done);
    post_init(&call.post, on_loop_call);
    loop_post(r->io->loop, &call.post);
    latch_wait(&call.done);
}

static void on_channel_closed(void *owner)
{
    real_io_stop(((struct grpc_thread *)owner)->real);
}

static void on_leave(void *owner)
{
    struct grpc_thread *r = owner;

    r->closing = true;
    grpc_streams_leave(r);
    if (r->ways->leave) r->ways->leave(r);
    rpc_channel_close(r->channel, on_channel_closed, r);
}

void grpc_close(struct grpc_thread *r)
{
    grpc_loop_call(r, on_leave, r);
    pthread_join(r->thread, NULL);
    tls_context_unref(r->tls);
    real_io_close(r->real);
}
