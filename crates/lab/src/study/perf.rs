//! CPU profile of a process: perf samples it, each sample with its call stack; the source files of
//! inlined functions come from the program's line tables.
//!
//! Uses the `cpu-clock` event, as virtual machines may lack hardware counters. Samples are delayed while the kernel has
//! interrupts disabled, which does not affect the shares of user code that are used here.

use crate::child;
use crate::error::{Error, Result, While};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Samples per second, over all processors.
const SAMPLES: usize = 7999;
/// Bytes of stack per sample. Enough for the innermost calls: the others are not used.
const STACK: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Function name, `[unknown]` if the program has none.
    pub function: String,
    /// File of the program or library, or the kernel.
    pub program: String,
    /// Offset in that file; meaningful for user code only.
    pub offset: u64,
}

/// Call stack of a process, innermost call first.
pub type Sample = Vec<Frame>;

/// Checks that processes can be sampled here.
///
/// # Errors
/// A program is missing, or the system forbids it.
pub fn can_run() -> Result<()> {
    child::find("addr2line")?;
    let this = std::process::id();
    let line = format!("{} record -q -e cpu-clock -p {this} -o /dev/null -- true", child::find("perf")?);
    succeed(&line).map(drop)
}

/// Samples a process for some seconds. `at_once`: number of processors that it may use.
///
/// # Errors
/// perf is missing, or not allowed.
pub fn record(pid: u32, at_once: usize, seconds: u64, folder: &Path) -> Result<Vec<Sample>> {
    let perf = child::find("perf")?;
    let file = folder.join("perf.data").display().to_string();
    let rate = (SAMPLES / at_once.max(1)).max(97);
    let line = format!(
        "{perf} record -q -e cpu-clock -F {rate} --call-graph dwarf,{STACK} -p {pid} -o {file} -- sleep {seconds}"
    );
    succeed(&line)?;
    let text = succeed(&format!("{perf} script -i {file} --no-inline -F ip,sym,dso"))?;
    fs::remove_file(&file).or_say(|| format!("cannot remove {file}"))?;
    Ok(parse(&text))
}

fn succeed(line: &str) -> Result<String> {
    let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let output = child::output(&command, PATIENCE)?;
    match output.success {
        true => Ok(output.text),
        false => Err(Error::Wrong(format!("`{line}` failed:\n{}", output.text.trim()))),
    }
}

/// Parses samples: a line `address function (file)` for each call, an empty line after each sample.
fn parse(text: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut sample = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            if !sample.is_empty() {
                samples.push(std::mem::take(&mut sample));
            }
        } else if let Some(frame) = frame(line) {
            sample.push(frame);
        }
    }
    samples
}

fn frame(line: &str) -> Option<Frame> {
    let (offset, rest) = line.trim().split_once(' ')?;
    let (function, program) = rest.rsplit_once(" (")?;
    Some(Frame {
        function: function.to_owned(),
        program: program.strip_suffix(')')?.to_owned(),
        offset: u64::from_str_radix(offset, 16).ok()?,
    })
}

/// Line tables of a program, read by addr2line.
pub struct Lines {
    program: String,
    /// Loaded segments of the file: offset, length and address.
    segments: Vec<(u64, u64, u64)>,
    known: HashMap<u64, Vec<String>>,
}

impl Lines {
    /// Reads the line tables of a program.
    ///
    /// # Errors
    /// The file is not a 64-bit program, or addr2line is missing.
    pub fn of(program: &str) -> Result<Lines> {
        child::find("addr2line")?;
        let program = fs::canonicalize(program).or_say(|| format!("cannot find {program}"))?;
        let bytes = fs::read(&program).or_say(|| format!("cannot read {}", program.display()))?;
        let program = program.display().to_string();
        let segments = segments(&bytes).ok_or_else(|| Error::Wrong(format!("{program} is no program of 64 bit")))?;
        Ok(Lines { program, segments, known: HashMap::new() })
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// Looks up the addresses in these samples that are not known yet.
    ///
    /// # Errors
    /// addr2line fails.
    pub fn learn(&mut self, samples: &[Sample], folder: &Path) -> Result<()> {
        let ours = samples.iter().flatten().filter(|frame| frame.program == self.program);
        let new: BTreeSet<u64> =
            ours.map(|frame| frame.offset).filter(|offset| !self.known.contains_key(offset)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let asked: Vec<(u64, u64)> = new.into_iter().map(|offset| (offset, self.address(offset))).collect();
        let list = folder.join("addresses");
        let text: String = asked.iter().map(|(_, address)| format!("{address:#x}\n")).collect();
        fs::write(&list, text).or_say(|| format!("cannot write {}", list.display()))?;
        let said = succeed(&format!("{} -a -i -e {} @{}", child::find("addr2line")?, self.program, list.display()))?;
        let by_address = places(&said);
        let of = |(offset, address)| (offset, by_address.get(&address).cloned().unwrap_or_default());
        self.known.extend(asked.into_iter().map(of));
        Ok(())
    }

    /// Source files at a call, innermost inlined function first.
    pub fn files(&self, frame: &Frame) -> &[String] {
        let known = if frame.program == self.program { self.known.get(&frame.offset) } else { None };
        known.map_or(&[], Vec::as_slice)
    }

    /// Converts perf's file offset to an address, as line tables use.
    fn address(&self, offset: u64) -> u64 {
        let within = |(begin, length, _): &&(u64, u64, u64)| (*begin..begin + length).contains(&offset);
        self.segments.iter().find(within).map_or(offset, |(begin, _, address)| offset - begin + address)
    }
}

/// Loaded segments: program headers of type PT_LOAD (elf(5)).
fn segments(bytes: &[u8]) -> Option<Vec<(u64, u64, u64)>> {
    const LOAD: u64 = 1;
    let number = |at: usize, length: usize| {
        let mut wide = [0; 8];
        wide[..length].copy_from_slice(bytes.get(at..at + length)?);
        Some(u64::from_le_bytes(wide))
    };
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let mut found = Vec::new();
    for at in (0..count).map(|index| table + index * size) {
        if number(at, 4)? == LOAD {
            found.push((number(at + 8, 8)?, number(at + 32, 8)?, number(at + 16, 8)?));
        }
    }
    Some(found)
}

/// Parses addr2line's output: `0x0000000000401136`, then `file:line` of each function inlined there, innermost first.
fn places(text: &str) -> HashMap<u64, Vec<String>> {
    let mut found: HashMap<u64, Vec<String>> = HashMap::new();
    let mut at = None;
    for line in text.lines() {
        match line.strip_prefix("0x").and_then(|address| u64::from_str_radix(address, 16).ok()) {
            Some(address) => at = Some(address),
            None => {
                let file = line.rsplit_once(':').map_or(line, |(file, _)| file).to_owned();
                at.into_iter().for_each(|at| found.entry(at).or_default().push(file.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_apart_and_names_may_have_spaces() {
        let text = "\n\tffffffff81dacc8e loopback_xmit ([kernel.kallsyms])\n\
                    \t          ad2d50 <impl a::Relay>::down (x) (/bin/evenkeel)\n\n\n\t  5a32f [unknown] (/bin/haproxy)\n";
        let samples = parse(text);
        assert_eq!(samples.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let inner = &samples[0][1];
        assert_eq!(
            (&*inner.function, &*inner.program, inner.offset),
            ("<impl a::Relay>::down (x)", "/bin/evenkeel", 0xad_2d50)
        );
        assert_eq!(samples[1][0].function, "[unknown]");
    }

    #[test]
    fn an_address_has_the_files_of_all_that_is_inlined_there() {
        let found =
            places("0x0000000000401136\n/a/pick.rs:12\n/a/relay.rs:9 (discriminator 3)\n0x0000000000401140\n??:?\n");
        assert_eq!(found[&0x40_1136], ["/a/pick.rs", "/a/relay.rs"]);
        assert_eq!(found[&0x40_1140], ["??"]);
    }

    #[test]
    fn this_program_is_loaded_from_its_headers() {
        let this = std::env::current_exe().expect("it is a file");
        let segments = segments(&fs::read(this).expect("it can be read")).expect("it is a program");
        assert!(segments.iter().any(|(begin, length, _)| *begin == 0 && *length > 64), "{segments:?}");
        assert_eq!(super::segments(b"#!/bin/sh"), None);
    }
}
