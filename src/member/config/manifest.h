/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a plugin's manifest: flat TOML as rollout writes it (workers.md § 18).
 *
 * Unknown keys are ignored, because other programs may read them. A pyo3 manifest is read too; the
 * loader refuses that mode. */
#ifndef MEMBER_CONFIG_MANIFEST_H
#define MEMBER_CONFIG_MANIFEST_H
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"

enum { MANIFEST_FILE_MAX = 256 << 10, MANIFEST_COMMAND_MAX = 64, MANIFEST_ALLOW_MAX = 256 };
enum manifest_mode { MANIFEST_PYO3, MANIFEST_SIDECAR, MANIFEST_CDYLIB };
enum manifest_protocol { MANIFEST_FRAMED_JSON_UDS, MANIFEST_GRPC_UDS };

struct manifest;
struct manifest_facts {       /* the keys that a worker uses; other keys are only checked */
    struct str name, version; /* the manifest owns all texts, which end with NUL */
    enum manifest_mode mode;
    struct str library, symbol;      /* rust-cdylib */
    const char *const *command;      /* arguments of a sidecar; ends with NULL */
    size_t command_count;            /* at least 1 */
    enum manifest_protocol protocol; /* sidecar */
    struct str socket_template;      /* for a sidecar; empty: the default template */
};

/* ERR_PARSE: not TOML, a missing key, or a key of the wrong type. ERR_INVALID: an impossible value,
 * or a mode without its entry. Also ERR_TOO_LARGE, ERR_NOMEM. The note names the key, but not the
 * file. */
enum err manifest_open(struct str toml, struct manifest **ret_manifest, struct note *note);
void manifest_close(struct manifest *manifest); /* NULL is allowed */
const struct manifest_facts *manifest_facts(const struct manifest *manifest);
/* Appends the whole manifest, unknown keys included, as one JSON object: the value of the key
 * plugins/<name>. ERR_FULL, ERR_NOMEM. */
enum err manifest_json(const struct manifest *manifest, struct buf *into);
#endif
