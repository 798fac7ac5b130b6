if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
# As RPM has it, the user stays, as files of theirs may: state and logs. The cache is only copies. The folder goes
# unless there is a file in it.
if [ "$1" = 0 ]; then
    rm -rf /var/cache/evenkeel /var/cache/private/evenkeel
    rmdir /etc/evenkeel /usr/share/evenkeel /usr/share/licenses/evenkeel 2>/dev/null || true
fi
