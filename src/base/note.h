/* SPDX-License-Identifier: Apache-2.0 */
/* The text that goes with an error, read as a path: "join replica-2: dial 10.0.0.7:7001: refused".
 *
 * The code says what to do, the note says where it happened. Callers that do not care pass NULL. A
 * note is fixed in size; what does not fit is cut and marked with "...". Lower case, no full
 * stop. */
#ifndef BASE_NOTE_H
#define BASE_NOTE_H
#include "base/base.h"

#define NOTE_CAP 320
struct note {
    char text[NOTE_CAP];
};

/* Replaces the text. NULL note: nothing happens. */
void note_set(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same as an expression that is `err`, to be returned. */
#define note_fail(note, err, ...) (note_set((note), __VA_ARGS__), (err))
/* Puts "<formatted>: " before the text, as an error travels up; just "<formatted>" when it is
 * empty. */
void note_prefix(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
