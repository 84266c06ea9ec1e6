/* SPDX-License-Identifier: Apache-2.0 */
/* Converts YAML to JSON within bounds, for kubeconfig files. A file of credentials must be
 * unambiguous: one document, unique scalar keys, no aliases, no NUL. JSON is valid input. */
#ifndef KUBE_YAML_JSON_H
#define KUBE_YAML_JSON_H
#include "base/note.h"
#include "text/json.h"

enum {
    KUBE_YAML_BYTES_MAX = 4 << 20,
    KUBE_YAML_NODES_MAX = 1 << 16,
    KUBE_YAML_DEPTH_MAX = 32,
    KUBE_YAML_KEYS_MAX = 1024, /* per mapping; each key is compared with all keys before it */
};

/* Scalars become strings; empty scalars, `~` and `null` become null. ERR_PARSE with "line 3, column
 * 7: ...", also for an empty document. ERR_TOO_LARGE: a bound was exceeded. ERR_UNSUPPORTED: an
 * alias. ERR_NOMEM. Close the result with json_close(). */
enum err kube_yaml_open(struct str text, struct json **ret_json, struct note *note);
#endif
