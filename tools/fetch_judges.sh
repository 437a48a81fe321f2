#!/usr/bin/env bash
# Unpacks promtool and a headless Chromium, which judge `laneway web` in tests, into
# ~/.cache/laneway/judges. Installs nothing and starts nothing; 122 MB of Debian packages. Without
# them their tests are skipped and say so.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/laneway/judges
mkdir -p "$cache/debs"
cd "$cache/debs"
list=$(apt-get -s install --no-install-recommends chromium-headless-shell prometheus |
  awk '$1 == "Inst" { print $2 }')
for package in $list; do
  apt-get download "$package"
done
for file in *.deb; do dpkg -x "$file" "$cache/root"; done
rm -rf "$cache/debs"
