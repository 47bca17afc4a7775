#!/bin/bash
# fetch.sh - grpc-js for grpc_client.js: prints its directory (tests/npm.sh).
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
exec "$here/../npm.sh" "$here" @grpc/grpc-js
