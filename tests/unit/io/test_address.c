/* SPDX-License-Identifier: Apache-2.0 */
#include "io/net.h"
#include "lib/test.h"

static const struct {
    const char *why, *address, *host;
    uint16_t port;
    bool is_unix;
} good[] = {
    {"a name and a port", "coordinator-0.muster:7790", "coordinator-0.muster", 7790, false},
    {"an IPv4 address", "10.0.0.7:7001", "10.0.0.7", 7001, false},
    {"an IPv6 address in brackets", "[::1]:443", "::1", 443, false},
    {"an IPv6 address with a scope", "[fe80::1%eth0]:80", "fe80::1%eth0", 80, false},
    {"port 0 asks for a free one", "127.0.0.1:0", "127.0.0.1", 0, false},
    {"the highest port", "h:65535", "h", 65535, false},
    {"no host means every interface", ":7790", "", 7790, false},
    {"a Unix socket", "unix:/run/muster.sock", "/run/muster.sock", 0, true},
    {"a Unix path may hold a colon", "unix:/run/a:1", "/run/a:1", 0, true},
    {"a relative Unix path", "unix:s", "s", 0, true},
};
TEST(an_address_is_split_into_host_and_port)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct address_parts parts;
        struct note note = {""};
        CHECK_OK(good[i].why, address_split(good[i].address, &parts, &note));
        CHECK_STR(good[i].why, parts.host, str_from(good[i].host));
        CHECK_U64(good[i].why, parts.port, good[i].port);
        CHECK(good[i].why, parts.is_unix == good[i].is_unix);
        CHECK("the view points into the address",
              parts.host.at >= good[i].address && parts.host.at <= good[i].address + 64);
    }
}

#define TEN   "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
static const struct {
    const char *why, *address, *note;
} bad[] = {
    {"nothing", "", "host:port"},
    {"no port", "localhost", "host:port"},
    {"an empty port", "localhost:", "port"},
    {"a port that is a word", "localhost:http", "port"},
    {"a port with a sign", "localhost:+80", "port"},
    {"a port past the range", "localhost:65536", "port"},
    {"a port past 64 bits", "localhost:99999999999999999999999", "port"},
    {"IPv6 without brackets", "::1:443", "brackets"},
    {"an open bracket", "[::1:443", "[v6]:port"},
    {"a bracket with no port after it", "[::1]", "[v6]:port"},
    {"empty brackets", "[]:1", "IPv6"},
    {"brackets around an IPv4 address", "[127.0.0.1]:1", "IPv6"},
    {"a scope without a name", "[fe80::1%]:1", "IPv6"},
    {"a space", "local host:1", "character"},
    {"a URL", "http://host:1", "is a URL; write host:port"},
    {"a path without unix:", "/run/x:1", "character"},
    {"a Unix socket without path", "unix:", "path"},
    {"a Unix path of 108 bytes", "unix:/" FIFTY FIFTY "1234567", "107"},
    {"a host of 260 bytes", FIFTY FIFTY FIFTY FIFTY FIFTY TEN ":1", "253"},
};
TEST(what_is_no_address_is_refused_with_the_reason)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct address_parts parts = {.port = 4711};
        struct note note = {""};
        CHECK_ERR(bad[i].why, address_split(bad[i].address, &parts, &note), ERR_INVALID);
        CHECK_HAS(bad[i].why, note.text, bad[i].note);
        CHECK_U64("the output is untouched", parts.port, 4711);
        CHECK_ERR("without a note too", address_split(bad[i].address, &parts, NULL), ERR_INVALID);
        CHECK("and is not loopback", !address_is_loopback(bad[i].address));
    }
}

static const struct {
    const char *address;
    bool loopback;
} places[] = {
    {"127.0.0.1:1", true},
    {"127.9.8.7:1", true},
    {"localhost:1", true},
    {"LocalHost:1", true},
    {"[::1]:1", true},
    {"unix:/x", true},
    {"[::ffff:127.0.0.1]:1", true},
    {"0.0.0.0:1", false},
    {"[::]:1", false},
    {":1", false},
    {"128.0.0.1:1", false},
    {"10.0.0.1:1", false},
    {"localhost.example:1", false},
    {"127.0.0.1.example:1", false},
    {"[::2]:1", false},
};
TEST(loopback_differs_from_other_addresses)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        CHECK(places[i].address, address_is_loopback(places[i].address) == places[i].loopback);
}
