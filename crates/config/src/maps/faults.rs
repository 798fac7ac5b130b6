//! Faults of the rows of a map: the first of them with line, message and fix, and the number of the others.

/// Most faults that are described.
const FAULTS_MAX: usize = 10;

/// Row that a map cannot have, with the reason and a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFault {
    /// Line of the row in its file, or its number within the configuration; from 1.
    pub line: usize,
    pub message: String,
    pub help: String,
}

/// Faults of the rows of a map, and the number of further faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapFaults {
    /// The first faults, in the order of their lines.
    pub first: Vec<MapFault>,
    pub more: usize,
}

impl MapFaults {
    /// Adds a fault, or counts it if there are many.
    pub fn add(&mut self, line: usize, message: impl Into<String>, help: impl Into<String>) {
        match self.first.len() {
            ..FAULTS_MAX => self.first.push(MapFault { line, message: message.into(), help: help.into() }),
            _ => self.more += 1,
        }
    }

    /// The faults as lines of text, each with the name of the file and its line.
    pub fn in_file(&self, name: &str) -> String {
        let all = self.first.iter().map(|MapFault { line, message, help }| format!("{name}:{line}: {message}; {help}"));
        let more = (self.more > 0).then(|| format!("{name}: and {} more rows", self.more));
        all.chain(more).collect::<Vec<_>>().join("\n")
    }
}

/// The key as text for messages.
pub(super) fn shown(key: &[u8]) -> String {
    crate::tree::quoted(&String::from_utf8_lossy(key))
}
