# 0 remains: it is removed, not upgraded.
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now evenkeel.service evenkeel.socket
fi
