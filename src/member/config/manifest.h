/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's manifest: flat TOML as rollout writes it (workers.md § 18).
 *
 * Says what the file says and whether it makes sense by itself; loading is the worker's affair.
 * Unknown keys are let be: a manifest may carry what others read. A pyo3 manifest is read like the
 * others; the loader refuses the mode. */
#ifndef MEMBER_CONFIG_MANIFEST_H
#define MEMBER_CONFIG_MANIFEST_H
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"

enum { MANIFEST_FILE_MAX = 256 << 10, MANIFEST_COMMAND_MAX = 64, MANIFEST_ALLOW_MAX = 256 };
enum manifest_mode { MANIFEST_PYO3, MANIFEST_SIDECAR, MANIFEST_CDYLIB };
enum manifest_protocol { MANIFEST_FRAMED_JSON_UDS, MANIFEST_GRPC_UDS };

struct manifest;              /* opaque: the document and what was read of it */
struct manifest_facts {       /* that a worker goes by; the other keys are checked only */
    struct str name, version; /* all texts end with NUL, and are the manifest's */
    enum manifest_mode mode;
    struct str library, symbol;      /* rust-cdylib */
    const char *const *command;      /* sidecar; ends with NULL */
    size_t command_count;            /* at least 1 */
    enum manifest_protocol protocol; /* sidecar */
    struct str socket_template;      /* sidecar; empty: the default */
};

/* ERR_PARSE: no TOML, a key missing or of another type. ERR_INVALID: a value that makes no sense, a
 * mode without its entry. ERR_TOO_LARGE, ERR_NOMEM. The note names what is wrong, not the file. */
enum err manifest_open(struct str toml, struct manifest **ret_manifest, struct note *note);
void manifest_close(struct manifest *manifest); /* NULL is fine */
const struct manifest_facts *manifest_facts(const struct manifest *manifest);
/* The whole manifest as one JSON object, unknown keys too: the value of plugins/<name>. ERR_FULL,
 * ERR_NOMEM. */
enum err manifest_json(const struct manifest *manifest, struct buf *into);
#endif
