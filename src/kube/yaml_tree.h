/* SPDX-License-Identifier: Apache-2.0 */
/* YAML into a tree of mappings, lists and scalars, within bounds: for kubeconfig files.
 *
 * The scanner is libyaml's; it stays behind this header. Stricter than YAML, because a file of
 * credentials must mean one thing only: one document, keys are scalars and stand once, no aliases
 * (a few lines of them unfold to gigabytes), no NUL. JSON is YAML too. */
#ifndef KUBE_YAML_TREE_H
#define KUBE_YAML_TREE_H
#include "base/note.h"
#include "base/str.h"

enum {
    KUBE_YAML_BYTES_MAX = 4 << 20,
    KUBE_YAML_NODES_MAX = 1 << 16,
    KUBE_YAML_DEPTH_MAX = 32,
    KUBE_YAML_KEYS_MAX = 1024, /* of one mapping: a key is compared with those before it */
};

struct kube_yaml;      /* a document; owns its nodes */
struct kube_yaml_node; /* borrowed from it */

/* ERR_PARSE with "line 3, column 7: ..."; ERR_TOO_LARGE past a bound; ERR_UNSUPPORTED for an
 * alias; ERR_NOMEM. An empty document has no root: ERR_PARSE. */
enum err kube_yaml_open(struct str text, struct kube_yaml **ret_yaml, struct note *note);
void kube_yaml_close(struct kube_yaml *yaml); /* NULL is fine */
const struct kube_yaml_node *kube_yaml_root(const struct kube_yaml *yaml);

/* All take NULL and then find nothing. A null (`key:`, `~`, `null`) counts as not there. */
const struct kube_yaml_node *kube_yaml_member(const struct kube_yaml_node *mapping,
                                              const char *key);
const struct kube_yaml_node *kube_yaml_first(const struct kube_yaml_node *list);
const struct kube_yaml_node *kube_yaml_after(const struct kube_yaml_node *item);
bool kube_yaml_is_mapping(const struct kube_yaml_node *node);
bool kube_yaml_is_list(const struct kube_yaml_node *node);
/* Text ends with a NUL behind its last byte. False for what is no scalar. */
bool kube_yaml_text(const struct kube_yaml_node *node, struct str *ret_text);
#endif
