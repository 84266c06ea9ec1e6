/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a plugin's manifest: flat TOML as rollout writes it (workers.md § 18).
 *
 * Checks the manifest by itself; the worker loads the plugin. Unknown keys are ignored, because
 * other programs may read them. A pyo3 manifest is read too; the loader refuses that mode. */
#ifndef MEMBER_CONFIG_MANIFEST_H
#define MEMBER_CONFIG_MANIFEST_H
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"

enum { MANIFEST_FILE_MAX = 256 << 10, MANIFEST_COMMAND_MAX = 64, MANIFEST_ALLOW_MAX = 256 };
enum manifest_mode { MANIFEST_PYO3, MANIFEST_SIDECAR, MANIFEST_CDYLIB };
enum manifest_protocol { MANIFEST_FRAMED_JSON_UDS, MANIFEST_GRPC_UDS };

struct manifest;              /* opaque: the document and the values read from it */
struct manifest_facts {       /* the keys that a worker uses; other keys are only checked */
    struct str name, version; /* all texts are owned by the manifest and end with NUL */
    enum manifest_mode mode;
    struct str library, symbol;      /* rust-cdylib */
    const char *const *command;      /* arguments of a sidecar; the last element is NULL */
    size_t command_count;            /* at least 1 */
    enum manifest_protocol protocol; /* sidecar */
    struct str socket_template;      /* for a sidecar; empty: the default template */
};

/* Reads a manifest. Returns ERR_PARSE for text that is not TOML, and for a missing key or a key of
 * the wrong type. Returns ERR_INVALID for an impossible value or a mode without its entry. Other
 * errors are ERR_TOO_LARGE and ERR_NOMEM. The note names the key, but not the file. */
enum err manifest_open(struct str toml, struct manifest **ret_manifest, struct note *note);
void manifest_close(struct manifest *manifest); /* NULL is allowed */
const struct manifest_facts *manifest_facts(const struct manifest *manifest);
/* Appends the whole manifest, including unknown keys, as one JSON object: the value of the key
 * plugins/<name>. Returns ERR_FULL or ERR_NOMEM. */
enum err manifest_json(const struct manifest *manifest, struct buf *into);
#endif
