/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as JSON, within bounds: for kubeconfig files.
 *
 * The scanner is libyaml's; it stays behind this header. Stricter than YAML, because a file of
 * credentials must have one meaning only: one document, keys are scalars and unique, no aliases
 * (a few lines of them unfold to gigabytes), no NUL. JSON is YAML too. */
#ifndef KUBE_YAML_JSON_H
#define KUBE_YAML_JSON_H
#include "base/note.h"
#include "text/json.h"

enum {
    KUBE_YAML_BYTES_MAX = 4 << 20,
    KUBE_YAML_NODES_MAX = 1 << 16,
    KUBE_YAML_DEPTH_MAX = 32,
    KUBE_YAML_KEYS_MAX = 1024, /* of one mapping: a key is compared with those before it */
};

/* A scalar becomes a string, or null when it is (`key:`, `~`, `null`). ERR_PARSE with "line 3,
 * column 7: ..."; ERR_TOO_LARGE past a bound; ERR_UNSUPPORTED for an alias; ERR_NOMEM. An empty
 * document is ERR_PARSE. Close with json_close(). */
enum err kube_yaml_open(struct str text, struct json **ret_json, struct note *note);
#endif
