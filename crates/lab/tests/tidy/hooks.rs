//! The hook of commits, `scripts/hooks/commit-msg`, in a repository that is made for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/hooks");

struct Repository(PathBuf);

impl Repository {
    fn new() -> Repository {
        let folder = std::env::temp_dir().join(format!("evenkeel-hooks-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let repository = Repository(folder);
        assert!(repository.git(&["init", "--quiet"]));
        assert!(repository.git(&["config", "core.hooksPath", HOOKS]));
        repository
    }

    fn git(&self, arguments: &[&str]) -> bool {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        let mut git = Command::new("git");
        // A hook that runs tests has variables of its own repository.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            git.env_remove(name);
        }
        git.current_dir(&self.0).args(identity).args(arguments).output().expect("git is installed").status.success()
    }

    /// True if a commit of this many new lines is made.
    fn commits(&self, lines: usize, message: &str) -> bool {
        let file = self.0.join("file");
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, before + &"line\n".repeat(lines)).expect("it can be written");
        assert!(self.git(&["add", "file"]));
        self.git(&["commit", "--quiet", "-m", message]) || !self.git(&["reset", "--quiet", "--hard"])
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_large_commit_needs_a_body() {
    assert!(Path::new(HOOKS).join("commit-msg").exists());
    let repository = Repository::new();
    assert!(repository.commits(1, "first"));
    for (lines, message, is_made) in [
        (20, "dns: a subject", true),
        (21, "dns: a subject", false),
        (21, "dns: a subject\n\nAnd a reason.", true),
        (21, "dns: a subject\n\nSigned-off-by: A <a@b.example>", false),
        (21, "fixup! dns: a subject", true),
    ] {
        assert_eq!(repository.commits(lines, message), is_made, "{lines} lines: {message}");
    }
}
