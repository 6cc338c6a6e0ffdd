#!/bin/sh
# Makes the committed stubs of src/rota/rpc anew. The generator is an old one on purpose: stubs run on the version of
# protobuf they were made with and all newer ones, never on older ones.
set -e
cd "$(dirname "$0")/.."
VENV="${TMPDIR:-/tmp}/rota-stubs"
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
"$VENV/bin/pip" install --quiet 'grpcio-tools==1.71.2'
"$VENV/bin/python" -m grpc_tools.protoc -I src --python_out=src --grpc_python_out=src --pyi_out=src src/rota/rpc/rota.proto
