# shellcheck shell=bash
# What ./start and ./check share: messages, packages, builds, the demo model. Sourced by bash, never run.
# Everything here speaks on stderr, because the stdout of ./start belongs to the answer.

: "${offline:=false}"
readonly EBB_LOGS=build/logs
on_terminal=false
[[ -t 2 ]] && on_terminal=true

bar_percent=-1 # what the bar on the terminal shows; -1: no bar stands open

close_bar() {
  if $on_terminal && ((bar_percent >= 0)); then printf '\n' >&2; fi
  bar_percent=-1
}

say() {
  close_bar
  printf '%s\n' "$*" >&2
}

step() { say "== $*"; }

# die SENTENCE [REMEDY...]: the sentence, each remedy on a line of its own, exit 1.
die() {
  say "error: $1"
  shift
  local line
  for line in "$@"; do say "  $line"; done
  exit 1
}

# show_progress WHAT DONE TOTAL: a bar on a terminal; elsewhere a line at each new tenth.
show_progress() {
  local what=$1 percent bar
  (($3 > 0)) || return 0
  percent=$(($2 * 100 / $3))
  if $on_terminal; then
    ((percent != bar_percent)) || return 0
    printf -v bar '%*s' $((percent * 30 / 100)) ''
    printf '\r%-10s [%-30s] %3d%%' "$what" "${bar// /#}" "$percent" >&2
  else
    ((percent / 10 != bar_percent / 10 || bar_percent < 0)) || return 0
    printf '%s: %d%%\n' "$what" $((percent / 10 * 10)) >&2
  fi
  bar_percent=$percent
}

make_log_folder() {
  mkdir -p "$EBB_LOGS" 2>/dev/null ||
    die "cannot write into $PWD/build." "Use a clone of your own, or ask its owner to run ./start once."
}

# wanted_packages SECTION...: the lines of tools/packages.txt in these sections.
wanted_packages() {
  local line section='' wanted=" $* "
  while IFS= read -r line || [[ -n $line ]]; do
    case $line in
      '' | '#'*) ;;
      '['*']') section=${line:1:-1} ;;
      *) if [[ $wanted == *" $section "* ]]; then printf '%s\n' "$line"; fi ;;
    esac
  done <tools/packages.txt
}

package_is_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# missing_packages SECTION...: lines of which no alternative is installed.
missing_packages() {
  local line name found
  while IFS= read -r line; do
    found=false
    for name in ${line//|/ }; do
      if package_is_installed "$name"; then
        found=true
        break
      fi
    done
    $found || printf '%s\n' "$line"
  done < <(wanted_packages "$@")
}

# first_available LINE: the first alternative that apt can install.
first_available() {
  local name
  for name in ${1//|/ }; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      printf '%s\n' "$name"
      return
    fi
  done
  printf '%s\n' "${1%% *}"
}

# run_apt DOWNLOAD_LABEL ARGUMENTS...: apt-get with a progress bar; its own words go to a log.
run_apt() {
  local download_label=$1 log=$EBB_LOGS/apt.log rc=0 line kind percent
  shift
  close_bar
  while IFS= read -r line; do
    IFS=: read -r kind _ percent _ <<<"$line"
    case $kind in
      pmstatus) show_progress install "${percent%%.*}" 100 ;;
      dlstatus) show_progress "$download_label" "${percent%%.*}" 100 ;;
      exit-status) rc=$percent ;;
      *) printf '%s\n' "$line" >>"$log" ;;
    esac
  done < <(
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o APT::Status-Fd=1 "$@" \
      2>&1 </dev/null || rc=$?
    printf 'exit-status::%d\n' "$rc"
  )
  if ((rc != 0)); then
    close_bar
    tail -n 15 "$log" >&2 || true
    die "apt-get $* failed; the whole log is $log." "Look at the lines above, put that right, and run this again."
  fi
}

# install_packages SECTION...: brings what is missing; no apt call where nothing is.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "note: this is not a Debian or Ubuntu, so nothing is installed here. The build needs:"
    say "  $(wanted_packages "$@" | tr '\n' ' ')"
    return
  fi
  local lines=() names=() line
  mapfile -t lines < <(missing_packages "$@")
  if ((${#lines[@]} == 0)); then
    step "packages: all $(wanted_packages "$@" | wc -l) are installed"
    return
  fi
  for line in "${lines[@]}"; do names+=("${line%% *}"); done
  local by_hand="apt-get update && apt-get install ${names[*]}"
  if $offline; then
    die "--offline, and ${#names[@]} packages are missing: ${names[*]}" "With a network: sudo sh -c '$by_hand'"
  fi
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "${#names[@]} packages are missing, and there is no sudo to install them." "As root: $by_hand"
    as_root=(sudo)
    if [[ ! -t 0 ]]; then as_root=(sudo -n); fi
    "${as_root[@]}" true ||
      die "${#names[@]} packages are missing, and sudo refused." "As root: $by_hand"
  fi
  step "packages: installing ${#names[@]}: ${names[*]}"
  make_log_folder
  run_apt lists update
  names=()
  for line in "${lines[@]}"; do names+=("$(first_available "$line")"); done
  run_apt download install -y --no-install-recommends "${names[@]}"
}

# cache_has FILE -DNAME=VALUE...: whether the build folder was configured with all of these.
cache_has() {
  local cache=$1 setting
  shift
  for setting in "$@"; do
    setting=${setting#-D}
    grep -qE "^${setting%%=*}:[A-Z]+=${setting#*=}\$" "$cache" || return 1
  done
}

# configure PRESET [-DNAME=VALUE...]: when the build folder is absent, older than the presets, or set otherwise.
configure() {
  local preset=$1 folder=build/$1
  shift
  local cache=$folder/CMakeCache.txt
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
    say "note: $folder was made for another folder; making it anew"
    rm -rf "$folder"
  fi
  if [[ -f $folder/build.ninja && ! CMakePresets.json -nt $cache ]] && cache_has "$cache" "$@"; then return; fi
  step "configure: $preset"
  make_log_folder
  local log=$EBB_LOGS/configure-$preset.log
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    tail -n 25 "$log" >&2
    rm -f "$folder/build.ninja"
    die "cmake could not configure $preset; the whole log is $log."
  fi
  touch "$cache"
}

# build PRESET [TARGET...]: builds with a progress bar; a failure shows the compiler's words.
build() {
  local preset=$1 log=$EBB_LOGS/build-$1.log rc=0 line
  shift
  make_log_folder
  step "build: $preset"
  : >"$log"
  while IFS= read -r line; do
    if [[ $line == exit-status:* ]]; then
      rc=${line#*:}
      continue
    fi
    printf '%s\n' "$line" >>"$log"
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      show_progress build "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    fi
  done < <(
    NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" ${1:+--target "$@"} 2>&1 || rc=$?
    printf 'exit-status:%d\n' "$rc"
  )
  if ((rc != 0)); then
    close_bar
    { grep -v '^\[' "$log" || true; } | tail -n 40 >&2
    if grep -qE 'Killed|virtual memory exhausted|[Cc]annot allocate memory' "$log"; then
      say "The compiler ran out of memory. Try: CMAKE_BUILD_PARALLEL_LEVEL=1 $0"
    fi
    die "the build of $preset failed; the whole log is $log."
  fi
}

# system_python: the distribution's own, which has the pip that packages.txt brings.
system_python() {
  if [[ -x /usr/bin/python3 ]]; then printf /usr/bin/python3; else printf python3; fi
}

# fetch_demo_model: prints its path, or fails with the tool's own sentence on stderr.
fetch_demo_model() {
  local arguments=()
  if $offline; then arguments=(--offline); fi
  close_bar
  "$(system_python)" tools/fetch_demo_model.py "${arguments[@]}"
}

# gpu_settings: the cmake settings for this machine's NVIDIA cards, one a line; brings a compiler where there is none. Nothing
# without a card. A compiler that cannot be had is no failure: Ebb is built for the CPU then, and says why.
gpu_settings() {
  local arguments=() architectures
  if $offline; then arguments=(--offline); fi
  close_bar
  if ! architectures=$("$(system_python)" tools/fetch_cuda_compiler.py "${arguments[@]}"); then
    say "note: no CUDA compiler, so Ebb is built for the CPU alone"
    return
  fi
  if [[ -n $architectures ]]; then printf '%s\n' -DEBB_CUDA=ON "-DEBB_CUDA_ARCHITECTURES=$architectures"; fi
}
