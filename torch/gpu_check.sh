#!/usr/bin/env bash
# Checks and measures openmanus on a machine with a CUDA GPU in less than ten minutes: the tests of the computing packages,
# bfloat16, the quickstart, PPO, LoRA, resuming, and the speed and memory of models with 0.6 and 1.5 billion weights.
#
#   torch/gpu_check.sh [--out DIR] [PART...]   in the source folder (needs Go): ./build.sh pack, then the checks
#   gpu_check.sh [--out DIR] [PART...]         in an unpacked pack (build/gpu-check.tar.gz), which needs no Go
#   gpu_check.sh --torch                       prints the PyTorch that the checks use
#
# It needs python3 and a PyTorch of exactly the required release, since PyTorch has no binary compatibility between
# releases: an installed one or, in the source folder, that of ./build.sh cuda. If its commit is not the one that the
# pack was built for, the libraries that call its C++ are compiled again, with g++. nvcc is not needed.
# All results are in DIR/gpu_check.json (default: the folder of the pack). A PART is the beginning of a part's name.
# OPENMANUS_TEST_DEVICE=cpu or protected runs the same parts without a GPU, with small shapes.
# OPENMANUS_GPU_CHECK_SECONDS limits the time of all parts (default 570).
set -Eeuo pipefail
trap 'printf "%s\n" "gpu_check: stopped at line $LINENO, at: $BASH_COMMAND" >&2' ERR

release=2.11.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=${OPENMANUS_TEST_DEVICE:-cuda}

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
  printf '%s\n' "$here"/../build/libtorch/lib "$here"/../build/peer/lib/python3*/site-packages/torch/lib
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
      elif [ "$device" = "${device#cuda}" ]; then
        torch=$(cd "$dir" && pwd) version=$have
        return
      elif [ ! -e "$dir/libtorch_cuda.so" ]; then
        seen+=("$dir: release $have without CUDA (no libtorch_cuda.so)")
      else
        torch=$(cd "$dir" && pwd) version=$have
        return
      fi
    fi
  done < <(torch_folders)
  say "no PyTorch $release with CUDA found. Searched:"
  printf '  %s\n' "${seen[@]:-nothing}" >&2
  die "install it (pip install torch==$release, or ./build.sh cuda in the source folder), or set OPENMANUS_TORCH_LIB to its torch/lib"
}

# -------------------------------------------------------------------- building

commit() { sed -n "s/^git_version *= *'\([^']*\)'.*/\1/p" "$1"; } # commit VERSION.PY

# compile builds the libraries of src against the headers of the PyTorch, unless they are those of its commit.
compile() {
  [ "$(commit "$here/lib/version.py")" != "$(commit "$torch/../version.py")" ] || return 0
  command -v g++ >/dev/null 2>&1 || die "the PyTorch is of another commit than the pack, and g++ is missing; Debian and Ubuntu: apt-get install g++"
  [ -d "$torch/../include/torch" ] || die "$torch: the PyTorch is of another commit than the pack, and has no C++ headers (no include/torch)"
  local obj=$here/obj include=$torch/../include name f flags
  mkdir -p "$obj"
  for f in "$here"/src/gotorch/cgotorch/*.cc; do printf '#include "%s"\n' "$f"; done >"$obj/cgotorch.cpp"
  for f in "$here"/src/shim/*.cc; do printf '#include "%s"\n' "$f"; done >"$obj/shim.cpp"
  for f in "$here"/src/shim/protected/*.cc; do printf '#include "%s"\n' "$f"; done >"$obj/protected.cpp"
  for name in nccl cudagraph; do
    for f in "$here/src/shim/$name"/*.cc; do printf '#include "%s"\n' "$f"; done >"$obj/$name.cpp"
  done
  printf 'extern "C" const char* om_source_hash(void) { return "%s"; }\n' "$(cat "$here"/src/shim/*.* | sha256sum | cut -c1-40)" >>"$obj/shim.cpp"
  for name in cgotorch shim protected nccl cudagraph; do
    say "compiling $name"
    flags=(-O2 -fopenmp -I"$here/src/shim")
    [ $name != cgotorch ] || flags=(-O1 -w -I"$here/src/gotorch")
    [[ $name != nccl && $name != cudagraph ]] || flags+=(-isystem "$here/src/shim/nccl/declarations" -isystem "$torch/../../nvidia/cu13/include")
    g++ -std=c++17 -fPIC -Wno-sign-compare -D_GLIBCXX_USE_CXX11_ABI=1 "${flags[@]}" \
      -isystem "$include" -isystem "$include/torch/csrc/api/include" -c "$obj/$name.cpp" -o "$obj/$name.o"
  done
  share libcgotorch.so "$obj/cgotorch.o"
  local gomp
  gomp=$(find "$torch" "$torch/../../torch.libs" -maxdepth 1 -name 'libgomp*.so*' 2>/dev/null | head -n 1) || true
  share libopenmanus_torch.so "$obj/shim.o" ${gomp:+"$gomp"} -ldl -lpthread
  share libopenmanus_protected.so "$obj/protected.o"
  for name in nccl cudagraph; do share "libopenmanus_$name.so" "$obj/$name.o" -Wl,-z,undefs; done # libtorch_cuda has them
  cp "$torch/../version.py" "$here/lib/version.py"
}

share() { # share LIBRARY INPUTS...
  local lib=$here/lib/$1 links=() dir
  shift
  for dir in "$torch"/../../nvidia/*/lib; do links+=("-Wl,-rpath-link,$dir"); done
  g++ -shared -fPIC -Wl,--no-undefined -o "$lib" "$@" -L"$torch" -ltorch_cpu -lc10 -Wl,-rpath-link,"$torch" "${links[@]}"
}

out=$here parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --torch)
      find_torch
      printf '%s %s\n' "$version" "$torch"
      exit ;;
    --out) [ $# -gt 1 ] || die "--out needs a folder"; out=$2; shift ;;
    --out=*) out=${1#*=} ;;
    -*) die "unknown argument $1; want --out DIR or --torch" ;;
    *) parts+=("$1") ;;
  esac
  shift
done

driver=
[ "$device" = "${device#cuda}" ] || find_driver
find_torch
if [ -f "$here/../build.sh" ]; then
  "$here/../build.sh" pack
  export OPENMANUS_TORCH_LIB=$torch
  exec "$here/../build/gpu-check/gpu_check.sh" --out "$out" "${parts[@]}"
fi
command -v python3 >/dev/null 2>&1 || die "python3 is missing; Debian and Ubuntu: apt-get install python3"
[ -f "$here/lib/version.py" ] || die "$here is not an unpacked pack; make one with ./build.sh pack in the source folder"
say "using PyTorch $version in $torch"
compile
mkdir -p "$out"
out=$(cd "$out" && pwd)
nvidia=$torch/../../nvidia/cu13/lib # NVRTC, which compiles the kernels
export LD_LIBRARY_PATH=$here/lib:$torch:$nvidia${driver:+:$driver}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 "$here/gpu_check.py" "$here" "$device" "$out/gpu_check.json" "$torch" "${parts[@]}"
