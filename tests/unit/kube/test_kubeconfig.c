/* SPDX-License-Identifier: Apache-2.0 */
/* kube/config.h and kube/yaml_json.h: valid and refused kubeconfig files. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kube/config.h"
#include "kube/yaml_json.h"
#include "lib/test.h"

#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
#define CONTEXTS                                                                                   \
    "contexts:\n- name: there\n  context: {cluster: b, user: b}\n"                                 \
    "- name: here\n  context:\n    cluster: a\n    user: me\n    namespace: work\n"
#define CLUSTERS                                                                                   \
    "clusters:\n- name: b\n  cluster: {server: https://b}\n"                                       \
    "- cluster:\n    server: https://a.example:6443/\n    certificate-authority-data: Q0E=\n"      \
    "    tls-server-name: api.internal\n  name: a\n"

static enum err decode(const char *text, struct kube_config *config, struct note *note)
{
    *config = (struct kube_config){0};
    *note = (struct note){""};
    return kube_config_decode(str_from(text), "/etc/kube", NULL, config, note);
}

TEST(the_current_context_names_server_user_and_namespace)
{
    struct kube_config c;
    struct note note;

    CHECK_OK("reads", decode(HEAD CONTEXTS CLUSTERS
                             "users:\n- name: me\n  user:\n    token: ' abc.def '\n"
                             "    client-certificate: cert.pem\n    client-key: /abs/key.pem\n",
                             &c, &note));
    CHECK_TEXT("the closing slash is cut", c.server, "https://a.example:6443");
    CHECK_TEXT("base64 is undone", c.ca_pem, "CA");
    CHECK_TEXT("name in the certificate", c.tls_server_name, "api.internal");
    CHECK_TEXT("namespace", c.namespace_, "work");
    CHECK_TEXT("a token without blanks around it", c.token, "abc.def");
    CHECK_TEXT("a path beside the file", c.client_cert_file, "/etc/kube/cert.pem");
    CHECK_TEXT("a path of its own", c.client_key_file, "/abs/key.pem");
    CHECK("verified", !c.insecure_skip_verify);
    kube_config_deinit(&c);
    kube_config_deinit(&c);
}

TEST(another_context_can_be_asked_for)
{
    struct kube_config c = {0};
    struct note note = {""};

    CHECK_OK("reads", kube_config_decode(STR(HEAD CONTEXTS CLUSTERS "users: [{name: b}]\n"), "/",
                                         "there", &c, &note));
    CHECK_TEXT("that one's server", c.server, "https://b");
    kube_config_deinit(&c);
}

TEST(json_is_yaml_too)
{
    struct kube_config c;
    struct note note;

    CHECK_OK(
        "reads",
        decode("{\"current-context\": \"x\", \"contexts\": [{\"name\": \"x\", \"context\":"
               " {\"cluster\": \"c\", \"user\": \"u\"}}], \"clusters\": [{\"name\": \"c\","
               " \"cluster\": {\"server\": \"https://h\", \"insecure-skip-tls-verify\": true}}],"
               " \"users\": [{\"name\": \"u\", \"user\": {\"tokenFile\": \"/run/t\"}}]}",
               &c, &note));
    CHECK_TEXT("server", c.server, "https://h");
    CHECK("as asked", c.insecure_skip_verify);
    CHECK_TEXT("token file", c.token_file, "/run/t");
    kube_config_deinit(&c);
}

static const struct {
    const char *why, *text;
    enum err want;
    const char *note;
} refusals[] = {
    {"an exec plugin", HEAD CONTEXTS CLUSTERS "users: [{name: me, user: {exec: {command: x}}}]",
     ERR_UNSUPPORTED, "'exec' is not supported"},
    {"a plugin of old", HEAD CONTEXTS CLUSTERS "users: [{name: me, user: {auth-provider: {}}}]",
     ERR_UNSUPPORTED, "'auth-provider'"},
    {"to be somebody else", HEAD CONTEXTS CLUSTERS "users: [{name: me, user: {as: root}}]",
     ERR_UNSUPPORTED, "'as'"},
    {"a password", HEAD CONTEXTS CLUSTERS "users: [{name: me, user: {username: a}}]",
     ERR_UNSUPPORTED, "'username'"},
    {"a proxy of its own",
     HEAD CONTEXTS "clusters: [{name: a, cluster: {server: https://a, proxy-url: http://p}}]",
     ERR_UNSUPPORTED, "'proxy-url'"},
    {"no context", "clusters: []\n", ERR_NOT_FOUND, "no current-context"},
    {"an unknown context", "current-context: x\n", ERR_NOT_FOUND, "'x'"},
    {"an unknown user", HEAD CONTEXTS CLUSTERS, ERR_NOT_FOUND, "'me'"},
    {"a certificate without a key",
     HEAD CONTEXTS CLUSTERS "users: [{name: me, user: {client-certificate: c}}]", ERR_INVALID,
     "together"},
    {"a token that would end the header",
     HEAD CONTEXTS CLUSTERS "users: [{name: me, user: {token: \"a\\r\\nb\"}}]", ERR_INVALID,
     "token"},
    {"broken base64",
     HEAD CONTEXTS "clusters: [{name: a, cluster: {server: https://a,"
                   " certificate-authority-data: '!'}}]",
     ERR_PARSE, "certificate-authority-data"},
    {"a root and no check",
     HEAD CONTEXTS "clusters: [{name: a, cluster: {server: https://a,"
                   " insecure-skip-tls-verify: true, certificate-authority: x}}]",
     ERR_INVALID, "insecure"},
    {"a truth that is none",
     HEAD CONTEXTS "clusters: [{name: a, cluster: {server: https://a,"
                   " insecure-skip-tls-verify: yes}}]",
     ERR_PARSE, "neither true nor false"},
    {"no server", HEAD CONTEXTS "clusters: [{name: a, cluster: {}}]", ERR_PARSE, "no server"},
    {"a server that is a list", HEAD CONTEXTS "clusters: [{name: a, cluster: {server: [x]}}]",
     ERR_PARSE, "server"},
    {"an alias", "a: &x 1\nb: *x\n", ERR_UNSUPPORTED, "line 2, column 4: aliases"},
    {"a key twice", "a: 1\na: 2\n", ERR_PARSE, "line 2, column 1: a key that is there twice"},
    {"two documents", "a: 1\n---\nb: 2\n", ERR_PARSE, "second document"},
    {"a key that is a mapping", "? {a: 1}\n: 2\n", ERR_PARSE, "not a word"},
    {"nothing", "# only a comment\n", ERR_PARSE, "no document"},
    {"a list", "- a\n", ERR_PARSE, "no mapping"},
    {"not YAML", "a: [1\nb: {", ERR_PARSE, "line "},
    {"a NUL", "a: \"x\\0y\"", ERR_PARSE, "NUL"},
    {"too deep", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", ERR_TOO_LARGE,
     "nested too deep"},
};

TEST(an_unsupported_field_is_refused_with_its_name)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct kube_config c;
        struct note note;
        CHECK_ERR(refusals[i].why, decode(refusals[i].text, &c, &note), refusals[i].want);
        CHECK_HAS(refusals[i].why, note.text, refusals[i].note);
        CHECK("nothing was written", c.server == NULL);
    }
}

TEST(a_mapping_without_end_meets_its_bound)
{
    struct json *yaml = NULL;
    struct note note = {""};
    struct buf text;

    buf_init(&text, 1 << 20);
    for (int i = 0; i < KUBE_YAML_KEYS_MAX + 1; i++) buf_appendf(&text, "k%d: 1\n", i);
    CHECK_ERR("keys", kube_yaml_open(buf_peek(&text), &yaml, &note), ERR_TOO_LARGE);
    buf_clear(&text);
    for (int i = 0; i < KUBE_YAML_NODES_MAX + 1; i++) buf_append_c(&text, "- 1\n");
    CHECK_ERR("items", kube_yaml_open(buf_peek(&text), &yaml, &note), ERR_TOO_LARGE);
    buf_deinit(&text);
}

/* -- files and the environment -- */

static void write_file(const char *name, const char *content)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    file = fopen(path, "w");
    CHECK("opens", file != NULL);
    fputs(content, file);
    fclose(file);
}

static void clear_environment(void)
{
    unsetenv("KUBECONFIG");
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    setenv("HOME", test_dir(), 1);
}

TEST(a_pod_finds_its_account)
{
    struct kube_config c = {0};
    struct note note = {""};
    struct kube_config_options options = {.account_dir = test_dir()};

    clear_environment();
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    CHECK_ERR("no account", kube_config_find(&options, &c, &note), ERR_NOT_FOUND);
    CHECK_HAS("names the file", note.text, "/token");
    write_file("token", "secret\n");
    write_file("ca.crt", "CA\n");
    write_file("namespace", "prod\n");
    CHECK_OK("finds", kube_config_find(&options, &c, &note));
    CHECK_TEXT("an address of six bytes in brackets", c.server, "https://[fd00::1]:443");
    CHECK_TEXT("token", c.token, "secret");
    CHECK_HAS("and where it comes from", c.token_file, "/token");
    CHECK_TEXT("root", c.ca_pem, "CA\n");
    CHECK_TEXT("namespace", c.namespace_, "prod");
    kube_config_deinit(&c);
    setenv("KUBERNETES_SERVICE_PORT", "70000", 1);
    CHECK_ERR("no port", kube_config_find(&options, &c, &note), ERR_INVALID);
    clear_environment();
}

TEST(a_named_file_comes_before_the_account_and_the_account_before_home)
{
    struct kube_config c = {0};
    struct note note = {""};
    struct kube_config_options options = {.account_dir = "/nonexistent"};
    char path[512];

    clear_environment();
    CHECK_ERR("nothing at all", kube_config_find(&options, &c, &note), ERR_NOT_FOUND);
    CHECK_HAS("names the searched places", note.text, "no KUBECONFIG, no service account");
    write_file("ca.pem", "CA-FILE");
    write_file("config-a", "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
                           "clusters: [{name: c, cluster: {server: https://a,"
                           " certificate-authority: ca.pem}}]\n");
    snprintf(path, sizeof path, "%s/config-a", test_dir());
    setenv("KUBECONFIG", path, 1);
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    CHECK_OK("the variable wins", kube_config_find(&options, &c, &note));
    CHECK_TEXT("its server", c.server, "https://a");
    CHECK_TEXT("files beside it are read", c.ca_pem, "CA-FILE");
    kube_config_deinit(&c);
    setenv("KUBECONFIG", "/a:/b", 1);
    CHECK_ERR("several files", kube_config_find(&options, &c, &note), ERR_UNSUPPORTED);
    unsetenv("KUBECONFIG");
    CHECK_ERR("then the account, which is not there", kube_config_find(&options, &c, &note),
              ERR_NOT_FOUND);
    CHECK_HAS("and it is named", note.text, "service account");
    options.kubeconfig = path;
    CHECK_OK("an argument wins over all", kube_config_find(&options, &c, &note));
    kube_config_deinit(&c);
    clear_environment();
}
