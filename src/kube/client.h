/* SPDX-License-Identifier: Apache-2.0 */
/* What watch.c needs of client.c. */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H
#include "kube/channel.h"
#include "kube/kube.h"

const struct target *kube_target(const struct kube *kube);
/* Heap, or left alone when there is none. */
enum err kube_token(struct kube *kube, char **ret_token, struct note *note);
enum err kube_channel_take(struct kube *kube, struct channel **ret_channel);
void kube_channel_give(struct kube *kube, struct channel *own_channel);
enum err kube_url_path(const struct kube *kube, const struct kube_path *path, struct buf *url,
                       struct note *note);
enum err kube_url_query(struct buf *url, const char *key, struct str value);
#endif
