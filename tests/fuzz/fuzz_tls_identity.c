/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a DER certificate: no crash, and no name with a NUL. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "io/tls_identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_names(const struct str *names, size_t count)
{
    must(count <= TLS_NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
        must(names[i].len > 0);
        for (size_t at = 0; at < names[i].len; at++)
            must(names[i].at[at] > 0x20 && names[i].at[at] < 0x7f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_identity *identity = NULL;
    struct note note = {""};
    struct str uri = STR_EMPTY;
    X509 *certificate = d2i_X509(NULL, &data, (long)size);
    enum err err = certificate ? tls_identity_read(certificate, &identity, &note) : ERR_PARSE;

    X509_free(certificate);
    ERR_clear_error();
    if (!certificate) return 0;
    if (err) {
        must(!identity && note.text[0]);
        must(err == ERR_UNAUTHENTICATED || err == ERR_NOMEM);
        return 0;
    }
    check_names(identity->uris, identity->uri_count);
    check_names(identity->dns_names, identity->dns_count);
    must(str_is_utf8(identity->common_name));
    if (identity->common_name.len)
        must(!memchr(identity->common_name.at, 0, identity->common_name.len));
    if (tls_identity_uri(identity, STR("bigfleet"), &uri) == ERR_OK)
        must(str_equal_nocase((struct str){uri.at, 9}, STR("bigfleet:")));
    free(identity);
    return 0;
}
