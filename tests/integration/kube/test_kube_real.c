/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube with a real kube-apiserver: TLS, credentials, verbs, pages, watches. */
#include <stdio.h>
#include <stdlib.h>

#include "kube/kube.h"
#include "lib/test.h"

enum { LONG_MS = 30000 };

static const struct kube_path all = {"coordination.k8s.io", "v1", "default", "leases", NULL, NULL};

static struct kube_path at(const char *name)
{
    struct kube_path path = all;
    path.name = name;
    return path;
}

static enum err find(const char *variable, struct kube_config *config)
{
    struct kube_config_options options = {.kubeconfig = getenv(variable)};
    struct note note = {""};
    enum err err = kube_config_find(&options, config, &note);

    if (err) fprintf(stderr, "%s\n", note.text);
    return err;
}

static struct kube *open_as(const char *variable)
{
    struct kube_config config = {0};
    struct kube *kube = NULL;

    CHECK_OK("credentials", find(variable, &config));
    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    kube_config_deinit(&config);
    return kube;
}

static enum err get(struct kube *kube, const char *name, struct note *note)
{
    struct kube_path path = at(name);
    struct kube_answer answer;
    enum err err = kube_get(kube, &path, LONG_MS, &answer, note);

    kube_answer_deinit(&answer);
    return err;
}

static enum err make(struct kube *kube, const char *name, const char *label, char *ret_version)
{
    char body[512];
    struct kube_answer answer;
    struct note note = {""};

    snprintf(body, sizeof body,
             "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
             "\"name\":\"%s\",\"labels\":{\"set\":\"%s\"}},\"spec\":{\"holderIdentity\":\"me\"}}",
             name, label);
    enum err err = kube_create(kube, &all, str_from(body), LONG_MS, &answer, &note);
    if (!err && ret_version)
        CHECK_OK("a version", kube_object_version(answer.object, ret_version, NULL));
    kube_answer_deinit(&answer);
    return err;
}

TEST(a_token_and_a_certificate_each_let_us_in)
{
    struct kube *by_token = open_as("KUBE_ADMIN"), *by_cert = open_as("KUBE_CERT");

    CHECK_ERR("token", get(by_token, "nothing", NULL), ERR_NOT_FOUND);
    CHECK_ERR("certificate", get(by_cert, "nothing", NULL), ERR_NOT_FOUND);
    kube_close(by_cert);
    kube_close(by_token);
}

TEST(without_the_right_the_answer_is_denied_and_without_a_name_unauthenticated)
{
    struct kube_config config = {0};
    struct kube *limited = open_as("KUBE_LIMITED"), *unknown = NULL;

    CHECK_ERR("no right", get(limited, "nothing", NULL), ERR_DENIED);
    CHECK_OK("credentials", find("KUBE_ADMIN", &config));
    config.token[0] = 'X';
    CHECK_OK("opens", kube_open(&config, &unknown, NULL));
    CHECK_ERR("a token nobody knows", get(unknown, "nothing", NULL), ERR_UNAUTHENTICATED);
    kube_config_deinit(&config);
    kube_close(unknown);
    kube_close(limited);
}

static char *read_file(const char *name)
{
    char path[512];
    struct buf bytes;
    char *text = NULL;

    snprintf(path, sizeof path, "%s/%s", getenv("KUBE_DIR"), name);
    buf_init(&bytes, 1 << 16);
    CHECK_OK(path, fs_read_whole(fs_real(), path, 1 << 16, &bytes));
    CHECK_OK("text", buf_detach(&bytes, &text));
    return text;
}

/* A server that another root signed, or that has another name, gets no byte of the token. */
TEST(only_the_given_root_and_name_are_trusted)
{
    static const struct {
        const char *why, *root, *name;
        bool skip;
        enum err want;
    } cases[] = {
        {"another root", "other-ca.crt", NULL, false, ERR_UNAVAILABLE},
        {"the roots of the system", NULL, NULL, false, ERR_UNAVAILABLE},
        {"a name the certificate has", "ca.crt", "api.muster.test", false, ERR_NOT_FOUND},
        {"a name it has not", "ca.crt", "other.muster.test", false, ERR_UNAVAILABLE},
        {"no check, as asked", NULL, NULL, true, ERR_NOT_FOUND},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct kube_config config = {0};
        struct kube *kube = NULL;
        struct note note = {""};
        CHECK_OK("credentials", find("KUBE_ADMIN", &config));
        free(config.ca_pem);
        config.ca_pem = cases[i].root ? read_file(cases[i].root) : NULL;
        if (cases[i].name) config.tls_server_name = str_dup(str_from(cases[i].name));
        config.insecure_skip_verify = cases[i].skip;
        CHECK_OK("opens", kube_open(&config, &kube, NULL));
        CHECK_ERR(cases[i].why, get(kube, "nothing", &note), cases[i].want);
        kube_close(kube);
        kube_config_deinit(&config);
    }
}

static void write_file(const char *directory, const char *name, const char *content)
{
    char path[512], temporary[520];
    FILE *file;

    /* As the kubelet does: a new file takes the old one's place. */
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    file = fopen(temporary, "w");
    CHECK("opens", file != NULL);
    fputs(content, file);
    fclose(file);
    CHECK("replaces", rename(temporary, path) == 0);
}

TEST(a_pod_with_its_account_is_let_in_and_follows_its_token)
{
    const char *directory = test_dir(), *port = strrchr(getenv("KUBE_URL"), ':') + 1;
    struct kube_config_options options = {.account_dir = directory};
    struct kube_config config = {0};
    struct kube *kube = NULL;
    struct note note = {""};
    char *root = read_file("ca.crt");

    write_file(directory, "ca.crt", root);
    write_file(directory, "token", "token-of-admin\n");
    write_file(directory, "namespace", "default");
    setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", port, 1);
    CHECK_OK("finds its account", kube_config_find(&options, &config, &note));
    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    CHECK_ERR("accepted", get(kube, "nothing", NULL), ERR_NOT_FOUND);
    write_file(directory, "token", "a-token-nobody-knows\n");
    CHECK_ERR("with the new token", get(kube, "nothing", NULL), ERR_UNAUTHENTICATED);
    write_file(directory, "token", "token-of-admin\n");
    CHECK_ERR("and with the next", get(kube, "nothing", NULL), ERR_NOT_FOUND);
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    kube_close(kube);
    kube_config_deinit(&config);
    free(root);
}

static void verbs_body(char body[512], const char *version, int seconds)
{
    snprintf(body, 512,
             "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
             "\"name\":\"verbs\",\"resourceVersion\":\"%s\"},"
             "\"spec\":{\"leaseDurationSeconds\":%d}}",
             version, seconds);
}

TEST(create_update_and_delete_are_conditional)
{
    struct kube *kube = open_as("KUBE_ADMIN");
    struct kube_path path = at("verbs");
    struct kube_answer answer;
    char version[KUBE_VERSION_CAP], body[512];

    CHECK_OK("created", make(kube, "verbs", "a", version));
    CHECK_ERR("twice", make(kube, "verbs", "a", NULL), ERR_EXISTS);
    verbs_body(body, version, 5);
    CHECK_OK("updated", kube_update(kube, &path, str_from(body), LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_ERR("with an old version",
              kube_update(kube, &path, str_from(body), LONG_MS, &answer, NULL), ERR_CONFLICT);
    CHECK_TEXT("its reason", answer.reason, "Conflict");
    kube_answer_deinit(&answer);
    verbs_body(body, "", -1);
    CHECK_ERR("nonsense", kube_create(kube, &all, str_from(body), LONG_MS, &answer, NULL),
              ERR_INVALID);
    kube_answer_deinit(&answer);
    static const char other[] = "00000000-0000-0000-0000-000000000000";
    CHECK_ERR("deleting another", kube_delete(kube, &path, other, LONG_MS, &answer, NULL),
              ERR_CONFLICT);
    kube_answer_deinit(&answer);
    CHECK_OK("deleting", kube_delete(kube, &path, NULL, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    CHECK_ERR("gone", get(kube, "verbs", NULL), ERR_NOT_FOUND);
    kube_close(kube);
}

TEST(evicting_a_pod_that_is_not_there_is_not_found)
{
    struct kube *kube = open_as("KUBE_ADMIN");
    struct kube_answer answer;

    CHECK_ERR("the server understands the request",
              kube_evict(kube, "default", "no-such-pod", NULL, LONG_MS, &answer, NULL),
              ERR_NOT_FOUND);
    kube_answer_deinit(&answer);
    kube_close(kube);
}

TEST(a_list_in_pages_is_whole_and_of_one_instant)
{
    struct kube *kube = open_as("KUBE_ADMIN");
    struct kube_list_options options = {.label_selector = "set=pages", .limit = 3};
    struct kube_answer answer = {0}, page;
    struct kube_list_head head;
    size_t items = 0, pages = 0;
    char name[32], first[KUBE_VERSION_CAP] = "";

    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "page-%d", i);
        CHECK_OK("created", make(kube, name, "pages", NULL));
    }
    do {
        CHECK_OK("a page", kube_list(kube, &all, &options, LONG_MS, &page, NULL));
        kube_answer_deinit(&answer);
        answer = page;
        CHECK_OK("a list", kube_list_decode(answer.object, &head, NULL));
        if (pages++ == 0) {
            memcpy(first, head.resource_version, sizeof first);
            CHECK_OK("one more meanwhile", make(kube, "page-late", "pages", NULL));
        }
        CHECK_TEXT("the same instant", head.resource_version, first);
        items += json_count(head.items);
        options.continue_ = head.continue_;
    } while (head.continue_.len && pages < 10);
    CHECK_SIZE("all of the beginning, none of the later", items, 8);
    CHECK_SIZE("pages", pages, 3);
    kube_answer_deinit(&answer);
    kube_close(kube);
}

TEST(a_watch_sees_every_change_in_order)
{
    struct kube *kube = open_as("KUBE_ADMIN");
    struct kube_list_options list = {.label_selector = "set=seen"};
    struct kube_answer answer;
    struct kube_list_head head;
    struct kube_watch *watch = NULL;
    struct kube_event event;
    struct kube_path path = at("seen");
    static const enum kube_event_kind want[] = {KUBE_ADDED, KUBE_DELETED};

    CHECK_OK("a list", kube_list(kube, &all, &list, LONG_MS, &answer, NULL));
    CHECK_OK("its head", kube_list_decode(answer.object, &head, NULL));
    struct kube_watch_options options = {.label_selector = "set=seen",
                                         .resource_version = head.resource_version};
    CHECK_OK("a watch", kube_watch_open(kube, &all, &options, &watch, NULL));
    kube_answer_deinit(&answer);
    CHECK_OK("created", make(kube, "seen", "seen", NULL));
    CHECK_OK("another, unseen", make(kube, "unseen", "other", NULL));
    CHECK_OK("deleted", kube_delete(kube, &path, NULL, LONG_MS, &answer, NULL));
    kube_answer_deinit(&answer);
    for (size_t i = 0; i < ARRAY_LEN(want);) {
        CHECK_OK("an event", kube_watch_next(watch, LONG_MS, &event, NULL));
        if (event.kind != KUBE_BOOKMARK) CHECK_U32("in order", event.kind, want[i++]);
        kube_event_deinit(&event);
    }
    kube_watch_close(watch);
    kube_close(kube);
}
