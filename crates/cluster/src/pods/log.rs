//! Output of a pod in a file: each line after its time, as `2026-11-27T11:21:31.795592695Z LINE`.

use k8s_openapi::jiff::Timestamp;
use std::io;
use std::path::Path;
use tokio::fs::{self, File};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

/// Appends lines to the log at `path` as they arrive, until the last process with this output has ended.
///
/// # Errors
/// If the output cannot be read or the file not written.
pub async fn append(output: impl AsyncRead + Unpin, path: &Path) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(path).await?;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).await? > 0 {
        line.splice(..0, format!("{} ", Timestamp::now()).into_bytes());
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        file.write_all(&line).await?;
        file.flush().await?;
        line.clear();
    }
    Ok(())
}

/// Lines that a client of the API server asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    since: Option<Timestamp>,
    /// Number of lines at the end.
    tail: Option<usize>,
    /// True if each line has its time.
    timestamps: bool,
}

impl Wanted {
    /// Reads the query of a request, as the API server sends it to a kubelet. `follow` and `previous` are ignored.
    ///
    /// # Errors
    /// The parameter that is not understood.
    pub fn new(query: &str) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        for (name, value) in query.split('&').filter_map(|parameter| parameter.split_once('=')) {
            let failed = || format!("{name}: not understood: {value}");
            match name {
                // Colons are all that is escaped in a time in UTC.
                "sinceTime" => wanted.since = Some(value.replace("%3A", ":").parse().map_err(|_| failed())?),
                "tailLines" => wanted.tail = Some(value.parse().map_err(|_| failed())?),
                "timestamps" => wanted.timestamps = value == "true",
                _ => {}
            }
        }
        Ok(wanted)
    }

    /// Returns these lines of the log at `path`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn read(&self, path: &Path) -> io::Result<String> {
        Ok(self.of(&String::from_utf8_lossy(&fs::read(path).await?)))
    }

    fn of(&self, log: &str) -> String {
        let lines = log.lines().filter_map(|line| line.split_once(' '));
        let is_since =
            |time: &str| self.since.is_none_or(|since| time.parse::<Timestamp>().is_ok_and(|at| at >= since));
        let lines: Vec<_> = lines.filter(|(time, _)| is_since(time)).collect();
        let from = self.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
        let shown = lines[from..].iter().map(|(time, line)| match self.timestamps {
            true => format!("{time} {line}\n"),
            false => format!("{line}\n"),
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen_by_time_and_number() {
        let log = "2026-11-27T11:21:30.5Z one\n2026-11-27T11:21:31Z two words\n2026-11-27T11:21:31.7Z three\n";
        let chosen = |query: &str| Wanted::new(query).expect("a query").of(log);
        assert_eq!(chosen(""), "one\ntwo words\nthree\n");
        assert_eq!(chosen("sinceTime=2026-11-27T11%3A21%3A31Z"), "two words\nthree\n");
        assert_eq!(chosen("tailLines=1&timestamps=true"), "2026-11-27T11:21:31.7Z three\n");
        assert_eq!(Wanted::new("sinceTime=today"), Err("sinceTime: not understood: today".to_owned()));
    }

    #[tokio::test]
    async fn each_line_of_output_has_its_time() {
        let path = std::env::temp_dir().join(format!("evenkeel-cluster-log-{}", std::process::id()));
        append(&b"one\nwithout an end"[..], &path).await.expect("written");
        let log = std::fs::read_to_string(&path).expect("written");
        let _ = std::fs::remove_file(&path);
        assert_eq!(Wanted::default().of(&log), "one\nwithout an end\n");
    }
}
