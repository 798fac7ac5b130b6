//! Completion of the names of a running evenkeel in a shell: bash asks as it would for a person.

use crate::support::{Endpoint, Folder, Running, address, text};
use std::process::Command;

/// Words that bash offers for this command line, of which the last word is being typed.
fn offered(words: &[&str]) -> Vec<String> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_evenkeel"));
    let script = "source <(evenkeel completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
                  _clap_complete_evenkeel evenkeel \"${!#}\" \"\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a folder").display());
    let done = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .env("PATH", path)
        .env("RUNTIME_DIRECTORY", "/nowhere")
        .output()
        .expect("bash can be started");
    assert_eq!(text(&done.stderr), "", "{words:?}");
    text(&done.stdout).split(['\n', '\u{b}']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn names_of_a_running_process_complete() {
    let (one, folder, listen, admin) = (Endpoint::start("one"), Folder::new("completion"), address(), address());
    let token = folder.file("token", "a-token-that-may-write");
    let file = folder.file(
        "evenkeel.toml",
        &format!(
            "[admin]\nbind = 'unix:{1}/admin.sock'\nhttp = {{ bind = '{admin}', read_token = '{token}' }}\n[listener.web]\nbind = ['{listen}']\n\
             [[route]]\nname = 'cart'\npool = 'shop'\nmatch = {{ path = '/cart' }}\n\
             [[route]]\nname = 'rest'\npool = 'other'\nmatch = {{ path = '/{{*rest}}' }}\n\
             [pool.shop]\nendpoints = ['{0}', '[::1]:1']\n[pool.other]\nendpoints = [{{ name = 'last', addr = '{0}' }}]\n",
            one.addr,
            folder.0.display(),
        ),
    );
    let running = Running::start(&["run", "-c", &file]);
    // Options are offered after the names.
    let by_socket = |words: &[&str]| {
        let mut names = offered(&[&["evenkeel"], words].concat());
        names.retain(|name| !name.starts_with("--"));
        names
    };
    assert_eq!(by_socket(&["drain", "-c", &file, ""]), ["shop", "other"]);
    assert_eq!(by_socket(&["drain", "-c", &file, "sh"]), ["shop"]);
    let mut endpoints = by_socket(&["drain", "-c", &file, "shop", ""]);
    endpoints.sort();
    assert_eq!(endpoints, [one.addr.clone(), "[::1]:1".to_owned()]);
    // bash does not take them apart at their colons.
    let (start, _) = one.addr.rsplit_once(':').expect("a port");
    assert_eq!(by_socket(&["weight", "-c", &file, "shop", &format!("{start}:")]), [one.addr.as_str()]);
    assert_eq!(by_socket(&["undrain", "-c", &file, "other", ""]), ["last"]);
    assert_eq!(by_socket(&["tap", "-c", &file, "--listener", ""]), ["web"]);
    assert_eq!(by_socket(&["tap", "-c", &file, "--route", "c"]), ["cart"]);
    assert_eq!(by_socket(&["config", "rollback", "-c", &file, ""]), ["0"]);
    // Over TCP, with the token that is wanted.
    assert_eq!(by_socket(&["status", "--admin", &admin, "--token-file", &token, "sh"]), ["shop"]);
    assert_eq!(by_socket(&["status", "--admin", &admin, "sh"]), [""; 0]);
    // What clap knows goes on.
    assert_eq!(by_socket(&["dra"]), ["drain"]);
    assert_eq!(by_socket(&["run", "--balance", "round"]), ["round_robin"]);
    // Without a process there are no names, and no complaint.
    drop(running);
    assert_eq!(by_socket(&["drain", "-c", &file, ""]), [""; 0]);
}
