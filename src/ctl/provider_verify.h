/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl provider verify: does a provider keep the contract? */
#ifndef CTL_PROVIDER_VERIFY_H
#define CTL_PROVIDER_VERIFY_H
#include "ctl/ctl.h"
#include "ctl/provider_facts.h"

ctl_fn provider_verify;
/* Its middle, over a probe that is open and facts that are initialised: tries them, prints them and
 * judges. ERR_UNSUPPORTED: a fact does not hold. ERR_PRECONDITION: not all was tried. */
enum err provider_verify_facts(struct ctl *ctl, struct facts *facts, const char *address,
                               bool dry_run);
#endif
