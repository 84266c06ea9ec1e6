/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's manifest: an accepted one has everything that its mode needs and prints as JSON; a
 * refusal gives a reason. */
#include <stddef.h>
#include <stdint.h>

#include "member/config/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct manifest *manifest)
{
    const struct manifest_facts *f = manifest_facts(manifest);
    struct buf json;
    enum err err;

    assert(f->name.len && f->version.len);
    assert(f->mode != MANIFEST_SIDECAR || (f->command_count && !f->command[f->command_count]));
    assert(f->mode != MANIFEST_CDYLIB || (f->library.len && f->symbol.len));
    buf_init(&json, 16 << 20);
    err = manifest_json(manifest, &json);
    assert(!err || err == ERR_NOMEM || err == ERR_TOO_LARGE);
    buf_deinit(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest *manifest = NULL;
    struct note note = {""};
    enum err err = manifest_open(str_of((const char *)data, size), &manifest, &note);

    assert(!err || note.text[0] || err == ERR_NOMEM);
    if (!err) use(manifest);
    manifest_close(manifest);
    return 0;
}
