/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in certificate authority: created once, found again, never overwritten. Leaves are kept
 * and renewed; the openssl command checks them. */
#include "cert/cert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/proc.h"
#include "lib/test.h"
#include "text/rfc3339.h"
#include "unit/io/tls_forge.h"

#define DAY_MS    (86400ull * 1000)
#define ULID_TEXT "01ARZ3NDEKTSV4RRFFQ69G5FAV"

/* Every test has its own directory. */
struct place {
    char dir[512], ca[600], key[600], leaf[600], leaf_key[600];
    struct cert_ca_options ca_options;
    struct cert_leaf_options leaf_options;
};

static void place_init(struct place *place)
{
    static int count;

    snprintf(place->dir, sizeof place->dir, "%s/ca-%d", test_dir(), count++);
    snprintf(place->ca, sizeof place->ca, "%s/ca.pem", place->dir);
    snprintf(place->key, sizeof place->key, "%s/ca.key.pem", place->dir);
    snprintf(place->leaf, sizeof place->leaf, "%s/leaf.pem", place->dir);
    snprintf(place->leaf_key, sizeof place->leaf_key, "%s/leaf.key.pem", place->dir);
    place->ca_options = (struct cert_ca_options){.dir = place->dir};
    place->leaf_options = (struct cert_leaf_options){
        .ca_dir = place->dir, .cert_file = place->leaf, .key_file = place->leaf_key};
}

static wall_time now(void)
{
    return (wall_time){(uint64_t)time(NULL) * MS_PER_SECOND};
}

static wall_time days_on(uint64_t days)
{
    return (wall_time){now().ms + days * DAY_MS};
}

static char *content(const char *path)
{
    struct buf bytes;
    char *text;

    buf_init(&bytes, CERT_FILE_MAX);
    CHECK_OK(path, fs_read_whole(fs_real(), path, CERT_FILE_MAX, &bytes));
    CHECK_OK(path, buf_detach(&bytes, &text));
    buf_deinit(&bytes);
    return text;
}

static bool is_same(const char *path, const char *before)
{
    char *after = content(path);
    bool same = strcmp(after, before) == 0;
    free(after);
    return same;
}

static uint32_t mode_of(const char *path)
{
    struct stat info;
    CHECK(path, stat(path, &info) == 0);
    return info.st_mode & 0777;
}

static struct cert_report make_ca(struct place *place)
{
    struct cert_report report;
    struct note note = {0};
    CHECK_ERR(note.text, cert_ca_ensure(fs_real(), &place->ca_options, now(), &report, &note),
              ERR_OK);
    return report;
}

static struct cert_report make_leaf(struct place *place, const struct cert_request *request,
                                    wall_time at)
{
    struct cert_report report;
    struct note note = {0};
    enum err err = cert_leaf_ensure(fs_real(), &place->leaf_options, request, at, &report, &note);
    CHECK_ERR(note.text, err, ERR_OK);
    return report;
}

static const struct cert_request shard = {.kind = CERT_SHARD, .id = FORGE_TEXT("shard-0")};

/* -- the authority ----------------------------------------------------------------------------- */

TEST(an_authority_is_made_once_and_found_again)
{
    struct place p;
    struct cert_report report;
    char *ca, *key;

    place_init(&p);
    report = make_ca(&p);
    CHECK_TEXT("first", cert_result_text(report.result), "created");
    CHECK_SIZE("one root", report.roots, 1);
    CHECK_TEXT("young", report.renew_soon.text, "");
    CHECK_U32("directory", mode_of(p.dir), 0700);
    CHECK_U32("key", mode_of(p.key), 0600);
    CHECK_U32("certificate", mode_of(p.ca), 0644);
    ca = content(p.ca);
    key = content(p.key);
    CHECK_HAS("PKCS#8", key, "-----BEGIN PRIVATE KEY-----");
    CHECK_TEXT("second", cert_result_text(make_ca(&p).result), "kept");
    CHECK("byte for byte", is_same(p.ca, ca) && is_same(p.key, key));
    free(ca);
    free(key);
}

TEST(an_open_umask_does_not_open_the_key)
{
    struct place p;
    mode_t before = umask(0);

    place_init(&p);
    make_ca(&p);
    make_leaf(&p, &shard, now());
    umask(before);
    CHECK_U32("root's", mode_of(p.key), 0600);
    CHECK_U32("leaf's", mode_of(p.leaf_key), 0600);
    CHECK_U32("certificate", mode_of(p.leaf), 0644);
}

TEST(half_an_authority_is_refused_with_the_missing_file)
{
    struct place p;
    struct cert_report report;
    struct note note;

    for (int which = 0; which < 2; which++) {
        place_init(&p);
        make_ca(&p);
        CHECK("gone", unlink(which ? p.ca : p.key) == 0);
        CHECK_ERR("refused", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
                  ERR_CONFLICT);
        CHECK_HAS("named", note.text, which ? "ca.pem is missing" : "ca.key.pem is missing");
        CHECK("and not created again", access(which ? p.ca : p.key, F_OK) != 0);
    }
}

TEST(a_foreign_authority_is_not_touched)
{
    struct place p, other;
    struct cert_report report;
    struct note note;
    char *foreign, *ours;

    place_init(&p);
    place_init(&other);
    make_ca(&p);
    make_ca(&other);
    foreign = content(other.ca);
    ours = content(p.key);
    CHECK_OK("a certificate comes from elsewhere",
             fs_publish(fs_real(), p.ca, str_from(foreign), 0644, 1));
    CHECK_ERR("its key does not", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("the note", note.text, "belongs to none of the roots");
    CHECK("nothing changed", is_same(p.ca, foreign) && is_same(p.key, ours));
    CHECK_OK("rubbish", fs_publish(fs_real(), p.ca, STR("rubbish"), 0644, 2));
    CHECK_ERR("is no authority", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_PARSE);
    CHECK("nothing changed", is_same(p.ca, "rubbish"));
    free(foreign);
    free(ours);
}

TEST(an_authority_that_is_not_the_one_asked_for_is_a_conflict)
{
    struct place p;
    struct cert_report report;
    struct note note;

    place_init(&p);
    p.ca_options.common_name = "acme";
    make_ca(&p);
    CHECK_TEXT("the same", cert_result_text(make_ca(&p).result), "kept");
    p.ca_options.common_name = NULL;
    CHECK_TEXT("whatever is there", cert_result_text(make_ca(&p).result), "kept");
    p.ca_options.common_name = "acm";
    CHECK_ERR("another name", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("the note", note.text, "asked for CN=acm, has CN=acme");
    p.ca_options.common_name = NULL;
    p.ca_options.rollout = true;
    CHECK_ERR("another kind", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("the note", note.text, "asked for CN=rollout-dev-ca until 4096, has CN=acme");
}

static const struct {
    const char *why, *name;
} bad_names[] = {
    {"none", ""},
    {"a line feed", "a\nb"},
    {"an escape", "a\x1b[2J"},
    {"a delete", "a\x7f"},
    {"a control of the second set", "a\xc2\x9b"},
    {"no text", "a\xff"},
};
TEST(a_common_name_is_text_that_can_be_printed)
{
    struct place p;
    struct cert_report report;
    struct note note;

    for (size_t i = 0; i < ARRAY_LEN(bad_names); i++) {
        place_init(&p);
        p.ca_options.common_name = bad_names[i].name;
        CHECK_ERR(bad_names[i].why, cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
                  ERR_INVALID);
        CHECK_HAS(bad_names[i].why, note.text, "a common name");
        CHECK("nothing was made", access(p.dir, F_OK) != 0);
    }
    place_init(&p);
    p.ca_options.common_name = "M\xc3\xbcller \xe2\x80\x9c"
                               "A\xe2\x80\x9d";
    make_ca(&p);
    CHECK_TEXT("others are fine", cert_result_text(make_ca(&p).result), "kept");
}

TEST(an_empty_or_odd_file_is_called_so)
{
    struct place p;
    struct cert_report report;
    struct cert_description *list;
    size_t count = 7;
    struct note note;

    place_init(&p);
    make_ca(&p);
    CHECK_OK("one", cert_describe(fs_real(), p.key, now(), &list, &count, &note));
    CHECK_SIZE("a key holds no certificate", count, 0);
    cert_descriptions_free(list, count);
    CHECK_ERR("a directory", cert_describe(fs_real(), p.dir, now(), &list, &count, &note),
              ERR_INVALID);
    CHECK_HAS("the note", note.text, "is a directory");
    CHECK_OK("emptied", fs_publish(fs_real(), p.key, STR_EMPTY, 0600, 20));
    CHECK_ERR("the key", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_PARSE);
    CHECK_HAS("the note", note.text, "ca.key.pem is empty");
    CHECK_OK("emptied", fs_publish(fs_real(), p.ca, STR_EMPTY, 0644, 21));
    CHECK_ERR("the root", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_PARSE);
    CHECK_HAS("the note", note.text, "ca.pem is empty");
}

TEST(a_key_that_others_may_read_is_reported_or_refused)
{
    struct place p;
    struct cert_report report;
    struct note note;

    place_init(&p);
    make_ca(&p);
    CHECK("opened up", chmod(p.key, 0640) == 0);
    CHECK("reported", make_ca(&p).key_exposed);
    p.ca_options.strict_permissions = true;
    CHECK_ERR("refused", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_DENIED);
    CHECK_HAS("with advice", note.text, "chmod 600");
}

TEST(processes_that_start_together_agree_on_one_authority)
{
    enum { ROUNDS = 10, CHILDREN = 4 };

    for (int round = 0; round < ROUNDS; round++) {
        struct place p;
        pid_t children[CHILDREN];
        int created = 0;
        place_init(&p);
        for (int i = 0; i < CHILDREN; i++) {
            children[i] = fork();
            CHECK("forks", children[i] >= 0);
            if (children[i] == 0) {
                struct cert_report report;
                struct note note = {0};
                enum err err = cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note);
                if (err) fprintf(stderr, "%s: %s\n", err_name(err), note.text);
                _exit(err ? 9 : report.result == CERT_CREATED ? 1 : 0);
            }
        }
        for (int i = 0; i < CHILDREN; i++) {
            int status;
            CHECK("collected", waitpid(children[i], &status, 0) == children[i]);
            CHECK("each found it or made it", WIFEXITED(status) && WEXITSTATUS(status) < 2);
            created += WEXITSTATUS(status);
        }
        CHECK_I64("one made it", created, 1);
    }
}

TEST(the_rollout_authority_is_the_one_its_specification_describes)
{
    struct place p;
    struct cert_description *list;
    size_t count;
    char text[RFC3339_CAP];

    place_init(&p);
    p.ca_options.rollout = true;
    make_ca(&p);
    CHECK_OK("described", cert_describe(fs_real(), p.ca, now(), &list, &count, NULL));
    CHECK_SIZE("one", count, 1);
    CHECK_TEXT("subject", list[0].subject, "CN=rollout-dev-ca");
    CHECK_TEXT("issuer", list[0].issuer, "CN=rollout-dev-ca");
    wall_text(list[0].not_before, text);
    CHECK_TEXT("from", text, "1975-01-01T00:00:00.000Z");
    wall_text(list[0].not_after, text);
    CHECK_TEXT("until", text, "4096-01-01T00:00:00.000Z");
    CHECK_TEXT("name", list[0].names[0], "DNS:rollout-dev-ca");
    CHECK_TEXT("key", list[0].key, "EC P-256");
    CHECK_SIZE("160 bits of serial", strlen(list[0].serial_hex), 40);
    CHECK("a root", list[0].is_ca && list[0].self_signed);
    cert_descriptions_free(list, count);
}

TEST(a_root_near_its_end_asks_to_be_rotated)
{
    struct place p;
    struct cert_report report;

    place_init(&p);
    p.ca_options.days = 90;
    make_ca(&p);
    CHECK_OK("later", cert_ca_ensure(fs_real(), &p.ca_options, days_on(59), &report, NULL));
    CHECK_TEXT("still fine", report.renew_soon.text, "");
    CHECK_OK("later", cert_ca_ensure(fs_real(), &p.ca_options, days_on(61), &report, NULL));
    CHECK_HAS("soon", report.renew_soon.text, "a third");
    CHECK_OK("too late", cert_ca_ensure(fs_real(), &p.ca_options, days_on(91), &report, NULL));
    CHECK_HAS("over", report.renew_soon.text, "expired");
    CHECK_ERR("an expired root signs nothing",
              cert_leaf_ensure(fs_real(), &p.leaf_options, &shard, days_on(91),
                               &(struct cert_report){0}, NULL),
              ERR_PRECONDITION);
}

/* -- leaves ------------------------------------------------------------------------------------ */

static const struct {
    enum cert_kind kind;
    struct str id;
    const char *subject;
    const char *names; /* as cert_describe lists them */
    bool server, client;
} kinds[] = {
    {CERT_REPLICA, FORGE_TEXT("7"), "CN=replica-7",
     "URI:muster://replica/7 URI:bigfleet://admin DNS:localhost IP:127.0.0.1 IP:::1 ", true, true},
    {CERT_ADMIN, FORGE_TEXT(""), "CN=admin",
     "URI:bigfleet://admin DNS:localhost IP:127.0.0.1 IP:::1 ", true, true},
    {CERT_READONLY, FORGE_TEXT(""), "CN=readonly",
     "URI:bigfleet://readonly DNS:localhost IP:127.0.0.1 IP:::1 ", true, true},
    {CERT_SHARD, FORGE_TEXT("shard-0"), "CN=shard-shard-0",
     "URI:bigfleet://shard/shard-0 DNS:localhost IP:127.0.0.1 IP:::1 ", true, true},
    {CERT_CLUSTER, FORGE_TEXT("prod-eu-1"), "CN=cluster-prod-eu-1",
     "URI:bigfleet://cluster/prod-eu-1 DNS:localhost IP:127.0.0.1 IP:::1 ", true, true},
    {CERT_PROVIDER, FORGE_TEXT("aws"), "CN=provider-aws", "DNS:localhost IP:127.0.0.1 IP:::1 ",
     true, true},
    {CERT_WORKER, FORGE_TEXT(ULID_TEXT), "CN=worker-" ULID_TEXT,
     "DNS:worker-" ULID_TEXT " DNS:localhost ", false, true},
    {CERT_WORKER_SERVICE, FORGE_TEXT(""), "CN=localhost", "DNS:localhost IP:127.0.0.1 ", true,
     false},
    {CERT_STORE, FORGE_TEXT("billing"), "CN=billing", "", true, true},
    {CERT_SERVER, FORGE_TEXT(""), "CN=localhost", "DNS:localhost IP:127.0.0.1 IP:::1 ", true, true},
};

static bool openssl_says(const char *want, const char *const *argv)
{
    static struct proc proc;
    int code = proc_run(&proc, argv);
    bool good = code == 0 && strstr(proc.output, want);
    if (!good) fprintf(stderr, "openssl exit %d: %s\n", code, proc.output);
    return good;
}

static void judge_by_openssl(const struct place *p, const char *cert, size_t i)
{
    const char *verify[] = {"openssl",
                            "verify",
                            "-x509_strict",
                            "-CAfile",
                            p->ca,
                            "-purpose",
                            kinds[i].client ? "sslclient" : "sslserver",
                            cert,
                            NULL};
    const char *other[] = {"openssl", "verify",   "-CAfile",
                           p->ca,     "-purpose", kinds[i].client ? "sslserver" : "sslclient",
                           cert,      NULL};
    const char *text[] = {"openssl", "x509", "-in", cert, "-noout", "-text", NULL};
    static struct proc proc;
    char names[512];

    CHECK(kinds[i].subject, openssl_says(": OK", verify));
    CHECK_I64(kinds[i].subject, proc_run(&proc, other) == 0, kinds[i].server && kinds[i].client);
    snprintf(names, sizeof names, "%s", kinds[i].names);
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        char shown[256];
        snprintf(shown, sizeof shown, "%s%s", strncmp(name, "IP:", 3) == 0 ? "IP Address:" : "",
                 strncmp(name, "IP:", 3) == 0 ? name + 3 : name);
        if (strcmp(name, "IP:::1") == 0)
            snprintf(shown, sizeof shown, "IP Address:0:0:0:0:0:0:0:1");
        CHECK(name, openssl_says(shown, text));
    }
    CHECK("prime256v1", openssl_says("prime256v1", text));
    CHECK("key usage is critical", openssl_says("X509v3 Key Usage: critical", text));
    CHECK("SHA-256", openssl_says("ecdsa-with-SHA256", text));
}

TEST(each_kind_carries_its_identity_and_openssl_agrees)
{
    struct place p;
    wall_time at;
    bool has_openssl =
        proc_run(&(struct proc){0}, (const char *[]){"openssl", "version", NULL}) == 0;

    CHECK_SIZE("every kind is in the table", ARRAY_LEN(kinds), CERT_KIND_COUNT);
    place_init(&p);
    make_ca(&p);
    at = now(); /* no certificate starts before its authority */
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct cert_request request = {.kind = kinds[i].kind, .id = kinds[i].id};
        struct cert_description *list;
        size_t count;
        char names[512] = "", file[700], key[700];
        snprintf(file, sizeof file, "%s/%s.pem", p.dir, cert_kind_name((enum cert_kind)i));
        snprintf(key, sizeof key, "%s/%s.key.pem", p.dir, cert_kind_name((enum cert_kind)i));
        p.leaf_options.cert_file = file;
        p.leaf_options.key_file = key;
        CHECK_TEXT("made", cert_result_text(make_leaf(&p, &request, at).result), "created");
        CHECK_OK("described", cert_describe(fs_real(), file, at, &list, &count, NULL));
        CHECK_TEXT(kinds[i].subject, list[0].subject, kinds[i].subject);
        CHECK_TEXT(kinds[i].subject, list[0].issuer, "CN=muster-dev-ca");
        for (size_t n = 0; n < list[0].name_count; n++) {
            strcat(names, list[0].names[n]);
            strcat(names, " ");
        }
        CHECK_TEXT(kinds[i].subject, names, kinds[i].names);
        CHECK(kinds[i].subject, list[0].server_use == kinds[i].server &&
                                    list[0].client_use == kinds[i].client && !list[0].is_ca);
        CHECK_I64("ninety days", list[0].days_left, CERT_LEAF_DAYS);
        CHECK("begins a little earlier, for clocks that are behind",
              at.ms - list[0].not_before.ms == CERT_BACKDATE_S * MS_PER_SECOND);
        cert_descriptions_free(list, count);
        if (has_openssl) judge_by_openssl(&p, file, i);
    }
    if (!has_openssl) SKIP("no openssl command to judge with");
}

static const struct {
    const char *why;
    struct cert_request request;
    const char *says; /* NULL: fine */
} requests[] = {
    {"an id where one is needed", {.kind = CERT_SHARD}, "shard needs a shard id"},
    {"no id where none is", {.kind = CERT_ADMIN, .id = FORGE_TEXT("x")}, "admin takes no id"},
    {"a slash would make another path", {.kind = CERT_SHARD, .id = FORGE_TEXT("a/b")}, "needs a"},
    {"a blank", {.kind = CERT_SHARD, .id = FORGE_TEXT("a b")}, "needs a"},
    {"a NUL", {.kind = CERT_SHARD, .id = FORGE_TEXT("a\0b")}, "needs a"},
    {"the whole alphabet of ids", {.kind = CERT_SHARD, .id = FORGE_TEXT("Az09-._~")}, NULL},
    {"too long an id",
     {.kind = CERT_SHARD,
      .id = FORGE_TEXT("0123456789012345678901234567890123456789"
                       "0123456789012345678901234")},
     "needs a"},
    {"a worker is a ULID", {.kind = CERT_WORKER, .id = FORGE_TEXT("one")}, "ulid"},
    {"in the letters it is compared in",
     {.kind = CERT_WORKER, .id = FORGE_TEXT("01arz3ndektsv4rrffq69g5fav")},
     "write it " ULID_TEXT},
    {"a store client must not pass for a worker",
     {.kind = CERT_STORE, .id = FORGE_TEXT("worker-" ULID_TEXT)},
     "pass for a worker"},
    {"nor a server's name",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("worker-" ULID_TEXT)}, .name_count = 1},
     "pass for a worker"},
    {"a host that is called worker may",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("worker-7.example")}, .name_count = 1},
     NULL},
    {"names and addresses of both kinds",
     {.kind = CERT_SERVER,
      .names = {FORGE_TEXT("a.example"), FORGE_TEXT("10.0.0.7"), FORGE_TEXT("fe80::1"),
                FORGE_TEXT("*.b.example")},
      .name_count = 4},
     NULL},
    {"a comma would be two names to some",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("a,DNS:b")}, .name_count = 1},
     "neither"},
    {"a number at the end is an address gone wrong",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("999.1.1.1")}, .name_count = 1},
     "'999.1.1.1' is neither"},
    {"with a dot after it too",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("10.0.0.300.")}, .name_count = 1},
     "neither"},
    {"a number alone",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("2130706433")}, .name_count = 1},
     "neither"},
    {"a number elsewhere is fine",
     {.kind = CERT_SERVER, .names = {FORGE_TEXT("7.example"), FORGE_TEXT("a.b3")}, .name_count = 2},
     NULL},
    {"an empty name", {.kind = CERT_SERVER, .name_count = 1}, "neither"},
    {"a hundred years are enough", {.kind = CERT_ADMIN, .days = CERT_DAYS_MAX + 1}, "days"},
};

TEST(requests_are_checked_before_anything_is_signed)
{
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct note note = {0};
        CHECK_ERR(requests[i].why, cert_request_check(&requests[i].request, &note),
                  requests[i].says ? ERR_INVALID : ERR_OK);
        CHECK_HAS(requests[i].why, note.text, requests[i].says ? requests[i].says : "");
    }
}

TEST(kinds_are_found_by_name)
{
    enum cert_kind kind = CERT_SERVER;

    for (size_t i = 0; i < CERT_KIND_COUNT; i++) {
        CHECK_OK("each", cert_kind_parse(str_from(cert_kind_name((enum cert_kind)i)), &kind));
        CHECK_SIZE("is itself", kind, i);
    }
    CHECK_OK("an operator", cert_kind_parse(STR("operator"), &kind));
    CHECK_SIZE("is known by its cluster", kind, CERT_CLUSTER);
    CHECK_ERR("others are not", cert_kind_parse(STR("root"), &kind), ERR_NOT_FOUND);
}

TEST(a_good_leaf_is_kept_and_an_aging_one_renewed_with_its_key)
{
    struct place p;
    struct cert_report report;
    char *cert, *key;

    place_init(&p);
    make_ca(&p);
    report = make_leaf(&p, &shard, now());
    CHECK("made with a key", report.result == CERT_CREATED && report.key_made);
    cert = content(p.leaf);
    key = content(p.leaf_key);
    report = make_leaf(&p, &shard, days_on(59));
    CHECK_TEXT("a third is left", cert_result_text(report.result), "kept");
    CHECK("byte for byte", is_same(p.leaf, cert) && is_same(p.leaf_key, key));
    report = make_leaf(&p, &shard, days_on(61));
    CHECK_TEXT("less than a third", cert_result_text(report.result), "renewed");
    CHECK_TEXT("and why", report.why, "past two thirds of its life");
    CHECK("the key stays", !report.key_made && is_same(p.leaf_key, key));
    CHECK("the certificate does not", !is_same(p.leaf, cert));
    report = make_leaf(&p, &shard, days_on(400));
    CHECK_TEXT("expired", report.why, "expired");
    p.leaf_options.force = true;
    report = make_leaf(&p, &shard, days_on(400));
    CHECK_TEXT("on demand", report.why, "asked for");
    CHECK("still the same key", !report.key_made && is_same(p.leaf_key, key));
    p.leaf_options.new_key = true;
    report = make_leaf(&p, &shard, days_on(400));
    CHECK("a new key on demand", report.key_made && !is_same(p.leaf_key, key));
    free(cert);
    free(key);
}

TEST(other_names_or_uses_make_a_new_leaf)
{
    struct place p;
    struct cert_report report;
    struct cert_request other = shard;

    place_init(&p);
    make_ca(&p);
    make_leaf(&p, &shard, now());
    other.id = STR("shard-1");
    report = make_leaf(&p, &other, now());
    CHECK_TEXT("another id", report.why, "names or use changed");
    other.names[0] = STR("shard-1.example");
    other.name_count = 1;
    report = make_leaf(&p, &other, now());
    CHECK_TEXT("a host name", report.why, "names or use changed");
    CHECK_TEXT("then it is kept", cert_result_text(make_leaf(&p, &other, now()).result), "kept");
}

TEST(leftovers_of_a_crash_are_repaired)
{
    struct place p;
    struct cert_report report;
    char *key;

    place_init(&p);
    make_ca(&p);
    make_leaf(&p, &shard, now());
    key = content(p.leaf_key);
    CHECK("a key without certificate", unlink(p.leaf) == 0);
    report = make_leaf(&p, &shard, now());
    CHECK("gets one",
          report.result == CERT_CREATED && !report.key_made && is_same(p.leaf_key, key));
    CHECK("a certificate without key", unlink(p.leaf_key) == 0);
    report = make_leaf(&p, &shard, now());
    CHECK_TEXT("gets both", report.why, "its key was missing");
    CHECK("created again", report.key_made);
    CHECK_OK("a key that is not its own",
             fs_publish(fs_real(), p.leaf_key, str_from(key), 0600, 5));
    report = make_leaf(&p, &shard, now());
    CHECK_TEXT("is made to fit", report.why, "its key did not match");
    CHECK("by keeping it", is_same(p.leaf_key, key));
    free(key);
}

TEST(a_foreign_leaf_is_not_touched)
{
    struct place p, other;
    struct cert_report report;
    struct note note;
    char *foreign;

    place_init(&p);
    place_init(&other);
    make_ca(&p);
    make_ca(&other);
    make_leaf(&other, &shard, now());
    foreign = content(other.leaf);
    CHECK_OK("another's leaf", fs_publish(fs_real(), p.leaf, str_from(foreign), 0644, 6));
    p.leaf_options.force = true;
    CHECK_ERR("refused",
              cert_leaf_ensure(fs_real(), &p.leaf_options, &shard, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("the note", note.text, "not issued by this authority");
    CHECK("untouched", is_same(p.leaf, foreign));
    CHECK_OK("rubbish", fs_publish(fs_real(), p.leaf, STR("my notes"), 0644, 7));
    CHECK_ERR("refused",
              cert_leaf_ensure(fs_real(), &p.leaf_options, &shard, now(), &report, &note),
              ERR_CONFLICT);
    CHECK("untouched", is_same(p.leaf, "my notes"));
    CHECK_ERR("no authority, no leaf",
              cert_leaf_ensure(fs_real(),
                               &(struct cert_leaf_options){.ca_dir = "/nonexistent",
                                                           .cert_file = "/nonexistent/a",
                                                           .key_file = "/nonexistent/b"},
                               &shard, now(), &report, &note),
              ERR_NOT_FOUND);
    free(foreign);
}

TEST(renewing_by_file_keeps_names_use_and_length)
{
    struct place p;
    struct cert_report report;
    struct cert_request request = {.kind = CERT_WORKER, .id = STR(ULID_TEXT), .days = 30};
    const wall_time later = days_on(25);
    struct cert_description *list;
    size_t count;
    struct note note;

    place_init(&p);
    make_ca(&p);
    CHECK_ERR("nothing to renew",
              cert_leaf_ensure(fs_real(), &p.leaf_options, NULL, now(), &report, &note),
              ERR_NOT_FOUND);
    make_leaf(&p, &request, now());
    CHECK_OK("too early",
             cert_leaf_ensure(fs_real(), &p.leaf_options, NULL, now(), &report, &note));
    CHECK("kept", report.result == CERT_KEPT);
    CHECK_OK("in time", cert_leaf_ensure(fs_real(), &p.leaf_options, NULL, later, &report, &note));
    CHECK("renewed", report.result == CERT_RENEWED);
    CHECK_OK("described", cert_describe(fs_real(), p.leaf, later, &list, &count, &note));
    CHECK_TEXT("the same", list[0].subject, "CN=worker-" ULID_TEXT);
    CHECK_TEXT("names", list[0].names[0], "DNS:worker-" ULID_TEXT);
    CHECK("use", list[0].client_use && !list[0].server_use);
    CHECK_I64("length", list[0].days_left, 30);
    cert_descriptions_free(list, count);
}

TEST(a_leaf_can_live_in_memory_only)
{
    struct place p;
    struct buf cert, key, none;
    struct cert_request request = {.kind = CERT_WORKER_SERVICE};

    place_init(&p);
    make_ca(&p);
    buf_init(&cert, CERT_FILE_MAX);
    buf_init(&key, CERT_FILE_MAX);
    buf_init(&none, 16);
    CHECK_OK("made", cert_leaf_make(fs_real(), p.dir, &request, now(), &cert, &key, NULL));
    CHECK("a certificate", str_starts(buf_peek(&cert), STR("-----BEGIN CERTIFICATE-----")));
    CHECK("a key", str_starts(buf_peek(&key), STR("-----BEGIN PRIVATE KEY-----")));
    CHECK_ERR("both or none", cert_leaf_make(fs_real(), p.dir, &request, now(), &cert, &none, NULL),
              ERR_FULL);
    CHECK_SIZE("none", none.len, 0);
    buf_deinit(&cert);
    buf_deinit(&key);
    buf_deinit(&none);
}

/* -- an authority's files are never overwritten by a leaf -----------------------------------------
 * */

/* Both ways of asking for a leaf are refused, and neither file changes. */
static void check_authority_kept(struct place *p, const char *cert, const char *key,
                                 const char *says)
{
    struct cert_report report;
    struct note note = {0};
    char *ca = content(p->ca), *ca_key = content(p->key);

    p->leaf_options.cert_file = cert;
    p->leaf_options.key_file = key;
    p->leaf_options.force = true;
    CHECK_ERR(says, cert_leaf_ensure(fs_real(), &p->leaf_options, &shard, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("asked for", note.text, says);
    note = (struct note){0};
    CHECK_ERR(says, cert_leaf_ensure(fs_real(), &p->leaf_options, NULL, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("renewed", note.text, says);
    CHECK("the authority remains", is_same(p->ca, ca) && is_same(p->key, ca_key));
    free(ca);
    free(ca_key);
}

static void copy_file(const char *from, const char *to, uint32_t mode)
{
    static uint64_t unique = 100;
    char *bytes = content(from);
    CHECK_OK("copied", fs_publish(fs_real(), to, str_from(bytes), mode, unique++));
    free(bytes);
}

TEST(the_authority_is_never_taken_for_a_leaf)
{
    struct place p;
    struct cert_report report;
    struct note note;
    char other[700], link_name[700];

    place_init(&p);
    make_ca(&p);
    snprintf(other, sizeof other, "%s/other.pem", p.dir);
    snprintf(link_name, sizeof link_name, "%s/link.pem", p.dir);
    check_authority_kept(&p, p.ca, p.key, "belongs to an authority");
    check_authority_kept(&p, p.ca, p.leaf_key, "belongs to an authority");
    check_authority_kept(&p, p.leaf, p.key, "belongs to an authority");
    CHECK("nothing was made", access(p.leaf, F_OK) != 0 && access(p.leaf_key, F_OK) != 0);
    CHECK("by another name", symlink(p.ca, link_name) == 0);
    check_authority_kept(&p, link_name, p.leaf_key, "holds the certificate of an authority");
    copy_file(p.ca, p.leaf, 0644);
    check_authority_kept(&p, p.leaf, p.leaf_key, "holds the certificate of an authority");
    CHECK("the copy remains too", access(p.leaf_key, F_OK) != 0);
    copy_file(p.key, p.leaf_key, 0600);
    check_authority_kept(&p, other, p.leaf_key, "holds the key of an authority");
    CHECK_OK("rotated", cert_ca_rotate(fs_real(), &p.ca_options, now(), &report, &note));
    check_authority_kept(&p, other, p.leaf_key, "holds the key of an authority");
    CHECK("nothing was made", access(other, F_OK) != 0);
    CHECK_OK("a copy of an old root needs no renewing",
             cert_ca_retire(fs_real(), &p.ca_options, false, now(), &report, &note));
}

TEST(a_pair_that_cannot_sign_is_no_authority)
{
    struct place p;
    struct cert_report report;
    struct cert_report leaf;
    struct note note;

    place_init(&p);
    make_ca(&p);
    make_leaf(&p, &shard, now());
    copy_file(p.leaf, p.ca, 0644); /* a matching pair that is no authority */
    copy_file(p.leaf_key, p.key, 0600);
    CHECK_ERR("found", cert_ca_ensure(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_HAS("the note", note.text, "ca.pem holds a certificate that is no authority's");
    CHECK_ERR("rotated", cert_ca_rotate(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_ERR("retired", cert_ca_retire(fs_real(), &p.ca_options, true, now(), &report, &note),
              ERR_CONFLICT);
    CHECK_ERR("issued from",
              cert_leaf_ensure(fs_real(), &p.leaf_options, &shard, now(), &leaf, &note),
              ERR_CONFLICT);
}

/* -- rotation ---------------------------------------------------------------------------------- */

TEST(a_rotation_keeps_the_old_root_as_long_as_it_is_needed)
{
    struct place p;
    struct cert_report report;
    struct cert_report leaf;
    struct note note;
    const char *verify[] = {"openssl", "verify", "-CAfile", p.ca, p.leaf, NULL};

    place_init(&p);
    make_ca(&p);
    make_leaf(&p, &shard, now());
    CHECK_OK("nothing to retire",
             cert_ca_retire(fs_real(), &p.ca_options, false, now(), &report, &note));
    CHECK("kept", report.result == CERT_KEPT && report.roots == 1);
    CHECK_OK("rotated", cert_ca_rotate(fs_real(), &p.ca_options, now(), &report, &note));
    CHECK("two roots", report.result == CERT_RENEWED && report.roots == 2);
    CHECK("the old leaf is still good", openssl_says(": OK", verify));
    CHECK_ERR("too early to retire",
              cert_ca_retire(fs_real(), &p.ca_options, false, now(), &report, &note),
              ERR_PRECONDITION);
    CHECK_HAS("names the obstacle", note.text, "leaf.pem is still signed by an old root");
    CHECK_OK("renewed", cert_leaf_ensure(fs_real(), &p.leaf_options, NULL, now(), &leaf, &note));
    CHECK_TEXT("because", leaf.why, "signed by an older root");
    CHECK("the new leaf is good", openssl_says(": OK", verify));
    CHECK_OK("retired", cert_ca_retire(fs_real(), &p.ca_options, false, now(), &report, &note));
    CHECK("one root", report.result == CERT_RENEWED && report.roots == 1);
    CHECK("the new leaf is still good", openssl_says(": OK", verify));
    CHECK_TEXT("and kept", cert_result_text(make_leaf(&p, &shard, now()).result), "kept");
    CHECK("the authority too", make_ca(&p).roots == 1);
}

TEST(roots_do_not_pile_up_for_ever)
{
    struct place p;
    struct cert_report report;
    struct note note;

    place_init(&p);
    CHECK_ERR("nothing to rotate", cert_ca_rotate(fs_real(), &p.ca_options, now(), &report, &note),
              ERR_NOT_FOUND);
    make_ca(&p);
    for (int i = 1; i < CERT_ROOTS_MAX; i++)
        CHECK_OK("rotated", cert_ca_rotate(fs_real(), &p.ca_options, now(), &report, &note));
    CHECK_ERR("full", cert_ca_rotate(fs_real(), &p.ca_options, now(), &report, &note), ERR_FULL);
    CHECK_HAS("with advice", note.text, "retire the old ones");
    CHECK_OK("retired", cert_ca_retire(fs_real(), &p.ca_options, true, now(), &report, &note));
    CHECK_SIZE("one", report.roots, 1);
}

/* -- looking ----------------------------------------------------------------------------------- */

TEST(foreign_bytes_are_shown_as_text)
{
    struct forge_pair odd;
    struct cert_description *list;
    size_t count;
    char path[600];

    forge(&odd, NULL,
          &(struct forge_spec){.common_names = {STR("a\nb")},
                               .names = {{FORGE_URI, STR("x://\0\x1b[2J")}},
                               .from_s = -7200,
                               .until_s = -3600});
    snprintf(path, sizeof path, "%s/odd.pem", test_dir());
    CHECK_OK("written", fs_publish(fs_real(), path, forge_cert(&odd), 0644, 8));
    CHECK_OK("described", cert_describe(fs_real(), path, now(), &list, &count, NULL));
    CHECK("no raw line feed", !strchr(list[0].subject, '\n'));
    CHECK_TEXT("no raw escape", list[0].names[0], "URI:x://\\x00\\x1b[2J");
    CHECK_I64("expired", list[0].days_left, -1);
    cert_descriptions_free(list, count);
    CHECK_OK("written", fs_publish(fs_real(), path, STR("text"), 0644, 9));
    CHECK_ERR("no certificate", cert_describe(fs_real(), path, now(), &list, &count, NULL),
              ERR_PARSE);
    CHECK_ERR("no file", cert_describe(fs_real(), "/nonexistent", now(), &list, &count, NULL),
              ERR_NOT_FOUND);
    cert_descriptions_free(NULL, 0);
    forge_free(&odd);
}
