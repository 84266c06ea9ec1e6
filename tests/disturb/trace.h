/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that logs the calls and answers of another one: one line of JSON for each call, to
 * the file of ?trace=PATH (appended) or to stderr. Values, owners and lease ids are not written. */
#ifndef TESTS_DISTURB_TRACE_H
#define TESTS_DISTURB_TRACE_H
#include "disturb/disturb.h"

disturb_wrap_fn prim_trace_wrap;
#endif
