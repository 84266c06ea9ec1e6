#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each .c file of the product opens with a comment, and no comment or name of the product uses a word that has a plain
replacement; no comment follows the brace of an enum, because clang-format 14 moves the members below it.

Pages for users have at most 40,000 words; pages for developers, records and generated tables do not count.

usage: prose.py SOURCE_ROOT   (prints TAP)
"""
import re
import sys

from source import C, PRODUCT, files

WORDS = {  # word: what to write instead
    "told": "sent, reported, returned, notified", "tell": "send, report, show", "tells": "sends, reports, shows",
    "stands": "is, holds, remains", "stood": "was, held", "shelf": "the field's term", "shelves": "the field's term",
    "whoever": "the caller, the owner", "hence": "therefore", "thereby": "by this", "mend": "fix", "mends": "fixes",
    "errand": "request, call", "outcast": "removed replica", "thinker": "decide thread", "courier": "caller thread",
    "rooms": "slots", "desk": "the field's term", "likewise": "also, the same", "thought": "expected, decision",
}
WORD = re.compile(r"(?<![A-Za-z])(%s)(?![A-Za-z])" % "|".join(WORDS), re.I)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
BEHIND_BRACE = re.compile(r"^\s*(?:typedef )?(?:static )?enum[\w ]*\{ +/\*")

USER_WORDS_MAX = 40000
OTHER_PAGES = ("architecture.md", "testing.md", "raft-guards.md", "messages.md", "metrics.md")


def user_words(root):
    """The words of docs/*.md and docs/guide; a word has a letter."""
    return sum(len([word for word in text.split() if re.search("[A-Za-z]", word)]) for path, text in files(root, ("docs",), ".md")
               if (path.count("/") == 1 or path.startswith("docs/guide/")) and not path.endswith(OTHER_PAGES))


def words(text):
    """(line, word) outside of string literals: texts that others compare are in fixed-texts.txt."""
    for number, line in enumerate(text.splitlines(), 1):
        for word in WORD.findall(STRING.sub('""', line)):
            yield number, word


def opens(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) > 1 and lines[1].startswith("/*")


def judge(number, faults, what):
    for fault in sorted(faults):
        print("# " + fault)
    print(f"{'not ok' if faults else 'ok'} {number} - {what}")
    return bool(faults)


def main():
    product = list(files(sys.argv[1], (*PRODUCT, "include"), C))
    failed = judge(1, [f"{path}: say below the license what the file is responsible for" for path, text in product
                       if path.endswith(".c") and not opens(text)],
                   f"{len(product)} files of the product: each .c file opens with a comment")
    failed |= judge(2, [f"{path}:{number}: {word}: write {WORDS[word.lower()]}" for path, text in product
                        for number, word in words(text)], "no word that has a plain replacement")
    failed |= judge(3, [f"{path}:{number}: put the comment above" for path, text in product
                        for number, line in enumerate(text.splitlines(), 1) if BEHIND_BRACE.match(line)],
                    "no comment behind the brace of an enum")
    count = user_words(sys.argv[1])
    failed |= judge(4, [f"{count} words: delete some"] if not 20000 < count <= USER_WORDS_MAX else [],
                    f"pages for users have {count} words, at most {USER_WORDS_MAX}")
    found = [word for _, word in words("/* it stands */\nwas_told(x, \"stands\");\nunderstands = told_at;")]
    good = found == ["stands", "told", "told"] and not opens("/* SPDX */\n#include") and opens("/* SPDX */\n\n/* x */") \
        and BEHIND_BRACE.match("enum x { /* y */") and len(product) > 500
    print(f"{'ok' if good else 'not ok'} 5 - offences are found\n1..5")
    sys.exit(failed or not good)


main()
