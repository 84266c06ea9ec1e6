/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that shows what another one is asked and answers: one line of JSON for each call, to
 * the file of ?trace=PATH (appended) or to stderr. Values, owners and lease ids are not written. */
#ifndef TESTS_DISTURB_TRACE_H
#define TESTS_DISTURB_TRACE_H
#include "disturb/disturb.h"

disturb_wrap_fn prim_trace_wrap;
#endif
