/* SPDX-License-Identifier: Apache-2.0 */
/* A careful client while servers stop and start: repeats a call under the same request id as
 * long as the answer is UNAVAILABLE (A8, A10). Cases use the calls of coord.h; with
 * --outages each of these calls is replaced by its patient twin. A call with a time-out
 * shorter than usual is not repeated. */
#ifndef TESTS_CONFORMANCE_PATIENCE_H
#define TESTS_CONFORMANCE_PATIENCE_H
#include <muster/coord.h>

/* How long outages last at most; 0: there are none. Set once, before the first call. */
void patience_set(int64_t outage_ms);
int64_t patience_outage_ms(void);
/* Number of calls that the store did not answer within the default time since patience_begin(): a
 * real server whose disk stopped. */
void patience_begin(void);
int patience_unanswered(void);

coord_result patient_open(const char *url, const coord_options *options, coord_store **ret_store);
coord_result patient_create_if_absent(coord_store *store, const coord_call *call, coord_str key,
                                      coord_str value, int64_t ttl_ms, const char *owner,
                                      coord_lease **ret_lease);
coord_result patient_compare_and_set(coord_store *store, const coord_call *call, coord_str key,
                                     uint64_t expected, coord_str value, int64_t ttl_ms,
                                     const char *owner, coord_lease *lease,
                                     coord_lease **ret_lease);
coord_result patient_create_under(coord_lease *lease, const coord_call *call, coord_str key,
                                  coord_str value);
coord_result patient_delete(coord_store *store, const coord_call *call, coord_str key,
                            uint64_t expected, coord_lease *lease);
coord_result patient_get(coord_store *store, const coord_call *call, coord_str key, int consistency,
                         coord_entry **ret_entry);
coord_result patient_acquire_slot(coord_store *store, const coord_call *call,
                                  const coord_slot_request *request, coord_lease **ret_lease);
coord_result patient_resize_group(coord_store *store, const coord_call *call, coord_str group,
                                  uint64_t expected, uint32_t slot_count);
coord_result patient_list_holders(coord_store *store, const coord_call *call, coord_str group,
                                  coord_holders **ret_holders);
coord_result patient_renew(coord_lease *lease, const coord_call *call);
coord_result patient_release(coord_lease *lease, const coord_call *call);
coord_result patient_release_key(coord_lease *lease, const coord_call *call, coord_str key);
coord_result patient_lease_import(coord_store *store, const coord_call *call, const void *blob,
                                  size_t len, coord_lease **ret_lease);
coord_result patient_assert_token(coord_store *store, const coord_call *call, coord_str key,
                                  uint64_t token);
coord_result patient_watch_open(coord_store *store, const coord_call *call, coord_str scope,
                                uint32_t flags, coord_watch **ret_watch);

#ifndef PATIENCE_ITSELF
#define coord_open             patient_open
#define coord_create_if_absent patient_create_if_absent
#define coord_compare_and_set  patient_compare_and_set
#define coord_create_under     patient_create_under
#define coord_delete           patient_delete
#define coord_get              patient_get
#define coord_acquire_slot     patient_acquire_slot
#define coord_resize_group     patient_resize_group
#define coord_list_holders     patient_list_holders
#define coord_renew            patient_renew
#define coord_release          patient_release
#define coord_release_key      patient_release_key
#define coord_lease_import     patient_lease_import
#define coord_assert_token     patient_assert_token
#define coord_watch_open       patient_watch_open
#endif
#endif
