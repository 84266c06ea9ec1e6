/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation of the HTTP server fails: the server opens or returns an error, answers or
 * closes, and frees everything. Allocations of the library are not counted. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/fs.h"
#include "io/http.h"
#include "lib/fault_alloc.h"
#include "lib/http_client.h"
#include "lib/test.h"
#include "unit/io/tls_forge.h"

static void echo(void *context, const struct http_request *request, struct http_response *response)
{
    (void)context;
    response->err = buf_append(&response->body, request->body);
}

/* Returns the status, or 0 when the server closed. It must not hang. */
static int ask(const char *address, const char *request)
{
    return client_ask(address, request, NULL);
}

static void scenario(bool *ret_all_well)
{
    struct http_server *server = NULL;
    struct http_channel *channel = NULL;
    struct note note;
    bool well =
        http_open(&(struct http_options){.address = "127.0.0.1:0"}, &server, &note) == ERR_OK;
    if (!well) {
        CHECK("nothing is returned", server == NULL);
        *ret_all_well = false;
        return;
    }
    const char *at = http_address(server);
    well &= http_route(server, "/echo", HTTP_GET | HTTP_POST, echo, NULL) == ERR_OK;
    well &= http_publish(server, "/page", "text/plain", STR("one")) == ERR_OK;
    well &= http_publish(server, "/page", "text/plain", STR("two")) == ERR_OK;
    well &= http_channel_open(server, "/events", 2, &channel) == ERR_OK;
    well &= ask(at, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n") == 200;
    well &= ask(at, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello") == 200;
    well &= ask(at, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n") == 404;
    if (channel) {
        struct client c;
        well &= client_open(&c, at) && client_send_c(&c, "GET /events HTTP/1.0\r\n\r\n") &&
                client_await(&c, "\r\n\r\n");
        for (int i = 0; i < 3; i++)
            well &= http_channel_send(channel, STR("e"), STR("data")) == ERR_OK;
        client_close(&c);
    }
    well &= http_unroute(server, "/echo") == ERR_OK;
    well &= http_route(server, "/other", HTTP_GET, echo, NULL) == ERR_OK;
    http_close(server);
    *ret_all_well = well;
}

TEST(the_server_survives_any_allocation_that_fails)
{
    uint64_t runs = 0, spoiled = 0;
    bool well = false;
    FAULT_SWEEP_ALLOC(k)
    {
        scenario(&well);
        runs++;
        spoiled += !well;
    }
    fprintf(stderr, "%lu runs, %lu of them noticed\n", (unsigned long)runs, (unsigned long)spoiled);
    CHECK("the last run had no failure and all went well", well);
    CHECK("failures were noticed", spoiled >= 10);
}

/* -- the same with TLS: opened, asked by a stranger to TLS, its files read again -- */

static char cert_file[512], key_file[512];

static void secure_scenario(bool *ret_all_well)
{
    struct http_options options = {.address = "127.0.0.1:0",
                                   .cert_file = cert_file,
                                   .key_file = key_file,
                                   .ca_file = cert_file};
    struct http_server *server = NULL;
    struct note note;
    bool well = http_open(&options, &server, &note) == ERR_OK;

    *ret_all_well = well;
    if (!well) {
        CHECK("nothing is returned", server == NULL);
        return;
    }
    CHECK_I64("no TLS, no answer", ask(http_address(server), "GET / HTTP/1.0\r\n\r\n"), 0);
    well &= http_reload_tls(server, &note) == ERR_OK;
    CHECK_I64("nor later", ask(http_address(server), "GET / HTTP/1.0\r\n\r\n"), 0);
    http_close(server);
    *ret_all_well = well;
}

TEST(the_server_with_tls_survives_any_allocation_that_fails)
{
    static const struct forge_spec spec = {.names = {FORGE_NAME(DNS, "localhost")}};
    struct forge_pair root, leaf;
    uint64_t spoiled = 0;
    bool well = false;

    forge_root(&root, "root");
    forge(&leaf, &root, &spec);
    snprintf(cert_file, sizeof cert_file, "%s/cert.pem", test_dir());
    snprintf(key_file, sizeof key_file, "%s/key.pem", test_dir());
    CHECK_OK("cert", fs_publish(fs_real(), cert_file, forge_cert(&leaf), 0600, 1));
    CHECK_OK("key", fs_publish(fs_real(), key_file, forge_key(&leaf), 0600, 1));
    FAULT_SWEEP_ALLOC(k)
    {
        secure_scenario(&well);
        spoiled += !well;
    }
    CHECK("the last run had no failure and all went well", well);
    CHECK("failures were noticed", spoiled >= 10);
    forge_free(&leaf);
    forge_free(&root);
}
