/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in reading a kubeconfig and an answer and in one call of
 * each kind (libcurl's and libyaml's own allocations are not counted). After each failure the
 * call returns out of memory, outputs are unchanged, nothing leaks. */
#include <stdlib.h>

#include "kube/kube.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "unit/kube/server.h"

enum { LONG_MS = 20000 };

static const char kubeconfig[] =
    "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u, namespace: n}}]\n"
    "clusters: [{name: c, cluster: {server: https://h, certificate-authority-data: Q0E=,"
    " tls-server-name: t}}]\n"
    "users: [{name: u, user: {token: abc, client-certificate: c.pem, client-key-data: S0VZ}}]\n";

TEST(a_kubeconfig_is_read_whole_or_memory_ran_out)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct kube_config config = {0};
        struct note note = {""};
        enum err err = kube_config_decode(str_from(kubeconfig), "/d", NULL, &config, &note);
        CHECK_ERR("reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("nothing came out", !err || !config.server);
        CHECK("words", !err || note.text[0] != '\0');
        kube_config_deinit(&config);
        turns = k;
    }
    CHECK("many allocations were refused", turns > 15);
}

TEST(a_line_of_a_watch_is_read_whole_or_memory_ran_out)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct kube_event event = {0};
        enum err err = kube_event_decode(
            STR("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}"),
            &event, NULL);
        CHECK_ERR("reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        kube_event_deinit(&event);
    }
}

TEST(a_client_opens_whole_or_not_at_all)
{
    struct kube_config config = {0};

    CHECK_OK("reads", kube_config_decode(str_from(kubeconfig), "/d", NULL, &config, NULL));
    free(config.client_cert_file);
    config.client_cert_file = NULL;
    FAULT_SWEEP_ALLOC(k)
    {
        struct kube *kube = NULL;
        enum err err = kube_open(&config, &kube, NULL);
        CHECK_ERR("reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        kube_close(kube);
    }
    kube_config_deinit(&config);
}

/* One call with the k-th allocation failing; false when it needed fewer. */
static bool call_fails(bool write, uint64_t k)
{
    static const struct kube_path path = {"g", "v1", "ns", "things", "one", NULL};
    struct server *server = server_start();
    struct kube_config config = {.server = (char *)(uintptr_t)server_url(server),
                                 .token = (char *)(uintptr_t) "tok"};
    struct kube *kube = NULL;
    struct kube_answer answer;

    server_answer_json(server, "200 OK", "", "{\"metadata\":{\"name\":\"one\"}}");
    CHECK_OK("opens", kube_open(&config, &kube, NULL));
    fault_alloc_arm(k);
    enum err err = write ? kube_update(kube, &path, STR("{}"), LONG_MS, &answer, NULL)
                         : kube_get(kube, &path, LONG_MS, &answer, NULL);
    bool fired = fault_alloc_fired();
    fault_alloc_arm(0);
    if (!fired)
        CHECK_OK("all went well", err);
    else if (server_requests(server) == 0)
        CHECK_ERR("nothing was sent", err, ERR_NOMEM);
    else /* without memory for the answer the result of a write is unknown */
        CHECK_ERR("it had been sent", err, write ? ERR_UNKNOWN : ERR_NOMEM);
    kube_answer_deinit(&answer);
    kube_close(kube);
    server_stop(server);
    return fired;
}

TEST(a_call_without_memory_is_never_a_success_and_a_write_never_undone)
{
    for (int write = 0; write < 2; write++) {
        uint64_t k = 1;
        while (call_fails(write, k)) k++;
        CHECK("several were refused", k > 10);
    }
}
