/* SPDX-License-Identifier: Apache-2.0 */
/* Debian 12's nats-server is 2.9: it has JetStream but no message TTL, so claims would never end
 * there. Opening the store is refused with that reason. */
#include <muster/coord.h>
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "server.h"

static struct nats_server server;

static void start(void)
{
    const char *program = nats_program("MUSTER_OLD_NATS_SERVER", "/usr/sbin/nats-server");
    if (program == NULL) { SKIP("no /usr/sbin/nats-server"); }
    nats_server_start(&server, program, "old");
}

TEST(a_server_before_2_11_is_refused_at_open_with_that_reason)
{
    start();
    char url[128];
    coord_store *store = NULL;
    (void)snprintf(url, sizeof url, "nats://%s/b?create=1", server.url);
    coord_result result = coord_open(url, NULL, &store);
    CHECK_I64("refused", result.code, COORD_UNSUPPORTED);
    CHECK_I64("by the server's version", result.reason, COORD_R_SERVER);
    CHECK_HAS("said", result.text, "older than 2.11");
    CHECK("nothing is open", store == NULL);
    natsConnection *other = foreign_open(&server);
    CHECK_HAS("and nothing was made there", foreign_ask(other, "$JS.API.STREAM.NAMES", ""),
              "\"total\":0");
    natsConnection_Destroy(other);
    nats_server_end(&server);
}

TEST(a_server_without_jetstream_is_refused_too)
{
    const char *program = nats_program("MUSTER_OLD_NATS_SERVER", "/usr/sbin/nats-server");
    if (program == NULL) { SKIP("no /usr/sbin/nats-server"); }
    static struct proc proc;
    char port[16], url[128];
    int number = nats_free_port();
    (void)snprintf(port, sizeof port, "%d", number);
    const char *argv[] = {program, "-a", "127.0.0.1", "-p", port, NULL};
    CHECK("it starts", proc_start(&proc, argv, NULL));
    CHECK("it serves", proc_wait_output(&proc, "Server is ready", PROC_DEADLINE_MS));
    coord_store *store = NULL;
    (void)snprintf(url, sizeof url, "nats://127.0.0.1:%d/b", number);
    coord_result result = coord_open(url, NULL, &store);
    CHECK_I64("refused", result.code, COORD_UNSUPPORTED);
    CHECK_HAS("said", result.text, "JetStream");
    proc_end(&proc);
    result = coord_open(url, &(coord_options){.open_timeout_ms = 1000}, &store);
    CHECK_I64("nobody there", result.code, COORD_UNAVAILABLE);
    CHECK_I64("said", result.reason, COORD_R_CONNECTION);
}

TEST(a_missing_part_of_the_url_is_reported_before_any_connection)
{
    static const struct {
        const char *url, *says;
    } cases[] = {
        {"nats://127.0.0.1:1", "nats://host:port/bucket"},
        {"nats://127.0.0.1:1/a.b", "A-Z a-z"},
        {"nats:///b", "nats://host:port/bucket"},
        {"nats://127.0.0.1:1/b?ca=/no/such/file", "cannot read /no/such/file"},
        {"nats://127.0.0.1:1/b?tls=2", "tls"},
        {"nats://127.0.0.1:1/b?cert=/dev/null", "go together"},
        {"nats://127.0.0.1:1/b?creds=/no/such", "cannot read /no/such"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        coord_store *store = NULL;
        coord_result result = coord_open(cases[i].url, NULL, &store);
        CHECK_I64(cases[i].url, result.code, COORD_INVALID);
        CHECK_HAS(cases[i].url, result.text, cases[i].says);
    }
}
