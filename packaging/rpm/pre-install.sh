# The unit would make a user for each run. A lasting one may own files: keys and certificates for its group alone.
getent passwd evenkeel >/dev/null ||
    useradd --system --user-group --home-dir /var/lib/evenkeel --no-create-home --shell /sbin/nologin evenkeel
