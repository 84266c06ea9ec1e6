# SPDX-License-Identifier: Apache-2.0
# Sourced by setup and engine-asserts: where this machine gets its Debian packages from.

# Prints the deb822 stanza of the first source that carries suite $1, its Suites line replaced by
# $2: the address and the key stay the machine's own, so none is written in this repository.
stanza_from_machine() {
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        awk -v suite="$1" -v now="$2" '
            function flush() { if (found && !done) { printf "%s", text; done = 1 } text = ""; found = 0 }
            /^[ \t]*$/ { flush(); next }
            /^#/       { next }
            /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite) found = 1; $0 = "Suites: " now }
                       { text = text $0 "\n" }
            END        { flush() }' "$file"
    done | awk 'seen && /^Types:/ { exit } { seen = 1; print }'
}

# The same for a one-line source ("deb [options] URI suite components").
line_from_machine() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v suite="$1" -v now="$2" '
        $1 == "deb" { for (i = 2; i <= NF; i++) if ($i == suite) { $i = now; print; exit } }'
}
