/* SPDX-License-Identifier: Apache-2.0 */
/* How the settings of workers write addresses: numbers to listen at, URLs to dial. */
#ifndef MEMBER_CONFIG_ADDRESS_H
#define MEMBER_CONFIG_ADDRESS_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"

enum { CONFIG_ADDRESS_CAP = 264 };

bool address_is_numeric(const char *address); /* 127.0.0.1:50051, [::1]:0 */
/* https://HOST:PORT, with or without a '/' behind. ERR_INVALID: the note says why. */
enum err address_of_url(struct str url, char address[CONFIG_ADDRESS_CAP], struct note *note);
#endif
