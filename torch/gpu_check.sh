#!/usr/bin/env bash
# Checks openmanus on a machine with a CUDA GPU: parity with transformers, a
# training step, Ctrl-C, and speed compared with the CPU.
#
#   torch/gpu_check.sh             builds (needs Go and g++) and checks
#   torch/gpu_check.sh --pack DIR  builds into DIR for a machine without Go, where
#                                  DIR/gpu_check.sh needs only g++ and PyTorch
#   torch/gpu_check.sh --env       builds, and prints the LD_LIBRARY_PATH that
#                                  openmanus needs on the GPU, for eval "$(…)"
#   torch/gpu_check.sh --torch     prints the PyTorch that the checks use
#
# The script uses the CUDA libtorch of an installed PyTorch of exactly the required
# release, since PyTorch has no binary compatibility between releases. Only the two
# small libraries that call its C++ are compiled against it; the Go programs are not
# rebuilt for it. nvcc is not needed.
set -Eeuo pipefail
trap 'printf "%s\n" "gpu_check: stopped at line $LINENO, at: $BASH_COMMAND" >&2' ERR

release=2.11.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "gpu_check: $*" >&2; }
die() { say "$*"; exit 1; }

# ------------------------------------------------------------------ finding

# find_driver sets driver to the folder of libcuda.so.1.
find_driver() {
  # WSL exposes the GPU as /dev/dxg.
  [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] ||
    die "no NVIDIA GPU found (/dev/nvidiactl does not exist); run this on a machine with a GPU, or start the container with access to it"
  local dir known
  known=$({ ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || true; } | sed -n 's/.*libcuda\.so\.1 .*x86-64.*=> //p' | head -n 1)
  IFS=: read -ra dirs <<<"${LD_LIBRARY_PATH:-}"
  for dir in "${known%/*}" "${dirs[@]}" /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib/wsl/lib /usr/local/nvidia/lib64; do
    [ -n "$dir" ] && [ -e "$dir/libcuda.so.1" ] && { driver=$dir; return; }
  done
  die "libcuda.so.1 not found: install the NVIDIA driver, or make it visible in the container"
}

# torch_folders prints the torch/lib folders to try, in order of preference.
torch_folders() {
  if [ -n "${OPENMANUS_TORCH_LIB:-}" ]; then
    printf '%s\n' "$OPENMANUS_TORCH_LIB" # a folder that the user set is the only candidate
    return
  fi
  local prefix
  for prefix in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    [ -z "$prefix" ] || printf '%s\n' "$prefix"/lib/python3*/site-packages/torch/lib
  done
  if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import importlib.util
spec = importlib.util.find_spec("torch")
if spec and spec.submodule_search_locations:
    print(spec.submodule_search_locations[0] + "/lib")' || true
  fi
  printf '%s\n' "$here"/../build/peer/lib/python3*/site-packages/torch/lib
}

# find_torch sets torch to the first suitable torch/lib, and version to its release.
find_torch() {
  local dir have seen=()
  while IFS= read -r dir; do
    if [ ! -d "$dir" ]; then
      seen+=("$dir: no such folder")
    elif [ ! -f "$dir/../version.py" ]; then
      seen+=("$dir: no version.py in the parent folder, so it is not the torch/lib of PyTorch")
    else
      have=$(sed -n "s/^__version__ *= *['\"]\([^'\"]*\)['\"].*/\1/p" "$dir/../version.py" | head -n 1)
      if [ "${have%%+*}" != "$release" ]; then
        seen+=("$dir: release $have, want $release")
      elif [ ! -e "$dir/libtorch_cuda.so" ]; then
        seen+=("$dir: release $have without CUDA (no libtorch_cuda.so)")
      elif [ ! -d "$dir/../include/torch" ]; then
        seen+=("$dir: release $have without its C++ headers (no include/torch)")
      else
        torch=$(cd "$dir" && pwd) version=$have
        return
      fi
    fi
  done < <(torch_folders)
  say "no PyTorch $release with CUDA found. Searched:"
  printf '  %s\n' "${seen[@]:-nothing}" >&2
  die "install it (pip install torch==$release, or ./build.sh peer in the source folder), or set OPENMANUS_TORCH_LIB to its torch/lib"
}

# -------------------------------------------------------------------- building

# pack DIR collects everything that the checks need, for a machine without Go.
pack() {
  local dir=$1 root src test
  root=$(cd "$here/.." && pwd)
  [ -f "$root/go.mod" ] || die "--pack works only in the source folder"
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  cd "$root"
  ./build.sh build
  src=$(go list -m -f '{{.Dir}}' github.com/wangkuiyi/gotorch)
  rm -rf "$dir/src" "$dir/agent" "$dir/openmanus"
  mkdir -p "$dir/src/shim" "$dir/src/gotorch" "$dir/agent"
  cp -r torch/*.h torch/shim/*.cc torch/shim/*.h torch/shim/gloo "$dir/src/shim"
  cp -r "$src/cgotorch" "$dir/src/gotorch/"
  chmod -R u+w "$dir/src"
  cp build/openmanus "$dir/openmanus"
  for test in model generate; do
    mkdir -p "$dir/agent/llm/$test"
    go test -c -o "$dir/agent/llm/$test/check" "./agent/llm/$test"
  done
  cp -r agent/llm/model/testdata "$dir/agent/llm/model/"
  if [ -d build/models ]; then
    mkdir -p "$dir/build"
    cp -r build/models "$dir/build/"
  fi
  cp torch/gpu_check.sh "$dir/gpu_check.sh"
}

# compile builds the two libraries of $work/src against the headers in $torch.
compile() {
  command -v g++ >/dev/null 2>&1 || die "g++ is missing; Debian and Ubuntu: apt-get install g++"
  local obj=$work/obj include=$torch/../include h name f
  mkdir -p "$obj" "$work/lib"
  h=$(find "$work/src/shim" "$torch/../version.py" -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-40)
  [ "$(cat "$work/lib/hash" 2>/dev/null)" != "$h" ] || return 0
  rm -f "$work/lib/hash"
  for f in "$work"/src/gotorch/cgotorch/*.cc; do printf '#include "%s"\n' "$f"; done >"$obj/cgotorch.cpp"
  for f in "$work"/src/shim/*.cc; do case $f in */fused_*) ;; *) printf '#include "%s"\n' "$f" ;; esac done >"$obj/core.cpp"
  for f in "$work"/src/shim/fused_*.cc; do printf '#include "%s"\n' "$f"; done >"$obj/fused.cpp"
  printf 'extern "C" const char* om_source_hash(void) { return "%s"; }\n' "$h" >"$obj/stamp.cpp"
  for name in cgotorch core fused stamp; do
    say "compiling $name"
    local flags=(-O2 -fopenmp -I"$work/src/shim")
    [ $name != cgotorch ] || flags=(-O1 -w -I"$work/src/gotorch")
    g++ -std=c++17 -fPIC -Wno-sign-compare -D_GLIBCXX_USE_CXX11_ABI=1 "${flags[@]}" \
      -isystem "$include" -isystem "$include/torch/csrc/api/include" -c "$obj/$name.cpp" -o "$obj/$name.o"
  done
  share libcgotorch.so "$obj/cgotorch.o"
  local gomp
  gomp=$(find "$torch" "$torch/../../torch.libs" -maxdepth 1 -name 'libgomp*.so*' 2>/dev/null | head -n 1) || true
  share libopenmanus_torch.so "$obj/core.o" "$obj/fused.o" "$obj/stamp.o" ${gomp:+"$gomp"} -ldl -lpthread
  printf '%s\n' "$h" >"$work/lib/hash"
}

share() { # share LIBRARY INPUTS...
  local lib=$work/lib/$1 links=() dir
  shift
  for dir in "$torch"/../../nvidia/*/lib; do links+=("-Wl,-rpath-link,$dir"); done
  g++ -shared -fPIC -o "$lib" "$@" -L"$torch" -ltorch_cpu -lc10 -Wl,-rpath,"$torch" -Wl,--no-undefined "${links[@]}"
}

# -------------------------------------------------------------------- checking

results=() failed=0

check() { # check NAME COMMAND... runs the command and records the result
  local name=$1 began=$SECONDS
  shift
  say "$name"
  if "$@" >"$work/log/$name.log" 2>&1; then
    results+=("ok      $((SECONDS - began)) s  $name")
  else
    results+=("FAILED  $((SECONDS - began)) s  $name (see $work/log/$name.log)")
    failed=1
    tail -n 15 "$work/log/$name.log" >&2
  fi
}

tests() { # tests FOLDER PATTERN runs the folder's Go tests with every model on the GPU
  (cd "$work/agent/llm/$1" && OPENMANUS_TEST_DEVICE=cuda ./check -test.v -test.timeout 10m -test.run "$2")
}

one_step() { # one_step DEVICE runs the warm start of the quickstart and one step that must change the weights
  rm -rf "$work/run-$1"
  "$work/openmanus" train --device "$1" --set trainer.output_dir="$work/run-$1" --set trainer.total_steps=1 \
    --set rollout.val.group_size=1 &&
    grep '"step":1[,}]' "$work/run-$1/quickstart/metrics.jsonl" | grep -q '"actor/grad_norm":[0-9.e-]*[1-9]'
}

# interrupted checks that Go receives SIGINT, although CUDA installs signal handlers.
interrupted() {
  local out=$work/log/interrupted.out pid code=0
  rm -rf "$work/run-int"
  # A shell's background command ignores SIGINT unless job control is on.
  set -m
  "$work/openmanus" train --device cuda --set trainer.output_dir="$work/run-int" --set trainer.total_steps=50 \
    --set sft.epochs=2 --set rollout.val.group_size=1 >"$out" 2>&1 &
  pid=$!
  set +m
  for _ in $(seq 600); do
    if grep -q '^step  *1/' "$out"; then break; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.5
  done
  kill -INT "$pid" 2>/dev/null || true
  wait "$pid" || code=$?
  cat "$out"
  [ "$code" = 130 ] || { echo "exit status $code, want 130"; return 1; }
}

speed() { # speed DEVICE prints the tokens per second of the training step
  local metric line=
  for metric in sampled_tokens_per_s update_tokens_per_s; do
    line+="  $metric $(sed -n "s/.*\"perf\/$metric\":\([0-9.e+]*\).*/\1/p" "$work/run-$1/quickstart/metrics.jsonl" | tail -n 1)"
  done
  printf '%-5s%s\n' "$1" "$line"
}

case ${1:-} in
  --pack)
    [ $# = 2 ] || die "--pack needs a folder, into which it packs"
    pack "$2"
    say "done; copy $2 to the machine with the GPU and run gpu_check.sh there"
    exit ;;
  --torch)
    find_torch
    printf '%s %s\n' "$version" "$torch"
    exit ;;
  '' | --env) ;;
  *) die "unknown argument $1; want --pack DIR, --env or --torch" ;;
esac

find_driver
find_torch
if [ -f "$here/../go.mod" ]; then
  pack "$here/../build/gpu"
  work=$(cd "$here/../build/gpu" && pwd)
else
  work=$here
fi
say "using PyTorch $version in $torch"
mkdir -p "$work/log"
compile
export LD_LIBRARY_PATH=$work/lib:$torch:$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ "${1:-}" = --env ]; then
  printf 'export LD_LIBRARY_PATH=%q\n' "$LD_LIBRARY_PATH"
  exit
fi

check "log-probs and gradients like transformers" tests model 'TestLogProbsMatch|TestGradientsMatch|TestOpenGGUFMatches|TestSmolLM2'
check "generation" tests generate .
check "one training step on the GPU" one_step cuda
check "one training step on the CPU" one_step cpu
check "Ctrl-C" interrupted

echo
command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
printf '%s\n' "${results[@]}"
if [ $failed = 0 ]; then
  speed cuda
  speed cpu
fi
exit $failed
