//! The API and its description. Schemathesis makes requests of all kinds from the description, right and wrong, and
//! compares the answers with it.

use crate::support::{Folder, Running, address};
use std::path::Path;
use std::process::Command;

/// Statuses that a schema cannot predict: another generation runs, or a text is not a configuration.
const SETTINGS: &str = "[checks.positive_data_acceptance]\n\
                        expected-statuses = ['2xx', 401, 403, 404, 409, 412, 422, 428]\n";

const TOKEN: &str = "a-token-that-may-write";

#[test]
#[ignore = "`make conformance` runs it"]
fn the_api_is_as_it_is_described() {
    crate::judges!("conformance-python");
    let (folder, admin) = (Folder::new("api"), address());
    let token = folder.file("token", TOKEN);
    let text = format!(
        "[admin]\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n[listener.web]\nbind = ['{}']\n\
         [pool.shop]\nendpoints = [{{ name = 'one', addr = '{}' }}, {{ name = 'two', addr = '{}' }}]\n",
        address(),
        address(),
        address()
    );
    let running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
    folder.file("schemathesis.toml", SETTINGS);
    let python = evenkeel_peers::find("conformance-python").expect("the test looked");
    for seed in ["1", "2"] {
        judge(&python, &folder, &admin, seed, &running);
    }
}

fn judge(python: &Path, folder: &Folder, admin: &str, seed: &str, running: &Running) {
    let output = Command::new(python)
        .args(["-m", "schemathesis.cli", "run", &format!("http://{admin}/v1/openapi.json")])
        .args(["--url", &format!("http://{admin}"), "-H", &format!("Authorization: Bearer {TOKEN}")])
        // Each of these would replace the process.
        .args(["--exclude-path", "/v1/upgrade"])
        .args(["--max-examples", "50", "--seed", seed, "--no-color"])
        .current_dir(&folder.0)
        .output()
        .expect("it runs");
    let (said, cried) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{cried}\n{}", running.said());
}
