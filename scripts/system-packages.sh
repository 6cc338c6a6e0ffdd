#!/usr/bin/env bash
# Programs outside of Python that some tests use: Chromium (report), runc, podman and Slurm (running jobs on machines),
# Prometheus with promtool (metrics, alerts, the dashboard).
# Installs what is missing where that is possible (root, apt, a network); otherwise says what is missing. Never fails:
# tests that need a program skip visibly without it.
set -u

WAIT_S="${ROTA_PACKAGES_WAIT_S:-240}"

wanted=()
have() { command -v "$1" >/dev/null 2>&1; }
have chromium || have chromium-browser || have google-chrome || wanted+=(chromium)
have runc || wanted+=(runc)
have podman || wanted+=(podman)
have catatonit || wanted+=(catatonit)
have busybox || wanted+=(busybox-static)
have slurmctld || wanted+=(slurmctld)
have slurmd || wanted+=(slurmd)
have sbatch || wanted+=(slurm-client)
have munged || wanted+=(munge)
have promtool || wanted+=(prometheus)

if [ "${#wanted[@]}" -eq 0 ]; then
  echo "system packages: all there"
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! have apt-get; then
  echo "system packages: missing ${wanted[*]}; tests that need them are skipped (install them with your package manager)"
  exit 0
fi

# A machine that has tried and failed is not asked again for a day, so that every later `make test` starts at once.
stamp="${TMPDIR:-/tmp}/rota-system-packages-$(printf '%s-' "${wanted[@]}")"
if [ -z "${ROTA_PACKAGES_RETRY:-}" ] && [ -n "$(find "$stamp" -mmin -1440 2>/dev/null)" ]; then
  echo "system packages: missing ${wanted[*]}; they could not be installed before (ROTA_PACKAGES_RETRY=1 tries again)"
  exit 0
fi

echo "system packages: installing ${wanted[*]} (at most ${WAIT_S} s)"
export DEBIAN_FRONTEND=noninteractive
apt() {
  local left=$((WAIT_S - SECONDS))
  [ "$left" -gt 0 ] || return 1
  timeout "$left" apt-get -y -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o DPkg::Lock::Timeout=30 "$@" \
    >/dev/null 2>&1
}
failed=()
if ! apt install --no-install-recommends "${wanted[@]}"; then
  apt update
  for package in "${wanted[@]}"; do # one by one: a package that a distribution does not have must not cost the others
    apt install --no-install-recommends "$package" || failed+=("$package")
  done
fi
if [ "${#failed[@]}" -eq 0 ]; then
  echo "system packages: installed"
else
  touch "$stamp"
  echo "system packages: could not install ${failed[*]}; tests that need them are skipped"
fi
exit 0
