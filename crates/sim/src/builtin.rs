//! Built-in scenarios: a table of names and of scenario files, written as a user would write them.

/// A scenario that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Name on the command line.
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! builtins {
    ($($name:literal)*) => {
        /// All built-in scenarios, in the order in which they are listed.
        pub static ALL: &[Builtin] =
            &[$(Builtin { name: $name, text: include_str!(concat!("../scenarios/", $name, ".toml")) },)*];
    };
}

builtins! {
    "tower-a" "tower-b" "tower-c" "tower-now"
    "theory" "stale-board" "balls-in-bins"
    "dispatchers" "heavy-tail" "cores"
    "degraded-link" "black-hole" "join" "mytime" "sidecars" "planes"
}

pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_clean_and_says_what_it_is() {
        for Builtin { name, text } in ALL {
            let outcome = crate::file::read(&format!("{name}.toml"), text);
            assert!(outcome.diagnostics.is_empty(), "{}", evenkeel_config::render_text(&outcome.diagnostics, false));
            let experiment = outcome.experiment.expect(name);
            assert!(experiment.name == *name && experiment.seeds > 1 && experiment.summary.len() < 90, "{name}");
        }
    }

    #[test]
    fn every_file_is_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let files = std::fs::read_dir(folder).expect("the folder is there");
        let names =
            files.map(|f| f.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned());
        for name in names {
            assert!(find(&name).is_some(), "{name} has no row");
        }
    }
}
