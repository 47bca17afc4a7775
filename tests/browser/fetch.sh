#!/bin/bash
# fetch.sh - playwright-core, which drives a browser: prints its directory (tests/npm.sh).  It brings no
# browser: that is Debian's chromium.
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
exec "$here/../npm.sh" "$here" playwright-core
