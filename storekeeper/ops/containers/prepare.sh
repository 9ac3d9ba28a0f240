#!/bin/sh
# Makes what docker-compose.yaml mounts: secrets, certificates, and the folders that containers write to. Its argument
# is the folder, .containers by default. What is there stays, so it may be run again.
set -eu
umask 077
folder=${1:-.containers}

fail() {
  echo "$1" >&2
  exit 78
}

# Writes what a command says into a file, if there is none. The file is whole or not there.
new() {
  file=$1
  shift
  if ! test -e "$file"; then
    "$@" > "$file.new"
    mv "$file.new" "$file"
    echo "made $folder/$file" >&2
  fi
}

# Without a line's end: not everybody who reads a secret removes it.
random() {
  openssl rand "$@" | tr '+/' '-_' | tr -d '\n'
}

token() {
  # Nobody knows one whose file is not there.
  test ! -e secrets/tokens || storekeeper token remove "$1" --file secrets/tokens >/dev/null 2>&1 || true
  made=$(storekeeper token add "$1" --role "$2" --file secrets/tokens 2>secrets/said) || fail "$(cat secrets/said)"
  rm secrets/said
  printf %s "$made"
}

key() {
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1
}

authority() {
  openssl req -x509 -new -key secrets/ca.key -days 3650 -subj /CN=storekeeper -addext keyUsage=critical,keyCertSign,cRLSign
}

certificate() {
  printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' "$1" > secrets/extensions
  openssl req -new -key "secrets/$1.key" -subj "/CN=$1" > secrets/request
  openssl x509 -req -in secrets/request -CA secrets/ca.pem -CAkey secrets/ca.key \
    -days 3650 -extfile secrets/extensions 2> secrets/said || fail "no certificate for $1: $(cat secrets/said)"
  rm secrets/extensions secrets/request secrets/said
}

for program in openssl storekeeper; do
  command -v "$program" >/dev/null || fail "the program $program is not in the path"
done
mkdir -p "$folder"
test ! -L "$folder" && test -O "$folder" || fail "$folder is a link, or belongs to another user: name another folder"
cd "$folder"
mkdir -p secrets run/secrets run/delta prometheus grafana
chmod 700 . secrets run run/secrets run/delta prometheus grafana

# An engine refuses a limit that is beyond the machine's processors.
processors=$(nproc)
test "$processors" -le 4 || processors=4
new .env printf 'STOREKEEPER_UID=%s\nSTOREKEEPER_GID=%s\nSTOREKEEPER_CPUS=%s\n' "$(id -u)" "$(id -g)" "$processors"
new secrets/postgres-password random -hex 24
new secrets/airflow-database printf 'postgresql+psycopg2://airflow:%s@postgres/airflow' "$(cat secrets/postgres-password)"
new secrets/grafana-password random -hex 24
new secrets/redis.conf printf 'requirepass %s\nsave ""\n' "$(random -hex 24)"
for name in fernet-key api-secret jwt-secret; do
  new "secrets/airflow-$name" random -base64 32
done
new run/secrets/airflow-passwords.json printf '{"admin": "%s"}\n' "$(random -hex 12)"
new secrets/cluster.key openssl rand 32
new secrets/reader-token token reader reader
new secrets/prometheus-token token prometheus monitor
new secrets/airflow-token token airflow operator
if ! test -e secrets/ca.pem; then
  for left in secrets/*.pem; do
    test ! -e "$left" || fail "$folder/secrets/ca.pem is lost: put it back, or remove secrets/*.pem to have new ones"
  done
fi
test -e secrets/ca.pem || new secrets/ca.key key
new secrets/ca.pem authority
for host in node-a node-b node-c stream-apps; do
  # A certificate without its key is of no use.
  test -e "secrets/$host.key" || rm -f "secrets/$host.pem"
  new "secrets/$host.key" key
  new "secrets/$host.pem" certificate "$host"
done
