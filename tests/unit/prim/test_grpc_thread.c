/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/grpc_thread/grpc_thread.h"

#include "lib/test.h"

static const struct grpc_scheme words = {.name = "etcd",
                                         .port = ":2379",
                                         .example = "etcd://h1:2379",
                                         .secure = "etcds",
                                         .tls = "etcds:// or tls=1"};

static coord_result servers_of(const char *text, const coord_options *options, struct prim_url *url,
                               struct grpc_servers *ret_servers)
{
    struct prim_open in = {.url = url, .options = options};

    CHECK_I64(text, prim_url_parse(text, url).code, COORD_OK);
    return grpc_servers_read(&in, &words, ret_servers);
}

TEST(hosts_ports_and_certificates)
{
    static const coord_options from_program = {.tls_ca_file = "/p/ca"}, nothing = {0};
    static const struct {
        const char *url;
        const coord_options *options;
        const char *first, *second, *ca, *cert;
        bool tls;
    } cases[] = {
        {"etcd://a", &nothing, "a:2379", NULL, NULL, NULL, false},
        {"etcd://a:1,b", &nothing, "a:1", "b:2379", NULL, NULL, false},
        {"etcd://[::1],[::2]:7", &nothing, "[::1]:2379", "[::2]:7", NULL, NULL, false},
        {"etcds://a", &nothing, "a:2379", NULL, NULL, NULL, true},
        {"etcd://a?tls=1&ca=/c&cert=/d&key=/k", &nothing, "a:2379", NULL, "/c", "/d", true},
        {"etcds://a", &from_program, "a:2379", NULL, "/p/ca", NULL, true},
        {"etcds://a?ca=/c", &from_program, "a:2379", NULL, "/c", NULL, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct grpc_servers servers;
        struct prim_url url;

        CHECK_I64(cases[i].url, servers_of(cases[i].url, cases[i].options, &url, &servers).code,
                  COORD_OK);
        CHECK_TEXT(cases[i].url, servers.addresses[0], cases[i].first);
        CHECK_TEXT(cases[i].url, servers.addresses[1], cases[i].second);
        CHECK_TEXT(cases[i].url, servers.ca_file, cases[i].ca);
        CHECK_TEXT(cases[i].url, servers.cert_file, cases[i].cert);
        CHECK_I64(cases[i].url, servers.tls, cases[i].tls);
        prim_url_deinit(&url);
    }
}

TEST(mistakes_are_named)
{
    static const coord_options from_program = {.tls_ca_file = "/p/ca"}, nothing = {0};
    static const struct {
        const char *url;
        const coord_options *options;
        const char *says;
    } cases[] = {
        {"etcd:", &nothing, "etcd: no host: etcd://h1:2379"},
        {"etcd://a?tls=2", &nothing, "tls"},
        {"etcd://a?ca=/c", &nothing, "etcd: certificates without TLS: use etcds:// or tls=1"},
        {"etcd://a", &from_program, "certificates without TLS"},
        {"etcds://a?cert=/c", &nothing, "etcd: cert= and key= go together"},
        {"etcds://a?key=/c", &nothing, "cert= and key= go together"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct grpc_servers servers;
        struct prim_url url;
        coord_result result = servers_of(cases[i].url, cases[i].options, &url, &servers);

        CHECK_I64(cases[i].url, result.code, COORD_INVALID);
        CHECK_I64(cases[i].url, result.reason, COORD_R_URL);
        CHECK_HAS(cases[i].url, result.text, cases[i].says);
        prim_url_deinit(&url);
    }
}

TEST(a_host_name_has_a_limit)
{
    char text[GRPC_ADDRESS_CAP + 8] = "etcd://";
    struct grpc_servers servers;
    struct prim_url url;

    memset(text + 7, 'x', GRPC_ADDRESS_CAP - 6); /* with ":2379" it is full */
    CHECK_I64("fits", servers_of(text, &(coord_options){0}, &url, &servers).code, COORD_OK);
    prim_url_deinit(&url);
    text[strlen(text)] = 'x';
    CHECK_HAS("one more", servers_of(text, &(coord_options){0}, &url, &servers).text, "too long");
    prim_url_deinit(&url);
}
