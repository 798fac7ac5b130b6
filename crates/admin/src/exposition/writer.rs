//! Metrics on their way to a client: families that are asked for, in its format, in chunks. Nothing needs all of it in
//! memory.

use super::protobuf::{self, Native};
use super::{Format, Names};
use std::fmt::{self, Write};

/// Bytes of OpenMetrics that are collected before their lines are looked at.
const COLLECTED: usize = 16 << 10;

/// Bytes of a chunk, unless a family of protocol buffers is longer.
const CHUNK: usize = 32 << 10;

/// Takes metrics as OpenMetrics, and passes chunks in the format of the client on. An error of `pass` ends the writing.
pub struct Writer<P> {
    format: Format,
    names: Names,
    pass: P,
    /// Text that was not looked at yet.
    came: String,
    /// Lines of OpenMetrics or of text that are wanted: of protocol buffers the lines of a single family.
    lines: String,
    chunk: Vec<u8>,
    /// Help of the present family.
    help: String,
    /// True if the present family is wanted.
    is_wanted: bool,
}

impl<P: FnMut(&[u8]) -> fmt::Result> Writer<P> {
    pub fn new(format: Format, names: Names, pass: P) -> Writer<P> {
        let is_wanted = true;
        Writer {
            format,
            names,
            pass,
            came: String::new(),
            lines: String::new(),
            chunk: Vec::new(),
            help: String::new(),
            is_wanted,
        }
    }

    /// Passes the rest on, with native histograms where the format has them.
    ///
    /// # Errors
    /// The client takes no more.
    pub fn end(mut self, native: impl FnOnce() -> Vec<Native>) -> fmt::Result {
        self.look()?;
        self.take_lines();
        match self.format {
            Format::OpenMetrics => self.chunk.extend_from_slice(b"# EOF\n"),
            Format::Text => {}
            Format::Protobuf => {
                let mut native = native();
                native.retain(|family| self.names.has(family.name));
                for family in native {
                    protobuf::encode("", &[family], &mut self.chunk);
                    self.flush(CHUNK)?;
                }
            }
        }
        self.flush(1)
    }

    /// Looks at the whole lines that came.
    fn look(&mut self) -> fmt::Result {
        let mut came = std::mem::take(&mut self.came);
        let whole = came.rfind('\n').map_or(0, |end| end + 1);
        for line in came[..whole].lines() {
            self.line(line);
            if self.format != Format::Protobuf && self.lines.len() >= CHUNK {
                self.take_lines();
                self.flush(CHUNK)?;
            }
        }
        came.drain(..whole);
        self.came = came;
        self.flush(CHUNK)
    }

    fn line(&mut self, line: &str) {
        let Some(comment) = line.strip_prefix("# ") else {
            if self.is_wanted {
                self.lines.push_str(line);
                self.lines.push('\n');
            }
            return;
        };
        let (keyword, rest) = comment.split_once(' ').unwrap_or((comment, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        // HELP comes before TYPE.
        if keyword == "HELP" {
            if self.format == Format::Protobuf {
                self.take_lines();
            }
            self.is_wanted = self.names.has(name);
        }
        if !self.is_wanted {
            return;
        }
        match (self.format, keyword) {
            (Format::OpenMetrics, "EOF") => {}
            (Format::OpenMetrics, _) => {
                self.lines.push_str(line);
                self.lines.push('\n');
            }
            (_, "HELP") => self.help = rest.replace("\\\"", "\""),
            (_, "TYPE") => self.kind(name, rest),
            // UNIT and EOF.
            _ => {}
        }
    }

    /// Begins a family of text 0.0.4: counters get the names of their series.
    fn kind(&mut self, name: &str, kind: &str) {
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            "stateset" => ("", "gauge"),
            "unknown" => ("", "untyped"),
            kind => ("", kind),
        };
        // A String takes everything.
        let _ = write!(self.lines, "# HELP {name}{suffix} {}\n# TYPE {name}{suffix} {kind}\n", self.help);
    }

    /// Adds the lines to the chunk.
    fn take_lines(&mut self) {
        match self.format {
            Format::Protobuf => protobuf::encode(&self.lines, &[], &mut self.chunk),
            Format::OpenMetrics | Format::Text => self.chunk.extend_from_slice(self.lines.as_bytes()),
        }
        self.lines.clear();
    }

    /// Passes the chunk on, if it has so many bytes.
    fn flush(&mut self, least: usize) -> fmt::Result {
        if self.chunk.len() >= least {
            (self.pass)(&self.chunk)?;
            self.chunk.clear();
        }
        Ok(())
    }
}

impl<P: FnMut(&[u8]) -> fmt::Result> Write for Writer<P> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.came.push_str(text);
        if self.came.len() < COLLECTED { Ok(()) } else { self.look() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_METRICS: &str = "# HELP x_seconds How \\\"long\\\".\n# TYPE x_seconds counter\n# UNIT x_seconds seconds\nx_seconds_total{a=\"b\"} 1\n\
                                # HELP build Which.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n# HELP g A gauge.\n# TYPE g gauge\ng 2\n";

    fn written(format: Format, query: &[&str], metrics: &str) -> (String, usize) {
        let names = query.iter().map(|name| ("name".to_owned(), (*name).to_owned())).collect::<Vec<_>>();
        let (mut out, mut chunks) = (Vec::new(), 0);
        let mut writer = Writer::new(format, Names::read(&names).expect("valid"), |chunk: &[u8]| {
            out.extend_from_slice(chunk);
            chunks += 1;
            Ok(())
        });
        // In pieces, as an encoder writes them.
        for piece in metrics.as_bytes().chunks(7) {
            writer.write_str(std::str::from_utf8(piece).expect("ASCII")).expect("it is taken");
        }
        writer.end(Vec::new).expect("it is taken");
        (String::from_utf8(out).expect("text"), chunks)
    }

    #[test]
    fn text_calls_counters_as_their_series_are() {
        let want = "# HELP x_seconds_total How \"long\".\n# TYPE x_seconds_total counter\nx_seconds_total{a=\"b\"} 1\n\
                    # HELP build_info Which.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n# HELP g A gauge.\n# TYPE g gauge\ng 2\n";
        assert_eq!(written(Format::Text, &[], OPEN_METRICS).0, want);
        assert_eq!(written(Format::OpenMetrics, &[], OPEN_METRICS).0, format!("{OPEN_METRICS}# EOF\n"));
        assert_eq!(written(Format::OpenMetrics, &[], "").0, "# EOF\n");
    }

    #[test]
    fn only_families_that_are_asked_for_are_written() {
        assert_eq!(written(Format::Text, &["g"], OPEN_METRICS).0, "# HELP g A gauge.\n# TYPE g gauge\ng 2\n");
        assert_eq!(written(Format::OpenMetrics, &["y*"], OPEN_METRICS).0, "# EOF\n");
        let two = written(Format::Text, &["x_seconds_total", "buil*"], OPEN_METRICS).0;
        assert!(two.contains("x_seconds_total{") && two.contains("build_info{") && !two.contains("\ng "), "{two}");
    }

    #[test]
    fn much_is_passed_in_chunks_and_a_client_that_is_gone_ends_it() {
        let many: String = (0..20_000).map(|n| format!("g{{n=\"{n}\"}} 1\n")).collect();
        let metrics = format!("# HELP g A gauge.\n# TYPE g gauge\n{many}");
        let (text, chunks) = written(Format::Text, &[], &metrics);
        assert!(text == metrics && chunks > 5, "{chunks} chunks of {} bytes", text.len());
        let mut writer = Writer::new(Format::Text, Names::default(), |_: &[u8]| Err(fmt::Error));
        assert!(many.lines().any(|line| writeln!(writer, "{line}").is_err()));
    }
}
