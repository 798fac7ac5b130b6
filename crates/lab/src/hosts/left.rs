//! Names of system objects that a killed lab leaves behind: a common prefix and the owner's process id.

use std::path::Path;

pub const PREFIX: &str = "eklab";

/// Names in a folder that belong to labs that no longer run: `eklab-PID-...`.
pub fn left_behind(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_left = |name: &String| {
        // Pins have the name of their owner before it.
        let process =
            name.strip_prefix("evenkeel-").unwrap_or(name).strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    names.filter(is_left).collect()
}
