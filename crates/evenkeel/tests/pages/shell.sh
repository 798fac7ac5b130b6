# Before the blocks of a page. `pages/shell.rs` puts other addresses and folders into it, as into the blocks.

# Endpoints that the page has started answer by the time a reader types `run` with their addresses.
await() {
    local word before=
    [ -n "$(jobs -p)" ] || return 0
    for word in "$@"; do
        case $before$word in
        -*) ;;
        [0-9]*:[0-9]*) curl -s -o /dev/null --retry 100 --retry-delay 1 --retry-connrefused --retry-max-time 60 "http://$word/" || true ;;
        esac
        case $word in --*) before=- ;; *) before= ;; esac
    done
}

# A reader ends what runs in the foreground, and starts the next.
serving=
evenkeel() {
    case " $* " in
    *" run "*)
        case " $* " in *" --print-config "*) ;; *) await "$@" ;; esac
        case " $* " in *" -c "* | *" --listen "*) ;; *) set -- "$@" --listen 127.0.0.1:8080 ;; esac
        case " $* " in *" -c "* | *" --admin "*) ;; *) set -- "$@" --admin 127.0.0.1:9900 ;; esac
        case " $* " in *" --print-config "*) "$EVENKEEL" "$@"; return ;; esac
        if [ -n "$serving" ]; then
            kill "$serving"
            wait "$serving" || true
        fi
        "$EVENKEEL" "$@" >greeting 2>&1 &
        serving=$!
        until grep -q '^  end  ' greeting; do
            kill -0 "$serving" || { cat greeting >&2; return 1; }
            sleep 0.02
        done
        cat greeting
        ;;
    *" sim --list "*) "$EVENKEEL" "$@" ;;
    *" sim "*)
        # So few requests show that arguments and files are read; 10 is a claim that so few do not bear out.
        set -- "$@" --requests 300
        case " $* " in *" --seeds "*) ;; *) set -- "$@" --seeds 1 ;; esac
        "$EVENKEEL" "$@" || [ $? = 10 ]
        ;;
    *) "$EVENKEEL" "$@" ;;
    esac
}

# Only the one of this page.
pidof() {
    echo "$serving"
}

# Two endpoints, and an evenkeel in front of them that has served a request.
serve() {
    mkdir -p a b
    echo "from a" >a/index.html
    echo "from b" >b/index.html
    python3 -m http.server 8081 --bind 127.0.0.1 --directory a &
    python3 -m http.server 8082 --bind 127.0.0.1 --directory b &
    cat >evenkeel.toml <<'END'
[admin]
http = { bind = "127.0.0.1:9900" }
bind = "unix:/run/evenkeel/admin.sock"
[telemetry]
access_log = { path = "/var/log/evenkeel/access.jsonl" }
[listener.web]
bind = ["127.0.0.1:8080"]
[pool.web]
endpoints = ["127.0.0.1:8081", "127.0.0.1:8082"]
health = { http = "/" }
END
    for port in 8081 8082; do
        until curl -s -o /dev/null "http://127.0.0.1:$port/"; do sleep 0.02; done
    done
    evenkeel run -c evenkeel.toml
    curl -s http://127.0.0.1:8080/
    until grep -q . /var/log/evenkeel/access.jsonl; do sleep 0.02; done
}
