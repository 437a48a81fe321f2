# Set-up on Debian 12, sourced by ./dev: Debian packages and the Python environment .venv.
# Checks before it installs, so that a second run costs a few forks and no network.
# shellcheck shell=bash

# What compiling needs; what tests and lint need on top.
PACKAGES_BUILD=(g++ cmake ninja-build ccache git ca-certificates libgtest-dev libgmock-dev
  libspdlog-dev nlohmann-json3-dev libzmq3-dev libcereal-dev libcli11-dev
  zlib1g-dev)
# clang without what its packages recommend has no sanitizers (libclang-rt-dev), and their reports no
# names (llvm: its symbolizer).
PACKAGES_CHECK=(clang clang-format clang-tidy libclang-rt-dev llvm)

say() { printf 'dev: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}
have_command() { command -v "$1" >/dev/null 2>&1; }

# set_up GROUP…: packages of the groups (build, check), then .venv and the environments of
# TORCH_MINORS, each in build/env-MINOR. One set-up at a time.
TORCH_MINORS=()
set_up() {
  local packages=() group
  for group in "$@"; do
    case "$group" in
      build) packages+=("${PACKAGES_BUILD[@]}") ;;
      check) packages+=("${PACKAGES_CHECK[@]}") ;;
    esac
  done
  mkdir -p "$ROOT/.cache"
  exec 9>"$ROOT/.cache/setup.lock"
  if ! flock --nonblock 9; then
    say "another set-up of this checkout is running; waiting for it"
    flock 9
  fi
  install_packages "${packages[@]}"
  make_venv "$ROOT/.venv" "$ROOT/requirements.txt"
  local minor
  for minor in "${TORCH_MINORS[@]}"; do
    mkdir -p "$ROOT/build"
    requirements_of "$minor" >"$ROOT/build/env-$minor.txt"
    make_venv "$ROOT/build/env-$minor" "$ROOT/build/env-$minor.txt"
  done
  exec 9>&-
}

# requirements_of MINOR: requirements.txt with the newest torch of that minor version, and of what is
# for one torch only, the one that pip finds for it.
requirements_of() {
  grep -vE '^(torch|torchvision|triton)==' "$ROOT/requirements.txt"
  printf 'torch==%s.*\ntorchvision\n' "$1"
}

install_packages() {
  if ! have_command dpkg-query; then
    say "not a Debian system: trusting that the counterparts of these are installed: $*"
    return
  fi
  local wanted=("$@") missing=() package
  # A Python that brings its own venv (not Debian's) needs no package.
  if ! have_command python3 || ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    wanted+=(python3 python3-venv)
  fi
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    have_command sudo || fail "Debian packages are missing and this is neither root nor a user with" \
      "sudo. Have an administrator run: apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update ||
    fail "apt-get update failed: check the network and apt's sources, then run this again"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes \
    --no-install-recommends "${missing[@]}" ||
    fail "apt-get install failed (its reason is above): ${missing[*]}"
}

# make_venv FOLDER REQUIREMENTS: an environment with exactly what the file pins; a stamp inside says
# which version of it was installed by which Python.
make_venv() {
  local venv=$1 requirements=$2 stamp="$1/.laneway-requirements" hash name=${1#"$ROOT/"}
  hash=$(sha256sum <"$requirements")
  if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$hash" ]; then return; fi
  else
    say "making $name with $(python3 --version)"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
      fail "Laneway needs Python 3.11 or newer; python3 on the PATH is $(python3 --version)"
    rm -rf "$venv"
    python3 -m venv "$venv" || fail "python3 -m venv failed (its reason is above)"
  fi
  local free_kib
  free_kib=$(df --output=avail -k "$ROOT" | tail -n 1)
  if [ ! -d "$venv"/lib/python3*/site-packages/torch ] && [ "$free_kib" -lt $((9 << 20)) ]; then
    fail "the Python packages (torch above all) need about 9 GiB while they are installed;" \
      "$((free_kib >> 20)) GiB are free under $ROOT"
  fi
  say "installing Python packages into $name (torch is a download of 2.7 GB the first time)"
  "$venv/bin/python" -m pip install --disable-pip-version-check -r "$requirements" ||
    fail "pip failed (its reason is above): check the network and pip's configuration, then run" \
      "this again; what was installed so far is kept"
  printf '%s\n' "$hash" >"$stamp"
}
