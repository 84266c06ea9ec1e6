/* SPDX-License-Identifier: Apache-2.0 */
/* Several hosts on one machine: network namespaces joined by a bridge, and small disks, inside a
 * sandbox of the test's own (unshare), so that it works without root and leaves nothing behind.
 *
 * Enter the sandbox first, before any thread exists. Host n has the address 10.77.0.n, seen only
 * inside the sandbox. Cutting is one-way: to split two hosts, cut both directions. */
#ifndef TESTS_LIB_HOSTS_H
#define TESTS_LIB_HOSTS_H
#include "lib/proc.h"
#include <stdbool.h>
#include <stddef.h>

enum { HOSTS_MAX = 16 };

/* New user (when not root), network and mount namespaces for this process. False with the reason,
 * which belongs into SKIP. */
bool sandbox_enter(char *reason, size_t cap);
bool host_add(int host);            /* 1..HOSTS_MAX */
const char *host_address(int host); /* "10.77.0.3" */
/* As proc_start, inside the host. */
bool host_start(int host, struct proc *proc, const char *const *argv);
bool host_cut(int from, int to); /* packets from -> to vanish */
bool host_heal(int from, int to);
bool host_link(int host, bool up); /* pull or plug the cable */

/* A file system of about `bytes` at `path` (an existing directory), gone with the sandbox: ext4 on
 * a loop device where that is allowed, tmpfs otherwise. Returns which, or NULL with the reason. */
const char *disk_mount(const char *path, size_t bytes, char *reason, size_t cap);
void disk_unmount(const char *path);
#endif
