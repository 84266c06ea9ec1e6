/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that apply may not do without: a replica that has none ends rather than differ. */
#ifndef STORE_CORE_MUST_H
#define STORE_CORE_MUST_H
void *store_must(void *memory);
#endif
