/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kubeconfig: refused with a note, or read to a server, credentials in pairs and a
 * token that is valid in a header. */
#include <stdlib.h>
#include <string.h>

#include "kube/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_config config = {0};
    struct note note = {""};
    enum err err = kube_config_decode(str_of(data, size), "/d", NULL, &config, &note);

    if (err) {
        must(err == ERR_PARSE || err == ERR_TOO_LARGE || err == ERR_UNSUPPORTED ||
             err == ERR_INVALID || err == ERR_NOT_FOUND);
        must(note.text[0] != '\0' && !config.server);
    } else {
        must(config.server != NULL);
        must((config.client_cert_pem || config.client_cert_file) ==
             (config.client_key_pem || config.client_key_file));
        must(!config.insecure_skip_verify || (!config.ca_pem && !config.ca_file));
        for (const char *c = config.token; c && *c; c++) must(*c > ' ' && *c <= '~');
        must(!config.ca_file || config.ca_file[0] == '/');
    }
    kube_config_deinit(&config);
    return 0;
}
