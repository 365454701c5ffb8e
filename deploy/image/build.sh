#!/usr/bin/env bash
# Builds the image isthmus:VERSION from this checkout.
#
#     deploy/image/build.sh            as root; needs mmdebstrap, buildah, and the .venv of `make setup`
#     BASE=python:3.11-slim-bookworm BUILDER=docker deploy/image/build.sh
#
# BASE     image to build on; unset: a Debian of its own, made by mmdebstrap
# BUILDER  buildah (needs no daemon, runs in a chroot) or docker
# TAG      name of the image
# EXTRAS   extras of pyproject.toml, with blanks between, such as "kubernetes otel"
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
builder=${BUILDER:-buildah}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
tag=${TAG:-isthmus:$version}
base=${BASE:-localhost/isthmus-base:bookworm}

need() { command -v "$1" >/dev/null || { echo "$1 is not installed (Debian: apt-get install $1)" >&2; exit 1; }; }
need "$builder"

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$root/requirements/runtime.txt" "$root/deploy/image/Containerfile" "$context"
if [ -n "${EXTRAS:-}" ]; then
    extras=()
    for extra in $EXTRAS; do extras+=(--extra "$extra"); done
    # In the versions that the tests have.
    (cd "$root" && .venv/bin/uv pip compile --quiet --generate-hashes --no-annotate --no-header \
        --no-emit-index-url --python-version 3.11 "${extras[@]}" --constraint requirements/dev.txt \
        pyproject.toml --output-file "$context/runtime.txt" >/dev/null)
fi
"$root/.venv/bin/uv" build --wheel --quiet --out-dir "$context" "$root"

if [ "$builder" = docker ]; then
    docker build --tag "$tag" --build-arg "BASE=$base" --file "$context/Containerfile" "$context"
    exit
fi
if [ -z "${BASE:-}" ] && ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    need mmdebstrap
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,python3-venv \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$context.tar"
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$context.tar" / >/dev/null
    rm "$context.tar"
    buildah commit --quiet --rm "$container" "$base" >/dev/null
fi
# The certificates of this machine, for pip alone: a proxy of the operator may have its own.
certificates=$(readlink -f /etc/ssl/certs/ca-certificates.crt)
buildah build --quiet --isolation chroot --pull-never --format docker --tag "$tag" \
    --build-arg "BASE=$base" --volume "$certificates:/etc/ssl/certs/ca-certificates.crt:ro" \
    --file "$context/Containerfile" "$context"
