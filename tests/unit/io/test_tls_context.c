/* SPDX-License-Identifier: Apache-2.0 */
/* Certificate files: valid ones, refused ones and their errors, and the changes that a reload
 * accepts. */
#include <stdio.h>
#include <string.h>

#include <openssl/pem.h>

#include "io/tls_context.h"
#include "unit/io/tls_pair.h"

#define NAME FORGE_NAME
#define TEXT FORGE_TEXT

static const struct forge_spec usual = {
    .names = {NAME(URI, "bigfleet://admin"), NAME(DNS, "localhost")}};

static const char *path_of(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, 512, "%s/%s", test_dir(), name);
    return path;
}

static void put(const char *name, struct str content)
{
    static uint64_t unique;
    CHECK_OK("a file is written", fs_publish(fs_real(), path_of(name), content, 0600, ++unique));
}

static void put_pair(const char *cert, const char *key, const struct forge_pair *pair)
{
    put(cert, forge_cert(pair));
    put(key, forge_key(pair));
}

static struct tls_options server_files(void)
{
    return (struct tls_options){
        .side = TLS_SERVER,
        .cert_file = path_of("cert.pem"),
        .key_file = path_of("key.pem"),
        .ca_files = {path_of("ca.pem")},
    };
}

/* The serial that the server shows to a client that trusts `root`, or the client's error. */
static enum err serial_seen(struct tls_context *server_context, const struct forge_pair *root,
                            const struct forge_pair *client_pair, char serial[80])
{
    struct tls_options options = {.side = TLS_CLIENT,
                                  .ca_pem = forge_cert(root),
                                  .cert_pem = forge_cert(client_pair),
                                  .key_pem = forge_key(client_pair)};
    struct tls_context *client_context;
    struct tls_end client, server;
    enum err err;

    CHECK_OK("client context", tls_context_open(NULL, &options, &client_context, NULL));
    tls_end_open(&server, server_context, NULL);
    tls_end_open(&client, client_context, "localhost");
    tls_converse(&client, &server, SIZE_MAX);
    err = server.err ? server.err : client.err;
    if (!err)
        snprintf(serial, 80, "%.*s", STR_ARG(tls_session_identity(client.session)->serial_hex));
    tls_end_close(&client);
    tls_end_close(&server);
    tls_context_unref(client_context);
    return err;
}

static const struct {
    const char *why;
    const char *cert, *key, *ca; /* names of files below; NULL: not given */
    enum tls_side side;
    bool optional;
    enum err want;
    const char *says;
} openings[] = {
    {"a good server", "good.pem", "good.key.pem", "root.pem", TLS_SERVER, false, ERR_OK, ""},
    {"a client without certificate", NULL, NULL, "root.pem", TLS_CLIENT, false, ERR_OK, ""},
    {"a server that asks for no certificate", "good.pem", "good.key.pem", NULL, TLS_SERVER, true,
     ERR_OK, ""},
    {"a server without pair", NULL, NULL, "root.pem", TLS_SERVER, false, ERR_INVALID,
     "server needs"},
    {"half a pair", "good.pem", NULL, "root.pem", TLS_CLIENT, false, ERR_INVALID, "its key"},
    {"a server that requires but trusts nobody", "good.pem", "good.key.pem", NULL, TLS_SERVER,
     false, ERR_INVALID, "needs a CA"},
    {"a client that trusts nobody", NULL, NULL, NULL, TLS_CLIENT, false, ERR_INVALID, "needs a CA"},
    {"no such certificate", "absent.pem", "good.key.pem", "root.pem", TLS_SERVER, false,
     ERR_NOT_FOUND, "absent.pem"},
    {"no such key", "good.pem", "absent.key.pem", "root.pem", TLS_SERVER, false, ERR_NOT_FOUND,
     "absent.key.pem"},
    {"no such ca", "good.pem", "good.key.pem", "absent-ca.pem", TLS_SERVER, false, ERR_NOT_FOUND,
     "absent-ca.pem"},
    {"another's key", "good.pem", "other.key.pem", "root.pem", TLS_SERVER, false, ERR_CONFLICT,
     "other.key.pem: the key does not belong to the certificate in"},
    {"an empty certificate file", "empty.pem", "good.key.pem", "root.pem", TLS_SERVER, false,
     ERR_PARSE, "empty.pem: holds no certificate"},
    {"a damaged certificate", "damaged.pem", "good.key.pem", "root.pem", TLS_SERVER, false,
     ERR_PARSE, "damaged.pem: "},
    {"a cut certificate", "cut.pem", "good.key.pem", "root.pem", TLS_SERVER, false, ERR_PARSE,
     "cut.pem: "},
    {"a key file without key", "good.pem", "empty.pem", "root.pem", TLS_SERVER, false, ERR_PARSE,
     "empty.pem: holds no private key"},
    {"a key behind a password is refused, nobody is asked for it", "good.pem", "secret.key.pem",
     "root.pem", TLS_SERVER, false, ERR_PARSE, "secret.key.pem: holds no private key"},
    {"an empty bundle", "good.pem", "good.key.pem", "empty.pem", TLS_SERVER, false, ERR_PARSE,
     "empty.pem: holds no certificate"},
    {"a bundle whose second root is damaged", "good.pem", "good.key.pem", "half.pem", TLS_SERVER,
     false, ERR_PARSE, "half.pem: "},
    {"a directory", "good.pem", "good.key.pem", ".", TLS_SERVER, false, ERR_COUNT, ""},
};

/* PKCS#8, encrypted under any password. */
static void put_encrypted_key(const struct forge_pair *pair)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes;
    long len;

    CHECK("encrypts", PEM_write_bio_PKCS8PrivateKey(bio, pair->key, EVP_aes_128_cbc(), "word", 4,
                                                    NULL, NULL) == 1);
    len = BIO_get_mem_data(bio, &bytes);
    put("secret.key.pem", str_of(bytes, (size_t)len));
    BIO_free(bio);
}

TEST(unusable_material_is_refused_by_the_name_of_its_file)
{
    struct forge_pair root, good, other;
    struct buf half;

    forge_root(&root, "root");
    forge(&good, &root, &usual);
    forge(&other, &root, &usual);
    put("root.pem", forge_cert(&root));
    put_pair("good.pem", "good.key.pem", &good);
    put("other.key.pem", forge_key(&other));
    put("empty.pem", STR("nothing here\n"));
    put("damaged.pem", STR("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"));
    put("cut.pem", (struct str){forge_cert(&good).at, forge_cert(&good).len / 2});
    put_encrypted_key(&good);
    buf_init(&half, 1 << 20);
    CHECK_OK("a good root", buf_append(&half, forge_cert(&root)));
    CHECK_OK("and a bad one", buf_append(&half, STR("-----BEGIN CERTIFICATE-----\n!!!!\n"
                                                    "-----END CERTIFICATE-----\n")));
    put("half.pem", buf_peek(&half));
    for (size_t i = 0; i < ARRAY_LEN(openings); i++) {
        struct tls_options options = {.side = openings[i].side,
                                      .peer_optional = openings[i].optional};
        struct tls_context *context = NULL;
        struct note note = {0};
        enum err err;
        if (openings[i].cert) options.cert_file = path_of(openings[i].cert);
        if (openings[i].key) options.key_file = path_of(openings[i].key);
        if (openings[i].ca) options.ca_files[0] = path_of(openings[i].ca);
        err = tls_context_open(fs_real(), &options, &context, &note);
        if (openings[i].want == ERR_COUNT)
            CHECK(openings[i].why, err != ERR_OK);
        else
            CHECK_ERR(openings[i].why, err, openings[i].want);
        CHECK_HAS(openings[i].why, note.text, openings[i].says);
        CHECK("the output is set only on success", !context == (err != ERR_OK));
        tls_context_unref(context);
    }
    buf_deinit(&half);
    forge_free(&other);
    forge_free(&good);
    forge_free(&root);
}

TEST(files_or_memory_but_not_both_and_protocols_have_a_length)
{
    struct tls_options both = {.side = TLS_CLIENT, .ca_files = {"x"}, .ca_pem = STR("y")};
    struct tls_options empty = {.side = TLS_CLIENT, .ca_pem = STR("y"), .alpn = {""}};
    struct tls_context *context = NULL;

    CHECK_ERR("both", tls_context_open(fs_real(), &both, &context, NULL), ERR_INVALID);
    CHECK_ERR("an empty protocol", tls_context_open(fs_real(), &empty, &context, NULL),
              ERR_INVALID);
    CHECK("untouched", context == NULL);
}

TEST(a_chain_is_shown_with_its_intermediate)
{
    struct forge_pair root, middle, leaf;
    struct buf chain;
    struct tls_context *context;
    struct tls_options options = server_files();
    char serial[80];

    forge_root(&root, "root");
    forge(&middle, &root, &(struct forge_spec){.common_names = {TEXT("middle")}, .is_ca = true});
    forge(&leaf, &middle, &usual);
    buf_init(&chain, 1 << 20);
    CHECK_OK("leaf", buf_append(&chain, forge_cert(&leaf)));
    CHECK_OK("middle", buf_append(&chain, forge_cert(&middle)));
    put("cert.pem", buf_peek(&chain));
    put("key.pem", forge_key(&leaf));
    put("ca.pem", forge_cert(&root));
    options.peer_optional = true;
    CHECK_OK("opens", tls_context_open(fs_real(), &options, &context, NULL));
    /* The client's certificate is also issued by `middle`, which the client does not send: refused.
     * */
    CHECK_ERR("a leaf without its intermediate", serial_seen(context, &root, &leaf, serial),
              ERR_UNAUTHENTICATED);
    forge_free(&leaf);
    forge(&leaf, &root, &usual);
    CHECK_OK("a peer that trusts only the root", serial_seen(context, &root, &leaf, serial));
    tls_context_unref(context);
    buf_deinit(&chain);
    forge_free(&leaf);
    forge_free(&middle);
    forge_free(&root);
}

TEST(a_reload_takes_a_good_pair_and_keeps_the_old_one_over_a_bad)
{
    struct forge_pair root, first, second, third;
    struct tls_context *context;
    struct tls_options options = server_files();
    char one[80], two[80], three[80];
    struct note note;
    bool changed;

    forge_root(&root, "root");
    forge(&first, &root, &usual);
    forge(&second, &root, &usual);
    forge(&third, &root, &usual);
    put("ca.pem", forge_cert(&root));
    put_pair("cert.pem", "key.pem", &first);
    CHECK_OK("opens", tls_context_open(fs_real(), &options, &context, NULL));
    CHECK_OK("first", serial_seen(context, &root, &first, one));

    changed = true;
    CHECK_OK("nothing changed", tls_context_reload(context, &changed, &note));
    CHECK("and reports no change", !changed);
    CHECK_U64("one load", tls_context_info(context).loads, 1);

    put_pair("cert.pem", "key.pem", &second);
    CHECK_OK("a new pair", tls_context_reload(context, &changed, &note));
    CHECK("is taken", changed);
    CHECK_OK("second", serial_seen(context, &root, &first, two));
    CHECK("and shown", strcmp(one, two) != 0);

    put("cert.pem", forge_cert(&third));
    changed = true;
    CHECK_ERR("certificate without its key", tls_context_reload(context, &changed, &note),
              ERR_CONFLICT);
    CHECK_HAS("named", note.text, "key.pem");
    CHECK("output untouched", changed);
    CHECK_OK("the old pair serves", serial_seen(context, &root, &first, three));
    CHECK_TEXT("the second it is", three, two);
    CHECK_U64("counted", tls_context_info(context).failed_loads, 1);
    CHECK_HAS("remembered", tls_context_info(context).last_failure.text, "does not belong");

    put("key.pem", STR("half a fi"));
    CHECK_ERR("a broken key", tls_context_reload(context, &changed, &note), ERR_PARSE);
    CHECK_OK("removed", fs_remove(fs_real(), path_of("key.pem")));
    CHECK_ERR("a key that is gone", tls_context_reload(context, &changed, &note), ERR_NOT_FOUND);
    CHECK_U64("all counted", tls_context_info(context).failed_loads, 3);
    CHECK_OK("the old pair still serves", serial_seen(context, &root, &first, three));
    CHECK_TEXT("the second it is", three, two);

    put("key.pem", forge_key(&third));
    CHECK_OK("now it matches", tls_context_reload(context, &changed, &note));
    CHECK("taken", changed);
    CHECK_OK("third", serial_seen(context, &root, &first, three));
    CHECK("and shown", strcmp(three, two) != 0);
    CHECK_TEXT("the failure is history", tls_context_info(context).last_failure.text, "");
    CHECK_U64("three loads", tls_context_info(context).loads, 3);
    tls_context_unref(context);
    forge_free(&third);
    forge_free(&second);
    forge_free(&first);
    forge_free(&root);
}

TEST(a_failure_is_history_once_the_loaded_files_are_back)
{
    struct forge_pair root, leaf;
    struct tls_context *context;
    struct tls_options options = server_files();
    bool changed = true;

    forge_root(&root, "root");
    forge(&leaf, &root, &usual);
    put("ca.pem", forge_cert(&root));
    put_pair("cert.pem", "key.pem", &leaf);
    CHECK_OK("opens", tls_context_open(fs_real(), &options, &context, NULL));
    CHECK("away", rename(path_of("key.pem"), path_of("key.away")) == 0);
    CHECK_ERR("a key that is gone", tls_context_reload(context, &changed, NULL), ERR_NOT_FOUND);
    CHECK_HAS("remembered", tls_context_info(context).last_failure.text, "key.pem");
    CHECK("back", rename(path_of("key.away"), path_of("key.pem")) == 0);
    CHECK_OK("the very file", tls_context_reload(context, &changed, NULL));
    CHECK("nothing to load", !changed);
    CHECK_TEXT("the failure is history", tls_context_info(context).last_failure.text, "");
    CHECK_U64("and still counted", tls_context_info(context).failed_loads, 1);
    tls_context_unref(context);
    forge_free(&leaf);
    forge_free(&root);
}

TEST(roots_are_counted_over_all_files_together)
{
    enum { EACH = 257, FILES = 2 }; /* 512 is the bound */
    static const char *const names[FILES] = {"many-a.pem", "many-b.pem"};
    struct forge_pair root, leaf;
    struct tls_context *context = NULL;
    struct tls_options options;
    struct note note = {""};
    struct buf many;

    forge_root(&root, "root");
    forge(&leaf, &root, &usual);
    put_pair("cert.pem", "key.pem", &leaf);
    buf_init(&many, 1 << 20);
    for (int i = 0; i < EACH; i++) CHECK_OK("one", buf_append(&many, forge_cert(&root)));
    for (int i = 0; i < FILES; i++) put(names[i], buf_peek(&many));
    options = server_files();
    for (int i = 0; i < FILES; i++) options.ca_files[i] = path_of(names[i]);
    CHECK_ERR("one file too many", tls_context_open(fs_real(), &options, &context, &note),
              ERR_TOO_LARGE);
    CHECK_HAS("named", note.text, "many-b.pem: ");
    CHECK_HAS("counted together", note.text, "512");
    options.ca_files[1] = NULL;
    CHECK_OK("one of them is fine", tls_context_open(fs_real(), &options, &context, &note));
    tls_context_unref(context);
    buf_deinit(&many);
    forge_free(&leaf);
    forge_free(&root);
}

TEST(two_roots_are_live_during_a_rotation)
{
    struct forge_pair old_root, new_root, old_client, new_client, server;
    struct tls_context *context;
    struct tls_options options = server_files();
    char serial[80];
    bool changed;

    forge_root(&old_root, "dev ca");
    forge_root(&new_root, "dev ca"); /* the same name, like a renewed root */
    forge(&old_client, &old_root, &usual);
    forge(&new_client, &new_root, &usual);
    forge(&server, &old_root, &usual);
    put("ca.pem", forge_cert(&old_root));
    put("next.pem", forge_cert(&new_root));
    put_pair("cert.pem", "key.pem", &server);
    options.ca_files[1] = path_of("next.pem");
    CHECK_OK("opens", tls_context_open(fs_real(), &options, &context, NULL));
    CHECK_OK("old client", serial_seen(context, &old_root, &old_client, serial));
    CHECK_OK("new client", serial_seen(context, &old_root, &new_client, serial));
    put("ca.pem", forge_cert(&new_root));
    CHECK_OK("the old root goes", tls_context_reload(context, &changed, NULL));
    CHECK_ERR("old client", serial_seen(context, &old_root, &old_client, serial),
              ERR_UNAUTHENTICATED);
    CHECK_OK("new client", serial_seen(context, &old_root, &new_client, serial));
    tls_context_unref(context);
    forge_free(&server);
    forge_free(&new_client);
    forge_free(&old_client);
    forge_free(&new_root);
    forge_free(&old_root);
}

TEST(files_are_looked_at_again_at_most_once_a_second)
{
    struct forge_pair root, first, second;
    struct tls_context *context;
    struct tls_options options = server_files();

    forge_root(&root, "root");
    forge(&first, &root, &usual);
    forge(&second, &root, &usual);
    put("ca.pem", forge_cert(&root));
    put_pair("cert.pem", "key.pem", &first);
    CHECK_OK("opens", tls_context_open(fs_real(), &options, &context, NULL));
    tls_context_recheck(context, (mono_time){5000});
    put("cert.pem", forge_cert(&second));
    tls_context_recheck(context, (mono_time){5000 + TLS_RECHECK_MS - 1});
    CHECK_U64("not yet", tls_context_info(context).failed_loads, 0);
    tls_context_recheck(context, (mono_time){5000 + TLS_RECHECK_MS});
    CHECK_U64("now: half a pair", tls_context_info(context).failed_loads, 1);
    tls_context_recheck(context, (mono_time){5000 + 2 * TLS_RECHECK_MS});
    CHECK_U64("the same bad files are not tried again", tls_context_info(context).failed_loads, 1);
    put("key.pem", forge_key(&second));
    tls_context_recheck(context, (mono_time){5000 + 3 * TLS_RECHECK_MS});
    CHECK_U64("until one changes", tls_context_info(context).loads, 2);
    tls_context_unref(context);
    forge_free(&second);
    forge_free(&first);
    forge_free(&root);
}

TEST(a_context_from_memory_is_replaced_whole)
{
    struct forge_pair root, first, second;
    struct tls_context *context;
    struct tls_options options = {.side = TLS_SERVER};
    char one[80], two[80];
    bool changed = true;

    forge_root(&root, "root");
    forge(&first, &root, &usual);
    forge(&second, &root, &usual);
    options.cert_pem = forge_cert(&first);
    options.key_pem = forge_key(&first);
    options.ca_pem = forge_cert(&root);
    CHECK_OK("opens", tls_context_open(NULL, &options, &context, NULL));
    CHECK_OK("first", serial_seen(context, &root, &first, one));
    CHECK_ERR("a pair that does not match",
              tls_context_replace(context, forge_cert(&second), forge_key(&first),
                                  forge_cert(&root), NULL),
              ERR_CONFLICT);
    CHECK_OK("still first", serial_seen(context, &root, &first, two));
    CHECK_TEXT("unchanged", two, one);
    CHECK_OK("replaced", tls_context_replace(context, forge_cert(&second), forge_key(&second),
                                             forge_cert(&root), NULL));
    CHECK_OK("second", serial_seen(context, &root, &first, two));
    CHECK("shown", strcmp(one, two) != 0);
    CHECK_OK("nothing to look at", tls_context_reload(context, &changed, NULL));
    CHECK("nothing changed", !changed);
    CHECK("dates are known",
          tls_context_info(context).not_after.ms > tls_context_info(context).not_before.ms);
    tls_context_unref(context);
    forge_free(&second);
    forge_free(&first);
    forge_free(&root);
}
