/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a directory of this host: file:///dir?sync=always&early_death=0&lock_timeout=10s&
 * tombstone_keep=1h&mode=0770&netfs=create-only. How it works: docs/filestore.md. */
#ifndef PRIM_FILE_FILE_H
#define PRIM_FILE_FILE_H
#include "prim/backend.h"

prim_open_fn prim_file_open;
#endif
